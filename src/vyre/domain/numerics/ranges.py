"""Ranges of integer operations: bounds of a result from bounds of the operands, in unbounded integers.

A range is a pair of the least and the greatest value, both inclusive.  A bool is 0 or 1.  Where a result may wrap, its
range is that of the type.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from vyre.domain.ir.operators import BinaryOp, UnaryOp
from vyre.domain.ir.types import ScalarType, TypeKind

Range: TypeAlias = tuple[int, int]

_BIT: Final[Range] = (0, 1)
_NO_NUMBER: Final[Range] = (0, 0)


def _limits_of(dtype: ScalarType) -> Range:
    if dtype.kind is TypeKind.BOOL:
        return _BIT
    if dtype.is_float:
        return _NO_NUMBER
    if dtype.is_signed:
        return -(1 << (dtype.bits - 1)), (1 << (dtype.bits - 1)) - 1
    return 0, (1 << dtype.bits) - 1


LIMITS: Final[dict[ScalarType, Range]] = {dtype: _limits_of(dtype) for dtype in ScalarType}
"""The values of each type of integers and bools; (0, 0) for floats, of which nothing is known."""


def _quotient(a: int, b: int) -> int:
    quotient = abs(a) // abs(b)
    return -quotient if (a < 0) != (b < 0) else quotient


def _corners(rule: Callable[[int, int], int], a: Range, b: Range) -> Range:
    results = [rule(x, y) for x in a for y in b]
    return min(results), max(results)


def _divide(dtype: ScalarType, a: Range, b: Range) -> Range | None:
    return _corners(_quotient, a, b) if b[0] > 0 else None


def _modulo(dtype: ScalarType, a: Range, b: Range) -> Range | None:
    if a[0] >= 0 and a[1] < b[0]:
        return a
    most = max(abs(b[0]), abs(b[1]), 1) - 1
    return max(a[0], -most) if a[0] < 0 else 0, min(a[1], most) if a[1] > 0 else 0


def _bit_and(dtype: ScalarType, a: Range, b: Range) -> Range | None:
    tops = [operand[1] for operand in (a, b) if operand[0] >= 0]
    return (0, min(tops)) if tops else None


def _bits_above(a: Range, b: Range) -> int:
    return (1 << max(a[1].bit_length(), b[1].bit_length())) - 1


def _bit_or(dtype: ScalarType, a: Range, b: Range) -> Range | None:
    return (max(a[0], b[0]), _bits_above(a, b)) if a[0] >= 0 and b[0] >= 0 else None


def _bit_xor(dtype: ScalarType, a: Range, b: Range) -> Range | None:
    return (0, _bits_above(a, b)) if a[0] >= 0 and b[0] >= 0 else None


def _counts(dtype: ScalarType, b: Range) -> Range:
    """Returns the range of the low bits of the count of a shift, which alone matter."""
    most = dtype.bits - 1
    if b[0] == b[1]:
        return b[0] & most, b[0] & most
    return b if b[0] >= 0 and b[1] <= most else (0, most)


def _difference(dtype: ScalarType, a: Range, b: Range) -> Range | None:
    return max(0, a[0] - b[1], b[0] - a[1]), max(a[1] - b[0], b[1] - a[0])


def _clamped(dtype: ScalarType, exact: Range) -> Range:
    low, high = LIMITS[dtype]
    return max(low, min(high, exact[0])), max(low, min(high, exact[1]))


_BINARY: Final[dict[BinaryOp, Callable[[ScalarType, Range, Range], Range | None]]] = {
    BinaryOp.ADD: lambda t, a, b: (a[0] + b[0], a[1] + b[1]),
    BinaryOp.SUB: lambda t, a, b: (a[0] - b[1], a[1] - b[0]),
    BinaryOp.MUL: lambda t, a, b: _corners(lambda x, y: x * y, a, b),
    BinaryOp.DIV: _divide,
    BinaryOp.MOD: _modulo,
    BinaryOp.BIT_AND: _bit_and,
    BinaryOp.BIT_OR: _bit_or,
    BinaryOp.BIT_XOR: _bit_xor,
    BinaryOp.SHL: lambda t, a, b: _corners(lambda x, y: x << y, a, _counts(t, b)),
    BinaryOp.SHR: lambda t, a, b: _corners(lambda x, y: x >> y, a, _counts(t, b)),
    BinaryOp.ABS_DIFF: _difference,
    BinaryOp.MIN: lambda t, a, b: (min(a[0], b[0]), min(a[1], b[1])),
    BinaryOp.MAX: lambda t, a, b: (max(a[0], b[0]), max(a[1], b[1])),
    BinaryOp.SATURATING_ADD: lambda t, a, b: _clamped(t, (a[0] + b[0], a[1] + b[1])),
    BinaryOp.SATURATING_SUB: lambda t, a, b: _clamped(t, (a[0] - b[1], a[1] - b[0])),
    BinaryOp.SATURATING_MUL: lambda t, a, b: _clamped(t, _corners(lambda x, y: x * y, a, b)),
    BinaryOp.MUL_HIGH: lambda t, a, b: _corners(lambda x, y: (x * y) >> t.bits, a, b),
}


def _fitting(dtype: ScalarType, exact: Range | None) -> Range:
    limits = LIMITS[dtype]
    return exact if exact is not None and limits[0] <= exact[0] and exact[1] <= limits[1] else limits


def binary_range(op: BinaryOp, dtype: ScalarType, a: Range, b: Range) -> Range:
    """Returns the range of an integer operation, no comparison, from those of its operands; ``dtype`` is the left
    operand's type.
    """
    rule = _BINARY.get(op)
    return LIMITS[dtype] if rule is None else _fitting(dtype, rule(dtype, a, b))


def unary_range(op: UnaryOp, dtype: ScalarType, a: Range) -> Range:
    """Returns the range of an operation on an integer that gives an integer of its type."""
    match op:
        case UnaryOp.NEGATE:
            return _fitting(dtype, (-a[1], -a[0]))
        case UnaryOp.BIT_NOT:
            low, high = LIMITS[dtype]
            return low + high - a[1], low + high - a[0]
        case UnaryOp.ABS:
            return _fitting(dtype, _difference(dtype, a, (0, 0)))
        case UnaryOp.POPCOUNT | UnaryOp.CLZ | UnaryOp.CTZ:
            return 0, dtype.bits
    return LIMITS[dtype]


def less(a: Range, b: Range) -> bool | None:
    """Returns whether a value of the first range is below one of the second; None if that is open."""
    if a[1] < b[0]:
        return True
    return False if a[0] >= b[1] else None


def equal(a: Range, b: Range) -> bool | None:
    """Returns whether values of two ranges are equal; None if that is open."""
    if a[0] == a[1] == b[0] == b[1]:
        return True
    return False if a[1] < b[0] or b[1] < a[0] else None
