"""Loads from bound and workgroup memory, and gathers.

An index that all lanes share takes one scalar load.  Consecutive indices take one vector load if all W elements are
in range, also where some lanes are not active: their elements exist and are ignored.  Everything else is a gather
that skips the lanes that are not active or out of range.
"""

from __future__ import annotations

from typing import Final

from vyre.adapters.cpu.llvm import addressing, rows
from vyre.adapters.cpu.llvm.addressing import Contiguous, bits_type, loaded, loaded_type, suffix
from vyre.adapters.cpu.llvm.blocks import either, intrinsic
from vyre.adapters.cpu.llvm.context import Kernel
from vyre.adapters.cpu.llvm.values import Shape, Value, literal
from vyre.domain.ir.buffers import element_of
from vyre.domain.ir.expr import Load
from vyre.domain.ir.types import ScalarType

INVARIANT: Final = ", !invariant.load !0"


def load(k: Kernel, node: Load, index: Value) -> Value:
    """Returns element ``index`` of a bound or workgroup buffer in every active lane, zero where it is out of range."""
    element = element_of(k.buffers[node.buffer])
    if index.is_uniform:
        return _uniform(k, node, index, element)
    if Contiguous.applies(index):
        raw = _contiguous(k, node, index, element)
    elif (member := rows.row_of(k, node, index)) is not None:
        raw = rows.load(k, member, index, lambda other, element_index: _gathered(k, other, element_index, element))
    else:
        raw = _gathered(k, node, index, element)
    return loaded(k, element, raw, Shape.VARYING)


def _invariant(k: Kernel, name: str) -> str:
    """Returns the mark of a load from memory that nothing writes while the kernel runs, or nothing."""
    if k.buffers[name].is_writable:
        return ""
    k.w.declare("!0 = !{}")
    return INVARIANT


# ---- one element for all lanes
def _uniform(k: Kernel, node: Load, index: Value, element: ScalarType) -> Value:
    w, ok = k.w, addressing.inside(k, node, index)
    if ok is False:
        return literal(element.widened, 0)
    mark, kind = _invariant(k, node.buffer), loaded_type(element)
    known = addressing.number_of(index) is not None and k.buffers[node.buffer].count
    if mark and ok is True and not known and w.level(index.operand) < w.depth:
        # The load will stand before a loop, where what proves the index need not hold.
        ok = addressing.checked(k, node.buffer, index)
    if isinstance(ok, str) and k.lanes == 1 and w.level(index.operand) == w.depth:
        return loaded(k, element, _checked(k, node, index, element, ok), Shape.UNIFORM)
    address = addressing.element_address(k, node.buffer, index)
    if ok is not True:
        assert isinstance(ok, str)
        address = w.pure(f"select i1 {{}}, ptr {{}}, ptr {addressing.zero_place(k)}", ok, address)
    text = f"load {kind}, ptr {{}}, align {element.size}{mark}"
    raw = w.pure(text, address) if mark else w.here(text.format(address))
    return loaded(k, element, raw, Shape.UNIFORM)


def _checked(k: Kernel, node: Load, index: Value, element: ScalarType, ok: str) -> str:
    """Returns the element at an index where the i1 ``ok`` says that it is in range, else zero.

    Code for one lane jumps over the load, which takes fewer instructions than the choice of an address.
    """
    w, kind, mark = k.w, loaded_type(element), _invariant(k, node.buffer)
    key = f"element {node.buffer} {index.operand}"
    raw = w.known(key) if mark else None
    if raw is None:

        def inside() -> str:
            address = addressing.element_address(k, node.buffer, index)
            return w.here(f"load {kind}, ptr {address}, align {element.size}{mark}")

        raw = either(k, ok, kind, inside, lambda: "zeroinitializer")
        if mark:
            w.remember(key, raw)
    return raw


# ---- consecutive elements
def masks_are_cheap(k: Kernel, element: ScalarType) -> bool:
    """Returns whether processors with vectors of W lanes have masked loads and stores of such elements."""
    return (k.lanes == 16 and k.options.predicated) or (k.lanes in (8, 16) and element.size >= 4)


def _contiguous(k: Kernel, node: Load, index: Value, element: ScalarType) -> str:
    """Returns W loaded elements, for an index of stride 1 or -1."""
    w, name, place = k.w, node.buffer, Contiguous(k, node.buffer, index)
    kind = loaded_type(element)
    vector, mark = k.vector_type(kind), _invariant(k, name)

    def whole() -> str:
        return place.ordered(kind, w.here(f"load {vector}, ptr {place.address()}, align {element.size}{mark}"))

    def parts() -> str:
        if addressing.is_large(k, name):
            return _gathered(k, node, index, element)
        active = k.both(k.mask, addressing.lanes_inside(k, node, index))
        raw = masked_load(k, element, place.masked_address(), place.ordered("i1", active or "splat (i1 true)"))
        return place.ordered(kind, raw)

    if k.proven(node):
        if k.mask is None:
            return whole()
        if masks_are_cheap(k, element) and not addressing.is_large(k, name):
            return parts()
    return either(k, place.fits(), vector, whole, parts)


def masked_load(k: Kernel, element: ScalarType, address: str, mask: str) -> str:
    """Returns consecutive elements, zero in lanes outside of a mask, which are not read."""
    kind = loaded_type(element)
    vector, mask_type = k.vector_type(kind), k.vector_type("i1")
    name = f"masked.load.v{k.lanes}{suffix(kind)}.p0"
    call = intrinsic(k, vector, name, "ptr", "i32", mask_type, vector)
    return k.w.here(f"{call}(ptr {address}, i32 {element.size}, {mask_type} {mask}, {vector} zeroinitializer)")


# ---- elements anywhere
def _gathered(k: Kernel, node: Load, index: Value, element: ScalarType) -> str:
    mask = k.both(k.mask, addressing.lanes_inside(k, node, index))
    numbers, kind = addressing.offsets(k, node.buffer, index)
    return gather(k, element, k.base(node.buffer), numbers, kind, mask)


def gather(k: Kernel, element: ScalarType, base: str, numbers: str, kind: str, mask: str | None) -> str:
    """Returns the elements of these numbers (a vector of ``kind``) from an address on, zero outside of a mask."""
    if element.size < 4:
        return _gather_narrow(k, element, base, numbers, kind, mask)
    return _gather(k, loaded_type(element), element.size, base, numbers, kind, mask)


def _gather(k: Kernel, kind: str, size: int, base: str, numbers: str, number: str, mask: str | None) -> str:
    vector, pointers, mask_type = k.vector_type(kind), k.vector_type("ptr"), k.vector_type("i1")
    addresses = k.w.here(f"getelementptr {kind}, ptr {base}, {k.vector_type(number)} {numbers}")
    name = f"masked.gather.v{k.lanes}{suffix(kind)}.v{k.lanes}p0"
    call = intrinsic(k, vector, name, pointers, "i32", mask_type, vector)
    active = mask if mask is not None else "splat (i1 true)"
    return k.w.here(f"{call}({pointers} {addresses}, i32 {size}, {mask_type} {active}, {vector} zeroinitializer)")


def _gather_narrow(k: Kernel, element: ScalarType, base: str, numbers: str, kind: str, mask: str | None) -> str:
    """Gathers the aligned words around elements of one or two bytes, which have no instruction of their own.

    Such a word may contain bytes around the buffer, but never touches another page.
    """
    w, size = k.w, element.size
    address = w.pure("ptrtoint ptr {} to i64", base)
    words = w.call("ptr", "ptrmask.p0.i64", ("ptr", base), ("i64", "-4"))
    low = w.pure("and i64 {}, 3", address)
    if kind == "i32":
        low = w.pure("trunc i64 {} to i32", low)
    vector = k.vector_type(kind)
    start = w.pure(f"shl {vector} {{}}, splat ({kind} 1)", numbers) if size == 2 else numbers
    start = w.pure(f"add {vector} {{}}, {{}}", start, k.splat(kind, low))
    word = w.pure(f"lshr {vector} {{}}, splat ({kind} 2)", start)
    words_of = _gather(k, "i32", 4, words, word, kind, mask)
    shift = w.pure(f"shl {vector} {{}}, splat ({kind} 3)", w.pure(f"and {vector} {{}}, splat ({kind} 3)", start))
    wide = k.vector_type("i32")
    if kind == "i64":
        shift = w.pure(f"trunc {vector} {{}} to {wide}", shift)
    shifted = w.pure(f"lshr {wide} {{}}, {{}}", words_of, shift)
    return w.pure(f"trunc {wide} {{}} to {k.vector_type(bits_type(element))}", shifted)
