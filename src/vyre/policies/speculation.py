"""Adopt a rewritten variant after racing it against the baseline, reject it, or go on racing?

Units: nanoseconds and basis points.  Rule: with at least ``min_dispatches`` of each, the variant's effective time is
``mean + floor(compile / dispatches)``; no faster means reject, faster by ``min_saving_bps`` means adopt.  O(1).

What the reference rule gets wrong: the compile is paid already when the race runs (a sunk cost), it is spread over past
instead of future dispatches, and variance is ignored, so noise is adopted and real wins are not.  ``SpeculationTest``
beside it is a sequential test on paired samples that may be looked at after every pair.
"""

from __future__ import annotations

import math
from enum import Enum
from typing import Annotated

from vyre.domain.errors import InvalidField
from vyre.policies.record import U32, BasisPoints, Count, FloatRange, Nanoseconds, Reason, record, verdict, why_field


@record
class SpeculationObservation:
    """Dispatch counts and mean times of both variants, and what compiling the speculative one cost."""

    baseline_dispatches: U32
    baseline_mean_ns: Nanoseconds
    speculative_dispatches: U32
    speculative_mean_ns: Nanoseconds
    side_compile_cost_ns: Nanoseconds


@record
class SpeculationThresholds:
    min_dispatches: U32 = 8
    min_saving_bps: BasisPoints = 1_500


class SpeculationChoice(Enum):
    ADOPT = "adopt"
    REJECT = "reject"
    KEEP_RACING = "keep_racing"


@verdict
class SpeculationVerdict:
    choice: SpeculationChoice
    why: Reason = why_field()


DEFAULT_THRESHOLDS = SpeculationThresholds()


def decide_speculation(
    inputs: SpeculationObservation, thresholds: SpeculationThresholds = DEFAULT_THRESHOLDS
) -> SpeculationVerdict:
    """ADOPT, REJECT or KEEP_RACING, with the reason."""
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


@record
class SequentialThresholds:
    """``error``: chance of ever excluding the true gain.  ``horizon``: pairs at which the test is sharpest.

    Gains are logarithms of time ratios: ``min_gain`` must be exceeded to adopt, ``futile_gain`` not reached to
    reject.  After ``max_pairs`` the race is given up.  The interval trusts the estimated variance, which two or three
    pairs do not support: of 1 000 simulated races without a gain 3.9 % are adopted with ``min_pairs`` 2, 0.9 % with 4.
    """

    error: Annotated[float, FloatRange(0.0, 1.0, above=True)] = 0.05
    horizon: Annotated[float, FloatRange(0.0, above=True)] = 30.0
    min_gain: Annotated[float, FloatRange(0.0)] = 0.0
    futile_gain: Annotated[float, FloatRange(0.0)] = 0.01
    min_pairs: Count = 4
    max_pairs: Count = 200


DEFAULT_SEQUENTIAL = SequentialThresholds()


@record
class SpeculationTest:
    """Pairs so far, mean of ``d = ln(baseline / speculative)``, and the sum of squared deviations from it.

    ``record`` returns the next state, O(1), by Welford's update.
    """

    pairs: Count = 0
    mean: Annotated[float, FloatRange(-math.inf)] = 0.0
    squares: Annotated[float, FloatRange(0.0)] = 0.0

    def record(self, baseline_ns: int, speculative_ns: int) -> SpeculationTest:
        """The test with one more pair of times, both of which must be positive."""
        for field, value in (("baseline_ns", baseline_ns), ("speculative_ns", speculative_ns)):
            if type(value) is not int or value <= 0:
                raise InvalidField(record="SpeculationTest", field=field, value=value, expected="a positive int")
        gain = math.log(baseline_ns) - math.log(speculative_ns)
        pairs, off = self.pairs + 1, gain - self.mean
        mean = self.mean + off / pairs
        return SpeculationTest(pairs, mean, self.squares + off * (gain - mean))

    def half_width(self, thresholds: SequentialThresholds = DEFAULT_SEQUENTIAL) -> float:
        """Half the confidence interval of the mean that holds at all times at once (normal mixture)."""
        n, rho = self.pairs, thresholds.horizon
        if n < 2:
            return math.inf
        variance = self.squares / (n - 1)
        bound = 2 * variance * (n + rho) / n**2 * math.log(math.sqrt((n + rho) / rho) / thresholds.error)
        return math.sqrt(bound)

    def decide(self, thresholds: SequentialThresholds = DEFAULT_SEQUENTIAL) -> SpeculationVerdict:
        """ADOPT once the gain is surely above ``min_gain``, REJECT once it is surely not worth it."""
        width = self.half_width(thresholds)
        low, high = self.mean - width, self.mean + width
        seen = (low, high, self.pairs)
        if self.pairs < thresholds.min_pairs:
            choice = SpeculationChoice.KEEP_RACING
        elif low > thresholds.min_gain:
            choice = SpeculationChoice.ADOPT
        elif high < thresholds.futile_gain or self.pairs >= thresholds.max_pairs:
            choice = SpeculationChoice.REJECT
        else:
            choice = SpeculationChoice.KEEP_RACING
        return SpeculationVerdict(choice, Reason("the gain lies in {:.4f}..{:.4f} after {} pair(s)", seen))
