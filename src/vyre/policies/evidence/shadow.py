"""Which dispatches does a shadow run again, and is there room for one more?

Units: dispatches, nanoseconds, bytes.  ``next_sample`` draws the distance to the next sampled dispatch from a geometric
distribution, so that every dispatch has the same chance and no pattern of a loop can hide from it: with u uniform in
[0, 1), the distance is 1 + floor(ln(1 - u) / ln(1 - rate)).  It is a function of a seed and the number of the sample.

``admit_sample`` keeps a debt: every nanosecond that the shadow takes is owed, and time pays it back at the rate of the
budget.  A sample is admitted only while nothing is owed.  Nothing is saved up either: over any time the shadow takes at
most its share of it, and what the samples admitted last take beyond that.  Dispatches that are not sampled take time,
too, because they are counted: each is charged ``dispatch_ns``, and all of them at most three quarters of what time pays
back, so that a quarter is left for samples however short the dispatches are.  Most samples are drawn while something is
owed, so that a refusal says for how long it holds at least: until then only the clock need be asked.  Both O(1).

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

    ``owed_ns``: the debt ``since_ns`` ago.  ``dispatches``: those that were counted since then, sampled or not.
    ``waiting``: samples that are admitted and not run yet, each of which is expected to take ``expected_ns``.
    ``nbytes``: what would be copied for this one.
    """

    owed_ns: Nanoseconds
    since_ns: Nanoseconds
    dispatches: Count
    waiting: Count
    expected_ns: Nanoseconds
    nbytes: Count


@record
class ShadowLimits:
    """The limits of a shadow.

    ``budget``: its share of one core; None: no limit on time.  ``dispatch_ns``: what a dispatch is charged for being
    counted.  In the loop of the demo, whose kernels leave little of that code in the caches, counting takes about
    300 ns more for each dispatch (60 to 90 alone, the rest in compiling the loop's new programs), refusing one of a
    hundred 100 to 250 more, and what the samples that run push out of the caches up to 200 more.
    """

    budget: Annotated[float, FloatRange(0.0, 1.0, above=True)] | None = 0.02
    most_waiting: Annotated[int, IntRange(1, 2**20)] = 8
    most_bytes: Count = 64 << 20
    dispatch_ns: Nanoseconds = 750


DEFAULT_LIMITS: Final = ShadowLimits()
_LONGEST_NS: Final = 2.0**63
"""The longest time, 292 years, for which samples are refused, however small the budget is."""


@verdict
class ShadowVerdict:
    """The answer, with what is still owed now.

    ``refused_ns``: for how long from now on every sample is refused for what is owed; 0 if this one is not.
    """

    action: ShadowAction
    owed_ns: int
    refused_ns: int
    why: Reason = why_field()


def admit_sample(load: ShadowLoad, limits: ShadowLimits = DEFAULT_LIMITS) -> ShadowVerdict:
    """Returns whether a sampled dispatch is run again.

    The limits are tried in the order debt, size, queue, and what the samples that wait are expected to take.
    """
    owed = 0
    if limits.budget is not None:
        paid = math.floor(load.since_ns * limits.budget)
        owed = max(0, load.owed_ns - paid + min(load.dispatches * limits.dispatch_ns, 3 * paid // 4))
        if owed > 0:
            refused_ns = math.floor(min(owed / limits.budget, _LONGEST_NS))
            return ShadowVerdict(ShadowAction.OVER_BUDGET, owed, refused_ns, _owed(owed, limits.budget))
    if load.nbytes > limits.most_bytes:
        why = Reason("{} bytes would be copied, and at most {} may be", (load.nbytes, limits.most_bytes))
        return ShadowVerdict(ShadowAction.TOO_LARGE, owed, 0, why)
    if load.waiting >= limits.most_waiting:
        why = Reason("{} samples wait, and at most {} may", (load.waiting, limits.most_waiting))
        return ShadowVerdict(ShadowAction.QUEUE_FULL, owed, 0, why)
    ahead = load.waiting * load.expected_ns
    if limits.budget is not None and ahead > 0:
        return ShadowVerdict(ShadowAction.OVER_BUDGET, owed, 0, _owed(ahead, limits.budget))
    return ShadowVerdict(ShadowAction.RUN, owed, 0, Reason("nothing is owed to the budget"))


def _owed(ns: int, budget: float) -> Reason:
    return Reason("{} ns are owed to the budget of {:g} of a core", (ns, budget))
