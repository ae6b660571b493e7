"""Which entry leaves a full cache, given rebuild costs, sizes and the reuse observed so far?

Units: nanoseconds, bytes; time is counted in requests.  Rule: GreedyDual-Size with learned credit.  The entry with the
lowest priority leaves.  An entry that is inserted or requested gets the priority

    clock + credit(frequency) * cost_ns / nbytes

The ``clock`` is the priority of the entry that left last; it ages every entry that is not requested.  The frequency of
an entry is its number of requests, at most ``max_frequency``.  After an eviction, key and frequency are remembered for
a while as a ghost, so that the entry keeps its frequency when it is built again.

``credit`` measures how soon entries of a frequency are requested again, relative to all entries: it is the number of
reuses divided by the requests waited for them, for entries and ghosts alike, which estimates the rate of an exponential
waiting time.  So new entries count little where most are never requested again; frequency counts for nothing where the
popular set keeps changing (the rule is GreedyDual-Size there, and LRU if costs are equal too); and everything between
is found without a setting.  Old observations are halved periodically.  Of equal priorities the entry touched first
leaves first.

vyre-driver has two rules instead: ``cache_eviction`` never forgets a popularity, ``cache_eviction_heat`` revives all
past hits by one and evicts new entries, and neither counts the cost of rebuilding an entry.  GreedyDual-Size-Frequency
with a fixed exponent for the frequency loses on bursts what it gains on stationary popularity.

The entries and the observations are held by ``adapters/caching/cost_eviction``: O(log n) amortised per operation, O(n)
memory.
"""

from __future__ import annotations

from typing import Annotated, Final, TypeAlias

from vyre.domain.errors import InvalidField
from vyre.policies.record import U64, Count, IntRange, Nanoseconds, Reason, record, verdict, why_field

UNIT: Final = 1 << 10
"""The credit of an average frequency."""
_STEPS: Final = 1 << 10
"""Scale of priorities, which are integers: with it, a nanosecond for 1 MiB counts as 1 at the average credit."""

Frequency: TypeAlias = Annotated[int, IntRange(1, 64)]
Credit: TypeAlias = Annotated[int, IntRange(0, UNIT * UNIT)]
Priority: TypeAlias = Annotated[int, IntRange(0, 2**128 - 1)]


@record
class CostThresholds:
    """Settings of the rule.

    - ``max_frequency``: frequencies above it count as equal.
    - ``ghosts_per_entry``: number of ghosts that are remembered per entry held.
    - ``fade_per_entry``: requests, per entry held, after which an observation counts half.
    - ``prior_reuses``: reuses at the average rate that each frequency is assumed to have had beforehand.
    - ``review_interval``: requests between two estimates of the credits.
    - ``max_credit``: credits lie within this factor of the average.
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
    """An entry, with the ``clock`` and its ``credit`` at the time when it was inserted or last requested.

    That time was ``age`` requests ago.  ``key`` is the text of its key.
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
        """The priority of the entry; the lowest leaves."""
        return self.clock + worth(self.credit, self.cost_ns, self.nbytes)


@record
class EvictionInputs:
    """``candidates`` includes, of the ``held`` entries, one of lowest priority."""

    candidates: tuple[Candidate, ...]
    held: Count


@verdict
class LeastWorth:
    """``place`` is the index of the candidate that leaves, ``priority`` its priority, to which the clock is set."""

    place: int
    priority: int
    why: Reason = why_field()


def worth(credit: int, cost_ns: int, nbytes: int) -> int:
    """Returns by how much an entry's priority exceeds the clock."""
    return credit * cost_ns * _STEPS // max(nbytes, 1)


def least_worth(inputs: EvictionInputs) -> LeastWorth:
    """Returns the candidate of lowest priority; among equals, the one of greatest age, then the first.

    Raises ``InvalidField`` if there are no candidates.
    """
    if not inputs.candidates:
        raise InvalidField(record="EvictionInputs", field="candidates", value=(), expected="at least one entry")
    order = [(candidate.priority, -candidate.age, place) for place, candidate in enumerate(inputs.candidates)]
    priority, _, place = min(order)
    evicted = inputs.candidates[place]
    seen = (evicted.cost_ns, evicted.nbytes, evicted.frequency, evicted.age, inputs.held)
    why = Reason("{} ns for {} bytes, asked for {} time(s) and last {} request(s) ago, weighs least of {}", seen)
    return LeastWorth(place, priority, why)


@record
class CreditInputs:
    """The observations of each frequency from 1 on: ``reuses``, and the requests ``waited`` for them.

    ``held`` is the number of entries, all of which are waiting.
    """

    reuses: tuple[Count, ...]
    waited: tuple[Count, ...]
    held: Count


def estimate_credits(inputs: CreditInputs, thresholds: CostThresholds = DEFAULT_THRESHOLDS) -> tuple[int, ...]:
    """Returns the credit of each frequency, in units of 1/``UNIT``.

    It is the rate ``(reuses + prior) / (waited + prior * mean wait)`` relative to the mean rate of all frequencies.
    """
    prior, limit = thresholds.prior_reuses, thresholds.max_credit
    reuses, waited = sum(inputs.reuses) + 1, sum(inputs.waited) + inputs.held + 1
    return tuple(
        min(max((r + prior) * waited * UNIT // (w * reuses + prior * waited), UNIT // limit), UNIT * limit)
        for r, w in zip(inputs.reuses, inputs.waited, strict=True)
    )
