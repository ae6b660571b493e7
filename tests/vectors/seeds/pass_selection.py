"""Which optional passes are enabled for a workload, within a planning-time and a scratch budget?

Units: nanoseconds, bytes, basis points (10 000 = no change).  Rule: mandatory passes come first, then passes by
``speed-up * (sum of the pass's three minima)`` descending, then by id; each is taken if the workload reaches its minima
and it still fits.  O(n log n).

vyre-driver has this order, in which the value of a pass grows with its *minima*, so that passes that are rarely useful
come first; and the projected speed-ups are multiplied as if they were independent.  With ``predicted_saving_ns``,
passes are ranked by predicted net saving per planning nanosecond instead.  The projection is a ranking aid, not a
measurement.
"""

from __future__ import annotations

from enum import Enum
from fractions import Fraction

from vyre.domain.errors import PlanError
from vyre.policies.arith import BPS, weighted
from vyre.policies.record import U32, U64, checked_u64, record, verdict


@record
class PassCandidate:
    """A pass.  ``min_*`` is the least workload that it helps; ``expected_speedup_bps`` must exceed 10 000.

    ``predicted_saving_ns`` is the time that the pass is predicted to save on *this* workload; None means not predicted,
    as in vyre-driver.
    """

    pass_id: str
    min_frontier_items: U64
    min_reuse_count: U64
    min_avoided_readback_bytes: U64
    planning_cost_ns: U64
    scratch_bytes: U64
    expected_speedup_bps: U32
    mandatory_when_profitable: bool
    predicted_saving_ns: U64 | None = None

    @property
    def value(self) -> Fraction:
        """The value by which passes are ranked, descending."""
        if self.predicted_saving_ns is not None:
            return Fraction(self.predicted_saving_ns - self.planning_cost_ns, self.planning_cost_ns + 1)
        minima = self.min_frontier_items + self.min_reuse_count + self.min_avoided_readback_bytes
        return Fraction(self.expected_speedup_bps * minima)


@record
class WorkloadSample:
    """The observed workload, and the budget of planning."""

    frontier_items: U64
    reuse_count: U64
    avoidable_readback_bytes: U64
    planning_budget_ns: U64
    scratch_budget_bytes: U64


@record
class SelectionInputs:
    """Passes and a workload."""

    candidates: tuple[PassCandidate, ...]
    sample: WorkloadSample


class SkipReason(Enum):
    """Why a pass is left out."""

    FRONTIER_BELOW_THRESHOLD = "frontier_below_threshold"
    REUSE_BELOW_THRESHOLD = "reuse_below_threshold"
    READBACK_BELOW_THRESHOLD = "readback_below_threshold"
    PLANNING_BUDGET_EXCEEDED = "planning_budget_exceeded"
    SCRATCH_BUDGET_EXCEEDED = "scratch_budget_exceeded"


@verdict
class SkippedPass:
    """A pass that is left out."""

    pass_id: str
    reason: SkipReason


@verdict
class PassSelection:
    """Passes in the order of their application, and the others in the order in which they were considered."""

    selected_pass_ids: tuple[str, ...]
    skipped_passes: tuple[SkippedPass, ...]
    total_planning_cost_ns: int
    total_scratch_bytes: int
    projected_speedup_bps: int


def select_passes(inputs: SelectionInputs) -> PassSelection:
    """Selects passes greedily.

    Raises ``PlanError`` for malformed candidates, overflow, and a mandatory pass that is profitable and exceeds the
    budget.
    """
    _check(inputs.candidates)
    sample = inputs.sample
    selected: list[PassCandidate] = []
    skipped: list[SkippedPass] = []
    planning = scratch = 0
    for candidate in sorted(inputs.candidates, key=lambda c: (not c.mandatory_when_profitable, -c.value, c.pass_id)):
        reason = _below_minimum(candidate, sample)
        if reason is None:
            next_planning = checked_u64(planning + candidate.planning_cost_ns, "planning cost", "CountOverflow")
            next_scratch = scratch + candidate.scratch_bytes
            if next_planning > sample.planning_budget_ns:
                reason = SkipReason.PLANNING_BUDGET_EXCEEDED
            elif checked_u64(next_scratch, "scratch bytes", "CountOverflow") > sample.scratch_budget_bytes:
                reason = SkipReason.SCRATCH_BUDGET_EXCEEDED
            else:
                planning, scratch = next_planning, next_scratch
                selected.append(candidate)
                continue
            if candidate.mandatory_when_profitable:
                raise PlanError("MandatoryProfitablePassOverBudget", pass_id=candidate.pass_id, reason=reason)
        skipped.append(SkippedPass(candidate.pass_id, reason))
    projected = BPS
    for candidate in selected:
        composed = weighted(projected, candidate.expected_speedup_bps)
        projected = checked_u64(composed, "projected speedup product", "CountOverflow")
    return PassSelection(tuple(c.pass_id for c in selected), tuple(skipped), planning, scratch, projected)


def _check(candidates: tuple[PassCandidate, ...]) -> None:
    seen: set[str] = set()
    for candidate in candidates:
        if not candidate.pass_id:
            raise PlanError("EmptyPassId")
        if candidate.pass_id in seen:
            raise PlanError("DuplicatePassId", pass_id=candidate.pass_id)
        seen.add(candidate.pass_id)
        if candidate.expected_speedup_bps <= BPS:
            raise PlanError("MissingSpeedupEvidence", pass_id=candidate.pass_id)


def _below_minimum(candidate: PassCandidate, sample: WorkloadSample) -> SkipReason | None:
    if sample.frontier_items < candidate.min_frontier_items:
        return SkipReason.FRONTIER_BELOW_THRESHOLD
    if sample.reuse_count < candidate.min_reuse_count:
        return SkipReason.REUSE_BELOW_THRESHOLD
    if sample.avoidable_readback_bytes < candidate.min_avoided_readback_bytes:
        return SkipReason.READBACK_BELOW_THRESHOLD
    return None
