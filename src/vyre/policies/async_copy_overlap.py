"""May a host-to-device copy run beside a kernel?

Rule: not if the kernel touches the destination.  Expected O(1).  Safe, but only half a decision: it says that
overlap is legal, not that it pays; pricing belongs to the execution plan.
"""

from __future__ import annotations

from typing import TypeAlias

from vyre.policies.arm_independence import ArmAccess
from vyre.policies.record import U32, Reason, record, verdict, why_field


@record
class CopyOverlapInputs:
    """The slot the copy writes, and what the kernel accesses."""

    copy_dst_slot: U32
    kernel: ArmAccess


@verdict
class Overlap:
    why: Reason = why_field()


@verdict
class Serialize:
    why: Reason = why_field()


CopyOverlapVerdict: TypeAlias = Overlap | Serialize


def can_overlap_copy_with_kernel(inputs: CopyOverlapInputs) -> CopyOverlapVerdict:
    """``Serialize`` iff the kernel reads or writes the copy's destination."""
    slot, kernel = inputs.copy_dst_slot, inputs.kernel
    if slot in kernel.writes:
        return Serialize(Reason("the kernel writes slot {}, the copy's destination", (slot,)))
    if slot in kernel.reads:
        return Serialize(Reason("the kernel reads slot {}, the copy's destination", (slot,)))
    return Overlap(Reason("the kernel does not touch slot {}", (slot,)))
