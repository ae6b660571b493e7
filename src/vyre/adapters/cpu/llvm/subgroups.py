"""Subgroup operations: a vector has 32 lanes and is the subgroup."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from vyre.adapters.cpu.llvm import blocks, operators
from vyre.adapters.cpu.llvm.context import Kernel, vector_text
from vyre.adapters.cpu.llvm.instructions import Instructions
from vyre.adapters.cpu.llvm.values import SCALAR, Value, literal_text
from vyre.domain.ir.operators import BinaryOp, Span, SubgroupRow
from vyre.domain.ir.types import ScalarType

_U32: Final = ScalarType.U32


_REDUCTIONS: Final = {
    BinaryOp.ADD: ("add", "add"),
    BinaryOp.MIN: ("umin", "smin"),
    BinaryOp.MAX: ("umax", "smax"),
    BinaryOp.BIT_AND: ("and", "and"),
    BinaryOp.BIT_OR: ("or", "or"),
    BinaryOp.BIT_XOR: ("xor", "xor"),
    BinaryOp.AND: ("and", "and"),
    BinaryOp.OR: ("or", "or"),
}
"""The names of LLVM's reductions of unsigned and of signed integers."""


def reduce(k: Kernel, row: SubgroupRow, value: Value) -> Value:
    """Returns the values of the active lanes folded; sums of floats in ascending lanes, all else in any order."""
    is_sum = row.operator is BinaryOp.ADD
    if row.span is not Span.ALL:
        return _ordered_sums(k, row, value) if is_sum and value.dtype.is_float else _scan(k, row, value)
    w, element = k.w, SCALAR[value.dtype]
    ones = k.narrow.get(value.operand)
    if is_sum and ones is not None and ones.bits == 1:
        lanes = k.both(k.mask, ones.operand)
        assert lanes is not None
        count = blocks.lane_count(k, lanes)
        return k.uniform(value.dtype, Instructions(w, None).convert("zext", "i32", element, count))
    vector = k.vector_type(element)
    operand = k.vector(value)
    if k.mask is not None:
        start = row.start(value.dtype)
        none = k.splat(element, literal_text(value.dtype, start)) if start else "zeroinitializer"
        operand = k.chosen(k.mask, vector, operand, none)
    if not value.dtype.is_float:
        name = f"vector.reduce.{_REDUCTIONS[row.operator][value.dtype.is_signed]}.v{k.lanes}{element}"
        return k.uniform(value.dtype, w.call(element, name, (vector, operand)))
    if not is_sum:
        return _extremum(k, row, k.varying(value.dtype, operand))
    name = f"vector.reduce.fadd.v{k.lanes}{'f32' if element == 'float' else 'f64'}"
    return k.uniform(value.dtype, w.call(element, name, (element, "0.0"), (vector, operand)))


def _extremum(k: Kernel, row: SubgroupRow, value: Value) -> Value:
    """Returns the least or greatest float: each lane takes in the lane at half the distance, until one has all."""
    distance = k.lanes // 2
    while distance:
        order = [(lane + distance) % k.lanes for lane in range(k.lanes)]
        value = operators.binary(k, row.operator, value, _moved(k, value, order, 0))
        distance //= 2
    element = SCALAR[value.dtype]
    first = k.w.pure(f"extractelement {k.vector_type(element)} {{}}, i32 0", value.operand)
    return k.uniform(value.dtype, first)


def _scan(k: Kernel, row: SubgroupRow, value: Value) -> Value:
    """Returns in each lane the fold of the lanes below; of twice as many in each step.  The lanes that do not exist are
    the last ones, which no other lane takes in.
    """
    start = row.start(value.dtype)

    def below(one: Value, distance: int) -> Value:
        return _moved(k, one, [max(lane - distance, -1) for lane in range(k.lanes)], start)

    total = k.varying(value.dtype, k.vector(value))
    if row.span is Span.EXCLUSIVE:
        total = below(total, 1)
    distance = 1
    while distance < k.lanes:
        total = operators.binary(k, row.operator, below(total, distance), total)
        distance *= 2
    return total


def _moved(k: Kernel, value: Value, order: Sequence[int], start: int) -> Value:
    """Returns in each lane the value of another one; for the lane -1 the bits ``start``."""
    element = SCALAR[value.dtype]
    vector, none = k.vector_type(element), k.splat(element, literal_text(value.dtype, start))
    numbers = vector_text("i32", [k.lanes if lane < 0 else lane for lane in order])
    move = f"shufflevector {vector} {{}}, {vector} {none}, {k.vector_type('i32')} {numbers}"
    return k.varying(value.dtype, k.w.pure(move, value.operand))


def _ordered_sums(k: Kernel, row: SubgroupRow, value: Value) -> Value:
    """Returns in each lane the sum over the lanes below, one lane after the other."""
    w, element, operand = k.w, SCALAR[value.dtype], k.vector(value)
    vector = k.vector_type(element)
    total, sums = literal_text(value.dtype, row.start(value.dtype)), "poison"
    for lane in range(k.lanes):
        term = w.pure(f"extractelement {vector} {{}}, i32 {lane}", operand)
        before, total = total, w.pure(f"fadd {element} {{}}, {{}}", total, term)
        own = before if row.span is Span.EXCLUSIVE else total
        sums = w.pure(f"insertelement {vector} {{}}, {element} {{}}, i32 {lane}", sums, own)
    return k.varying(value.dtype, sums)


def ballot(k: Kernel, condition: Value) -> Value:
    """Returns a u32 whose bit l is the condition of lane l, 0 for lanes that are not active."""
    lanes = k.both(k.mask, k.vector(condition))
    assert lanes is not None
    return k.uniform(_U32, k.bits(lanes))


def shuffle(k: Kernel, value: Value, lane: Value) -> Value:
    """Returns the value of another lane; 0 where that lane is not active."""
    w = k.w
    if value.dtype is ScalarType.BOOL:
        bits = k.varying(_U32, w.pure(f"zext {k.vector_type('i1')} {{}} to {k.vector_type('i32')}", k.vector(value)))
        moved = shuffle(k, bits, lane)
        kind = k.type_of(moved)
        zero = "0" if moved.is_uniform else "zeroinitializer"
        result = w.pure(f"icmp ne {kind} {{}}, {zero}", moved.operand)
        return Value(ScalarType.BOOL, result, moved.shape)
    element = SCALAR[value.dtype]
    vector, indices = k.vector_type(element), k.vector_type("i32")
    operand = k.vector(value)
    if k.mask is not None:
        operand = k.chosen(k.mask, vector, operand)
    if lane.is_uniform:
        inside = w.pure(f"icmp ult i32 {{}}, {k.lanes}", lane.operand)
        index = w.pure(f"and i32 {{}}, {k.lanes - 1}", lane.operand)
        other_lane = w.pure(f"extractelement {vector} {{}}, i32 {{}}", operand, index)
        zero = "0.0" if value.dtype.is_float else "0"
        return k.uniform(value.dtype, w.pure(f"select i1 {{}}, {element} {{}}, {element} {zero}", inside, other_lane))
    chosen = k.vector(lane)
    inside = w.pure(f"icmp ult {indices} {{}}, splat (i32 {k.lanes})", chosen)
    place = w.at_entry(f"alloca {vector}, align 64")
    w.line(f"store {vector} {operand}, ptr {place}, align 64")
    addresses = w.here(f"getelementptr {element}, ptr {place}, {indices} {chosen}")
    suffix = {"i32": "i32", "i64": "i64", "float": "f32", "double": "f64"}[element]
    name = f"@llvm.masked.gather.v{k.lanes}{suffix}.v{k.lanes}p0"
    pointers, mask = k.vector_type("ptr"), k.vector_type("i1")
    w.declare(f"declare {vector} {name}({pointers}, i32, {mask}, {vector})")
    size = value.dtype.size
    call = f"call {vector} {name}({pointers} {addresses}, i32 {size}, {mask} {inside}, {vector} zeroinitializer)"
    return k.varying(value.dtype, w.here(call))
