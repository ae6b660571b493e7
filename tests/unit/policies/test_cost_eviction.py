"""Cost, size, frequency, age and ghosts in the default eviction; every figure is worked out by hand."""

from __future__ import annotations

from typing import Any

import pytest

from vyre.adapters.caching.cost_eviction import CANDIDATES, CostEviction
from vyre.app.journal import DecisionJournal
from vyre.domain.errors import InvalidField
from vyre.policies.caching.cost_eviction import UNIT, Candidate, CostThresholds, EvictionInputs, LeastWorth, least_worth
from vyre.policies.journal import Decision, DecisionSink

U64_MAX = 2**64 - 1
NEVER_REVIEWED = CostThresholds(review_interval=1 << 20)
PLAIN: dict[str, int] = {"nbytes": 10, "cost_ns": 1_000}


def policy(*keys: str, thresholds: CostThresholds = NEVER_REVIEWED) -> CostEviction[str]:
    found: CostEviction[str] = CostEviction(thresholds)
    for key in keys:
        found.admit(key, **PLAIN)
    return found


def order(found: CostEviction[str]) -> str:
    return "".join(found.evict() for _ in range(len(found)))


def test_defaults() -> None:
    assert CostThresholds() == CostThresholds(
        max_frequency=4, ghosts_per_entry=2, fade_per_entry=16, prior_reuses=16, review_interval=32, max_credit=16
    )


def test_equal_entries_leave_in_the_order_of_their_last_use() -> None:
    found = policy(*"abcd")
    found.hit("b")
    found.hit("a")
    found.hit("nobody")
    assert len(found) == 4 and "a" in found and "nobody" not in found
    assert order(found) == "cdba"
    assert len(found) == 0 and "a" not in found


@pytest.mark.parametrize(
    ("first", "second", "leaves"),
    [
        ((10, 999), (10, 1_000), "first"),
        ((10, 1_001), (10, 1_000), "second"),
        ((11, 1_000), (10, 1_000), "first"),
        ((10, 1_000), (11, 1_000), "second"),
        ((20, 2_000), (10, 1_000), "first"),  # worth the same a byte: age decides
        ((U64_MAX, 2), (U64_MAX, 1), "first"),  # both worth less than the least step
        ((1, 0), (1, 1), "first"),
        ((0, 5), (1, 6), "first"),  # no bytes count as one
        ((0, 6), (1, 5), "second"),
        ((1, 5), (2, 9), "second"),
    ],
)
def test_what_is_cheap_to_rebuild_for_its_size_leaves(
    first: tuple[int, int], second: tuple[int, int], leaves: str
) -> None:
    found: CostEviction[str] = CostEviction()
    found.admit("first", *first)
    found.admit("second", *second)
    assert found.evict() == leaves


def test_the_clock_ages_what_is_not_asked_for() -> None:
    """A kernel of ten times the worth outlives ten generations of cheap ones, and no more."""
    found: CostEviction[int] = CostEviction(NEVER_REVIEWED)
    found.admit(-1, 10, 10_000)
    found.admit(0, 10, 1_000)
    left = []
    for generation in range(1, 20):
        left.append(found.evict())
        found.admit(generation, 10, 1_000)
    assert left[:10] == [*range(9), -1]


def why_the_next_leaves(found: CostEviction[str]) -> str:
    journal = DecisionJournal()
    found._sink = journal
    found.evict()
    verdict = journal.decisions[-1].verdict
    assert isinstance(verdict, LeastWorth)
    return str(verdict.why)


def test_why_an_entry_leaves() -> None:
    found = policy("a", "b")
    found.hit("a")
    found.hit("b")
    found.hit("b")
    assert why_the_next_leaves(found) == (
        "1000 ns for 10 bytes, asked for 2 time(s) and last 2 request(s) ago, weighs least of 2"
    )


def candidate(key: str, age: int, clock: int, cost_ns: int = 0, credit: int = UNIT) -> Candidate:
    return Candidate(key, age, 1, 10, cost_ns, credit, clock)


@pytest.mark.parametrize(
    ("candidates", "place", "priority"),
    [
        ([candidate("a", 5, 7)], 0, 7),
        ([candidate("a", 5, 7), candidate("b", 5, 6), candidate("c", 5, 8)], 1, 6),
        ([candidate("a", 5, 7), candidate("b", 6, 7), candidate("c", 4, 7)], 1, 7),
        ([candidate("a", 5, 7), candidate("b", 5, 7)], 0, 7),
        ([candidate("a", 5, 7, cost_ns=1), candidate("b", 5, 100_000)], 1, 100_000),
        ([candidate("a", 5, 7, cost_ns=1, credit=1), candidate("b", 5, 100_000)], 0, 7 + 102),
    ],
)
def test_the_candidate_of_least_priority_leaves(candidates: list[Candidate], place: int, priority: int) -> None:
    assert least_worth(EvictionInputs(tuple(candidates), 9)) == LeastWorth(place, priority)


def test_somebody_has_to_leave() -> None:
    with pytest.raises(InvalidField, match=r"EvictionInputs\.candidates = \(\) is not at least one entry"):
        least_worth(EvictionInputs((), 0))
    with pytest.raises(IndexError):
        CostEviction[str]().evict()


def test_an_eviction_is_recorded_with_what_would_leave_next() -> None:
    journal = DecisionJournal()
    found: CostEviction[int] = CostEviction(NEVER_REVIEWED, journal)
    for key in range(CANDIDATES + 1):
        found.admit(key, **PLAIN)
    found.hit(1)
    evicted = found.evict()
    (decision,) = journal.decisions
    price = 1_000 * 1_024 * UNIT // 10
    least = [Candidate(str(key), 17 - key, 1, 10, 1_000, UNIT, 0) for key in (0, *range(2, 17))]
    assert decision.arguments == (EvictionInputs(tuple(least), 17),)
    assert isinstance(decision.verdict, LeastWorth) and decision.verdict == LeastWorth(0, price)
    assert evicted == 0
    found.admit(99, 0, 7)
    for _ in range(CANDIDATES):
        found.evict()
    least = [Candidate("1", 1, 2, 10, 1_000, UNIT, 0), Candidate("99", 0, 1, 0, 7, UNIT, price)]
    assert journal.decisions[-1].arguments == (EvictionInputs(tuple(least), 2),)


class Counting:
    """A sink that keeps nothing that it is told."""

    keeps = False

    def __init__(self) -> None:
        self.verdicts: list[object] = []

    def note(self, decision: Decision, /) -> None:
        self.verdicts.append(decision.verdict)


def test_a_sink_that_keeps_nothing_is_told_of_nobody_else() -> None:
    sink = Counting()
    shown = shown_keys(sink)
    assert (shown, sink.verdicts) == (["a"], [LeastWorth(0, 1_000 * 1_024 * UNIT // 10)])


def test_without_a_sink_nobody_else_is_looked_at() -> None:
    assert shown_keys(None) == ["a"]


def shown_keys(sink: DecisionSink | None) -> list[str]:
    """Of three keys those that an eviction makes a text of."""
    shown: list[str] = []

    class Key(str):
        def __str__(self) -> str:
            shown.append(self[:])
            return self[:]

    found: CostEviction[str] = CostEviction(NEVER_REVIEWED, sink)
    for key in "abc":
        found.admit(Key(key), **PLAIN)
    assert found.evict() == "a"
    return shown


def test_admitting_again_is_a_request_and_takes_the_new_figures() -> None:
    found = policy("a", "b")
    found.admit("a", 10, 10)
    assert len(found) == 2
    why = why_the_next_leaves(found)
    assert "a" not in found
    assert why == "10 ns for 10 bytes, asked for 2 time(s) and last 0 request(s) ago, weighs least of 2"


def test_a_ghost_goes_on_with_its_frequency() -> None:
    found = policy("a")
    found.hit("a")
    found.evict()
    assert found.ghosts == 1 and "a" not in found
    found.admit("a", **PLAIN)
    assert found.ghosts == 0
    assert "asked for 3 time(s)" in why_the_next_leaves(found)


def test_frequency_is_bounded() -> None:
    found = policy("a", thresholds=CostThresholds(max_frequency=3, review_interval=1 << 20))
    for _ in range(9):
        found.hit("a")
    assert "asked for 3 time(s)" in why_the_next_leaves(found)
    assert len(found.credits) == 3


def test_the_oldest_ghosts_are_forgotten_first() -> None:
    found = policy(*"abcdef", thresholds=CostThresholds(ghosts_per_entry=1, review_interval=1 << 20))
    for expected in (1, 2, 3, 3, 2):  # as many as entries are held just before
        found.evict()
        assert found.ghosts == expected
    found.admit("e", **PLAIN)
    found.admit("a", **PLAIN)
    assert found.ghosts == 1
    left = []
    for key in "fea":
        assert key in found
        left.append("asked for 2 time(s)" in why_the_next_leaves(found))
        assert key not in found
    assert left == [False, True, False]


def test_no_ghosts_if_none_are_wanted() -> None:
    found = policy(*"ab", thresholds=CostThresholds(ghosts_per_entry=0))
    found.evict()
    assert found.ghosts == 0


def test_discard_forgets_entries_and_ghosts() -> None:
    found = policy(*"abc")
    found.hit("b")
    assert found.evict() == "a"
    found.discard("a")
    found.discard("b")
    found.discard("nobody")
    assert found.ghosts == 0 and len(found) == 1
    for key in "ab":
        found.admit(key, **PLAIN)
    assert order(found) == "cab"
    with pytest.raises(IndexError):
        found.evict()


LEARNING = CostThresholds(max_frequency=2, prior_reuses=1, review_interval=4, fade_per_entry=1 << 20)


def test_credits_follow_the_reuse_that_was_seen() -> None:
    """At the fourth request, before it is counted: one reuse from each frequency, each after a wait of one request.

    With 1 reuse and 1 request for each entry more in the totals, 3 reuses in 4 requests; so with the one supposed reuse
    each credit is (1 + 1) / (1 + 4/3) * 4/3 = 8/7.
    """
    found = policy("a", thresholds=LEARNING)
    for _ in range(2):
        found.hit("a")
    assert found.credits == (1.0, 1.0)
    found.hit("a")
    assert found.credits == (8 * 1024 // 7 / 1024,) * 2


def test_ghosts_that_nobody_wants_lower_the_credit_of_their_frequency() -> None:
    """`x` is asked for again and again, the others never: what was asked for once is worth less from the review on."""
    thresholds = CostThresholds(max_frequency=2, prior_reuses=1, review_interval=8, ghosts_per_entry=1)
    found = policy("x", thresholds=thresholds)  # request 1
    for name in "ab":
        found.admit(name, **PLAIN)  # 2, 4
        found.hit("x")  # 3, 5
    assert [found.evict() for _ in range(2)] == ["a", "b"]
    assert found.ghosts == 2
    found.discard("x")
    found.admit("c", **PLAIN)  # 6
    found.admit("d", **PLAIN)  # 7
    assert [found.evict() for _ in range(2)] == ["c", "d"]
    assert found.ghosts == 1  # `a`, `b` and `c` went unwanted for 5, 3 and 1 requests
    assert found.credits == (1.0, 1.0)
    found.admit("e", **PLAIN)  # 8
    # `x` came back after 2 requests from either frequency: reuses (1, 1) and waits (2 + 9, 2), in all 3 and 14
    assert found.credits == (2 * 14 * 1024 // (11 * 3 + 14) / 1024, 2 * 14 * 1024 // (2 * 3 + 14) / 1024)


def test_credits_are_bounded() -> None:
    thresholds = CostThresholds(max_frequency=2, prior_reuses=1, review_interval=64, max_credit=2, ghosts_per_entry=0)
    found: CostEviction[int] = CostEviction(thresholds)
    found.admit(-1, 1, 10**9)
    for name in range(2_000):
        found.admit(name, **PLAIN)
        found.hit(-1)
        if len(found) > 64:
            found.evict()
    assert found.credits == (0.5, 2.0)


def test_observations_fade() -> None:
    """A popularity that ended is outweighed sooner by the present if the past counts half again and again."""

    def credit_of_newcomers(fade_per_entry: int) -> float:
        thresholds = CostThresholds(max_frequency=2, prior_reuses=1, review_interval=8, fade_per_entry=fade_per_entry)
        found: CostEviction[int] = CostEviction(thresholds)
        fresh = iter(range(10**6))
        for _ in range(400):  # nobody comes back but 0
            found.admit(next(fresh), **PLAIN)
            found.hit(0)
            if len(found) > 8:
                found.evict()
        for _ in range(400):  # everybody comes back at once
            name = next(fresh)
            found.admit(name, **PLAIN)
            found.hit(name)
            if len(found) > 8:
                found.evict()
        return found.credits[0]

    assert credit_of_newcomers(4) > 2 * credit_of_newcomers(1 << 20)


def test_the_queue_stays_small() -> None:
    found = policy(*"ab")
    for _ in range(5_000):
        found.hit("a")
    assert len(found._queue) <= 2 * 2 + NEVER_REVIEWED.review_interval
    busy = policy(*"ab", thresholds=CostThresholds(review_interval=4))
    for _ in range(5_000):
        busy.hit("a")
        assert len(busy._queue) <= 2 * 2 + 4
    assert order(busy) == "ba"


def test_the_queue_is_seldom_made_anew() -> None:
    """Each time it is, as many touches as there are entries and requests in a review come first."""
    found: CostEviction[int] = CostEviction(CostThresholds(review_interval=4))
    for name in range(50):
        found.admit(name, **PLAIN)
    queues = {id(queue): queue for queue in [found._queue]}
    for step in range(1_080):
        found.hit(step % 50)
        queues[id(found._queue)] = found._queue
    assert len(queues) == 1 + 1_080 // (50 + 4 + 1)


@pytest.mark.parametrize("value", [-1, 2**64, True, 1.0, None])
@pytest.mark.parametrize("field", ["nbytes", "cost_ns"])
def test_figures_outside_their_domain(field: str, value: Any) -> None:
    found: CostEviction[str] = CostEviction()
    with pytest.raises(InvalidField, match=rf"CostEviction\.{field} = .* is not an int in 0\.\.18446744073709551615"):
        found.admit("a", **PLAIN | {field: value})
    assert len(found) == 0
