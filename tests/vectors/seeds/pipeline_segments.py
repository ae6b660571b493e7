"""Which neighbouring pipelines become one launch?

The planner tests each pipeline against the union of the accesses of the open segment, so that *every* pair inside a
segment is independent.  The union needs no set of its own: inside a segment nothing is ordered, so a pipeline conflicts
with the segment iff the hazard graph has an edge from the segment to it.  Cost: that of ``hazard_graph``, and O(slots)
for each break.

vyre-driver tests neighbours alone, so that the first and third pipeline of a segment may conflict.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

from vectors.seeds.arm_independence import ArmAccess
from vyre.policies.concurrency.hazards import ConflictReason, HazardInputs, first_conflict, hazard_graph
from vyre.policies.record import record, verdict


@record
class FusionPlanInputs:
    """The accesses of each pipeline, in launch order."""

    summaries: tuple[ArmAccess, ...]


class SegmentBreak(NamedTuple):
    """A new launch begins between pipelines ``earlier`` and ``later`` = ``earlier`` + 1."""

    earlier: int
    later: int
    reason: ConflictReason


@verdict
class FusionPlan:
    """Half-open segments of pipelines that run as one launch."""

    segments: tuple[tuple[int, int], ...]
    breaks: tuple[SegmentBreak, ...]

    @property
    def contains_fused_segment(self) -> bool:
        """Whether some segment has more than one pipeline."""
        return any(end - start > 1 for start, end in self.segments)


def plan_cross_pipeline_fusion(inputs: FusionPlanInputs) -> FusionPlan:
    """Returns greedy maximal contiguous segments.

    The reason of a break is the conflict with the neighbour, else that with the segment.
    """
    accesses = tuple(summary.accesses for summary in inputs.summaries)
    starts, breaks = [0] if accesses else [], []
    for later, before in enumerate(hazard_graph(HazardInputs(accesses)).predecessors):
        if not before or before[-1] < starts[-1]:
            continue
        segment = tuple(access for summary in accesses[starts[-1] : later] for access in summary)
        conflict = first_conflict(accesses[later - 1], accesses[later]) or first_conflict(segment, accesses[later])
        assert conflict is not None  # an edge of the hazard graph is a conflict
        breaks.append(SegmentBreak(later - 1, later, conflict.reason))
        starts.append(later)
    return FusionPlan(tuple(pairwise([*starts, len(accesses)])), tuple(breaks))
