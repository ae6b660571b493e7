"""Plans for division by a literal, carried out as their documentation says, against Python's integers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vyre.domain.errors import InvalidField
from vyre.domain.ir.operators import BinaryOp
from vyre.domain.ir.types import ScalarType
from vyre.domain.numerics import scalar
from vyre.policies.emission.constant_division import (
    ByOne,
    ByZero,
    Compare,
    DivisionInputs,
    DivisionPlan,
    Multiply,
    Shift,
    SignedMultiply,
    SignedShift,
    divide_by,
)

_S = ScalarType
_TYPES: Final = (_S.U32, _S.I32, _S.U64, _S.I64)


class _Machine:
    """Wrapping arithmetic on bit patterns, with the notation of the plans."""

    def __init__(self, dtype: ScalarType) -> None:
        self.width, self.signed = dtype.bits, dtype.is_signed
        self.ones = (1 << dtype.bits) - 1

    def number(self, bits: int) -> int:
        return bits - (1 << self.width) if self.signed and bits >> (self.width - 1) else bits

    def arithmetic_shift(self, bits: int, count: int) -> int:
        negative = bits - (1 << self.width) if bits >> (self.width - 1) else bits
        return (negative >> count) & self.ones

    def high(self, a: int, b: int) -> int:
        return (self.number(a) * self.number(b) >> self.width) & self.ones

    def divide(self, plan: DivisionPlan, divisor: int, n: int) -> tuple[int, int]:
        """Quotient and remainder as bit patterns."""
        ones = self.ones
        match plan:
            case ByZero(quotient):
                return quotient, 0
            case ByOne(negate):
                return (-n & ones if negate else n), 0
            case Shift(shift, mask):
                return n >> shift, n & mask
            case SignedShift(shift, bias_shift, keep, negate):
                t = (n + (self.arithmetic_shift(n, self.width - 1) >> bias_shift)) & ones
                q = self.arithmetic_shift(t, shift)
                return (-q & ones if negate else q), (n - (t & keep)) & ones
            case Compare(threshold):
                return int(n >= threshold), n - (threshold if n >= threshold else 0)
            case Multiply(multiplier, pre_shift, post_shift, add):
                if add:
                    t = self.high(n, multiplier)
                    q = (t + ((n - t) >> 1)) >> post_shift
                else:
                    q = self.high(n >> pre_shift, multiplier) >> post_shift
            case SignedMultiply(multiplier, post_shift, add, negate):
                t = (self.high(n, multiplier) + (n if add else 0)) & ones
                q = (self.arithmetic_shift(t, post_shift) - self.arithmetic_shift(n, self.width - 1)) & ones
                q = -q & ones if negate else q
        return q, (n - q * divisor) & ones


def _interesting(width: int) -> Iterator[int]:
    """Bit patterns near powers of two and their complements, and small numbers of both signs."""
    ones = (1 << width) - 1
    for exponent in range(width + 1):
        for distance in (-2, -1, 0, 1, 2):
            yield ((1 << exponent) + distance) & ones
            yield (-(1 << exponent) + distance) & ones


def _near_multiples(divisor: int, dtype: ScalarType) -> Iterator[int]:
    """Dividends around the first and last multiples of a divisor, where a reciprocal goes wrong first."""
    ones = (1 << dtype.bits) - 1
    size = (1 << dtype.bits) - divisor if dtype.is_signed and divisor >> (dtype.bits - 1) else divisor
    last = ones >> 1 if dtype.is_signed else ones
    for count in (1, 2, 3, last // max(size, 1) - 1, last // max(size, 1)):
        for distance in (-1, 0, 1):
            yield (count * size + distance) & ones
            yield -(count * size + distance) & ones


def _check(dtype: ScalarType, divisor: int, dividends: Iterator[int] | list[int]) -> None:
    machine, plan = _Machine(dtype), divide_by(DivisionInputs(divisor, dtype.bits, dtype.is_signed))
    for n in dividends:
        wanted = tuple(scalar.binary(op, dtype, n, divisor) for op in (BinaryOp.DIV, BinaryOp.MOD))
        assert machine.divide(plan, divisor, n) == wanted, (dtype, divisor, n, plan)


@pytest.mark.thorough
@pytest.mark.parametrize("dtype", _TYPES)
def test_every_plan_divides_as_the_language_does(dtype: ScalarType) -> None:
    dividends = sorted(set(_interesting(dtype.bits)))
    step = 7 if dtype.bits == 64 else 3
    for position, divisor in enumerate(dividends):
        _check(dtype, divisor, dividends[position % step :: step])
        _check(dtype, divisor, _near_multiples(divisor, dtype))


@pytest.mark.parametrize("dtype", _TYPES)
def test_small_divisors(dtype: ScalarType) -> None:
    for divisor in range(300):
        _check(dtype, divisor, _near_multiples(divisor, dtype))


@pytest.mark.parametrize("dtype", _TYPES)
def test_divisors_of_every_magnitude(dtype: ScalarType) -> None:
    """About 1.0, 1.5 and 1.9 times each power of two, of both signs."""
    for exponent in range(3, dtype.bits):
        for eighths in (8, 9, 12, 15):
            divisor = (1 << exponent) * eighths // 8
            for pattern in (divisor, (1 << dtype.bits) - divisor):
                _check(dtype, pattern, _near_multiples(pattern, dtype))


@given(st.data())
def test_any_divisor_and_dividend(data: st.DataObject) -> None:
    dtype = data.draw(st.sampled_from(_TYPES))
    patterns = st.integers(0, (1 << dtype.bits) - 1)
    _check(dtype, data.draw(patterns), data.draw(st.lists(patterns, min_size=1, max_size=8)))


@pytest.mark.thorough
def test_every_quotient_of_a_narrow_range_is_exact() -> None:
    """A reciprocal that is one too small or too large shows at consecutive dividends."""
    for divisor in (3, 5, 6, 7, 10, 14, 28, 641, 1000):
        _check(_S.U32, divisor, list(range(0xFFFF_FFFF - 5000, 0x1_0000_0000)))
        _check(_S.I32, divisor, list(range(0x8000_0000, 0x8000_0000 + 5000)))


@pytest.mark.parametrize(
    ("divisor", "dtype", "plan"),
    [
        (0, _S.U32, ByZero(0xFFFF_FFFF)),
        (0, _S.I64, ByZero(0)),
        (1, _S.I32, ByOne(negate=False)),
        (1, _S.U32, ByOne(negate=False)),
        (0xFFFF_FFFF, _S.I32, ByOne(negate=True)),
        (0xFFFF_FFFF, _S.U32, Compare(0xFFFF_FFFF)),
        (8, _S.U64, Shift(3, 7)),
        (0x8000_0000, _S.U32, Shift(31, 0x7FFF_FFFF)),
        (0x8000_0000, _S.I32, SignedShift(31, 1, 0x8000_0000, negate=True)),
        (3, _S.U32, Multiply(0xAAAA_AAAB, 0, 1, add=False)),
        (7, _S.U32, Multiply(0x2492_4925, 0, 2, add=True)),
        (14, _S.U32, Multiply(0x9249_2493, 1, 2, add=False)),
        (7, _S.I32, SignedMultiply(0x9249_2493, 2, add=True, negate=False)),
        (3, _S.I32, SignedMultiply(0x5555_5556, 0, add=False, negate=False)),
    ],
)
def test_known_plans(divisor: int, dtype: ScalarType, plan: DivisionPlan) -> None:
    assert divide_by(DivisionInputs(divisor, dtype.bits, dtype.is_signed)) == plan


@pytest.mark.parametrize(
    ("divisor", "width", "problem"),
    [
        (-3, 32, "divisor = -3 is not an int in"),
        (1 << 32, 32, "divisor = 4294967296 is not a pattern of 32 bits"),
        ((1 << 33) - 1, 32, "divisor = 8589934591 is not a pattern of 32 bits"),
        (1 << 64, 64, "divisor = 18446744073709551616 is not an int in"),
        (3, 33, "width = 33 is not 32 or 64"),
        (3, 63, "width = 63 is not 32 or 64"),
    ],
)
def test_a_divisor_is_a_bit_pattern(divisor: int, width: int, problem: str) -> None:
    with pytest.raises(InvalidField, match=rf"DivisionInputs\.{problem}"):
        DivisionInputs(divisor, width, signed=True)
