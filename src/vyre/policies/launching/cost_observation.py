"""Is a cost what it was taken for, now that it was observed?

Units: nanoseconds.  Rule: the median of the samples replaces the cost if the two differ by more than
``standard_errors`` of their difference and by more than ``min_change_bps`` of what was believed, so that neither noise
nor a trifle makes a plan change.  Fewer than a quarter of the samples, whatever they are, move median and
interquartile range no farther than the others lie apart.

Some samples are times of something that contains the cost, such as all that a dispatch does before it waits.  They
prove nothing about a cost below them; but no cost is larger than what contains it, so a larger one is replaced by
their median as its upper bound.

What is trusted more is not replaced by what is trusted less: a measured cost by emulated times.

What the reference gets wrong: it takes costs as they are given, for good, so that one wrong figure keeps every plan
that rests on it wrong.

Complexity: O(n log n) in the samples.
"""

from __future__ import annotations

from typing import Annotated, Final, TypeAlias

from vyre.domain.cost_limits import LEAST_SAMPLES, SETTLING_SAMPLES
from vyre.domain.launch_costs import Measured, Provenance, of_samples, root_up, weakest
from vyre.policies.arith import weighted
from vyre.policies.record import U32, U32_MAX, BasisPoints, IntRange, Nanoseconds, Reason, record, verdict, why_field


@record
class CostSamples:
    """``believed``: the cost so far; None: unknown.  ``bounds``: the samples are of what contains the cost."""

    cost: str
    believed: Measured | None
    samples_ns: tuple[Nanoseconds, ...]
    provenance: Provenance
    bounds: bool = False


@record
class ObservationThresholds:
    """``min_samples``: fewer settle nothing.  The others: what a difference must exceed."""

    min_samples: Annotated[int, IntRange(LEAST_SAMPLES, U32_MAX)] = SETTLING_SAMPLES
    standard_errors: U32 = 4
    min_change_bps: BasisPoints = 2_500


@verdict
class CostUnsettled:
    """Too few samples, or samples that prove nothing about an unknown cost."""

    cost: str
    why: Reason = why_field()


@verdict
class CostKept:
    """``value`` holds on."""

    cost: str
    value: Measured
    why: Reason = why_field()


@verdict
class CostCorrected:
    """``value`` replaces ``before``; of an ``upper_bound`` nothing is known but that the cost is not larger."""

    cost: str
    before: Measured | None
    value: Measured
    upper_bound: bool
    why: Reason = why_field()


CostVerdict: TypeAlias = CostUnsettled | CostKept | CostCorrected
DEFAULT_THRESHOLDS: Final = ObservationThresholds()


def judge_cost(inputs: CostSamples, thresholds: ObservationThresholds = DEFAULT_THRESHOLDS) -> CostVerdict:
    """What to believe of a cost from now on."""
    cost, believed, count = inputs.cost, inputs.believed, len(inputs.samples_ns)
    if count < thresholds.min_samples:
        few = (cost, count, thresholds.min_samples)
        return CostUnsettled(cost, Reason("{}: {} samples, of {} that it takes", few))
    seen_value = of_samples(inputs.samples_ns, inputs.provenance)
    observed = seen_value.median_ns
    if believed is None:
        return _first(inputs, seen_value)
    if _is_weaker(inputs.provenance, believed.provenance):
        trusted = (cost, believed.provenance.value, inputs.provenance.value)
        return CostKept(cost, believed, Reason("{} was {}, the samples are {}", trusted))
    change = abs(observed - believed.median_ns)
    error = root_up(believed.standard_error_ns**2 + seen_value.standard_error_ns**2)
    margin = max(thresholds.standard_errors * error, weighted(believed.median_ns, thresholds.min_change_bps))
    if inputs.bounds and observed >= believed.median_ns:
        return CostKept(cost, believed, Reason("{}: {} samples contain it and take {} ns", (cost, count, observed)))
    if change <= margin:
        near = (cost, observed, count, change, margin)
        return CostKept(cost, believed, Reason("{}: {} ns in {} samples, {} ns off, no more than {} ns", near))
    if inputs.bounds:
        found = (cost, observed, believed.median_ns, count)
        why = Reason("{} is at most {} ns, not {} ns: {} samples of what contains it take no longer", found)
        return CostCorrected(cost, believed, seen_value, True, why)
    told = (cost, observed, believed.median_ns, count, change, margin)
    why = Reason("{} is {} ns, not {} ns: {} samples, {} ns off, more than {} ns", told)
    return CostCorrected(cost, believed, seen_value, False, why)


def _first(inputs: CostSamples, value: Measured) -> CostVerdict:
    """Of a cost that was unknown."""
    cost, count = inputs.cost, len(inputs.samples_ns)
    if inputs.bounds:
        return CostUnsettled(cost, Reason("{} is unknown, and {} samples only contain it", (cost, count)))
    why = Reason("{} was unknown and is {} ns in {} samples", (cost, value.median_ns, count))
    return CostCorrected(cost, None, value, False, why)


def _is_weaker(one: Provenance, other: Provenance) -> bool:
    return one is not other and weakest((one, other)) is one
