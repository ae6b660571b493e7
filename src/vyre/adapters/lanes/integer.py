"""Integer operators.  NumPy integers wrap, which gives most rules; this module makes the partial ones total."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import numpy as np

from vyre.adapters.lanes.types import LANE_DTYPE, BinaryRule, Dense, UnaryRule
from vyre.domain.ir.operators import BinaryOp, UnaryOp
from vyre.domain.ir.types import ScalarType


class _Width(NamedTuple):
    """One integer type: its dtype, bits, limits and the unsigned dtype of the same width."""

    dtype: np.dtype[Any]
    unsigned: np.dtype[Any]
    bits: int
    low: Any
    high: Any

    @property
    def is_signed(self) -> bool:
        """Whether the type is signed."""
        return self.dtype != self.unsigned

    def scalar(self, value: int) -> Any:
        """Returns a lane constant of the type."""
        return self.dtype.type(value)

    def word(self, value: int) -> Any:
        """Returns a lane constant of the unsigned type of the same width."""
        return self.unsigned.type(value)


def _width(dtype: ScalarType) -> _Width:
    lanes = LANE_DTYPE[dtype]
    info = np.iinfo(lanes)
    unsigned = np.dtype(f"u{lanes.itemsize}")
    return _Width(lanes, unsigned, dtype.bits, lanes.type(info.min), lanes.type(info.max))


def integer_binary(op: BinaryOp, dtype: ScalarType) -> BinaryRule:
    """Returns the rule of ``op`` for an integer type."""
    if op in _PLAIN:
        return _PLAIN[op]
    return _BINARY[op](_width(dtype)) if op in _BINARY else _lowered(op, dtype)


def _lowered(op: BinaryOp, dtype: ScalarType) -> BinaryRule:
    from vyre.domain.dialects.laws.lowered import lowered, lowering  # few programs have such an operator

    lowering(op, dtype)
    return lambda a, b: lowered(op, dtype, a, b, _LaneOperators())


class _LaneOperators:
    """The operators of integer lanes, for those that are made of others."""

    def literal(self, dtype: ScalarType, bits: int) -> Dense:
        width = _width(dtype)
        literal: Dense = width.word(bits).view(width.dtype)
        return literal

    def binary(self, op: BinaryOp, dtype: ScalarType, count: ScalarType, left: Dense, right: Dense) -> Dense:
        return integer_binary(op, dtype)(left, right)

    def unary(self, op: UnaryOp, dtype: ScalarType, operand: Dense) -> Dense:
        return integer_unary(op, dtype)(operand)


def integer_unary(op: UnaryOp, dtype: ScalarType) -> UnaryRule:
    """Returns the rule of ``op`` for an integer type."""
    return _UNARY[op](_width(dtype))


_PLAIN: Final[dict[BinaryOp, BinaryRule]] = {
    BinaryOp.ADD: np.add,
    BinaryOp.SUB: np.subtract,
    BinaryOp.MUL: np.multiply,
    # C's remainder: sign of the dividend; NumPy defines x % 0 and MIN % -1 as 0.
    BinaryOp.MOD: np.fmod,
    BinaryOp.BIT_AND: np.bitwise_and,
    BinaryOp.BIT_OR: np.bitwise_or,
    BinaryOp.BIT_XOR: np.bitwise_xor,
    BinaryOp.MIN: np.minimum,
    BinaryOp.MAX: np.maximum,
    BinaryOp.ABS_DIFF: lambda a, b: np.subtract(np.maximum(a, b), np.minimum(a, b)),
}


def _divide(w: _Width) -> BinaryRule:
    if w.is_signed:
        # The rest divides exactly, so rounding down is truncation; NumPy defines x // 0 = 0 and MIN // -1 = MIN.
        return lambda a, b: np.floor_divide(np.subtract(a, np.fmod(a, b)), b)

    def divide(a: Any, b: Any) -> Any:
        quotient = np.floor_divide(a, b)
        by_zero = np.equal(b, w.scalar(0))
        # Where NumPy says x // 0 = 0, one less is all ones.
        return np.subtract(quotient, by_zero, dtype=w.dtype, casting="unsafe") if by_zero.any() else quotient

    return divide


def _count(w: _Width, count: Any) -> Any:
    """Returns the low log2(width) bits of a count of either legal type, in the left type."""
    return np.bitwise_and(count, count.dtype.type(w.bits - 1)).astype(w.dtype, copy=False)


def _shift(ufunc: BinaryRule) -> Callable[[_Width], BinaryRule]:
    return lambda w: lambda a, count: ufunc(a, _count(w, count))


def _rotate(by: Callable[[Any, Any], tuple[Any, Any]]) -> Callable[[_Width], BinaryRule]:
    """Returns a rotation; ``by`` gives the distances of the left and of the right shift from (count, -count)."""

    def rule(w: _Width) -> BinaryRule:
        mask = w.word(w.bits - 1)

        def rotate(a: Any, count: Any) -> Any:
            word = a.view(w.unsigned)
            distance = _count(w, count).view(w.unsigned)
            left, right = by(distance, np.bitwise_and(np.negative(distance), mask))
            return np.bitwise_or(np.left_shift(word, left), np.right_shift(word, right)).view(w.dtype)

        return rotate

    return rule


def _multiply_high_unsigned(w: _Width) -> BinaryRule:
    if w.bits == 32:
        shift = np.uint64(32)
        return lambda a, b: np.right_shift(np.multiply(a, b, dtype=np.uint64), shift).astype(np.uint32)
    half, low_mask = np.uint64(32), np.uint64(0xFFFF_FFFF)

    def multiply_high(a: Any, b: Any) -> Any:
        a_low, a_high = a & low_mask, a >> half
        b_low, b_high = b & low_mask, b >> half
        middle = a_high * b_low + (a_low * b_low >> half)  # below 2^64: (2^32 - 1)^2 + 2^32 - 1
        other = a_low * b_high + (middle & low_mask)
        return a_high * b_high + (middle >> half) + (other >> half)

    return multiply_high


def _multiply_high(w: _Width) -> BinaryRule:
    if not w.is_signed:
        return _multiply_high_unsigned(w)
    if w.bits == 32:
        shift = np.int64(32)
        return lambda a, b: np.right_shift(np.multiply(a, b, dtype=np.int64), shift).astype(np.int32)
    unsigned = _multiply_high_unsigned(w)
    sign = w.scalar(w.bits - 1)

    def multiply_high(a: Any, b: Any) -> Any:
        # A negative operand is 2^64 too large as an unsigned one: take the other operand off the high half.
        high = unsigned(a.view(w.unsigned), b.view(w.unsigned)).view(w.dtype)
        return high - ((a >> sign) & b) - ((b >> sign) & a)

    return multiply_high


def _saturated(w: _Width, overflows: Any, negative: Any, wrapped: Any) -> Any:
    """Returns ``wrapped``, or the limit on the side given by ``negative`` (a lane whose sign bit decides)."""
    limit = np.bitwise_xor(np.right_shift(negative, w.scalar(w.bits - 1)), w.high)
    return np.where(overflows, limit, wrapped)


def _saturating_add(w: _Width) -> BinaryRule:
    if not w.is_signed:

        def add_unsigned(a: Any, b: Any) -> Any:
            return np.add(a, np.minimum(b, np.bitwise_not(a)))  # ~a is the maximum minus a

        return add_unsigned

    def add(a: Any, b: Any) -> Any:
        total = np.add(a, b)
        return _saturated(w, ((a ^ total) & (b ^ total)) < 0, a, total)

    return add


def _saturating_sub(w: _Width) -> BinaryRule:
    if not w.is_signed:
        return lambda a, b: np.subtract(a, np.minimum(a, b))

    def subtract(a: Any, b: Any) -> Any:
        difference = np.subtract(a, b)
        return _saturated(w, ((a ^ b) & (a ^ difference)) < 0, a, difference)

    return subtract


def _saturating_mul(w: _Width) -> BinaryRule:
    high_half = _multiply_high(w)
    if not w.is_signed:
        return lambda a, b: np.where(high_half(a, b) != 0, w.high, np.multiply(a, b))
    sign = w.scalar(w.bits - 1)

    def multiply(a: Any, b: Any) -> Any:
        product = np.multiply(a, b)
        return _saturated(w, high_half(a, b) != np.right_shift(product, sign), a ^ b, product)

    return multiply


_BINARY: Final[dict[BinaryOp, Callable[[_Width], BinaryRule]]] = {
    BinaryOp.DIV: _divide,
    BinaryOp.SHL: _shift(np.left_shift),
    BinaryOp.SHR: _shift(np.right_shift),
    BinaryOp.ROTATE_LEFT: _rotate(lambda count, rest: (count, rest)),
    BinaryOp.ROTATE_RIGHT: _rotate(lambda count, rest: (rest, count)),
    BinaryOp.SATURATING_ADD: _saturating_add,
    BinaryOp.SATURATING_SUB: _saturating_sub,
    BinaryOp.SATURATING_MUL: _saturating_mul,
    BinaryOp.MUL_HIGH: _multiply_high,
}


# ------------------------------------------------------------------------------ unary


def _count_bits(w: _Width, words: Any) -> Any:
    """Returns the number of one bits of unsigned words, in the type itself."""
    return np.bitwise_count(words).astype(w.dtype)


def _leading_zeros(w: _Width) -> UnaryRule:
    def rule(x: Any) -> Any:
        word = x.view(w.unsigned)
        distance = 1
        while distance < w.bits:  # copy the leading one bit into every place below it
            word = word | word >> w.word(distance)
            distance *= 2
        return _count_bits(w, ~word)

    return rule


def _trailing_zeros(w: _Width) -> UnaryRule:
    def rule(x: Any) -> Any:
        word = x.view(w.unsigned)
        return _count_bits(w, ~word & np.subtract(word, w.word(1)))  # the ones below the lowest one bit; all for 0

    return rule


def _reverse_bits(w: _Width) -> UnaryRule:
    # Neighbours, pairs and nibbles change places within each byte, then the bytes of the word.
    swaps = [(w.word(int(pattern * (w.bits // 8), 16)), w.word(n)) for n, pattern in ((1, "55"), (2, "33"), (4, "0f"))]

    def rule(x: Any) -> Any:
        word = x.view(w.unsigned)
        for mask, distance in swaps:
            word = (word >> distance & mask) | ((word & mask) << distance)
        return word.byteswap().view(w.dtype)

    return rule


_UNARY: Final[dict[UnaryOp, Callable[[_Width], UnaryRule]]] = {
    UnaryOp.NEGATE: lambda w: np.negative,
    UnaryOp.ABS: lambda w: np.absolute,
    UnaryOp.BIT_NOT: lambda w: np.bitwise_not,
    # On the unsigned type: NumPy counts the bits of |x| for signed integers.
    UnaryOp.POPCOUNT: lambda w: lambda x: _count_bits(w, x.view(w.unsigned)),
    UnaryOp.CLZ: _leading_zeros,
    UnaryOp.CTZ: _trailing_zeros,
    UnaryOp.REVERSE_BITS: _reverse_bits,
}
