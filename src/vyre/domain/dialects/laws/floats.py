"""Laws of floats: few, because an equation must hold for zeros of both signs, infinities and NaN."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from vyre.domain.dialects.laws.law import Law, laws
from vyre.domain.ir.operators import FLOATS
from vyre.domain.ir.types import ScalarType

_SUMS: Final = """
    fadd.commute: x + y = y + x
    fadd.minus_zero: x + -0.0 = x
    fadd.of_negated: x + neg(y) <=> x - y
    fadd.self: x + x <=> x * 2.0
    fsub.zero: x - 0.0 = x
    fsub.from_minus_zero: -0.0 - x <=> neg(x)
    fsub.of_negated: x - neg(y) <=> x + y
    fsub.negated_first: neg(x) + y <=> y - x
    fnegate.twice: neg(neg(x)) = x
"""
_PRODUCTS: Final = """
    fmul.commute: x * y = y * x
    fmul.one: x * 1.0 = x
    fmul.minus_one: x * -1.0 <=> neg(x)
    fmul.negated: neg(x) * y <=> neg(x * y)
    fmul.both_negated: neg(x) * neg(y) = x * y
    fmul.square_of_abs: abs(x) * abs(x) = x * x
    fdiv.one: x / 1.0 = x
    fdiv.minus_one: x / -1.0 <=> neg(x)
    fdiv.negated: neg(x) / y <=> neg(x / y)
    fdiv.negated_divisor: x / neg(y) <=> neg(x / y)
    fdiv.both_negated: neg(x) / neg(y) = x / y
    fdiv.power_of_two: x / c = x * (1.0 / c) if (bitcast<U>(c) & FRACTION) == bitcast<U>(0.0) and is_finite(1.0 / c) and 1.0 / c != 0.0
    fabs.product: abs(x) * abs(y) <=> abs(x * y)
    fabs.quotient: abs(x) / abs(y) <=> abs(x / y)
    fabs.twice: abs(abs(x)) = abs(x)
    fabs.negated: abs(neg(x)) = abs(x)
    fabs.difference: abs(x - y) = abs(y - x)
    fma.commute: fma(x, y, z) = fma(y, x, z)
    fma.minus_zero: fma(x, y, -0.0) <=> x * y
    fma.one: fma(x, 1.0, y) <=> x + y
    fma.minus_one: fma(x, -1.0, y) <=> y - x
    fma.negated: fma(neg(x), y, z) <=> fma(x, neg(y), z)
    fma.both_negated: fma(neg(x), neg(y), z) = fma(x, y, z)
"""  # noqa: E501
_ORDER: Final = """
    fmin.commute: min(x, y) = min(y, x)
    fmax.commute: max(x, y) = max(y, x)
    fmin.associate: min(min(x, y), z) <=> min(x, min(y, z))
    fmax.associate: max(max(x, y), z) <=> max(x, max(y, z))
    fmin.self: min(x, x) = x
    fmax.self: max(x, x) = x
    fmin.nan: min(x, NAN) = x
    fmax.nan: max(x, NAN) = x
    fmin.least: min(x, neg(INF)) = neg(INF)
    fmax.greatest: max(x, INF) = INF
    fmin.negated: min(neg(x), neg(y)) <=> neg(max(x, y))
    fmax.negated: max(neg(x), neg(y)) <=> neg(min(x, y))
    fabs.as_max: max(x, neg(x)) <=> abs(x)
    fabs.as_min: min(x, neg(x)) <=> neg(abs(x))
    flt.swap: x < y = y > x
    fle.swap: x <= y = y >= x
    feq.swap: x == y = y == x
    fne.swap: x != y = y != x
    fgt.swap: x > y = y < x
    fge.swap: x >= y = y <= x
    feq.negated: not(x == y) <=> x != y
    fne.negated: not(x != y) <=> x == y
    flt.self: x < x = false
    fgt.self: x > x = false
    fle.self: x <= x <=> x == x
    fge.self: x >= x <=> x == x
    flt.both_negated: neg(x) < neg(y) <=> y < x
    fle.both_negated: neg(x) <= neg(y) <=> y <= x
    feq.both_negated: neg(x) == neg(y) = x == y
    fle.from_parts: x < y or x == y <=> x <= y
    fge.from_parts: x > y or x == y <=> x >= y
    feq.from_parts: x <= y and x >= y <=> x == y
    flt.exclusive: x < y and y < x = false
    fabs.never_negative: abs(x) < 0.0 = false
    fabs.is_zero: abs(x) == 0.0 = x == 0.0
    flt.infinity: x > INF = false
    flt.minus_infinity: x < neg(INF) = false
    flt.never_above: x != y and x <= y <=> x < y
"""
_CLASSES: Final = """
    is_nan.as_comparison: is_nan(x) <=> x != x
    is_nan.negated: is_nan(neg(x)) = is_nan(x)
    is_nan.of_abs: is_nan(abs(x)) = is_nan(x)
    is_nan.complement: not(is_nan(x)) <=> x == x
    is_inf.as_comparison: is_inf(x) <=> abs(x) == INF
    is_inf.negated: is_inf(neg(x)) = is_inf(x)
    is_finite.as_comparison: is_finite(x) <=> abs(x) < INF
    is_finite.negated: is_finite(neg(x)) = is_finite(x)
    is_finite.as_difference: is_finite(x) <=> x - x == 0.0
    is_finite.parts: is_finite(x) <=> not(is_nan(x) or is_inf(x))
    is_finite.complement: not(is_finite(x)) <=> is_nan(x) or is_inf(x)
    is_nan.of_max: is_nan(max(x, y)) <=> is_nan(x) and is_nan(y)
    sign.twice: sign(sign(x)) = sign(x)
    sign.is_nan: is_nan(sign(x)) = is_nan(x)
    sign.is_zero: sign(x) == 0.0 = x == 0.0
    fneg.as_bits: bitcast<T>(bitcast<U>(x) ^ SIGN_BIT) <=> neg(x)
    fabs.as_bits: bitcast<T>(bitcast<U>(x) & bitnot(SIGN_BIT)) <=> abs(x)
    fabs.twice_bits: bitcast<T>(bitcast<U>(x) | SIGN_BIT) <=> neg(abs(x))
    bitcast.float_and_back: bitcast<T>(bitcast<U>(x)) = x
    bitcast.float_and_back_signed: bitcast<T>(bitcast<S>(x)) = x
    bitcast.float_same: bitcast<T>(x) = x
    cast.float_same: cast<T>(x) = x
    cast.float_to_bool: cast<bool>(x) <=> x != 0.0
    cast.truncated_signed: cast<S>(trunc(x)) = cast<S>(x)
    cast.truncated_unsigned: cast<U>(trunc(x)) = cast<U>(x)
    cast.never_negative: cast<U>(max(x, 0.0)) = cast<U>(x)
    wrap_cast.truncated_signed: wrap_cast<S>(trunc(x)) = wrap_cast<S>(x)
    wrap_cast.truncated_unsigned: wrap_cast<U>(trunc(x)) = wrap_cast<U>(x)
    wrap_cast.signedness: bitcast<U>(wrap_cast<S>(x)) <=> wrap_cast<U>(x)
    wrap_cast.negated: wrap_cast<S>(neg(x)) <=> neg(wrap_cast<S>(x))
"""
_ROUNDINGS: Final = ("floor", "ceil", "trunc", "round", "round_even")
_ODD: Final = ("sin", "tan", "asin", "atan", "sinh", "tanh")
_F32: Final = """
    reciprocal.as_division: reciprocal(x) <=> 1.0 / x
    reciprocal.negated: reciprocal(neg(x)) <=> neg(reciprocal(x))
    inverse_sqrt.as_division: inverse_sqrt(x) <=> 1.0 / sqrt(x)
    cos.negated: cos(neg(x)) = cos(x)
    cos.of_abs: cos(abs(x)) = cos(x)
    cosh.negated: cosh(neg(x)) = cosh(x)
    cosh.of_abs: cosh(abs(x)) = cosh(x)
"""


def _rounding_rows() -> Iterator[str]:
    for outer in _ROUNDINGS:
        for inner in _ROUNDINGS:
            yield f"{outer}.of_{inner}: {outer}({inner}(x)) = {inner}(x)"
        yield f"{outer}.is_nan: is_nan({outer}(x)) = is_nan(x)"
        yield f"{outer}.is_finite: is_finite({outer}(x)) = is_finite(x)"
    yield "floor.negated: floor(neg(x)) <=> neg(ceil(x))"
    yield "ceil.negated: ceil(neg(x)) <=> neg(floor(x))"
    for odd in ("trunc", "round", "round_even"):
        yield f"{odd}.negated: {odd}(neg(x)) <=> neg({odd}(x))"
        yield f"{odd}.of_abs: {odd}(abs(x)) <=> abs({odd}(x))"
    yield "trunc.as_floor_of_abs: abs(trunc(x)) <=> floor(abs(x))"


def float_laws() -> Iterator[Law]:
    """Yields the laws of this module."""
    for rows in (_SUMS, _PRODUCTS, _ORDER, _CLASSES):
        yield from laws(FLOATS, rows)
    yield from laws(FLOATS, "\n".join(_rounding_rows()))
    f32 = frozenset({ScalarType.F32})
    yield from laws(f32, _F32)
    yield from laws(f32, "\n".join(f"{name}.negated: {name}(neg(x)) <=> neg({name}(x))" for name in _ODD))
