"""Accesses to memory of every kind: private memory here, all other in ``loads`` and ``stores``.

Element e of lane l of a private buffer lies at (e * W + l) * size in the area of the vector of lanes.  An index that
all lanes share then takes one vector access.  Nothing but its own thread uses the memory, so that elements of lanes
that are not active may be read, and written back as they were.
"""

from __future__ import annotations

from math import gcd
from typing import Final

from vyre.adapters.cpu.llvm import addressing, loads, stores
from vyre.adapters.cpu.llvm.addressing import bits_type, loaded, loaded_type, storable
from vyre.adapters.cpu.llvm.blocks import intrinsic
from vyre.adapters.cpu.llvm.context import ALIGNMENT, Kernel, vector_text
from vyre.adapters.cpu.llvm.values import SCALAR, Shape, Value, literal
from vyre.domain.analysis.bounds_checks import bounds_facts
from vyre.domain.analysis.zeroing import needs_private_zeroing, needs_zeroing
from vyre.domain.ir.buffers import element_of
from vyre.domain.ir.expr import Load
from vyre.domain.ir.program import Buffer
from vyre.domain.ir.stmt import Store

_SPARE_ROWS: Final = 1
"""Rows behind the last element of every lane, for stores that are dropped."""


def _row(k: Kernel, buffer: Buffer) -> int:
    return k.lanes * element_of(buffer).size


def _area(k: Kernel, buffer: Buffer) -> str:
    """Returns the address of the area of the current vector of lanes."""
    return k.area_address(k.private[buffer.name])


def _load_private(k: Kernel, node: Load, index: Value) -> Value:
    """Returns element ``index`` of the lanes' own memory, zero where it is out of range."""
    w, buffer = k.w, k.buffers[node.buffer]
    element = element_of(buffer)
    if not index.is_uniform:
        inside = addressing.lanes_inside(k, node, index)
        numbers = _numbers(k, index)
        raw = loads.gather(k, element, _area(k, buffer), numbers, "i32", k.mask if inside is None else inside)
        return loaded(k, element, raw, Shape.VARYING)
    ok = addressing.inside(k, node, index)
    if ok is False:
        return literal(element.widened, 0)
    number, kind = addressing.extended(k, index), k.vector_type(loaded_type(element))
    if ok is not True:
        assert isinstance(ok, str)
        number = w.pure("select i1 {}, i64 {}, i64 0", ok, number)
    raw = w.here(f"load {kind}, ptr {_row_address(k, buffer, number)}, align {_row_alignment(k, buffer)}")
    if ok is not True:
        raw = w.pure(f"select i1 {{}}, {kind} {{}}, {kind} zeroinitializer", ok, raw)
    return loaded(k, element, raw, Shape.VARYING if k.lanes > 1 else Shape.UNIFORM)


def _store_private(k: Kernel, node: Store, index: Value, value: Value) -> None:
    """Writes element ``index`` of the active lanes' own memory; drops it where it is out of range."""
    w, buffer = k.w, k.buffers[node.buffer]
    element = element_of(buffer)
    bits = storable(k, element, value)
    if value.is_uniform:
        bits = k.splat(bits_type(element), bits)
    if not index.is_uniform:
        mask = k.both(k.mask, addressing.lanes_inside(k, node, index))
        stores.scatter(k, element, _area(k, buffer), _numbers(k, index), "i32", bits, mask)
        return
    ok = addressing.inside(k, node, index)
    if ok is False:
        return
    number = addressing.extended(k, index)
    if ok is not True:
        assert isinstance(ok, str)
        number = w.pure(f"select i1 {{}}, i64 {{}}, i64 {buffer.count}", ok, number)
    kind, address = k.vector_type(bits_type(element)), _row_address(k, buffer, number)
    place = f"ptr {address}, align {_row_alignment(k, buffer)}"
    if k.mask is not None:
        before = w.here(f"load {kind}, {place}")
        bits = k.chosen(k.mask, kind, bits, before)
    w.line(f"store {kind} {bits}, {place}")


def _row_alignment(k: Kernel, buffer: Buffer) -> int:
    return gcd(_row(k, buffer), ALIGNMENT)


def _row_address(k: Kernel, buffer: Buffer, number: str) -> str:
    start = k.w.pure(f"mul i64 {{}}, {_row(k, buffer)}", number)
    return k.w.pure("getelementptr i8, ptr {}, i64 {}", _area(k, buffer), start)


def _numbers(k: Kernel, index: Value) -> str:
    """Returns the positions of the lanes' elements in the area, a vector of i32; they are right for those in range."""
    w, vector = k.w, k.vector(index)
    narrow = k.vector_type("i32")
    if index.dtype.bits == 64:
        vector = w.pure(f"trunc {k.vector_type(SCALAR[index.dtype])} {{}} to {narrow}", vector)
    first = w.pure(f"mul {narrow} {{}}, splat (i32 {k.lanes})", vector)
    return w.pure(f"add {narrow} {{}}, {vector_text('i32', list(range(k.lanes)))}", first)


def load(k: Kernel, node: Load, index: Value) -> Value:
    """Returns element ``index`` of a buffer, widened; zero in lanes where it is out of range.

    The result is uniform if the index is, except for private memory.
    """
    if k.buffers[node.buffer].is_private:
        return _load_private(k, node, index)
    return loads.load(k, node, index)


def store(k: Kernel, node: Store, index: Value, value: Value) -> None:
    """Writes element ``index`` of a buffer in the active lanes, ascending; does nothing where it is out of range."""
    if k.buffers[node.buffer].is_private:
        _store_private(k, node, index, value)
    else:
        stores.store(k, node, index, value)


def reserve(k: Kernel) -> None:
    """Reserves scratch memory for the workgroup and private buffers; called once, before anything is written."""
    for buffer in k.program.buffers:
        if buffer.is_workgroup:
            assert buffer.static_nbytes is not None, "validated"
            k.place(buffer.name, buffer.static_nbytes)
    for buffer in k.program.buffers:
        if buffer.is_private:
            k.private[buffer.name] = k.reserve_area((buffer.count + _SPARE_ROWS) * _row(k, buffer))


def zero_shared(k: Kernel) -> None:
    """Zeroes the workgroup buffers whose zeros the program could observe; called where a workgroup starts."""
    for name in sorted(needs_zeroing(k.program, bounds_facts(k.program, same_length=True))):
        _zero(k, k.base(name), k.buffers[name].static_nbytes)


def zeroes_private(k: Kernel) -> bool:
    """Returns whether there is a private buffer whose zeros the program could observe."""
    return bool(_exposed(k))


def zero_private(k: Kernel) -> None:
    """Zeroes the private buffers whose zeros the program could observe; called where a vector of lanes starts."""
    for name in sorted(_exposed(k)):
        buffer = k.buffers[name]
        _zero(k, _area(k, buffer), buffer.count * _row(k, buffer))


def _zero(k: Kernel, address: str, nbytes: int | None) -> None:
    """Fills memory at an aligned address with zeros."""
    fill = intrinsic(k, "void", "memset.p0.i64", "ptr", "i8", "i64", "i1")
    k.w.line(f"{fill}(ptr align {ALIGNMENT} {address}, i8 0, i64 {nbytes}, i1 false)")


def _exposed(k: Kernel) -> frozenset[str]:
    return needs_private_zeroing(k.program, bounds_facts(k.program, same_length=True))
