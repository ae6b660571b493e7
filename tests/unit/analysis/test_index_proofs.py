"""Proofs about indices: what follows from facts, what does not, and where the search ends."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise, product
from random import Random
from typing import Final

import pytest

from vyre.domain.analysis import index_proofs
from vyre.domain.analysis.index_proofs import Fact, Proofs
from vyre.domain.analysis.index_values import SELECT, U32_MAX, Operation, Value, Values
from vyre.domain.ir.operators import BinaryOp
from vyre.domain.ir.types import ScalarType
from vyre.domain.numerics import scalar

B: Final = BinaryOp
MOST_FACTS: Final = 8
"""Facts about one value that are looked at, the latest first."""


class Place(Proofs):
    """A place of a program, with values to talk about."""

    def __init__(self) -> None:
        self.values = Values()
        super().__init__(self.values)

    def unknown(self, low: int = 0, high: int = U32_MAX, align: int = 0) -> Value:
        return self.values.fresh(low, high, align)

    def number(self, number: int) -> Value:
        return self.values.constant(number)

    def plus(self, value: Value, number: int) -> Value:
        return self.values.plus(value, number)

    def of(self, op: Operation, left: Value, right: Value, low: int = 0) -> Value:
        """The result of an operation, of whose range nothing is known but ``low``."""
        return self.values.fresh(low, U32_MAX, 0, op, left, right)

    def at_most(self, lower: Value, upper: Value, gap: int = 0) -> None:
        self.learn(Fact(lower, upper, gap))

    def chain(self, first: Value, length: int, gap: int = 0, last: Value | None = None) -> Value:
        """``first``, and ``length`` values of which each is ``gap`` above the one before; the last one."""
        links = [first, *(self.unknown() for _ in range(length - 1)), last or self.unknown()]
        for lower, upper in pairwise(links):
            self.at_most(lower, upper, gap)
        return links[-1]

    def descent(self, first: Value, length: int, last: Value) -> None:
        """``length`` facts, which say that ``first`` is at least ``last``."""
        self.chain(last, length, last=first)

    def distract(self, value: Value, facts: int = MOST_FACTS, *, above: bool) -> None:
        """Later facts about a value that help nobody: unknowns that are above it, or below."""
        for _ in range(facts):
            self.at_most(value, self.unknown()) if above else self.at_most(self.unknown(), value)

    def has_high(self, value: Value, high: int) -> bool:
        """Is that the least upper bound that can be proven?"""
        return self.is_below(value, self.number(high + 1)) and not self.is_below(value, self.number(high))

    def has_low(self, value: Value, low: int) -> bool:
        """Is that the greatest lower bound that can be proven?"""
        return self.is_below(self.number(low - 1), value) and not self.is_below(self.number(low), value)


# ---- how far a proof goes: the number of links is the last one that is followed
Query = tuple[Place, Value, Value]
"""Is the first value below the second one at that place?"""


def facts(length: int) -> Query:
    place = Place()
    first = place.unknown()
    return place, first, place.chain(first, length, gap=1)


def facts_of_which_the_last_one_counts(length: int) -> Query:
    place = Place()
    first, last = place.unknown(), place.unknown()
    place.at_most(place.chain(first, length - 1), last, 1)
    return place, first, last


def nested(op: Operation, side: str, *, low: int = 0, with_rest: bool = False, gap: int = 1) -> Callable[[int], Query]:
    """``op(op(op(x, y), y), y)``, or mirrored, where x is below a limit, and with ``with_rest`` y too."""

    def build(length: int) -> Query:
        place = Place()
        value, rest, limit = place.unknown(low), place.unknown(1), place.unknown()
        place.at_most(value, limit, gap)
        if with_rest:
            place.at_most(rest, limit, 1)
        for _ in range(length):
            value = place.of(op, value, rest, low) if side == "left" else place.of(op, rest, value, low)
        return place, value, limit

    return build


def nested_limit(op: Operation, side: str, *, with_rest: bool) -> Callable[[int], Query]:
    """The same around a limit."""

    def build(length: int) -> Query:
        place = Place()
        value, limit, rest = place.unknown(), place.unknown(), place.unknown()
        place.at_most(value, limit, 1)
        if with_rest:
            place.at_most(value, rest, 1)
        for _ in range(length):
            limit = place.of(op, limit, rest) if side == "left" else place.of(op, rest, limit)
        return place, value, limit

    return build


def divisor_is_not_0(op: BinaryOp) -> Callable[[int], Query]:
    """An operation by something that is at least 1 for a chain of reasons."""

    def build(length: int) -> Query:
        place = Place()
        value, divisor, limit = place.unknown(), place.unknown(), place.unknown()
        place.at_most(*((value, limit, 1) if op is B.DIV else (divisor, limit, 0)))
        place.descent(divisor, length, place.unknown(1))
        return place, place.of(op, value, divisor), limit

    return build


def quotient(length: int) -> Query:
    """``4 x + 3`` under ``x < y / 4``, where y is at most the limit for a chain of reasons."""
    place = Place()
    x, y = place.unknown(), place.unknown()
    place.at_most(x, place.values.binary(B.DIV, y, place.number(4)), 1)
    return place, place.plus(place.values.scaled(x, 4), 3), place.chain(y, length)


def high_by_facts(length: int) -> Query:
    place = Place()
    x = place.unknown()
    place.chain(x, length, last=place.unknown(0, 5))
    return place, x, place.number(6)


def high_by_minima(length: int) -> Query:
    place = Place()
    x = place.unknown()
    place.at_most(x, place.number(5))
    for _ in range(length):
        x = place.of(B.MIN, place.unknown(), x)
    return place, x, place.number(6)


def high_of_a_sum(length: int) -> Query:
    place = Place()
    x = place.unknown()
    place.chain(x, length, last=place.unknown(0, 5))
    return place, place.values.scaled(x, 2), place.number(11)


def low_of_a_sum(length: int) -> Query:
    place = Place()
    x = place.unknown(0, 100)
    place.descent(x, length, place.unknown(5, 50))
    return place, place.number(9), place.values.scaled(x, 2)


def lower_by_a_base_that_is_large_enough(length: int) -> Query:
    """``base <= limit`` and ``base >= 2``, so ``base - 2`` is below the limit."""
    place = Place()
    base, limit = place.unknown(), place.unknown()
    place.at_most(base, limit)
    place.distract(limit, above=False)
    place.descent(base, length, place.unknown(2))
    return place, place.plus(base, -2), limit


def upper_by_a_base_that_is_small_enough(length: int) -> Query:
    """``x <= w <= base`` and ``base + 3`` does not wrap, so it is above x."""
    place = Place()
    w, base = place.unknown(), place.unknown()
    place.at_most(w, base)
    place.distract(w, above=True)
    place.chain(base, length, last=place.unknown(0, U32_MAX - 3))
    return place, place.of(B.SHR, w, place.unknown()), place.plus(base, 3)


@pytest.mark.parametrize(
    ("most", "build"),
    [
        (4, facts),
        (4, facts_of_which_the_last_one_counts),
        (3, nested(B.SHR, "left")),
        (3, nested(B.MIN, "left")),
        (3, nested(B.MIN, "right")),
        (3, nested(B.BIT_AND, "right")),
        (3, nested(B.MAX, "left", with_rest=True)),
        (3, nested(B.MAX, "right", with_rest=True)),
        (3, nested(SELECT, "left", with_rest=True)),
        (3, nested(SELECT, "right", with_rest=True)),
        (3, nested(B.DIV, "left")),
        (3, nested(B.MOD, "right", low=1, gap=0)),
        (2, divisor_is_not_0(B.DIV)),
        (2, divisor_is_not_0(B.MOD)),
        (3, nested_limit(B.MIN, "left", with_rest=True)),
        (3, nested_limit(B.MIN, "right", with_rest=True)),
        (3, nested_limit(SELECT, "right", with_rest=True)),
        (3, nested_limit(B.MAX, "left", with_rest=False)),
        (3, nested_limit(B.MAX, "right", with_rest=False)),
        (3, quotient),
        (3, high_by_facts),
        (2, high_by_minima),
        (2, high_of_a_sum),
        (2, low_of_a_sum),
        (2, lower_by_a_base_that_is_large_enough),
        (2, upper_by_a_base_that_is_small_enough),
    ],
)
def test_a_proof_goes_three_rules_deep(
    most: int, build: Callable[[int], Query], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index_proofs, "_STEPS_OF_A_PROOF", 800)  # the depth alone is to count
    for length in range(1, most + 1):
        place, value, limit = build(length)
        assert place.is_below(value, limit), length
    place, value, limit = build(most + 1)
    assert not place.is_below(value, limit)


# ---- facts about a value that differs by a constant
def test_a_fact_is_about_numbers() -> None:
    place = Place()
    x, y = place.unknown(), place.unknown()
    place.at_most(x, y)
    assert not place.is_below(x, y)
    assert place.is_below(x, place.plus(y, 1)) is False  # y + 1 may be 0
    place.at_most(x, y, 1)
    assert place.is_below(x, y)
    assert not place.is_below(y, x)
    assert not place.is_below(place.plus(x, 1), y)


@pytest.mark.parametrize(("lower", "upper", "gap"), [(1, 0, 3), (0, 1, 1), (3, 2, 3), (2, 0, 2), (0, 3, 3)])
def test_multiples_are_as_far_apart_as_their_remainders_say(lower: int, upper: int, gap: int) -> None:
    """``4 x + lower < 4 y + upper`` is a distance that leaves ``upper - lower`` when divided by 4."""
    place = Place()
    x, y = (place.plus(place.unknown(align=2), constant) for constant in (lower, upper))
    place.at_most(x, y, 1)
    assert place.is_below(place.plus(x, gap - 1), y)
    assert not place.is_below(place.plus(x, gap), y)


@pytest.mark.parametrize("constant", [0, 1, 5])
@pytest.mark.parametrize("gap", [0, 1, 2, 7])
@pytest.mark.parametrize("distance", [0, 1, 2, 3, 6, 7])
def test_above_a_value_that_is_far_below(constant: int, gap: int, distance: int) -> None:
    """``base + gap <= v``: up to ``base + gap - 1`` everything is below v."""
    place = Place()
    x, v = place.unknown(), place.unknown()
    base = place.plus(x, constant)
    place.at_most(base, v, gap)
    place.distract(v, above=False)
    assert place.is_below(place.plus(base, distance), v) is (distance < gap)


@pytest.mark.parametrize("constant", [0, 1, 2])
@pytest.mark.parametrize(("low", "proven"), [(0, False), (1, False), (2, True), (3, True)])
def test_below_a_value_that_is_large_enough(constant: int, low: int, proven: bool) -> None:
    """``base <= v`` says that ``base - 2`` is below v if ``base - 2`` does not wrap."""
    place = Place()
    x, v = place.unknown(), place.unknown()
    base = place.plus(x, constant)
    place.at_most(base, v)
    place.distract(v, above=False)
    place.at_most(place.number(low), base)
    assert place.is_below(place.plus(base, -2), v) is proven


def upper(place: Place, base: Value, gap: int) -> Value:
    """Something that is certainly ``gap`` below ``base``, which only facts about ``base`` can tell."""
    w = place.unknown()
    place.at_most(w, base, gap)
    place.distract(w, above=True)
    return place.of(B.SHR, w, place.unknown())


@pytest.mark.parametrize("constant", [0, 1, 2])
@pytest.mark.parametrize(
    ("gap", "distance", "proven"),
    [(0, 0, False), (1, 0, True), (2, 0, True), (3, -2, True), (2, -2, False), (2, -1, True), (1, -1, False)],
)
def test_below_a_value_that_is_far_above(constant: int, gap: int, distance: int, proven: bool) -> None:
    place = Place()
    base = place.plus(place.unknown(), constant)
    value = upper(place, base, gap)
    assert place.is_below(value, place.plus(base, distance)) is proven


@pytest.mark.parametrize("constant", [0, 1, 2])
@pytest.mark.parametrize(("high", "proven"), [(4, True), (3, True), (2, False), (0, False)])
def test_below_a_sum_that_does_not_wrap(constant: int, high: int, proven: bool) -> None:
    """``v <= base`` says that v is below ``base + 3`` if that does not wrap."""
    place = Place()
    base = place.plus(place.unknown(), constant)
    value = upper(place, base, 0)
    place.at_most(base, place.number(U32_MAX - high))
    assert place.is_below(value, place.plus(base, 3)) is proven


@pytest.mark.parametrize("distance", [1, 3])
@pytest.mark.parametrize("slack", [-1, 0, 1])
def test_a_value_is_below_itself_and_more_unless_that_wraps(distance: int, slack: int) -> None:
    """It is enough to know that of the value, or of the sum."""
    for about_the_sum in (False, True):
        place = Place()
        value = place.values.add(place.unknown(), place.unknown())
        more = place.plus(value, distance)
        if about_the_sum:
            place.at_most(place.number(distance + slack), more)
        else:
            place.at_most(value, place.number(U32_MAX - distance - slack))
        assert place.is_below(value, more) is (slack >= 0)
        assert not place.is_below(more, value)


# ---- which facts are looked at
def latest_of_the_lower(count: int) -> Query:
    place = Place()
    x, v = place.unknown(), place.unknown()
    place.at_most(x, v, 1)
    place.distract(v, above=False)
    place.distract(x, count, above=True)
    return place, x, v


def latest_of_the_lower_at_the_end_of_a_proof(count: int) -> Query:
    place = Place()
    first, last = place.unknown(), place.unknown()
    x = place.chain(first, 3)
    place.at_most(x, last, 1)
    place.distract(last, above=False)
    place.distract(x, count, above=True)
    return place, first, last


def latest_of_a_lower_that_differs(count: int) -> Query:
    place = Place()
    x, v = place.unknown(), place.unknown()
    place.at_most(x, v, 2)
    place.distract(v, above=False)
    place.distract(x, count, above=True)
    return place, place.plus(x, 1), v


def latest_of_the_upper(count: int) -> Query:
    place = Place()
    v = place.unknown()
    value = upper(place, v, 1)
    place.distract(v, count, above=False)
    return place, value, v


def latest_of_a_quotient(count: int) -> Query:
    place, value, v = quotient(1)
    ((atom, _),) = value.form.terms
    place.distract(atom.value, count, above=True)
    return place, value, v


def latest_of_the_high(count: int) -> Query:
    place = Place()
    x = place.unknown()
    place.at_most(x, place.number(3))
    place.distract(x, count, above=True)
    return place, place.values.add(x, x), place.number(7)


def latest_of_the_low(count: int) -> Query:
    place = Place()
    x = place.unknown(0, 100)
    place.at_most(place.number(3), x)
    place.distract(x, count, above=False)
    return place, place.number(5), place.values.add(x, x)


@pytest.mark.parametrize(
    "build",
    [
        latest_of_the_lower,
        latest_of_the_lower_at_the_end_of_a_proof,
        latest_of_a_lower_that_differs,
        latest_of_the_upper,
        latest_of_a_quotient,
        latest_of_the_high,
        latest_of_the_low,
    ],
)
def test_the_latest_facts_are_looked_at(build: Callable[[int], Query], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_proofs, "_STEPS_OF_A_PROOF", 5_000)  # the number of facts alone is to count
    for count in (0, 1, 2, MOST_FACTS - 1):
        place, value, limit = build(count)
        assert place.is_below(value, limit), count
    place, value, limit = build(MOST_FACTS)
    assert not place.is_below(value, limit)


def test_a_fact_that_does_not_apply_hides_no_other() -> None:
    place = Place()
    x, w, v = place.unknown(), place.unknown(), place.unknown()
    place.at_most(w, v)
    place.at_most(x, w, 1)
    place.at_most(place.plus(x, 5), v)  # x + 5 may have wrapped
    place.distract(v, above=False)
    assert place.is_below(x, v)
    place = Place()
    base = place.unknown()
    value = upper(place, place.plus(base, 3), 1)
    place.at_most(place.unknown(), base)  # base + 3 may wrap
    assert place.is_below(value, place.plus(base, 3))
    place, value, limit = quotient(1)
    ((atom, _),) = value.form.terms
    for other in (place.number(100), place.unknown(), place.of(B.MAX, limit, limit)):
        place.at_most(atom.value, other, 1)
    place.at_most(place.plus(atom.value, 1), limit, 1)
    assert place.is_below(value, limit)


def test_the_best_bound_counts_whichever_fact_gives_it() -> None:
    for numbers in ((5, 9), (9, 5), (5, 5)):
        place = Place()
        x, y = place.unknown(), place.unknown(0, 100)
        for number in numbers:
            place.at_most(x, place.number(number))
            place.at_most(place.number(14 - number), y)
        assert place.has_high(x, 5)
        assert place.has_low(y, 9)
        assert place.has_high(place.values.scaled(x, 2), 10)


def test_forgotten_facts_prove_nothing() -> None:
    place = Place()
    x, y, z = place.unknown(), place.unknown(), place.unknown()
    place.at_most(x, y, 1)
    mark = place.mark
    place.at_most(y, z, 1)
    assert place.is_below(x, z)
    place.forget(mark)
    assert place.is_below(x, y) and not place.is_below(y, z) and not place.is_below(x, z)
    assert place.mark == mark
    place.at_most(place.number(3), place.number(2))
    assert place.mark == mark


# ---- ranges
@pytest.mark.parametrize(
    ("op", "left", "right", "high"),
    [
        (B.MIN, 3, 5, 3),
        (B.MIN, 5, 3, 3),
        (B.BIT_AND, 3, 5, 3),
        (B.BIT_AND, 5, 3, 3),
        (B.MAX, 3, 5, 5),
        (B.MAX, 5, 3, 5),
        (SELECT, 3, 5, 5),
        (SELECT, 5, 3, 5),
        (B.MUL, 3, 5, 15),
        (B.MUL, 7, 1, 7),
        (B.MOD, 3, 5, 3),
        (B.MOD, 5, 3, 2),
        (B.MOD, 5, 0, 0),
        (B.SATURATING_SUB, 5, 3, 5),
        (B.SATURATING_SUB, 3, 5, 3),
    ],
)
def test_upper_bounds_of_operations(op: Operation, left: int, right: int, high: int) -> None:
    """Operands are at most that; nothing else is known of them."""
    place = Place()
    a, b = place.unknown(), place.unknown()
    place.at_most(a, place.number(left))
    place.at_most(b, place.number(right))
    assert place.has_high(place.of(op, a, b), high)


def test_upper_bounds_by_an_operand_that_does_not_change() -> None:
    place = Place()
    x = place.unknown()
    place.at_most(x, place.number(13))
    assert place.has_high(place.of(B.SHR, x, place.number(2)), 3)
    assert place.has_high(place.of(B.SHR, x, place.unknown(2, 5)), 13)
    assert place.has_high(place.of(B.DIV, x, place.unknown(3, 5)), 4)
    assert not place.is_below(place.of(B.DIV, x, place.unknown(0, 5)), place.number(U32_MAX))
    for op in (B.BIT_OR, B.ABS_DIFF, B.SHL):
        assert not place.is_below(place.of(op, x, place.number(1)), place.number(U32_MAX))


def test_bounds_of_values_that_differ_by_a_constant() -> None:
    place = Place()
    x = place.unknown()
    place.at_most(place.plus(x, 1), place.number(10))
    assert place.has_high(place.plus(x, 3), 12)
    assert not place.is_below(x, place.number(U32_MAX))  # x + 1 may have wrapped
    place.at_most(place.number(1), place.plus(x, 1))
    assert place.has_high(x, 9)
    place = Place()
    x = place.unknown()
    place.at_most(place.number(7), place.plus(x, 5))
    assert place.has_low(x, 2)
    assert not place.is_below(place.number(0), place.plus(x, 6))  # x + 6 may wrap


@pytest.mark.parametrize(("slack", "low"), [(0, 10), (1, 10), (-1, 1)])
def test_a_sum_has_the_lower_bound_of_its_terms_unless_it_wraps(slack: int, low: int) -> None:
    place = Place()
    total = place.plus(place.values.add(place.unknown(), place.unknown()), 5)
    place.at_most(place.number(7), total)
    place.at_most(total, place.number(U32_MAX - 3 - slack))
    more = place.plus(total, 3)
    assert place.is_below(place.number(9), more) is (slack >= 0)
    assert not place.is_below(place.number(10), more)


def test_a_difference_has_an_upper_bound_unless_it_wraps() -> None:
    for low, proven in ((1, False), (2, True)):
        place = Place()
        total = place.plus(place.values.add(place.unknown(), place.unknown()), 5)
        place.at_most(total, place.number(100))
        place.at_most(place.number(low), total)
        assert place.is_below(place.plus(total, -2), place.number(99)) is proven
        assert not place.is_below(place.plus(total, -2), place.number(98))


def test_bounds_of_terms() -> None:
    place = Place()
    a, b = place.unknown(0, 50), place.unknown(0, 50)
    place.at_most(place.number(3), a)
    place.at_most(place.number(4), b)
    place.at_most(a, place.number(10))
    total = place.plus(place.values.add(place.values.scaled(a, 2), b), 1)
    assert place.has_low(total, 11)
    assert place.has_high(total, 71)
    assert place.has_high(place.values.subtract(a, place.number(3)), 7)


# ---- operations
def test_a_remainder_is_less_than_a_divisor_that_is_not_0() -> None:
    for gap, proven in ((0, False), (1, True)):
        place = Place()
        divisor, limit, value = place.unknown(1), place.unknown(), place.unknown()
        place.at_most(divisor, limit, gap)
        place.at_most(value, place.of(B.MOD, place.unknown(), divisor))
        assert place.is_below(value, limit)
        assert place.is_below(place.plus(value, 1), limit) is proven
        assert not place.is_below(place.plus(value, 2), limit)


def test_a_maximum_is_below_what_both_are_below() -> None:
    place = Place()
    a, b, limit = place.unknown(), place.unknown(), place.unknown()
    place.at_most(a, limit, 1)
    for op in (B.MAX, SELECT):
        assert not place.is_below(place.of(op, a, b), limit)
        assert not place.is_below(place.of(op, b, a), limit)
        assert place.is_below(place.of(op, a, a), limit)
    for op in (B.MIN, SELECT):
        assert not place.is_below(a, place.of(op, limit, b))
        assert not place.is_below(a, place.of(op, b, limit))
        assert place.is_below(a, place.of(op, limit, limit))


@pytest.mark.parametrize(
    ("op", "amount", "divisor"), [(B.DIV, 4, 4), (B.SHR, 2, 4), (B.DIV, 3, 3), (B.DIV, 1, 1), (B.SHR, 0, 1)]
)
def test_multiples_of_what_is_below_a_quotient(op: BinaryOp, amount: int, divisor: int) -> None:
    """``x < y / d`` and ``y <= v`` say that ``c * x + q`` is below v for ``c <= d`` and ``q < c``."""
    place = Place()
    x, y, v = place.unknown(), place.unknown(), place.unknown()
    place.at_most(x, place.of(op, y, place.number(amount)), 1)
    place.at_most(y, v)
    for factor, rest in product(range(1, 6), range(6)):
        value = place.plus(place.values.scaled(x, factor), rest)
        assert place.is_below(value, v) is (factor <= divisor and rest < factor), (factor, rest)
    assert not place.is_below(place.values.scaled(x, -1), v)
    assert not place.is_below(place.values.add(x, place.unknown()), v)


@pytest.mark.parametrize(
    ("op", "right"),
    [
        (B.DIV, (0, U32_MAX)),  # a division by 0 gives the greatest number
        (B.DIV, (3, 9)),
        (B.SHR, (2, 3)),
        (B.MAX, (4, 4)),
        (B.MIN, (4, 4)),
    ],
)
def test_multiples_of_what_is_below_something_else(op: BinaryOp, right: tuple[int, int]) -> None:
    place = Place()
    x, y, v = place.unknown(), place.unknown(), place.unknown()
    place.at_most(x, place.of(op, y, place.unknown(*right)), 1)
    place.at_most(y, v)
    assert not place.is_below(place.values.scaled(x, 4), v)
    if op is B.MAX:
        assert not place.is_below(x, v)


def test_a_quotient_itself_is_no_bound_of_multiples() -> None:
    """``x <= y / 4`` allows ``4 * x`` to be y."""
    place = Place()
    x, y = place.unknown(), place.unknown()
    place.at_most(x, place.of(B.DIV, y, place.number(4)))
    assert not place.is_below(place.values.scaled(x, 4), y)


# ---- effort
def test_a_proof_takes_no_more_steps_than_it_may(monkeypatch: pytest.MonkeyPatch) -> None:
    def is_proven(query: Query, steps: int) -> bool:
        monkeypatch.setattr(index_proofs, "_STEPS_OF_A_PROOF", steps)
        place, value, limit = query
        return place.is_below(value, limit)

    assert [is_proven(facts(1), steps) for steps in (0, 1, 2)] == [False, True, True]
    assert [is_proven(high_by_facts(1), steps) for steps in (0, 1, 2)] == [False, False, True]
    place = Place()
    place.at_most(place.number(3), low := place.unknown())
    query = place, place.number(2), low
    assert [is_proven(query, steps) for steps in (1, 2, 3)] == [False, False, True]
    assert is_proven((place, place.number(2), place.number(3)), 0)


def test_all_proofs_together_take_no_more_steps_than_they_may(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_proofs, "_STEPS_IN_ALL", 3)
    place, value, limit = facts(1)
    assert [place.is_below(value, limit) for _ in range(4)] == [True, True, True, False]


# ---- soundness
OPERATIONS: Final = (
    B.ADD, B.ADD, B.SUB, B.MUL, B.DIV, B.MOD, B.MIN, B.MAX, B.BIT_AND, B.SHR, B.SATURATING_SUB,
)  # fmt: skip
NUMBERS: Final = (0, 1, 2, 3, 5, 2**31, U32_MAX - 1, U32_MAX)


def test_no_proof_is_wrong() -> None:
    """Random facts about random values: what is proven holds for all numbers for which the facts do."""
    proofs = 0
    for seed in range(250):
        random = Random(seed)
        place = Place()
        cases = list(product(NUMBERS, repeat=3))
        pool = [(place.unknown(), [case[k] for case in cases]) for k in range(3)]
        pool += [(place.number(n), [n] * len(cases)) for n in (1, 4)]
        for _ in range(7):
            op, (a, of_a), (b, of_b) = random.choice(OPERATIONS), random.choice(pool), random.choice(pool)
            results = [scalar.binary(op, ScalarType.U32, x, y) for x, y in zip(of_a, of_b, strict=True)]
            pool.append((place.values.binary(op, a, b), results))
        alive = list(range(len(cases)))
        for _ in range(6):
            (a, of_a), (b, of_b), gap = random.choice(pool), random.choice(pool), random.choice((0, 1, 1, 2))
            left = [k for k in alive if of_a[k] + gap <= of_b[k]]
            if left:
                alive = left
                place.at_most(a, b, gap)
        for (a, of_a), (b, of_b) in product(pool, repeat=2):
            if place.is_below(a, b):
                proofs += 1
                assert all(of_a[k] < of_b[k] for k in alive), seed
    assert proofs > 3_000
