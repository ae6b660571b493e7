"""Laws of comparisons of integers, of bool operators and of ``select``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from vyre.domain.dialects.laws.law import Law, laws
from vyre.domain.ir.operators import ANY_TYPE, FLOATS, INTEGERS, NUMBERS, SIGNED, UNSIGNED
from vyre.domain.ir.types import ScalarType

_INTEGERS: Final = """
    lt.swap: x < y = y > x
    gt.swap: x > y = y < x
    le.swap: x <= y = y >= x
    ge.swap: x >= y = y <= x
    lt.negated: not(x < y) <=> x >= y
    gt.negated: not(x > y) <=> x <= y
    le.negated: not(x <= y) <=> x > y
    ge.negated: not(x >= y) <=> x < y
    eq.self: x == x = true
    ne.self: x != x = false
    lt.self: x < x = false
    gt.self: x > x = false
    le.self: x <= x = true
    ge.self: x >= x = true
    lt.least: x < MIN = false
    ge.least: x >= MIN = true
    gt.greatest: x > MAX = false
    le.greatest: x <= MAX = true
    le.least: x <= MIN <=> x == MIN
    ge.greatest: x >= MAX <=> x == MAX
    lt.greatest: x < MAX <=> x != MAX
    gt.least: x > MIN <=> x != MIN
    le.constant: x <= c = x < c + 1 if c != MAX
    ge.constant: x >= c = x > c - 1 if c != MIN
    lt.constant: x < c = x <= c - 1 if c != MIN
    gt.constant: x > c = x >= c + 1 if c != MAX
    eq.difference: x - y == 0 <=> x == y
    eq.xor: x ^ y == 0 <=> x == y
    eq.common_term: x + z == y + z = x == y
    eq.common_subtrahend: x - z == y - z = x == y
    eq.common_minuend: z - x == z - y = x == y
    eq.common_xor: x ^ z == y ^ z = x == y
    eq.moved_term: x + y == z <=> x == z - y
    eq.moved_xor: x ^ y == z <=> x == y ^ z
    eq.bitnot: bitnot(x) == bitnot(y) = x == y
    eq.moved_bitnot: bitnot(x) == y <=> x == bitnot(y)
    eq.negated: neg(x) == neg(y) = x == y
    eq.moved_negate: neg(x) == y <=> x == neg(y)
    eq.odd_factor: x * c == y * c = x == y if c & 1 == 1
    eq.odd_factor_zero: x * c == 0 = x == 0 if c & 1 == 1
    eq.or_zero: x | y == 0 <=> x == 0 and y == 0
    eq.and_ones: x & y == -1 <=> x == -1 and y == -1
    eq.one_bit: x & c == c <=> x & c != 0 if popcount(c) == 1
    eq.of_and: x & y == x <=> x & bitnot(y) == 0
    eq.of_or: x | y == y <=> x & bitnot(y) == 0
    eq.complement_sum: x + y == -1 <=> x == bitnot(y)
    eq.double_negation: x == neg(x) <=> x << 1u == 0
    ne.never_complement: x == bitnot(x) = false
    lt.bitnot: bitnot(x) < bitnot(y) <=> y < x
    le.bitnot: bitnot(x) <= bitnot(y) <=> y <= x
    le.from_parts: x < y or x == y <=> x <= y
    ge.from_parts: x > y or x == y <=> x >= y
    lt.from_parts: x <= y and x != y <=> x < y
    gt.from_parts: x >= y and x != y <=> x > y
    eq.from_parts: x <= y and x >= y <=> x == y
    ne.from_parts: x < y or x > y <=> x != y
    lt.exclusive: x < y and y < x = false
    lt.exclusive_equal: x < y and x == y = false
    le.total: x <= y or y <= x = true
    lt.total: x < y or x >= y = true
    select.equal: select(x == y, x, y) = y
    select.equal_swapped: select(x == y, y, x) = x
    select.unequal: select(x != y, x, y) = x
    select.unequal_swapped: select(x != y, y, x) = y
    select.zero_equal: select(x == 0, 0, x) = x
    select.mask: x & select(p, -1, 0) = select(p, x, 0)
    select.factor: x * cast<T>(p) <=> select(p, x, 0)
    select.increment: x + cast<T>(p) <=> select(p, x + 1, x)
    select.decrement: x - cast<T>(p) <=> select(p, x - 1, x)
    select.one_zero: select(p, 1, 0) <=> cast<T>(p)
    select.minus_one_zero: select(p, -1, 0) <=> neg(cast<T>(p))
    select.negate: select(p, neg(x), x) <=> (x ^ neg(cast<T>(p))) + cast<T>(p)
    cast.bool_is_zero: cast<T>(p) == 0 <=> not(p)
    cast.bool_is_not_zero: cast<T>(p) != 0 <=> p
    cast.bool_is_one: cast<T>(p) == 1 <=> p
    cast.bool_and: cast<T>(p) & cast<T>(q) <=> cast<T>(p and q)
    cast.bool_or: cast<T>(p) | cast<T>(q) <=> cast<T>(p or q)
    cast.bool_xor: cast<T>(p) ^ cast<T>(q) <=> cast<T>(p != q)
    cast.bool_product: cast<T>(p) * cast<T>(q) = cast<T>(p and q)
    cast.bool_flipped: cast<T>(p) ^ 1 <=> cast<T>(not(p))
    cast.to_bool: cast<bool>(x) <=> x != 0
    cast.bool_low_bit: cast<T>(p) & 1 = cast<T>(p)
"""
_UNSIGNED: Final = """
    lt.one: x < 1 <=> x == 0
    ge.one: x >= 1 <=> x != 0
    lt.wrapped_sum: x + y < x <=> y > bitnot(x)
    lt.wrapped_sum_right: x + y < y <=> x + y < x
    gt.wrapped_difference: x - y > x <=> x < y
    le.difference: x - y <= x <=> y <= x
    lt.range: x >= c and x < d <=> x - c < d - c if c <= d
    le.range: x >= c and x <= d <=> x - c <= d - c if c <= d
    le.of_and: x & y <= x = true
    le.of_or: x <= (x | y) = true
    lt.power_of_two: x < c <=> x & neg(c) == 0 if popcount(c) == 1
    lt.quotient: x / c == 0 <=> x < c if c != 0
    lt.top_bit: x > MAX >> 1u <=> x >> WIDTH - 1 == 1
    le.quotient: x / y <= x = true if y != 0
"""
_SIGNED: Final = """
    lt.as_unsigned: bitcast<U>(x) ^ SIGN_BIT < bitcast<U>(y) ^ SIGN_BIT <=> x < y
    le.as_unsigned: bitcast<U>(x) ^ SIGN_BIT <= bitcast<U>(y) ^ SIGN_BIT <=> x <= y
    lt.index: x >= 0 and x < c <=> bitcast<U>(x) < bitcast<U>(c) if c >= 0
    lt.range_signed: x >= c and x <= d <=> bitcast<U>(x - c) <= bitcast<U>(d - c) if c <= d
    lt.sign_of_and: x & y < 0 <=> x < 0 and y < 0
    lt.sign_of_or: x | y < 0 <=> x < 0 or y < 0
    lt.sign_of_xor: x ^ y < 0 <=> (x < 0) != (y < 0)
    lt.sign_of_bitnot: bitnot(x) < 0 <=> x >= 0
    lt.minus_one: x > -1 <=> x >= 0
    le.minus_one: x <= -1 <=> x < 0
    lt.sign_of_abs: abs(x) < 0 <=> x == MIN
"""
_EQUALITY: Final = """
    eq.swap: x == y = y == x
    ne.swap: x != y = y != x
    eq.negation: not(x == y) <=> x != y
    ne.negation: not(x != y) <=> x == y
"""
_BOOL: Final = """
    not.twice: not(not(p)) = p
    and.true: p and true = p
    and.false: p and false = false
    and.same: p and p = p
    and.swap: p and q = q and p
    and.nested: (p and q) and r <=> p and (q and r)
    and.contradiction: p and not(p) = false
    and.absorbs: p and (p or q) = p
    bool.and_over_or: p and (q or r) <=> p and q or p and r
    and.with_not_or: p and (not(p) or q) = p and q
    or.true: p or true = true
    or.false: p or false = p
    or.same: p or p = p
    or.swap: p or q = q or p
    or.nested: (p or q) or r <=> p or (q or r)
    or.excluded_middle: p or not(p) = true
    or.absorbs: p or p and q = p
    bool.or_over_and: p or q and r <=> (p or q) and (p or r)
    or.with_not_and: p or not(p) and q = p or q
    not.and: not(p and q) <=> not(p) or not(q)
    not.or: not(p or q) <=> not(p) and not(q)
    bool.eq_true: p == true = p
    bool.eq_false: p == false <=> not(p)
    bool.ne_true: p != true <=> not(p)
    bool.ne_false: p != false = p
    bool.eq_self: p == p = true
    bool.ne_self: p != p = false
    bool.eq_not: not(p) == q <=> p != q
    bool.ne_not: not(p) != q <=> p == q
    bool.eq_not_self: p == not(p) = false
    bool.xor_nested: (p != q) != r <=> p != (q != r)
    bool.eq_nested: (p == q) == r <=> p == (q == r)
    bool.xor_parts: p and not(q) or not(p) and q <=> p != q
    bool.eq_parts: p and q or not(p) and not(q) <=> p == q
    bool.xor_of_or: (p or q) and not(p and q) <=> p != q
    select.itself: select(p, true, false) = p
    select.inverted: select(p, false, true) <=> not(p)
    select.as_or: select(p, true, q) <=> p or q
    select.as_and: select(p, q, false) <=> p and q
    select.as_not_and: select(p, false, q) <=> not(p) and q
    select.as_not_or: select(p, q, true) <=> not(p) or q
    select.as_equal: select(p, q, not(q)) <=> p == q
    select.condition_true: select(p, p, q) = p or q
    select.condition_false: select(p, q, p) = p and q
"""
_SELECT: Final = """
    select.true: select(true, x, y) = x
    select.false: select(false, x, y) = y
    select.same: select(p, x, x) = x
    select.of_not: select(not(p), x, y) <=> select(p, y, x)
    select.nested_true: select(p, select(p, x, y), z) = select(p, x, z)
    select.nested_false: select(p, x, select(p, y, z)) = select(p, x, z)
    select.and: select(p, select(q, x, y), y) <=> select(p and q, x, y)
    select.or: select(p, x, select(q, x, y)) <=> select(p or q, x, y)
    select.and_not: select(p, select(q, y, x), y) <=> select(p and not(q), x, y)
    select.exclusive: select(p, select(q, x, y), select(q, y, x)) <=> select(p == q, x, y)
"""
_HOISTED_BINARY: Final = {INTEGERS: ("+", "-", "*", "&", "|", "^"), FLOATS: ("+", "-", "*", "/")}
_HOISTED_UNARY: Final = {
    INTEGERS: ("neg", "bitnot", "abs", "popcount", "clz", "ctz", "reverse_bits"),
    FLOATS: ("neg", "abs", "sqrt", "floor", "ceil", "trunc", "round", "round_even", "sign"),
}
_WORDS: Final = {"+": "add", "-": "sub", "*": "mul", "/": "div", "&": "and", "|": "or", "^": "xor"}
_COMPARED: Final = {"==": "eq", "!=": "ne", "<": "lt", ">": "gt", "<=": "le", ">=": "ge"}


def _hoisted() -> Iterator[Law]:
    """Yields the laws by which two arms that apply one operator become one operator on a choice."""
    bools = {"p": ScalarType.BOOL}
    for types, operators in _HOISTED_BINARY.items():
        prefix = "f" if types == FLOATS else ""
        rows = [
            f"select.common_{side}_{prefix}{_WORDS[op]}: select(p, {first}, {second}) <=> {after}"
            for op in operators
            for side, first, second, after in (
                ("left", f"x {op} y", f"x {op} z", f"x {op} select(p, y, z)"),
                ("right", f"x {op} z", f"y {op} z", f"select(p, x, y) {op} z"),
            )
        ]
        yield from laws(types, "\n".join(rows), holes=bools)
    for types, functions in _HOISTED_UNARY.items():
        prefix = "f" if types == FLOATS else ""
        rows = [
            f"select.common_{prefix}{name}: select(p, {name}(x), {name}(y)) <=> {name}(select(p, x, y))"
            for name in functions
        ]
        rows.append(f"select.twice_{prefix}neg: neg(select(p, neg(x), neg(y))) = select(p, x, y)")
        yield from laws(types, "\n".join(rows), holes=bools)
    rows = [
        f"select.common_{name}: select(p, x {op} y, x {op} z) <=> x {op} select(p, y, z)"
        for op, name in _COMPARED.items()
    ]
    yield from laws(NUMBERS, "\n".join(rows), holes=bools)


def comparison_laws() -> Iterator[Law]:
    """Yields the laws of this module."""
    bools = {"p": ScalarType.BOOL, "q": ScalarType.BOOL}
    yield from laws(INTEGERS, _INTEGERS, holes=bools)
    yield from laws(UNSIGNED, _UNSIGNED)
    yield from laws(SIGNED, _SIGNED)
    yield from laws(ANY_TYPE - FLOATS, _EQUALITY)
    yield from laws(frozenset({ScalarType.BOOL}), _BOOL)
    yield from laws(ANY_TYPE, _SELECT, holes=bools)
    yield from laws(FLOATS, "select.float_one_zero: select(p, 1.0, 0.0) <=> cast<T>(p)", holes=bools)
    yield from laws(NUMBERS | {ScalarType.BOOL}, "cast.bool_and_back: cast<bool>(cast<T>(p)) = p", holes=bools)
    yield from _hoisted()
