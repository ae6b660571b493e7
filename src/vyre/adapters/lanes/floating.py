"""Float operators.  NumPy's +, -, *, / and sqrt round as IEEE 754 requires, in each lane's own format."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from vyre.adapters.lanes.types import BinaryRule, UnaryRule
from vyre.domain.ir.operators import BinaryOp, UnaryOp
from vyre.domain.ir.types import ScalarType
from vyre.domain.numerics import scalar

_WORD: Final[dict[Any, Any]] = {np.dtype(np.float32): np.uint32, np.dtype(np.float64): np.uint64}


def _extreme(ufunc: BinaryRule, is_first: BinaryRule, merge: BinaryRule) -> BinaryRule:
    """Returns minimumNumber or maximumNumber.

    fmin and fmax are right except in two cases: zeros (their order is unspecified; here -0 < +0) and signaling NaNs
    (some loops let them win over a number).  Both show in the result, as a zero or a NaN.
    """

    def rule(a: Any, b: Any) -> Any:
        result = ufunc(a, b)
        if (np.absolute(result) > 0).all():
            return result
        word = _WORD[result.dtype]
        # Equal operands have equal bits, or are zeros whose sign bits merge.
        merged = merge(a.view(word), b.view(word)).view(result.dtype)
        return np.where(a == b, merged, np.where(is_first(a, b) | np.isnan(b), a, b))

    return rule


FLOAT_BINARY: Final[dict[BinaryOp, BinaryRule]] = {
    BinaryOp.ADD: np.add,
    BinaryOp.SUB: np.subtract,
    BinaryOp.MUL: np.multiply,
    BinaryOp.DIV: np.divide,
    BinaryOp.MIN: _extreme(np.fmin, np.less, np.bitwise_or),
    BinaryOp.MAX: _extreme(np.fmax, np.greater, np.bitwise_and),
}


def _round_half_away(x: Any) -> Any:
    # The greatest number below a half: with a half itself, 0.5 - ulp would round up to 1, and large odd x to even.
    below_half = np.nextafter(x.dtype.type(0.5), x.dtype.type(0))
    return np.trunc(np.add(x, np.copysign(below_half, x)))


def _reciprocal(x: Any) -> Any:
    return np.divide(x.dtype.type(1), x)


FLOAT_UNARY: Final[dict[UnaryOp, UnaryRule]] = {
    UnaryOp.NEGATE: np.negative,
    UnaryOp.ABS: np.absolute,
    UnaryOp.SQRT: np.sqrt,
    UnaryOp.FLOOR: np.floor,
    UnaryOp.CEIL: np.ceil,
    UnaryOp.TRUNC: np.trunc,
    UnaryOp.ROUND: _round_half_away,
    UnaryOp.ROUND_EVEN: np.rint,
    UnaryOp.SIGN: np.sign,
    UnaryOp.IS_NAN: np.isnan,
    UnaryOp.IS_INF: np.isinf,
    UnaryOp.IS_FINITE: np.isfinite,
    UnaryOp.INVERSE_SQRT: lambda x: _reciprocal(np.sqrt(x)),
    UnaryOp.RECIPROCAL: _reciprocal,
}


# ------------------------------------------------------------------------------ fused multiply-add


def _two_sum(a: Any, b: Any) -> tuple[Any, Any]:
    """Returns ``(s, e)`` with s = RN(a + b) and a + b = s + e exactly (Knuth), unless it overflows."""
    s = a + b
    t = s - a
    return s, (a - (s - t)) + (b - t)


def _sum_to_odd(a: Any, b: Any) -> Any:
    """Returns a + b rounded to odd in binary64: an inexact sum ends in an odd bit, so that a later rounding is
    correct.
    """
    s, e = _two_sum(a, b)
    bits = s.view(np.int64)
    inexact_and_even = (e != 0) & (bits & np.int64(1) == 0) & np.isfinite(s)
    # One step toward the error: away from zero if it has the sign of the sum.
    step = np.where((e > 0) == (s > 0), np.int64(1), np.int64(-1))
    return (bits + np.where(inexact_and_even, step, np.int64(0))).view(np.float64)


def fma_f32(a: Any, b: Any, c: Any) -> Any:
    """Returns a * b + c rounded once: the product of two f32 is exact in binary64, the sum is rounded to odd there."""
    product = np.multiply(a, b, dtype=np.float64)
    return _sum_to_odd(product, c.astype(np.float64)).astype(np.float32)


_EXPONENT: Final = np.uint64(0x7FF)
_SPLITTER: Final = np.float64(2.0**27 + 1)


def _two_product(a: Any, b: Any) -> tuple[Any, Any]:
    """Returns ``(p, e)`` with p = RN(a * b) and a * b = p + e exactly (Dekker), within the range that ``fma_f64``
    checks.
    """
    p = a * b
    scaled_a, scaled_b = a * _SPLITTER, b * _SPLITTER
    a_high, b_high = scaled_a - (scaled_a - a), scaled_b - (scaled_b - b)
    a_low, b_low = a - a_high, b - b_high
    return p, ((a_high * b_high - p) + a_high * b_low + a_low * b_high) + a_low * b_low


def _biased_exponent(x: Any) -> Any:
    return (x.view(np.uint64) >> np.uint64(52) & _EXPONENT).astype(np.int64)


def fma_f64(a: Any, b: Any, c: Any) -> Any:
    """Returns a * b + c rounded once, by error-free transformations and round-to-odd (Boldo and Melquiond).

    Lanes whose product or sum comes near the limits of the exponent are computed with exact integers.
    """
    a, b, c = np.broadcast_arrays(a, b, c)
    high, low = _two_product(a, b)
    total_high, total_low = _two_sum(c, low)
    value, value_low = _two_sum(high, total_high)
    result = value + _sum_to_odd(total_low, value_low)

    ea, eb, ec = _biased_exponent(a), _biased_exponent(b), _biased_exponent(c)
    # Nothing overflows, and every partial product of the lower halves is a normal number.
    safe = (np.maximum(ea, eb) <= 1900) & (np.minimum(ea, eb) > 0) & (ea + eb <= 2046 + 900) & (ec <= 1900)
    safe &= ea + eb >= 2046 - 880
    if safe.all():
        return result
    finite_product = np.isfinite(a) & np.isfinite(b)
    # Products that are zero, infinite or NaN are exact; an infinite or NaN c swallows every finite product.
    trivial = ~finite_product | (a == 0) | (b == 0)
    swallowed = finite_product & ~np.isfinite(c)
    result = np.where(safe, result, np.where(swallowed, c, a * b + c))
    rest = np.nonzero(np.ravel(~(safe | trivial | swallowed)))[0]
    if rest.size:
        flat = np.ascontiguousarray(result).reshape(-1)
        words = [np.ravel(operand).take(rest).view(np.uint64).tolist() for operand in (a, b, c)]
        exact = [scalar.fma(ScalarType.F64, *lane) for lane in zip(*words, strict=True)]
        flat[rest] = np.array(exact, dtype=np.uint64).view(np.float64)
        result = flat.reshape(np.shape(result))
    return result
