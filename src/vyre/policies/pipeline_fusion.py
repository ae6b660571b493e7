"""Can neighbouring pipelines become one launch?

Pairwise rule: when their accesses do not conflict (``arm_independence``).  The planner keeps the running union of what
the open segment reads and writes and tests each newcomer against it, so that *every* pair inside a segment is
independent; testing neighbours alone, as the reference does, lets the first and third of a segment conflict.
O(n * slots).
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from vyre.policies.arm_independence import ArmAccess, ConflictReason, SerializeRequired, can_dispatch_concurrently
from vyre.policies.record import Reason, record, verdict, why_field


@verdict
class Fuse:
    why: Reason = why_field()


@verdict
class KeepSeparate:
    reason: ConflictReason
    why: Reason = why_field()


FusionVerdict: TypeAlias = Fuse | KeepSeparate


def decide_cross_pipeline_fusion(earlier: ArmAccess, later: ArmAccess) -> FusionVerdict:
    """``Fuse`` iff the two are independent."""
    found = can_dispatch_concurrently(earlier, later)
    return KeepSeparate(found.reason, found.why) if isinstance(found, SerializeRequired) else Fuse(found.why)


@record
class FusionPlanInputs:
    """What each pipeline accesses, in launch order."""

    summaries: tuple[ArmAccess, ...]


class SegmentBreak(NamedTuple):
    """Between pipelines ``earlier`` and ``later`` = ``earlier`` + 1 a new launch begins."""

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
        return any(end - start > 1 for start, end in self.segments)


def plan_cross_pipeline_fusion(inputs: FusionPlanInputs) -> FusionPlan:
    """Greedy maximal contiguous segments; a break's reason is the neighbour's conflict, else the segment's."""
    summaries = inputs.summaries
    if not summaries:
        return FusionPlan((), ())
    segments: list[tuple[int, int]] = []
    breaks: list[SegmentBreak] = []
    start, reads, writes = 0, summaries[0].reads, summaries[0].writes
    for i in range(1, len(summaries)):
        later = summaries[i]
        conflict = can_dispatch_concurrently(ArmAccess(reads, writes), later)
        if isinstance(conflict, SerializeRequired):
            neighbour = can_dispatch_concurrently(summaries[i - 1], later)
            named = neighbour if isinstance(neighbour, SerializeRequired) else conflict
            segments.append((start, i))
            breaks.append(SegmentBreak(i - 1, i, named.reason))
            start, reads, writes = i, later.reads, later.writes
        else:
            reads, writes = reads | later.reads, writes | later.writes
    segments.append((start, len(summaries)))
    return FusionPlan(tuple(segments), tuple(breaks))
