"""The default eviction against its definition, written down without a queue; and what holds of it whatever happens."""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vyre.adapters.caching.cost_eviction import CANDIDATES, CostEviction
from vyre.app.journal import DecisionJournal
from vyre.policies.caching.cost_eviction import UNIT, CostThresholds, EvictionInputs, LeastWorth, least_worth

KEYS = st.integers(0, 7)
FIGURES = st.integers(0, 40) | st.integers(0, 2**64 - 1)


class Call(NamedTuple):
    name: str
    key: int
    nbytes: int = 0
    cost_ns: int = 0


CALLS = st.lists(
    st.builds(Call, st.just("admit"), KEYS, FIGURES, FIGURES)
    | st.builds(Call, st.just("hit"), KEYS)
    | st.builds(Call, st.sampled_from(["evict", "evict", "discard"]), KEYS),
    max_size=80,
)
THRESHOLDS = st.builds(
    CostThresholds,
    max_frequency=st.integers(1, 5),
    ghosts_per_entry=st.integers(0, 3),
    fade_per_entry=st.integers(1, 4),
    prior_reuses=st.integers(1, 3),
    review_interval=st.integers(1, 6),
    max_credit=st.integers(1, 16),
)


class Known:
    """A key, held or a ghost."""

    def __init__(self, since: int, frequency: int) -> None:
        self.since, self.frequency = since, frequency
        self.priority = self.nbytes = self.cost_ns = 0


class Definition:
    def __init__(self, t: CostThresholds) -> None:
        self.t = t
        self.now = self.clock = self.faded = 0
        self.held: dict[int, Known] = {}
        self.ghosts: list[tuple[int, Known]] = []
        self.seen: list[tuple[int, int]] = [(0, 0)] * t.max_frequency
        self.credits = [UNIT] * t.max_frequency

    def observe(self, known: Known, reuses: int) -> None:
        r, w = self.seen[known.frequency - 1]
        self.seen[known.frequency - 1] = r + reuses, w + self.now - known.since

    def request(self, key: int, nbytes: int, cost_ns: int) -> None:
        self.now += 1
        if self.now % self.t.review_interval == 0:
            reuses = 1 + sum(r for r, _ in self.seen)
            waited = 1 + len(self.held) + sum(w for _, w in self.seen)
            p, c = self.t.prior_reuses, self.t.max_credit
            raw = [(r + p) * waited * UNIT // (w * reuses + p * waited) for r, w in self.seen]
            self.credits = [sorted((UNIT // c, credit, UNIT * c))[1] for credit in raw]
            if self.now - self.faded >= self.t.fade_per_entry * max(len(self.held), 1):
                self.seen = [(r // 2, w // 2) for r, w in self.seen]
                self.faded = self.now
        known = self.held.get(key) or next((ghost for name, ghost in self.ghosts if name == key), None)
        self.ghosts = [(name, ghost) for name, ghost in self.ghosts if name != key]
        frequency = 1
        if known is not None:
            self.observe(known, 1)
            frequency = min(known.frequency + 1, self.t.max_frequency)
        new = self.held[key] = Known(self.now, frequency)
        new.nbytes, new.cost_ns = nbytes, cost_ns
        new.priority = self.clock + (self.credits[frequency - 1] * cost_ns * 1024) // (nbytes or 1)

    def evict(self) -> int:
        key, gone = min(self.held.items(), key=lambda item: (item[1].priority, item[1].since))
        limit = self.t.ghosts_per_entry * len(self.held)
        del self.held[key]
        self.clock = gone.priority
        self.ghosts.append((key, gone))
        while len(self.ghosts) > limit:
            self.observe(self.ghosts.pop(0)[1], 0)
        return key

    def discard(self, key: int) -> None:
        self.held.pop(key, None)
        self.ghosts = [(name, ghost) for name, ghost in self.ghosts if name != key]


def compare(thresholds: CostThresholds, calls: Iterable[Call]) -> None:
    """With a journal and without it."""
    ours: CostEviction[int] = CostEviction(thresholds)
    journal = DecisionJournal()
    told: CostEviction[int] = CostEviction(thresholds, journal)
    definition = Definition(thresholds)
    left = 0
    for call in calls:
        match call.name:
            case "admit":
                for each in (ours, told):
                    each.admit(call.key, call.nbytes, call.cost_ns)
                definition.request(call.key, call.nbytes, call.cost_ns)
            case "hit":
                for each in (ours, told):
                    each.hit(call.key)
                if (held := definition.held.get(call.key)) is not None:
                    definition.request(call.key, held.nbytes, held.cost_ns)
            case "discard":
                for each in (ours, told):
                    each.discard(call.key)
                definition.discard(call.key)
            case "evict" if definition.held:
                evicted = ours.evict()
                assert told.evict() == evicted
                assert evicted == definition.evict()
                left += 1
        assert len(ours) == len(definition.held)
        assert ours.ghosts == len(definition.ghosts)
        assert ours.credits == tuple(credit / UNIT for credit in definition.credits)
    left += len(ours)
    rest = [definition.evict() for _ in range(len(definition.held))]
    assert rest == [ours.evict() for _ in range(len(ours))] == [told.evict() for _ in range(len(told))]
    assert [decision.policy for decision in journal.decisions] == [least_worth] * left
    check_journal(journal)


def check_journal(journal: DecisionJournal) -> None:
    """Candidates come in the order in which they would leave, so that the first one does."""
    for decision in journal.decisions:
        (inputs,) = decision.arguments
        assert isinstance(inputs, EvictionInputs) and isinstance(decision.verdict, LeastWorth)
        assert len(inputs.candidates) == min(inputs.held, CANDIDATES)
        order = [(candidate.priority, -candidate.age) for candidate in inputs.candidates]
        assert order == sorted(order)
        assert (decision.verdict.place, decision.verdict.priority) == (0, order[0][0])


@given(THRESHOLDS, CALLS)
def test_it_does_what_its_definition_says(thresholds: CostThresholds, calls: list[Call]) -> None:
    compare(thresholds, calls)


@pytest.mark.parametrize("seed", range(30))
def test_it_does_so_in_the_long_run(seed: int) -> None:
    """With figures so alike that credits decide, and keys that come back at very different rates."""
    rng = random.Random(seed)
    thresholds = CostThresholds(
        max_frequency=rng.randint(1, 5),
        ghosts_per_entry=rng.randint(0, 3),
        fade_per_entry=rng.randint(1, 8),
        prior_reuses=rng.randint(1, 3),
        review_interval=rng.randint(1, 6),
        max_credit=rng.randint(2, 16),
    )
    names = rng.choices(("admit", "hit", "evict", "discard"), (50, 25, 24, 1), k=600)
    compare(thresholds, [Call(n, int(rng.expovariate(0.2)), rng.randint(8, 10), rng.randint(8, 10)) for n in names])


@given(THRESHOLDS, CALLS)
def test_ghosts_and_credits_are_bounded_and_the_clock_goes_forward(
    thresholds: CostThresholds, calls: list[Call]
) -> None:
    ours: CostEviction[int] = CostEviction(thresholds, DecisionJournal())
    most = clock = 0
    for call in calls:
        if call.name == "admit":
            ours.admit(call.key, call.nbytes, call.cost_ns)
        elif call.name == "hit":
            ours.hit(call.key)
        elif call.name == "evict" and len(ours):
            ours.evict()
            assert ours._clock >= clock
            clock = ours._clock
        most = max(most, len(ours))
        assert ours.ghosts <= thresholds.ghosts_per_entry * most
        assert all(1 / thresholds.max_credit <= credit + 1 / UNIT for credit in ours.credits)
        assert all(credit <= thresholds.max_credit for credit in ours.credits)
        assert len(ours._queue) <= 2 * most + thresholds.review_interval


@given(st.lists(KEYS, max_size=200), st.integers(1, 6))
def test_with_equal_costs_and_no_frequency_it_is_lru(requests: list[int], room: int) -> None:
    ours: CostEviction[int] = CostEviction(CostThresholds(max_frequency=1, prior_reuses=1 << 20, max_credit=1))
    lru: dict[int, None] = {}
    for key in requests:
        if key in lru:
            del lru[key]
            ours.hit(key)
        else:
            if len(lru) == room:
                oldest = next(iter(lru))
                del lru[oldest]
                assert ours.evict() == oldest
            ours.admit(key, 1, 1)
        lru[key] = None
