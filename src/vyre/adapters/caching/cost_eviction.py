"""Eviction by cost: the entries of a cache with their request counts, so that the entry of least worth is evicted.

The rules are those of ``vyre.policies.caching.cost_eviction``; this module holds their state.
"""

from __future__ import annotations

import heapq
from collections import OrderedDict
from collections.abc import Hashable
from typing import Final, Generic, NamedTuple, TypeVar

from vyre.domain.errors import InvalidField
from vyre.policies.caching.cost_eviction import (
    DEFAULT_THRESHOLDS,
    UNIT,
    Candidate,
    CostThresholds,
    CreditInputs,
    EvictionInputs,
    estimate_credits,
    least_worth,
    worth,
)
from vyre.policies.journal import DecisionSink, decide
from vyre.policies.record import U64_MAX

K = TypeVar("K", bound=Hashable)

CANDIDATES: Final = 16
"""Maximum number of entries in the record of an eviction."""


class _Entry(NamedTuple):
    since: int
    frequency: int
    nbytes: int
    cost_ns: int
    credit: int
    clock: int

    @property
    def priority(self) -> int:
        """The clock when it was last touched, plus its worth."""
        return self.clock + worth(self.credit, self.cost_ns, self.nbytes)


class _Ghost(NamedTuple):
    since: int
    frequency: int


class CostEviction(Generic[K]):
    """The entries of one cache, the keys that left it lately, and the statistics learned from both.

    The same calls give the same answers.  It has no budget: the cache requests victims until a new entry fits. ``sink``
    receives each eviction; a sink that keeps decisions gets it with the next candidates, at most ``CANDIDATES``
    entries.
    """

    def __init__(self, thresholds: CostThresholds = DEFAULT_THRESHOLDS, sink: DecisionSink | None = None) -> None:
        self._thresholds, self._sink = thresholds, sink
        self._told = CANDIDATES if sink is not None and sink.keeps else 1
        self._entries: dict[K, _Entry] = {}
        self._ghosts: OrderedDict[K, _Ghost] = OrderedDict()
        self._queue: list[tuple[int, int, K]] = []
        self._now = self._clock = 0
        frequencies = thresholds.max_frequency
        self._reuses, self._waited = [0] * frequencies, [0] * frequencies
        self._credits = [UNIT] * frequencies
        self._faded = 0

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: K) -> bool:
        return key in self._entries

    @property
    def ghosts(self) -> int:
        """Number of evicted keys that are still tracked; at most ``ghosts_per_entry`` for each entry of the largest
        number held since the last eviction.
        """
        return len(self._ghosts)

    @property
    def credits(self) -> tuple[float, ...]:
        """The credit of each frequency from 1 on, relative to the average."""
        return tuple(credit / UNIT for credit in self._credits)

    def admit(self, key: K, nbytes: int, cost_ns: int) -> None:
        """Adds a key; for a key that is held already it updates size and cost, and counts as a request."""
        for name, value in (("nbytes", nbytes), ("cost_ns", cost_ns)):
            if type(value) is not int or not 0 <= value <= U64_MAX:
                raise InvalidField(record="CostEviction", field=name, value=value, expected=f"an int in 0..{U64_MAX}")
        self._tick()
        known: _Entry | _Ghost | None = self._entries.get(key) or self._ghosts.pop(key, None)
        self._touch(key, self._asked_again(known), nbytes, cost_ns)

    def hit(self, key: K) -> None:
        """Counts a request of a key; a key that is not held is ignored."""
        entry = self._entries.get(key)
        if entry is not None:
            self._tick()
            self._touch(key, self._asked_again(entry), entry.nbytes, entry.cost_ns)

    def discard(self, key: K) -> None:
        """Removes a key, whether held or a ghost: nothing is learned from it."""
        self._entries.pop(key, None)
        self._ghosts.pop(key, None)

    def evict(self) -> K:
        """Removes the entry of least priority and returns its key; raises ``IndexError`` if there is none."""
        count, least = len(self._entries), self._least(self._told)
        candidates = tuple(self._candidate(key) for _, _, key in least)
        verdict = decide(self._sink, least_worth, EvictionInputs(candidates, count))
        _, since, key = least.pop(verdict.place)
        for item in least:
            heapq.heappush(self._queue, item)
        entry = self._entries.pop(key)
        self._clock = verdict.priority
        self._ghosts[key] = _Ghost(since, entry.frequency)
        while len(self._ghosts) > self._thresholds.ghosts_per_entry * count:
            _, ghost = self._ghosts.popitem(last=False)
            self._waited[ghost.frequency - 1] += self._now - ghost.since
        return key

    # ---- details
    def _least(self, most: int) -> list[tuple[int, int, K]]:
        """Pops the entries of least priority from the queue; O(most log n) amortised."""
        least: list[tuple[int, int, K]] = []
        while not least or (self._queue and len(least) < most):
            priority, since, key = heapq.heappop(self._queue)
            entry = self._entries.get(key)
            if entry is not None and entry.since == since:
                least.append((priority, since, key))
        return least

    def _candidate(self, key: K) -> Candidate:
        entry = self._entries[key]
        age = self._now - entry.since
        return Candidate(str(key), age, entry.frequency, entry.nbytes, entry.cost_ns, entry.credit, entry.clock)

    def _touch(self, key: K, frequency: int, nbytes: int, cost_ns: int) -> None:
        entry = _Entry(self._now, frequency, nbytes, cost_ns, self._credits[frequency - 1], self._clock)
        self._entries[key] = entry
        heapq.heappush(self._queue, (entry.priority, entry.since, key))
        if len(self._queue) > 2 * len(self._entries) + self._thresholds.review_interval:
            self._queue = [(known.priority, known.since, name) for name, known in self._entries.items()]
            heapq.heapify(self._queue)

    def _asked_again(self, known: _Entry | _Ghost | None) -> int:
        """Returns the new frequency of a requested key, and records how long it waited."""
        if known is None:
            return 1
        self._reuses[known.frequency - 1] += 1
        self._waited[known.frequency - 1] += self._now - known.since
        return min(known.frequency + 1, self._thresholds.max_frequency)

    def _tick(self) -> None:
        self._now += 1
        if self._now % self._thresholds.review_interval:
            return
        self._review()
        if self._now - self._faded >= self._thresholds.fade_per_entry * max(len(self._entries), 1):
            self._reuses = [reuses // 2 for reuses in self._reuses]
            self._waited = [waited // 2 for waited in self._waited]
            self._faded = self._now

    def _review(self) -> None:
        observed = CreditInputs(tuple(self._reuses), tuple(self._waited), len(self._entries))
        self._credits = list(estimate_credits(observed, self._thresholds))
