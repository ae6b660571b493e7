"""Which dispatches does a shadow run again, and is there room for one more?

Units: dispatches, nanoseconds, bytes.  ``next_sample`` draws the distance to the next sampled dispatch from a geometric
distribution, so that every dispatch has the same chance and no pattern of a loop can hide from it: with u uniform in
[0, 1), the distance is 1 + floor(ln(1 - u) / ln(1 - rate)).  It is a function of a seed and the number of the sample.

``admit_sample`` keeps a debt: every nanosecond that the shadow takes is owed, and time pays it back at the rate of the
budget.  A sample is admitted only while nothing is owed.  Nothing is saved up either: over any time the shadow takes at
most its share of it, and what the samples admitted last take beyond that.  Both O(1).

vyre-driver has removed sampling, because what goes wrong more rarely than the rate may never be seen.  Here exhaustive
comparison is the conformance run's, and the shadow looks at the programs and the data that a process really has.
"""

from __future__ import annotations

import math
from enum import Enum
from typing import Annotated, Final, TypeAlias

from vyre.policies.record import (
    U64,
    U64_MAX,
    Count,
    FloatRange,
    IntRange,
    Nanoseconds,
    Reason,
    record,
    verdict,
    why_field,
)

Rate: TypeAlias = Annotated[float, FloatRange(0.0, 1.0, above=True)]
_GOLDEN: Final = 0x9E37_79B9_7F4A_7C15
_MANTISSA: Final = 53
MOST_APART: Final = 2.0**52
"""The most dispatches between two samples."""


@record
class SampleDraw:
    """The draw of a sample: ``sample`` counts those before it, and ``rate`` is the chance of a dispatch."""

    seed: U64
    sample: U64
    rate: Rate


def next_sample(draw: SampleDraw) -> int:
    """Returns how many dispatches further on the next sample lies, at least 1."""
    if draw.rate >= 1.0:
        return 1
    word = _mixed((draw.seed + (draw.sample + 1) * _GOLDEN) & U64_MAX)
    uniform = (word >> (64 - _MANTISSA)) / 2.0**_MANTISSA
    return 1 + math.floor(min(math.log1p(-uniform) / math.log1p(-draw.rate), MOST_APART))


def _mixed(word: int) -> int:
    """The finalizer of SplitMix64 (Steele, Lea, Flood 2014)."""
    word = (word ^ (word >> 30)) * 0xBF58_476D_1CE4_E5B9 & U64_MAX
    word = (word ^ (word >> 27)) * 0x94D0_49BB_1331_11EB & U64_MAX
    return word ^ (word >> 31)


class ShadowAction(Enum):
    """What becomes of a sampled dispatch: it is run again, or dropped for what is exhausted."""

    RUN = "run"
    OVER_BUDGET = "budget"
    QUEUE_FULL = "queue"
    TOO_LARGE = "size"


@record
class ShadowLoad:
    """The state of a shadow when a dispatch is sampled.

    ``owed_ns``: the debt ``since_ns`` ago.  ``waiting``: samples that are admitted and not run yet, each of which is
    expected to take ``expected_ns``.  ``nbytes``: what would be copied for this one.
    """

    owed_ns: Nanoseconds
    since_ns: Nanoseconds
    waiting: Count
    expected_ns: Nanoseconds
    nbytes: Count


@record
class ShadowLimits:
    """The limits of a shadow.  ``budget``: its share of one core; None: no limit on time."""

    budget: Annotated[float, FloatRange(0.0, 1.0, above=True)] | None = 0.02
    most_waiting: Annotated[int, IntRange(1, 2**20)] = 8
    most_bytes: Count = 64 << 20


DEFAULT_LIMITS: Final = ShadowLimits()


@verdict
class ShadowVerdict:
    """The answer, with what is still owed now."""

    action: ShadowAction
    owed_ns: int
    why: Reason = why_field()


def admit_sample(load: ShadowLoad, limits: ShadowLimits = DEFAULT_LIMITS) -> ShadowVerdict:
    """Returns whether a sampled dispatch is run again.  The limits are tried in the order size, queue, budget."""
    owed = 0
    if limits.budget is not None:
        owed = max(0, load.owed_ns - math.floor(load.since_ns * limits.budget))
    if load.nbytes > limits.most_bytes:
        why = Reason("{} bytes would be copied, and at most {} may be", (load.nbytes, limits.most_bytes))
        return ShadowVerdict(ShadowAction.TOO_LARGE, owed, why)
    if load.waiting >= limits.most_waiting:
        why = Reason("{} samples wait, and at most {} may", (load.waiting, limits.most_waiting))
        return ShadowVerdict(ShadowAction.QUEUE_FULL, owed, why)
    ahead = owed + load.waiting * load.expected_ns
    if limits.budget is not None and ahead > 0:
        why = Reason("{} ns are owed to the budget of {:g} of a core", (ahead, limits.budget))
        return ShadowVerdict(ShadowAction.OVER_BUDGET, owed, why)
    return ShadowVerdict(ShadowAction.RUN, owed, Reason("nothing is owed to the budget"))
