"""Atomics: an instruction where PTX has one, a compare-and-swap loop for nand."""

from __future__ import annotations

from typing import Final

from vyre.adapters.cuda.ptx import memory
from vyre.adapters.cuda.ptx.context import Kernel
from vyre.adapters.cuda.ptx.operands import Address, Register
from vyre.adapters.cuda.ptx.values import Value, in_register, literal
from vyre.domain.ir.expr import Atomic
from vyre.domain.ir.operators import AtomicOp, Ordering
from vyre.domain.ir.types import ScalarType

_OPERATION: Final = {
    AtomicOp.ADD: ("add", "u"),
    AtomicOp.OR: ("or", "b"),
    AtomicOp.AND: ("and", "b"),
    AtomicOp.XOR: ("xor", "b"),
    AtomicOp.MIN: ("min", "?"),
    AtomicOp.MAX: ("max", "?"),
    AtomicOp.EXCHANGE: ("exch", "b"),
    AtomicOp.COMPARE_EXCHANGE: ("cas", "b"),
}
_SEMANTICS: Final = {
    Ordering.RELAXED: "relaxed",
    Ordering.ACQUIRE: "acquire",
    Ordering.RELEASE: "release",
    Ordering.ACQ_REL: "acq_rel",
    Ordering.SEQ_CST: "acq_rel",
}


def atomic(k: Kernel, expr: Atomic, index: Value, expected: Value | None, value: Value, *, used: bool) -> Value:
    """Returns the old value; out of range it is 0 and memory is unchanged."""
    w, element = k.w, memory.element_of(k.buffers[expr.buffer])
    kind, index = "r" if element.bits == 32 else "rd", memory.index_of(index)
    guard = memory.in_range(k, expr, index)
    if guard is memory.Certain.OUTSIDE:
        return literal(element, 0)
    space, where = memory.address(k, expr.buffer, index)
    scope = "cta" if space == "shared" else "gpu"
    ordering = Ordering.RELAXED if k.facts.relaxed_atomics else expr.ordering
    if ordering is Ordering.SEQ_CST:
        w.line(f"fence.sc.{scope};")
    semantics = _SEMANTICS[ordering]
    source = in_register(w, value)
    if expr.op is AtomicOp.FETCH_NAND:
        return _nand(k, element, f"{semantics}.{scope}.{space}", where, source, guard)
    operation, letter = _OPERATION[expr.op]
    letter = letter if letter != "?" else ("s" if element.is_signed else "u")
    suffix = f"{semantics}.{scope}.{space}.{operation}.{letter}{element.bits}"
    if not used and ordering is Ordering.RELAXED and expr.op not in (AtomicOp.EXCHANGE, AtomicOp.COMPARE_EXCHANGE):
        w.line(f"{memory.predicate(guard)}red.{suffix} {where}, {source};")
        return literal(element, 0)
    operands = f"{in_register(w, expected)}, {source}" if expected is not None else source
    old = w.register(kind) if guard is memory.Certain.INSIDE else w.emit(kind, f"mov.b{element.bits}", 0)
    w.line(f"{memory.predicate(guard)}atom.{suffix} {old}, {where}, {operands};")
    return Value(old, element)


def _nand(
    k: Kernel, element: ScalarType, suffix: str, where: Address, source: Register, guard: memory.Reachable
) -> Value:
    """Repeats swapping in ``~(old & value)`` until no other lane has changed the memory meanwhile."""
    w, bits = k.w, element.bits
    kind = "r" if bits == 32 else "rd"
    old = w.emit(kind, f"mov.b{bits}", 0)
    again, end = w.label(), w.label()
    if isinstance(guard, Register):
        w.line(f"@!{guard} bra {end};")
    scope, space = suffix.split(".")[1:]
    w.line(f"ld.relaxed.{scope}.{space}.b{bits} {old}, {where};")
    w.place(again)
    both = w.emit(kind, f"and.b{bits}", old, source)
    wanted = w.emit(kind, f"sub.u{bits}", w.emit(kind, f"mov.b{bits}", -1), both)
    seen = w.emit(kind, f"atom.{suffix}.cas.b{bits}", where, old, wanted)
    lost = w.emit("p", f"setp.ne.u{bits}", seen, old)
    w.line(f"mov.b{bits} {old}, {seen};")
    w.line(f"@{lost} bra {again};")
    w.place(end)
    return Value(old, element)
