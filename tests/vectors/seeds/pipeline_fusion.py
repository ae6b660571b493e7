"""Can two neighbouring pipelines become one launch?

Rule: they can if their accesses do not conflict (``arm_independence``).  O(slots).

vyre-driver also cuts lists of pipelines into neighbours, and tests neighbours alone, so that the first and third of a
segment may conflict; here only pairs are asked for.
"""

from __future__ import annotations

from typing import TypeAlias

from vectors.seeds.arm_independence import ArmAccess, judge_arms
from vyre.policies.concurrency.hazards import ConflictReason
from vyre.policies.record import Reason, verdict, why_field


@verdict
class Fuse:
    """The pipelines may become one launch."""

    why: Reason = why_field()


@verdict
class KeepSeparate:
    """The pipelines conflict."""

    reason: ConflictReason
    why: Reason = why_field()


FusionVerdict: TypeAlias = Fuse | KeepSeparate


def decide_cross_pipeline_fusion(earlier: ArmAccess, later: ArmAccess) -> FusionVerdict:
    """Returns ``Fuse`` iff the two are independent."""
    reason, why = judge_arms(earlier, later)
    return Fuse(why) if reason is None else KeepSeparate(reason, why)
