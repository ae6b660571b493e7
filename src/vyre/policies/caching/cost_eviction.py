"""Which entry leaves a full cache: rebuild cost, bytes, frequency and age, weighed by what reuse was seen.

Units: nanoseconds, bytes; time is counted in requests.  Rule: GreedyDual-Size with learned credit.  The lowest
priority leaves.  An entry that is put in or asked for gets the priority

    clock + credit(frequency) * cost_ns / nbytes

The ``clock``, which is the priority of the last one that left, ages whatever is not asked for.
Frequency is the number of requests, bounded by ``max_frequency``.  What left is remembered for a while as a ghost, a
key with its frequency, so that it goes on where it stopped when it is built again.

``credit`` is how often entries of a frequency are asked for again, relative to all: reuses divided by the requests they
waited, for entries and ghosts alike, which estimates the rate of an exponential waiting time.  So new entries count
little where most are never wanted again, frequency counts for nothing where the popular set keeps changing (the rule is
GreedyDual-Size there, and LRU if costs are equal too), and everything between is found without a setting.  Old
observations fade by halves.  Ties: what was touched first leaves first.

What the reference gets wrong: ``cache_eviction`` never forgets a popularity, ``cache_eviction_heat`` revives all past
hits by one and evicts newcomers, and neither weighs what an entry costs to rebuild.  GreedyDual-Size-Frequency with a
fixed exponent for the frequency gains on stationary popularity what it loses on bursts.

O(log n) amortised per operation, O(n) memory.
"""

from __future__ import annotations

import heapq
from collections import OrderedDict
from collections.abc import Hashable
from typing import Annotated, Final, Generic, NamedTuple, TypeAlias, TypeVar

from vyre.domain.errors import InvalidField
from vyre.policies.journal import DecisionSink, decide
from vyre.policies.record import U64, U64_MAX, Count, IntRange, Nanoseconds, Reason, record, verdict, why_field

K = TypeVar("K", bound=Hashable)

UNIT: Final = 1 << 10
"""The credit of an average frequency."""
_STEPS: Final = 1 << 10
"""Priorities are whole numbers; this makes a nanosecond for 1 MiB one of them, at the average credit."""
CANDIDATES: Final = 16
"""Entries that an eviction tells of where it is kept."""

Frequency: TypeAlias = Annotated[int, IntRange(1, 64)]
Credit: TypeAlias = Annotated[int, IntRange(0, UNIT * UNIT)]
Priority: TypeAlias = Annotated[int, IntRange(0, 2**128 - 1)]


@record
class CostThresholds:
    """``max_frequency``: requests that are told apart.  ``ghosts_per_entry``: keys remembered for each entry held.
    ``fade_per_entry``: for each entry held, the requests after which an observation counts half.  ``prior_reuses``:
    reuses at the average rate that are supposed of each frequency beforehand.  ``review_interval``: requests between
    estimates of the credits.  ``max_credit``: credits lie within this factor of the average.
    """

    max_frequency: Frequency = 4
    ghosts_per_entry: Count = 2
    fade_per_entry: Annotated[int, IntRange(1, 1 << 20)] = 16
    prior_reuses: Annotated[int, IntRange(1, 1 << 20)] = 16
    review_interval: Annotated[int, IntRange(1, 1 << 20)] = 32
    max_credit: Annotated[int, IntRange(1, UNIT)] = 16


DEFAULT_THRESHOLDS: Final = CostThresholds()


@record
class Candidate:
    """An entry, and the ``clock`` and the ``credit`` of its frequency when it was put in or last asked for, ``age``
    requests ago.  ``key``: its text.
    """

    key: str
    age: Count
    frequency: Frequency
    nbytes: U64
    cost_ns: Nanoseconds
    credit: Credit
    clock: Priority

    @property
    def priority(self) -> int:
        return self.clock + worth(self.credit, self.cost_ns, self.nbytes)


@record
class EvictionInputs:
    """``candidates``: of ``held`` entries none else has a lower priority."""

    candidates: tuple[Candidate, ...]
    held: Count


@verdict
class LeastWorth:
    """``place``: of the candidate that leaves; ``priority``: its own, to which the clock is set."""

    place: int
    priority: int
    why: Reason = why_field()


def worth(credit: int, cost_ns: int, nbytes: int) -> int:
    """What an entry's priority is above the clock."""
    return credit * cost_ns * _STEPS // max(nbytes, 1)


def least_worth(inputs: EvictionInputs) -> LeastWorth:
    """The candidate of least priority; of several the one of greatest age, then the first.

    Raises ``InvalidField`` if there is none.
    """
    if not inputs.candidates:
        raise InvalidField(record="EvictionInputs", field="candidates", value=(), expected="at least one entry")
    order = [(candidate.priority, -candidate.age, place) for place, candidate in enumerate(inputs.candidates)]
    priority, _, place = min(order)
    found = inputs.candidates[place]
    seen = (found.cost_ns, found.nbytes, found.frequency, found.age, inputs.held)
    why = Reason("{} ns for {} bytes, asked for {} time(s) and last {} request(s) ago, weighs least of {}", seen)
    return LeastWorth(place, priority, why)


@verdict
class Evicted(Generic[K]):
    """Who leaves."""

    key: K
    why: Reason = why_field()


class _Entry(NamedTuple):
    since: int
    frequency: int
    nbytes: int
    cost_ns: int
    credit: int
    clock: int

    @property
    def priority(self) -> int:
        return self.clock + worth(self.credit, self.cost_ns, self.nbytes)


class _Ghost(NamedTuple):
    since: int
    frequency: int


class CostEviction(Generic[K]):
    """The entries of one cache, what left it lately, and what was learned from both.

    It is state, not a value: each call changes it in place, and the same calls give the same answers.  It knows no
    budget: the cache asks for victims until what it adds fits.  ``sink``: is told who leaves; if it
    keeps that, together with who would be next, ``CANDIDATES`` entries at most.
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
        """Keys that are remembered though they left; at most ``ghosts_per_entry`` for each of the most entries held
        since the last one left."""
        return len(self._ghosts)

    @property
    def credits(self) -> tuple[float, ...]:
        """The credit of each frequency from 1 on, in parts of the average."""
        return tuple(credit / UNIT for credit in self._credits)

    def admit(self, key: K, nbytes: int, cost_ns: int) -> None:
        """Take in a key; one that is held already changes its size and cost, and counts as asked for."""
        for name, value in (("nbytes", nbytes), ("cost_ns", cost_ns)):
            if type(value) is not int or not 0 <= value <= U64_MAX:
                raise InvalidField(record="CostEviction", field=name, value=value, expected=f"an int in 0..{U64_MAX}")
        self._tick()
        known: _Entry | _Ghost | None = self._entries.get(key) or self._ghosts.pop(key, None)
        self._touch(key, self._asked_again(known), nbytes, cost_ns)

    def hit(self, key: K) -> None:
        """A key was asked for; one that is not held is ignored."""
        entry = self._entries.get(key)
        if entry is not None:
            self._tick()
            self._touch(key, self._asked_again(entry), entry.nbytes, entry.cost_ns)

    def discard(self, key: K) -> None:
        """Forget a key, be it held or a ghost: nothing is learned from it."""
        self._entries.pop(key, None)
        self._ghosts.pop(key, None)

    def evict(self) -> Evicted[K]:
        """Let the entry of least priority go; raises ``IndexError`` if there is none."""
        held, least = len(self._entries), self._least(self._told)
        candidates = tuple(self._candidate(key) for _, _, key in least)
        found = decide(self._sink, least_worth, EvictionInputs(candidates, held))
        _, since, key = least.pop(found.place)
        for item in least:
            heapq.heappush(self._queue, item)
        entry = self._entries.pop(key)
        self._clock = found.priority
        self._ghosts[key] = _Ghost(since, entry.frequency)
        while len(self._ghosts) > self._thresholds.ghosts_per_entry * held:
            _, ghost = self._ghosts.popitem(last=False)
            self._waited[ghost.frequency - 1] += self._now - ghost.since
        return Evicted(key, found.why)

    # ---- details
    def _least(self, most: int) -> list[tuple[int, int, K]]:
        """The entries of least priority, taken from the queue; O(most log n) amortised."""
        found: list[tuple[int, int, K]] = []
        while not found or (self._queue and len(found) < most):
            priority, since, key = heapq.heappop(self._queue)
            entry = self._entries.get(key)
            if entry is not None and entry.since == since:
                found.append((priority, since, key))
        return found

    def _candidate(self, key: K) -> Candidate:
        entry = self._entries[key]
        age = self._now - entry.since
        return Candidate(str(key), age, entry.frequency, entry.nbytes, entry.cost_ns, entry.credit, entry.clock)

    def _touch(self, key: K, frequency: int, nbytes: int, cost_ns: int) -> None:
        entry = _Entry(self._now, frequency, nbytes, cost_ns, self._credits[frequency - 1], self._clock)
        self._entries[key] = entry
        heapq.heappush(self._queue, (entry.priority, entry.since, key))
        if len(self._queue) > 2 * len(self._entries) + self._thresholds.review_interval:
            self._queue = [(held.priority, held.since, name) for name, held in self._entries.items()]
            heapq.heapify(self._queue)

    def _asked_again(self, known: _Entry | _Ghost | None) -> int:
        """The frequency of a key from now on; what its wait tells is kept."""
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
        """Credits from the rates: ``(reuses + prior) / (waited + prior * mean wait)``, in parts of the mean rate."""
        prior, limit = self._thresholds.prior_reuses, self._thresholds.max_credit
        reuses, waited = sum(self._reuses) + 1, sum(self._waited) + len(self._entries) + 1
        self._credits = [
            min(max((r + prior) * waited * UNIT // (w * reuses + prior * waited), UNIT // limit), UNIT * limit)
            for r, w in zip(self._reuses, self._waited, strict=True)
        ]
