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

What is held, and what was observed, lives in ``adapters/caching/cost_eviction``: O(log n) amortised per operation,
O(n) memory.
"""

from __future__ import annotations

from typing import Annotated, Final, TypeAlias

from vyre.domain.errors import InvalidField
from vyre.policies.record import U64, Count, IntRange, Nanoseconds, Reason, record, verdict, why_field

UNIT: Final = 1 << 10
"""The credit of an average frequency."""
_STEPS: Final = 1 << 10
"""Priorities are whole numbers; this makes a nanosecond for 1 MiB one of them, at the average credit."""

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


@record
class CreditInputs:
    """What was observed of each frequency from 1 on: ``reuses``, and requests ``waited`` for them.

    ``held``: entries, which all wait.
    """

    reuses: tuple[Count, ...]
    waited: tuple[Count, ...]
    held: Count


def estimate_credits(inputs: CreditInputs, thresholds: CostThresholds = DEFAULT_THRESHOLDS) -> tuple[int, ...]:
    """The credit of each frequency, in parts of ``UNIT``: its rate ``(reuses + prior) / (waited + prior * mean wait)``,
    in parts of the mean rate of all."""
    prior, limit = thresholds.prior_reuses, thresholds.max_credit
    reuses, waited = sum(inputs.reuses) + 1, sum(inputs.waited) + inputs.held + 1
    return tuple(
        min(max((r + prior) * waited * UNIT // (w * reuses + prior * waited), UNIT // limit), UNIT * limit)
        for r, w in zip(inputs.reuses, inputs.waited, strict=True)
    )
