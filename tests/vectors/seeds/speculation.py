"""Is a rewritten variant adopted after racing it against the baseline, rejected, or raced on?

Units: nanoseconds and basis points.  Rule: with at least ``min_dispatches`` of each, the variant's effective time is
``mean + floor(compile / dispatches)``; if that is no faster the variant is rejected, if it is faster by
``min_saving_bps`` it is adopted.  O(1).

vyre-driver has this rule.  The compile is paid already when the race runs (a sunk cost), it is spread over past instead
of future dispatches, and variance is ignored, so noise is adopted and real gains are not.  ``paired_race`` is a test of
the same question that may be evaluated after every pair.
"""

from __future__ import annotations

from enum import Enum

from vyre.policies.record import U32, BasisPoints, Nanoseconds, Reason, record, verdict, why_field


@record
class SpeculationObservation:
    """Dispatch counts and mean times of both variants, and the cost of compiling the speculative one."""

    baseline_dispatches: U32
    baseline_mean_ns: Nanoseconds
    speculative_dispatches: U32
    speculative_mean_ns: Nanoseconds
    side_compile_cost_ns: Nanoseconds


@record
class SpeculationThresholds:
    """The least dispatches of each variant, and the least saving that is adopted."""

    min_dispatches: U32 = 8
    min_saving_bps: BasisPoints = 1_500


class SpeculationChoice(Enum):
    """The verdict on a variant."""

    ADOPT = "adopt"
    REJECT = "reject"
    KEEP_RACING = "keep_racing"


@verdict
class SpeculationVerdict:
    """The verdict on a variant, with its reason."""

    choice: SpeculationChoice
    why: Reason = why_field()


DEFAULT_THRESHOLDS = SpeculationThresholds()


def decide_speculation(
    inputs: SpeculationObservation, thresholds: SpeculationThresholds = DEFAULT_THRESHOLDS
) -> SpeculationVerdict:
    """Returns ADOPT, REJECT or KEEP_RACING, with the reason."""
    base_n, spec_n, base = inputs.baseline_dispatches, inputs.speculative_dispatches, inputs.baseline_mean_ns
    if base_n < thresholds.min_dispatches or spec_n < thresholds.min_dispatches:
        return SpeculationVerdict(
            SpeculationChoice.KEEP_RACING,
            Reason("{} and {} dispatches; {} of each are needed", (base_n, spec_n, thresholds.min_dispatches)),
        )
    if base == 0:
        return SpeculationVerdict(SpeculationChoice.KEEP_RACING, Reason("the baseline took no measurable time"))
    effective = inputs.speculative_mean_ns + (inputs.side_compile_cost_ns // spec_n if spec_n else 0)
    if effective >= base:
        return SpeculationVerdict(
            SpeculationChoice.REJECT, Reason("{} ns with its compile is no faster than {} ns", (effective, base))
        )
    saving = (base - effective) * 10_000 // base
    if saving >= thresholds.min_saving_bps:
        return SpeculationVerdict(SpeculationChoice.ADOPT, Reason("{} bps faster than {} ns", (saving, base)))
    return SpeculationVerdict(
        SpeculationChoice.KEEP_RACING, Reason("{} bps faster; {} bps are needed", (saving, thresholds.min_saving_bps))
    )
