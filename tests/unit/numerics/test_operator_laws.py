"""The laws in the rows of operators hold for the rules of one lane, and no row leaves one out."""

from __future__ import annotations

from itertools import product
from typing import Final

import pytest

from vyre.domain.ir.operators import BINARY, UNARY, BinaryOp, Element, RightOperand
from vyre.domain.ir.types import ScalarType
from vyre.domain.numerics import scalar

ROWS: Final = [(op, dtype) for op, row in BINARY.items() for dtype in sorted(row.operands, key=lambda t: t.value)]


def _bits(dtype: ScalarType) -> list[int]:
    """Numbers next to the ends of the range and to 0, and for floats also signed zeros, infinities and a NaN."""
    if dtype is ScalarType.BOOL:
        return [0, 1]
    top = 1 << dtype.bits
    found = {step % top for base in (0, top >> 1, top) for step in range(base - 2, base + 3)}
    found |= {top // 3, top // 5, 0x2545F491 * 0x9E3779B9 % top}
    if dtype.is_float:
        one = Element.ONE.bits(dtype)
        infinity = {ScalarType.F32: 0x7F80_0000, ScalarType.F64: 0x7FF0_0000_0000_0000}[dtype]
        found |= {one, one | top >> 1, infinity, infinity | top >> 1}
    return sorted(found)


def _same(dtype: ScalarType, one: int, other: int) -> bool:
    return one == other or (dtype.is_float and scalar.is_nan(dtype, one) and scalar.is_nan(dtype, other))


def _commutes(op: BinaryOp, dtype: ScalarType) -> bool:
    pairs = product(_bits(dtype), repeat=2)
    result = ScalarType.BOOL if BINARY[op].text in ("==", "!=") else dtype
    return all(_same(result, scalar.binary(op, dtype, a, b), scalar.binary(op, dtype, b, a)) for a, b in pairs)


def _is_neutral(op: BinaryOp, dtype: ScalarType, element: Element) -> bool:
    right = element.bits(dtype)
    return all(_same(dtype, scalar.binary(op, dtype, left, right), left) for left in _bits(dtype))


@pytest.mark.parametrize(("op", "dtype"), ROWS, ids=lambda value: getattr(value, "text", value.name))
def test_laws_hold(op: BinaryOp, dtype: ScalarType) -> None:
    row = BINARY[op]
    assert not row.commutes or _commutes(op, dtype)
    neutral = row.float_neutral if dtype.is_float else row.neutral
    assert neutral is None or _is_neutral(op, dtype, neutral)
    if row.absorbing is not None and row.absorbed is not None and not dtype.is_float:
        results = {scalar.binary(op, dtype, left, row.absorbing.bits(dtype)) for left in _bits(dtype)}
        assert results == {row.absorbed.bits(dtype)}


@pytest.mark.parametrize("op", [op for op, row in BINARY.items() if row.right is RightOperand.SAME])
def test_no_law_of_all_types_is_left_out(op: BinaryOp) -> None:
    row = BINARY[op]
    assert row.commutes or not all(_commutes(op, dtype) for dtype in row.operands)
    integers = [dtype for dtype in row.operands if not dtype.is_float]
    if row.neutral is None and row.result.name == "LEFT":
        assert not [e for e in Element if e is not Element.NAN and all(_is_neutral(op, dtype, e) for dtype in integers)]


def test_functions_are_those_of_vyre() -> None:
    import vyre

    functions = [row.function for row in BINARY.values()] + [row.function for row in UNARY.values()]
    named = [name for name in functions if name is not None]
    assert len(named) == len({*named}) == sum(not row.infix for row in BINARY.values()) + len(UNARY) - 3
    for name in named:
        assert getattr(vyre, name).__name__ == name
