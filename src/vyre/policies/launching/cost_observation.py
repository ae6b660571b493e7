"""Do observations confirm a cost, or does it have to be corrected?

Units: nanoseconds.  Rule: the median of the samples replaces the cost if the two differ by more than
``standard_errors`` of their difference and by more than ``min_change_bps`` of the believed cost, so that neither noise
nor a small change alters a plan.  Outliers that are fewer than a quarter of the samples move median and interquartile
range no farther than the range of the other samples.

Some samples time an operation that contains the cost, such as everything that a dispatch does before it waits.  They
prove nothing about a cost below them.  But no cost is larger than an operation that contains it, so a larger cost is
replaced by their median as its upper bound.

A cost is never replaced by samples of a less trustworthy kind, such as a measured cost by emulated times.

Unlike vyre-driver, which takes costs as given, so that one wrong figure keeps every plan that rests on it wrong, this
corrects them.

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
    """Samples of a cost.

    ``believed`` is the cost so far, None if unknown.  ``bounds`` says that the samples time an operation that contains
    the cost.
    """

    cost: str
    believed: Measured | None
    samples_ns: tuple[Nanoseconds, ...]
    provenance: Provenance
    bounds: bool = False


@record
class ObservationThresholds:
    """``min_samples``: fewer samples decide nothing.  The other two are what a difference must exceed."""

    min_samples: Annotated[int, IntRange(LEAST_SAMPLES, U32_MAX)] = SETTLING_SAMPLES
    standard_errors: U32 = 4
    min_change_bps: BasisPoints = 2_500


@verdict
class CostUnsettled:
    """There are too few samples, or samples that prove nothing about an unknown cost."""

    cost: str
    why: Reason = why_field()


@verdict
class CostKept:
    """The cost remains ``value``."""

    cost: str
    value: Measured
    why: Reason = why_field()


@verdict
class CostCorrected:
    """``value`` replaces ``before``; with ``upper_bound``, the cost is only known not to be larger."""

    cost: str
    before: Measured | None
    value: Measured
    upper_bound: bool
    why: Reason = why_field()


CostVerdict: TypeAlias = CostUnsettled | CostKept | CostCorrected
DEFAULT_THRESHOLDS: Final = ObservationThresholds()


def judge_cost(inputs: CostSamples, thresholds: ObservationThresholds = DEFAULT_THRESHOLDS) -> CostVerdict:
    """Returns what to believe of a cost from now on."""
    cost, believed, count = inputs.cost, inputs.believed, len(inputs.samples_ns)
    if count < thresholds.min_samples:
        few = (cost, count, thresholds.min_samples)
        return CostUnsettled(cost, Reason("{}: {} samples, of {} that it takes", few))
    seen_value = of_samples(inputs.samples_ns, inputs.provenance)
    observed = seen_value.median_ns
    if believed is None:
        return _first(inputs, seen_value)
    if weakest((inputs.provenance, believed.provenance)) is not believed.provenance:
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
        numbers = (cost, observed, believed.median_ns, count)
        why = Reason("{} is at most {} ns, not {} ns: {} samples of what contains it take no longer", numbers)
        return CostCorrected(cost, believed, seen_value, True, why)
    told = (cost, observed, believed.median_ns, count, change, margin)
    why = Reason("{} is {} ns, not {} ns: {} samples, {} ns off, more than {} ns", told)
    return CostCorrected(cost, believed, seen_value, False, why)


def _first(inputs: CostSamples, value: Measured) -> CostVerdict:
    """Judges a cost that was unknown."""
    cost, count = inputs.cost, len(inputs.samples_ns)
    if inputs.bounds:
        return CostUnsettled(cost, Reason("{} is unknown, and {} samples only contain it", (cost, count)))
    why = Reason("{} was unknown and is {} ns in {} samples", (cost, value.median_ns, count))
    return CostCorrected(cost, None, value, False, why)
