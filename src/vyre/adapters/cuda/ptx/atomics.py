"""Atomics: an instruction where PTX has one, a compare-and-swap loop for nand.

Lanes that add the same number to the same word, in no order, and use the old values, share an instruction: that is how
lanes reserve places in a queue.
"""

from __future__ import annotations

from typing import Final

from vyre.adapters.cuda.ptx import memory
from vyre.adapters.cuda.ptx.context import Kernel
from vyre.adapters.cuda.ptx.operands import Address, Register
from vyre.adapters.cuda.ptx.values import Value, in_register, literal
from vyre.domain.ir.buffers import element_of
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
    w, element = k.w, element_of(k.buffers[expr.buffer])
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
    if guard is memory.Certain.INSIDE and ordering is Ordering.RELAXED and _may_share(k, expr, index, value):
        return _shared(k, suffix, where, value)
    operands = f"{in_register(w, expected)}, {source}" if expected is not None else source
    old = w.register(kind) if guard is memory.Certain.INSIDE else w.emit(kind, f"mov.b{element.bits}", 0)
    w.line(f"{memory.predicate(guard)}atom.{suffix} {old}, {where}, {operands};")
    return Value(old, element)


def _may_share(k: Kernel, expr: Atomic, index: Value, value: Value) -> bool:
    """Returns whether all lanes add the same known number to the same word, and a warp has several lanes."""
    is_known = index.bits is not None and value.bits is not None
    return expr.op is AtomicOp.ADD and is_known and value.dtype.bits == 32 and not isinstance(k.lane(), int)


def _shared(k: Kernel, suffix: str, where: Address, value: Value) -> Value:
    """Adds once for all lanes of a warp that run together, whichever they are: as if they had added one by one.

    The first of them adds; each gets the old value with what the lanes below it add.
    """
    w, each = k.w, value.operand
    together = w.register("r")
    w.line(f"activemask.b32 {together};")
    below = w.emit("r", "sub.u32", w.emit("r", "shl.b32", 1, k.lane()), 1)
    before = w.emit("r", "popc.b32", w.emit("r", "and.b32", together, below))
    total = w.emit("r", "mul.lo.u32", w.emit("r", "popc.b32", together), each)
    first = w.emit("r", "clz.b32", w.emit("r", "brev.b32", together))
    leads = w.emit("p", "setp.eq.u32", before, 0)
    old = w.emit("r", "mov.b32", 0)
    w.line(f"@{leads} atom.{suffix} {old}, {where}, {total};")
    seen = w.emit("r", "shfl.sync.idx.b32", old, first, 31, together)
    return Value(w.emit("r", "mad.lo.u32", before, each, seen), value.dtype)


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
