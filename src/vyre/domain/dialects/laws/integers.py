"""Laws of integers: sums, products, quotients, order, saturation, and what ties arithmetic to bits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from vyre.domain.dialects.laws.law import Law, laws
from vyre.domain.ir.operators import INTEGERS, SIGNED, UNSIGNED

_RING: Final = """
    add.zero: x + 0 = x
    add.commute: x + y = y + x
    add.associate: (x + y) + z <=> x + (y + z)
    add.negated: x + neg(x) = 0
    add.of_negated: x + neg(y) <=> x - y
    add.self: x + x <=> x * 2
    add.sub_cancel: (x + y) - y = x
    sub.zero: x - 0 = x
    sub.self: x - x = 0
    sub.from_zero: 0 - x <=> neg(x)
    sub.add_cancel: (x - y) + y = x
    sub.of_sub: x - (x - y) = y
    sub.of_negated: x - neg(y) <=> x + y
    sub.common_left: (x + y) - (x + z) = y - z
    sub.common_right: (x - z) - (y - z) = x - y
    sub.associate: x - (y - z) <=> (x - y) + z
    sub.twice: (x - y) - z <=> x - (y + z)
    negate.twice: neg(neg(x)) = x
    negate.sum: neg(x + y) <=> neg(x) - y
    negate.difference: neg(x - y) <=> y - x
    mul.zero: x * 0 = 0
    mul.one: x * 1 = x
    mul.minus_one: x * -1 <=> neg(x)
    mul.commute: x * y = y * x
    mul.associate: (x * y) * z <=> x * (y * z)
    mul.over_add: x * (y + z) <=> x * y + x * z
    mul.over_sub: x * (y - z) <=> x * y - x * z
    mul.negated: neg(x) * y <=> neg(x * y)
    mul.both_negated: neg(x) * neg(y) = x * y
    mul.and_once_more: x * y + x <=> x * (y + 1)
    mul.and_once_less: x * y - x <=> x * (y - 1)
    mul.power_of_two: x * c = x << ctz(c) if popcount(c) == 1
    mul.square_of_negated: neg(x) * neg(x) = x * x
"""
_DIVISION: Final = """
    div.one: x / 1 = x
    mod.one: x % 1 = 0
    mod.of_zero: 0 % x = 0
    mod.self: x % x = 0
    mod.twice: (x % y) % y = x % y
    mod.by_constant: x - (x / c) * c <=> x % c if c != 0
    mod.rounds_down: x - x % c <=> (x / c) * c if c != 0
    mod.and_quotient: (x / c) * c + x % c = x if c != 0
"""
_UNSIGNED_DIVISION: Final = """
    div.power_of_two: x / c = x >> ctz(c) if popcount(c) == 1
    mod.power_of_two: x % c = x & c - 1 if popcount(c) == 1
    div.twice: (x / c) / d = x / (c * d) if c != 0 and d != 0 and mulhi(c, d) == 0
    div.large: x / c = select(x >= c, 1, 0) if c > MAX >> 1u
    mod.below_divisor: x % c < c = true if c != 0
    div.by_zero: x / 0 = -1
"""
_SIGNED_DIVISION: Final = """
    div.of_zero: 0 / x = 0
    div.by_zero_signed: x / 0 = 0
    div.minus_one: x / -1 = neg(x)
    mod.minus_one: x % -1 = 0
    mod.negated_divisor: x % neg(y) = x % y
    div.negated_divisor: x / c = neg(x / neg(c)) if c < 0 and c != MIN
    div.power_of_two_signed: x / c = (x + (x >> WIDTH - 1 & c - 1)) >> ctz(c) if popcount(c) == 1 and c > 1
    mod.power_of_two_signed: x % c = x - (x + (x >> WIDTH - 1 & c - 1) & neg(c)) if popcount(c) == 1 and c > 1
    div.twice_signed: (x / c) / d = x / (c * d) if c > 0 and d > 0 and sat_mul(c, d) < MAX
    div.by_least: x / MIN = select(x == MIN, 1, 0)
"""
_ORDER: Final = """
    min.commute: min(x, y) = min(y, x)
    max.commute: max(x, y) = max(y, x)
    min.associate: min(min(x, y), z) <=> min(x, min(y, z))
    max.associate: max(max(x, y), z) <=> max(x, max(y, z))
    min.self: min(x, x) = x
    max.self: max(x, x) = x
    min.greatest: min(x, MAX) = x
    max.least: max(x, MIN) = x
    min.least: min(x, MIN) = MIN
    max.greatest: max(x, MAX) = MAX
    min.absorb: min(x, max(x, y)) = x
    max.absorb: max(x, min(x, y)) = x
    min.over_max: min(x, max(y, z)) <=> max(min(x, y), min(x, z))
    max.over_min: max(x, min(y, z)) <=> min(max(x, y), max(x, z))
    min.as_select: min(x, y) <=> select(x < y, x, y)
    max.as_select: max(x, y) <=> select(x > y, x, y)
    min.as_select_equal: select(x <= y, x, y) = min(x, y)
    max.as_select_equal: select(x >= y, x, y) = max(x, y)
    bitnot.min: bitnot(min(x, y)) <=> max(bitnot(x), bitnot(y))
    bitnot.max: bitnot(max(x, y)) <=> min(bitnot(x), bitnot(y))
    minmax.sum: min(x, y) + max(x, y) <=> x + y
    minmax.product: min(x, y) * max(x, y) = x * y
    minmax.xor: min(x, y) ^ max(x, y) = x ^ y
    minmax.and: min(x, y) & max(x, y) = x & y
    minmax.or: min(x, y) | max(x, y) = x | y
    minmax.difference: max(x, y) - min(x, y) <=> absdiff(x, y)
    min.is_left: min(x, y) == x <=> x <= y
    max.is_left: max(x, y) == x <=> x >= y
    min.below: min(x, y) < z <=> (x < z) or (y < z)
    max.below: max(x, y) < z <=> (x < z) and (y < z)
    min.above: min(x, y) > z <=> (x > z) and (y > z)
    max.above: max(x, y) > z <=> (x > z) or (y > z)
    absdiff.commute: absdiff(x, y) = absdiff(y, x)
    absdiff.self: absdiff(x, x) = 0
    absdiff.as_select: absdiff(x, y) <=> select(x < y, y - x, x - y)
    absdiff.bitnot: absdiff(bitnot(x), bitnot(y)) = absdiff(x, y)
    absdiff.is_zero: absdiff(x, y) == 0 <=> x == y
"""
_UNSIGNED_ORDER: Final = """
    absdiff.zero: absdiff(x, 0) = x
    absdiff.saturating: absdiff(x, y) <=> sat_sub(x, y) | sat_sub(y, x)
    absdiff.saturating_sum: absdiff(x, y) <=> sat_sub(x, y) + sat_sub(y, x)
    abs.unsigned: abs(x) = x
    min.one: min(x, 1) <=> select(x != 0, 1, 0)
    min.of_and: min(x & y, x) = x & y
    max.of_or: max(x | y, x) = x | y
    max.saturating: sat_sub(x, y) + y <=> max(x, y)
    min.saturating: x - sat_sub(x, y) <=> min(x, y)
"""
_SIGNED_ORDER: Final = """
    absdiff.zero_signed: absdiff(x, 0) <=> abs(x)
    abs.as_select: abs(x) <=> select(x < 0, neg(x), x)
    abs.as_bits: abs(x) <=> (x ^ x >> WIDTH - 1) - (x >> WIDTH - 1)
    abs.as_sum: abs(x) <=> x + (x >> WIDTH - 1) ^ x >> WIDTH - 1
    abs.as_max: abs(x) <=> max(x, neg(x))
    abs.twice: abs(abs(x)) = abs(x)
    abs.negated: abs(neg(x)) = abs(x)
    abs.square: abs(x) * abs(x) = x * x
    abs.is_zero: abs(x) == 0 <=> x == 0
    abs.parity: abs(x) & 1 = x & 1
    min.zero_mask: min(x, 0) <=> x & x >> WIDTH - 1
    max.zero_mask: max(x, 0) <=> x & bitnot(x >> WIDTH - 1)
"""
_SATURATION: Final = """
    sat_add.commute: sat_add(x, y) = sat_add(y, x)
    sat_add.zero: sat_add(x, 0) = x
    sat_sub.zero: sat_sub(x, 0) = x
    sat_sub.self: sat_sub(x, x) = 0
    sat_mul.commute: sat_mul(x, y) = sat_mul(y, x)
    sat_mul.zero: sat_mul(x, 0) = 0
    sat_mul.one: sat_mul(x, 1) = x
    sat_mul.two: sat_mul(x, 2) <=> sat_add(x, x)
    sat_sub.bitnot: sat_sub(bitnot(x), y) <=> bitnot(sat_add(x, y))
    sat_add.over_min: sat_add(min(x, y), z) <=> min(sat_add(x, z), sat_add(y, z))
    sat_add.over_max: sat_add(max(x, y), z) <=> max(sat_add(x, z), sat_add(y, z))
    sat_sub.over_min: sat_sub(min(x, y), z) <=> min(sat_sub(x, z), sat_sub(y, z))
    sat_sub.over_max: sat_sub(max(x, y), z) <=> max(sat_sub(x, z), sat_sub(y, z))
    sat_sub.min_right: sat_sub(x, min(y, z)) <=> max(sat_sub(x, y), sat_sub(x, z))
    sat_sub.max_right: sat_sub(x, max(y, z)) <=> min(sat_sub(x, y), sat_sub(x, z))
"""
_UNSIGNED_SATURATION: Final = """
    sat_add.associate: sat_add(sat_add(x, y), z) <=> sat_add(x, sat_add(y, z))
    sat_add.greatest: sat_add(x, MAX) = MAX
    sat_sub.greatest: sat_sub(x, MAX) = 0
    sat_sub.from_zero: sat_sub(0, x) = 0
    sat_sub.twice: sat_sub(sat_sub(x, y), z) <=> sat_sub(x, sat_add(y, z))
    sat_add.as_min: sat_add(x, y) <=> min(x, bitnot(y)) + y
    sat_add.as_select: sat_add(x, y) <=> select(x + y < x, MAX, x + y)
    sat_sub.as_max: sat_sub(x, y) <=> max(x, y) - y
    sat_sub.as_min: sat_sub(x, y) <=> x - min(x, y)
    sat_sub.as_select: sat_sub(x, y) <=> select(x > y, x - y, 0)
    sat_sub.is_zero: sat_sub(x, y) == 0 <=> x <= y
    sat_add.is_zero: sat_add(x, y) == 0 <=> x | y == 0
    sat_mul.associate: sat_mul(sat_mul(x, y), z) <=> sat_mul(x, sat_mul(y, z))
    sat_mul.over_add: sat_mul(x, sat_add(y, z)) <=> sat_add(sat_mul(x, y), sat_mul(x, z))
    sat_mul.over_min: sat_mul(x, min(y, z)) <=> min(sat_mul(x, y), sat_mul(x, z))
    sat_mul.over_max: sat_mul(x, max(y, z)) <=> max(sat_mul(x, y), sat_mul(x, z))
    sat_mul.as_select: sat_mul(x, y) <=> select(mulhi(x, y) == 0, x * y, MAX)
"""
_SIGNED_SATURATION: Final = """
    sat_mul.minus_one: sat_mul(x, -1) <=> sat_sub(0, x)
    sat_sub.minus_one: sat_sub(-1, x) <=> bitnot(x)
    sat_add.opposite: sat_add(x, bitnot(x)) = -1
    sat_add.as_select_signed: sat_add(x, y) <=> select((x ^ x + y) & (y ^ x + y) < 0, x >> WIDTH - 1 ^ MAX, x + y)
"""
_HIGH_PRODUCT: Final = """
    mulhi.commute: mulhi(x, y) = mulhi(y, x)
    mulhi.zero: mulhi(x, 0) = 0
"""
_UNSIGNED_HIGH_PRODUCT: Final = """
    mulhi.one: mulhi(x, 1) = 0
    mulhi.power_of_two: mulhi(x, c) = x >> WIDTH - ctz(c) if popcount(c) == 1 and c > 1
    mulhi.greatest: mulhi(x, MAX) <=> sat_sub(x, 1)
"""
_SIGNED_HIGH_PRODUCT: Final = """
    mulhi.one_signed: mulhi(x, 1) <=> x >> WIDTH - 1
    mulhi.minus_one: mulhi(x, -1) = select(x > 0, -1, 0)
    mulhi.of_unsigned: mulhi(x, y) <=> bitcast<T>(mulhi(bitcast<U>(x), bitcast<U>(y))) - (x >> WIDTH - 1 & y) - (y >> WIDTH - 1 & x)
"""  # noqa: E501

_CARRY_LESS_PRODUCT: Final = """
    clmul.zero: clmul(x, 0) = 0
    clmul.one: clmul(x, 1) = x
    clmul.commute: clmul(x, y) = clmul(y, x)
    clmul.associate: clmul(clmul(x, y), z) <=> clmul(x, clmul(y, z))
    clmul.over_xor: clmul(x, y ^ z) <=> clmul(x, y) ^ clmul(x, z)
    clmul.power_of_two: clmul(x, c) = x << ctz(c) if popcount(c) == 1
"""


def integer_laws() -> Iterator[Law]:
    """Yields the laws of this module."""
    yield from laws(INTEGERS, _RING)
    yield from laws(INTEGERS, _DIVISION)
    yield from laws(UNSIGNED, _UNSIGNED_DIVISION)
    yield from laws(SIGNED, _SIGNED_DIVISION)
    yield from laws(INTEGERS, _ORDER)
    yield from laws(UNSIGNED, _UNSIGNED_ORDER)
    yield from laws(SIGNED, _SIGNED_ORDER)
    yield from laws(INTEGERS, _SATURATION)
    yield from laws(UNSIGNED, _UNSIGNED_SATURATION)
    yield from laws(SIGNED, _SIGNED_SATURATION)
    yield from laws(INTEGERS, _HIGH_PRODUCT)
    yield from laws(UNSIGNED, _UNSIGNED_HIGH_PRODUCT)
    yield from laws(SIGNED, _SIGNED_HIGH_PRODUCT)
    yield from laws(UNSIGNED, _CARRY_LESS_PRODUCT)
