"""Laws of bits: and, or, exclusive or, shifts, rotations, counts, and Hacker's Delight's ties to arithmetic."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from vyre.domain.dialects.laws.law import Law, laws
from vyre.domain.ir.operators import INTEGERS, SIGNED, UNSIGNED
from vyre.domain.ir.types import ScalarType

_LOGIC: Final = """
    and.zero: x & 0 = 0
    and.ones: x & -1 = x
    and.self: x & x = x
    and.commute: x & y = y & x
    and.associate: (x & y) & z <=> x & (y & z)
    and.complement: x & bitnot(x) = 0
    and.over_or: x & (y | z) <=> x & y | x & z
    and.over_xor: x & (y ^ z) <=> x & y ^ x & z
    and.absorb: x & (x | y) = x
    and.with_complement_or: x & (bitnot(x) | y) = x & y
    and.with_xor: x & (x ^ y) <=> x & bitnot(y)
    or.zero: x | 0 = x
    or.ones: x | -1 = -1
    or.self: x | x = x
    or.commute: x | y = y | x
    or.associate: (x | y) | z <=> x | (y | z)
    or.complement: x | bitnot(x) = -1
    or.over_and: x | y & z <=> (x | y) & (x | z)
    or.absorb: x | x & y = x
    or.with_complement_and: x | bitnot(x) & y = x | y
    or.with_xor: x | x ^ y = x | y
    or.of_parts: x & y | x & bitnot(y) = x
    or.of_and_and_xor: x & y | x ^ y = x | y
    and.of_parts: (x | y) & (x | bitnot(y)) = x
    xor.zero: x ^ 0 = x
    xor.ones: x ^ -1 <=> bitnot(x)
    xor.self: x ^ x = 0
    xor.commute: x ^ y = y ^ x
    xor.associate: (x ^ y) ^ z <=> x ^ (y ^ z)
    xor.complement: x ^ bitnot(x) = -1
    xor.twice: (x ^ y) ^ y = x
    xor.of_and_and_or: (x & y) ^ (x | y) = x ^ y
    xor.without_both: (x | y) & bitnot(x & y) <=> x ^ y
    xor.as_or: x & bitnot(y) | bitnot(x) & y <=> x ^ y
    xor.with_and: (x & y) ^ x <=> x & bitnot(y)
    xor.with_or: (x | y) ^ x <=> bitnot(x) & y
    bitnot.twice: bitnot(bitnot(x)) = x
    bitnot.and: bitnot(x & y) <=> bitnot(x) | bitnot(y)
    bitnot.or: bitnot(x | y) <=> bitnot(x) & bitnot(y)
    bitnot.xor: bitnot(x ^ y) <=> bitnot(x) ^ y
    bitnot.both_xor: bitnot(x) ^ bitnot(y) = x ^ y
    bits.choose: x & z | y & bitnot(z) <=> (x ^ y) & z ^ y
"""
_ARITHMETIC: Final = """
    hd.sum_of_and_or: (x & y) + (x | y) <=> x + y
    hd.sum_of_xor_and: (x ^ y) + (x & y) * 2 = x + y
    hd.sum_of_xor_shift: (x ^ y) + ((x & y) << 1u) = x + y
    hd.sum_of_or_xor: (x | y) * 2 - (x ^ y) = x + y
    hd.xor_as_difference: (x | y) - (x & y) <=> x ^ y
    hd.xor_from_sum: x + y - (x & y) * 2 = x ^ y
    hd.or_from_sum: x + y - (x & y) <=> x | y
    hd.and_from_sum: x + y - (x | y) <=> x & y
    hd.difference_of_xor: (x ^ y) - (bitnot(x) & y) * 2 = x - y
    hd.difference_of_parts: (x & bitnot(y)) - (bitnot(x) & y) = x - y
    hd.or_as_sum: (x & bitnot(y)) + y <=> x | y
    hd.and_as_difference: (bitnot(x) | y) - bitnot(x) <=> x & y
    hd.without_as_difference: (x | y) - y <=> x & bitnot(y)
    hd.without_from_and: x - (x & y) <=> x & bitnot(y)
    hd.disjoint_sum: (x & y) + (x & bitnot(y)) = x
    hd.disjoint_xor: (x & y) + (x ^ y) = x | y
    hd.difference_of_xor_and: (x ^ y) ^ (x & y) = x | y
    hd.bitnot_as_negate: bitnot(x) <=> neg(x) - 1
    hd.bitnot_as_difference: -1 - x <=> bitnot(x)
    hd.negate_as_bitnot: neg(x) <=> bitnot(x) + 1
    hd.negate_of_predecessor: neg(x) <=> bitnot(x - 1)
    hd.negate_of_bitnot: neg(bitnot(x)) <=> x + 1
    hd.bitnot_of_negate: bitnot(neg(x)) <=> x - 1
    hd.bitnot_sum: bitnot(x + y) <=> bitnot(x) - y
    hd.bitnot_difference: bitnot(x - y) <=> bitnot(x) + y
    hd.add_bitnot: x + bitnot(y) <=> x - (y + 1)
    hd.sub_bitnot: x - bitnot(y) <=> x + (y + 1)
    hd.bitnot_both: bitnot(x) - bitnot(y) = y - x
    hd.sum_with_complement: x + bitnot(x) = -1
    hd.clear_lowest: x ^ (x & neg(x)) <=> x & x - 1
    hd.clear_lowest_difference: x - (x & neg(x)) <=> x & x - 1
    hd.lowest_one: x & bitnot(x - 1) <=> x & neg(x)
    hd.lowest_one_difference: x - (x & x - 1) <=> x & neg(x)
    hd.trailing_zeros: bitnot(x | neg(x)) <=> bitnot(x) & x - 1
    hd.trailing_zeros_below: (x & neg(x)) - 1 <=> bitnot(x) & x - 1
    hd.lowest_and_trailing: x ^ x - 1 <=> bitnot(x) & x - 1 | x & neg(x)
    hd.negate_and_or: neg(x) & x | neg(x) ^ x = neg(x) | x
    hd.ceiling_average: (x | y) - ((x ^ y) >> 1u) <=> (x & y) + ((x ^ y) >> 1u) + ((x ^ y) & 1)
"""
_COUNTS: Final = """
    popcount.bitnot: popcount(bitnot(x)) <=> WIDTH - popcount(x)
    popcount.reversed: popcount(reverse_bits(x)) = popcount(x)
    popcount.rotated: popcount(rotl(x, n)) = popcount(x)
    popcount.rotated_right: popcount(rotr(x, n)) = popcount(x)
    popcount.and_or: popcount(x & y) + popcount(x | y) <=> popcount(x) + popcount(y)
    popcount.xor: popcount(x) + popcount(y) - popcount(x & y) * 2 <=> popcount(x ^ y)
    popcount.xor_parts: popcount(x | y) - popcount(x & y) <=> popcount(x ^ y)
    popcount.without: popcount(x) - popcount(x & y) <=> popcount(x & bitnot(y))
    popcount.trailing: popcount(bitnot(x) & x - 1) <=> ctz(x)
    popcount.above_trailing: popcount(x | neg(x)) <=> WIDTH - ctz(x)
    popcount.is_zero: popcount(x) == 0 <=> x == 0
    popcount.is_all: popcount(x) == WIDTH <=> x == -1
    popcount.at_most_one: popcount(x) < 2 <=> (x & x - 1) == 0
    popcount.of_one_bit: popcount(1 << n) = 1
    popcount.negated: popcount(neg(x)) <=> WIDTH - popcount(x - 1)
    clz.reversed: clz(reverse_bits(x)) <=> ctz(x)
    ctz.reversed: ctz(reverse_bits(x)) <=> clz(x)
    clz.is_all: clz(x) == WIDTH <=> x == 0
    ctz.is_all: ctz(x) == WIDTH <=> x == 0
    ctz.is_zero: ctz(x) == 0 <=> (x & 1) != 0
    ctz.as_clz: WIDTH - clz(bitnot(x) & x - 1) <=> ctz(x)
    ctz.negated: ctz(neg(x)) = ctz(x)
    ctz.lowest_one: ctz(x & neg(x)) = ctz(x)
    ctz.one_bit: ctz(1 << k) <=> k & WIDTH - 1
    ctz.same_trailing: ctz(x ^ x - 1) = 0
    clz.zero_flag: clz(x) >> ctz(WIDTH) <=> select(x == 0, 1, 0)
    ctz.zero_flag: ctz(x) >> ctz(WIDTH) <=> select(x == 0, 1, 0)
    clz.or_trailing: clz(x | 1) = min(clz(x), WIDTH - 1)
    clz.of_or: clz(x | y) <=> min(clz(x), clz(y))
    ctz.of_or: ctz(x | y) <=> min(ctz(x), ctz(y))
    reverse.twice: reverse_bits(reverse_bits(x)) = x
    reverse.bitnot: reverse_bits(bitnot(x)) <=> bitnot(reverse_bits(x))
    reverse.and: reverse_bits(x & y) <=> reverse_bits(x) & reverse_bits(y)
    reverse.or: reverse_bits(x | y) <=> reverse_bits(x) | reverse_bits(y)
    reverse.xor: reverse_bits(x ^ y) <=> reverse_bits(x) ^ reverse_bits(y)
    reverse.rotated: reverse_bits(rotl(x, n)) <=> rotr(reverse_bits(x), n)
    reverse.equal: reverse_bits(x) == reverse_bits(y) = x == y
    reverse.is_zero: reverse_bits(x) == 0 = x == 0
"""
_UNSIGNED_COUNTS: Final = """
    reverse.shifted: reverse_bits(x << n) <=> reverse_bits(x) >> n
    popcount.is_power: popcount(x) == 1 <=> x ^ x - 1 > x - 1
    clz.top_bit: clz(x) == 0 <=> x > MAX >> 1u
    clz.compared: clz(x) > clz(y) <=> x < (bitnot(x) & y)
"""
_SIGNED_COUNTS: Final = """
    clz.is_negative: clz(x) == 0 <=> x < 0
"""
_SHIFTS: Final = """
    shl.zero_count{s}: x << {zero} = x
    shr.zero_count{s}: x >> {zero} = x
    shl.of_zero{s}: 0 << n = 0
    shr.of_zero{s}: 0 >> n = 0
    shl.masked_count{s}: x << (n & {width} - {one}) = x << n
    shr.masked_count{s}: x >> (n & {width} - {one}) = x >> n
    shl.added_width{s}: x << n + {width} = x << n
    shr.added_width{s}: x >> n + {width} = x >> n
    shl.twice{s}: (x << a) << b = x << a + b if a >= {zero} and a < {width} and b >= {zero} and b < {width} and a + b < {width}
    shl.all_out{s}: (x << a) << b = 0 if a >= {zero} and a < {width} and b >= {zero} and b < {width} and a + b >= {width}
    shr.then_shl{s}: x >> n << n <=> x & -1 << n
    shl.as_mul{s}: x << n <=> x * (1 << n)
    shl.and{s}: (x & y) << n <=> (x << n) & (y << n)
    shl.or{s}: (x | y) << n <=> x << n | y << n
    shl.xor{s}: (x ^ y) << n <=> x << n ^ y << n
    shl.add{s}: x + y << n <=> (x << n) + (y << n)
    shl.sub{s}: x - y << n <=> (x << n) - (y << n)
    shl.mul{s}: x * y << n <=> (x << n) * y
    shl.negated{s}: neg(x) << n <=> neg(x << n)
    shr.and{s}: (x & y) >> n <=> (x >> n) & (y >> n)
    shr.or{s}: (x | y) >> n <=> x >> n | y >> n
    shr.xor{s}: (x ^ y) >> n <=> x >> n ^ y >> n
    shl.bit_and{s}: x & 1 << n == 0 <=> (x >> n & 1) == 0
    rotl.zero_count{s}: rotl(x, {zero}) = x
    rotr.zero_count{s}: rotr(x, {zero}) = x
    rotl.of_zero{s}: rotl(0, n) = 0
    rotl.of_ones{s}: rotl(-1, n) = -1
    rotr.of_ones{s}: rotr(-1, n) = -1
    rotl.masked_count{s}: rotl(x, n & {width} - {one}) = rotl(x, n)
    rotr.masked_count{s}: rotr(x, n & {width} - {one}) = rotr(x, n)
    rotl.added_width{s}: rotl(x, n + {width}) = rotl(x, n)
    rotl.twice{s}: rotl(rotl(x, n), m) <=> rotl(x, n + m)
    rotr.twice{s}: rotr(rotr(x, n), m) <=> rotr(x, n + m)
    rotl.then_rotr{s}: rotr(rotl(x, n), n) = x
    rotr.then_rotl{s}: rotl(rotr(x, n), n) = x
    rotl.as_rotr{s}: rotl(x, n) <=> rotr(x, {zero} - n)
    rotl.as_rotr_width{s}: rotl(x, n) <=> rotr(x, {width} - n)
    rotl.difference{s}: rotr(rotl(x, n), m) <=> rotl(x, n - m)
    rotl.bitnot{s}: rotl(bitnot(x), n) <=> bitnot(rotl(x, n))
    rotl.and{s}: rotl(x & y, n) <=> rotl(x, n) & rotl(y, n)
    rotl.or{s}: rotl(x | y, n) <=> rotl(x, n) | rotl(y, n)
    rotl.xor{s}: rotl(x ^ y, n) <=> rotl(x, n) ^ rotl(y, n)
    rotr.and{s}: rotr(x & y, n) <=> rotr(x, n) & rotr(y, n)
    rotr.or{s}: rotr(x | y, n) <=> rotr(x, n) | rotr(y, n)
    rotr.xor{s}: rotr(x ^ y, n) <=> rotr(x, n) ^ rotr(y, n)
    rotl.equal{s}: rotl(x, n) == rotl(y, n) = x == y
    rotl.is_zero{s}: rotl(x, n) == 0 = x == 0
"""  # noqa: E501
_UNSIGNED_SHIFTS: Final = """
    shr.twice{s}: x >> a >> b = x >> a + b if a < {width} and b < {width} and a + b < {width}
    shr.all_out{s}: x >> a >> b = 0 if a < {width} and b < {width} and a + b >= {width}
    shl.then_shr{s}: x << n >> n <=> x & -1 >> n
    shr.as_div{s}: x >> n <=> x / (1 << n)
    shr.of_one{s}: x >> n == 0 <=> x < 1 << n
    shr.compared{s}: x >> n < y >> n = x >> n << n < y >> n << n
    rotl.as_shifts{s}: x << n | x >> {width} - n <=> rotl(x, n)
    rotl.as_shifts_negated{s}: x << n | x >> {zero} - n <=> rotl(x, n)
    rotr.as_shifts{s}: x >> n | x << {width} - n <=> rotr(x, n)
    rotr.as_shifts_negated{s}: x >> n | x << {zero} - n <=> rotr(x, n)
"""
_SIGNED_SHIFTS: Final = """
    shr.twice_signed{s}: x >> a >> b = x >> a + b if a >= {zero} and a < {width} and b >= {zero} and b < {width} and a + b < {width}
    shr.all_out_signed{s}: x >> a >> b = x >> {width} - {one} if a >= {zero} and a < {width} and b >= {zero} and b < {width} and a + b >= {width}
    shr.bitnot{s}: bitnot(x) >> n <=> bitnot(x >> n)
    shr.of_ones{s}: -1 >> n = -1
    shr.sign{s}: x >> {width} - {one} <=> select(x < 0, -1, 0)
    shr.sign_of_shifted{s}: x >> n < 0 = x < 0
    shr.as_div_floor{s}: x >> n == 0 <=> x >= 0 and x & neg(1 << n) == 0
"""  # noqa: E501
_SIGNED_AS_UNSIGNED: Final = """
    shr.sign_bit: bitcast<T>(bitcast<U>(x) >> WIDTH_U32 - 1u) <=> select(x < 0, 1, 0)
    shl.unsigned: bitcast<T>(bitcast<U>(x) << k) <=> x << k
    shr.unsigned_of_positive: bitcast<T>(bitcast<U>(x & MAX) >> k) = (x & MAX) >> k
"""


def _with_count(rows: str, dtype: str) -> str:
    """Returns a table for counts of type u32 or of the type of what is shifted."""
    if dtype == "u32":
        return rows.format(s="", zero="0u", one="1u", width="WIDTH_U32")
    return rows.format(s=".own_count", zero="0", one="1", width="WIDTH")


def bit_laws() -> Iterator[Law]:
    """Yields the laws of this module."""
    u32 = ScalarType.U32
    counts = {"n": u32, "m": u32, "a": u32, "b": u32}
    yield from laws(INTEGERS, _LOGIC)
    yield from laws(INTEGERS, _ARITHMETIC)
    yield from laws(INTEGERS, _COUNTS, holes={"n": u32})
    yield from laws(UNSIGNED, _UNSIGNED_COUNTS, holes={"n": u32})
    yield from laws(SIGNED, _SIGNED_COUNTS)
    yield from laws(SIGNED, _SIGNED_AS_UNSIGNED, holes={"k": u32})
    tables = ((_SHIFTS, INTEGERS), (_UNSIGNED_SHIFTS, UNSIGNED), (_SIGNED_SHIFTS, SIGNED))
    for rows, types in tables:
        yield from laws(types, _with_count(rows, "u32"), holes=counts)
        yield from laws(types - {u32}, _with_count(rows, "own"))
