"""When may we say "A is x times faster than B"?

Rule: both sides were measured in one run, on one device, in pairs of samples taken next to each other; then the claim
is the median of the paired ratios, and it is supported if a distribution-free lower confidence bound of that median
exceeds x.  Whatever was not measured so is refused.  Units: samples have the same unit of time on both sides; a ratio
is the slower side's time over the faster side's.  O(n log n) in the samples.

vyre-driver has a gate with two weaknesses: a sample is two totals without spread, and the samples that it makes of
session plans have pollution counters of zero, so that their check cannot fail.
"""

from __future__ import annotations

import math
from enum import Enum
from statistics import median
from typing import Annotated, Final

from vyre.policies.record import IntRange, Reason, record, verdict, why_field


@record
class MeasuredSide:
    """One side of a comparison: ``samples`` in the order of the rounds, all taken by ``run`` on ``device``."""

    name: str
    device: str
    run: str
    samples: tuple[float, ...]


@record
class ClaimInputs:
    """The claim that ``faster`` is ``factor`` times faster than ``slower``; a side that was not measured is None."""

    faster: MeasuredSide | None
    slower: MeasuredSide | None
    factor: float


@record
class ClaimThresholds:
    """``error_ppm`` is the chance in a million that the true median is below the bound."""

    error_ppm: Annotated[int, IntRange(0, 1_000_000)] = 25_000


class ClaimRefusal(Enum):
    """Why a claim is refused, in the order in which it is checked."""

    INVALID_FACTOR = "the factor is no finite number above 0"
    NOT_MEASURED = "a side was not measured"
    SAME_SIDE = "a side is compared with itself"
    OTHER_RUN = "the sides were measured in different runs"
    OTHER_DEVICE = "the sides were measured on different devices"
    UNPAIRED = "the sides have different numbers of samples"
    INVALID_SAMPLE = "a sample is no finite time above 0"
    TOO_FEW = "there are too few samples for any bound"
    NOT_REACHED = "the bound does not exceed the factor"


@verdict
class SpeedupClaim:
    """``refusal`` is None for a claim that the samples support.

    ``median_x`` is the median of the ratios, ``lower_bound_x`` its lower confidence bound; each is None where it could
    not be computed.
    """

    refusal: ClaimRefusal | None
    median_x: float | None
    lower_bound_x: float | None
    why: Reason = why_field()

    @property
    def supported(self) -> bool:
        """Whether the samples support the claim."""
        return self.refusal is None

    @property
    def label(self) -> str:
        """A name of the outcome for metrics."""
        return "supported" if self.refusal is None else self.refusal.name.lower()


DEFAULT_CLAIM: Final = ClaimThresholds()


def judge_claim(inputs: ClaimInputs, thresholds: ClaimThresholds = DEFAULT_CLAIM) -> SpeedupClaim:
    """Judges whether the samples support a claim.

    The bound is the k-th smallest ratio, k being the largest number with ``P(Binomial(n, 1/2) < k) <= error``: the sign
    test's confidence bound of a median, which holds for any distribution of times.  O(n log n).
    """
    faster, slower = inputs.faster, inputs.slower
    if not (math.isfinite(inputs.factor) and inputs.factor > 0):
        return _refused(ClaimRefusal.INVALID_FACTOR, "a factor of {}", inputs.factor)
    if faster is None or slower is None:
        return _refused(ClaimRefusal.NOT_MEASURED, "a side was not measured")
    if faster.name == slower.name:
        return _refused(ClaimRefusal.SAME_SIDE, "`{}` is compared with itself", faster.name)
    if faster.run != slower.run:
        return _refused(
            ClaimRefusal.OTHER_RUN, "`{}` and `{}` were measured in different runs", faster.name, slower.name
        )
    if faster.device != slower.device:
        return _refused(
            ClaimRefusal.OTHER_DEVICE, "one side was measured on `{}`, the other on `{}`", faster.device, slower.device
        )
    if len(faster.samples) != len(slower.samples):
        return _refused(
            ClaimRefusal.UNPAIRED, "one side has {} samples, the other {}", len(faster.samples), len(slower.samples)
        )
    pairs = list(zip(slower.samples, faster.samples, strict=True))
    for index, pair in enumerate(pairs):
        if not all(math.isfinite(time) and time > 0 for time in pair):
            return _refused(ClaimRefusal.INVALID_SAMPLE, "the samples of round {} are {} and {}", index, *pair)
    ratios = sorted(over / under for over, under in pairs)
    rank = _bound_rank(len(ratios), thresholds.error_ppm)
    if rank == 0:
        middle = median(ratios) if ratios else None
        return SpeedupClaim(
            ClaimRefusal.TOO_FEW, middle, None, Reason("{} samples are too few for a bound", (len(ratios),))
        )
    bound = ratios[rank - 1]
    return SpeedupClaim(
        None if bound > inputs.factor else ClaimRefusal.NOT_REACHED,
        median(ratios),
        bound,
        Reason("the median is at least {:.3f}; {:.3f} is claimed", (bound, inputs.factor)),
    )


def _refused(refusal: ClaimRefusal, text: str, *values: object) -> SpeedupClaim:
    return SpeedupClaim(refusal, None, None, Reason(text, values))


def _bound_rank(n: int, error_ppm: int) -> int:
    """Returns the largest k with ``P(Binomial(n, 1/2) < k) <= error``, computed exactly."""
    term, tail, rank, most = 1, 1, 0, error_ppm * 2**n
    while rank < n and tail * 1_000_000 <= most:
        rank += 1
        term = term * (n - rank + 1) // rank  # n over rank
        tail += term
    return rank
