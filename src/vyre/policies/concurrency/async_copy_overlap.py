"""May a host-to-device copy run beside a kernel?

Rule: not if the kernel touches the destination.  Expected O(1).  Safe, but only half a decision: it says that
overlap is legal, not that it pays; pricing belongs to the execution plan.

What the reference gets wrong: a destination is a whole slot to it, so filling one half of a buffer waits for a kernel
that reads the other.  ``copy_bytes`` (None = pinned: all of the slot) and ``ranges`` of the kernel decide by byte.
"""

from __future__ import annotations

from typing import TypeAlias

from vyre.policies.concurrency.arm_independence import ArmAccess
from vyre.policies.concurrency.hazards import (
    WHOLE,
    Access,
    AccessMode,
    ConflictReason,
    Interval,
    check_intervals,
    first_conflict,
)
from vyre.policies.record import U32, Reason, record, verdict, why_field


@record
class CopyOverlapInputs:
    """The slot the copy writes, what the kernel accesses, and which bytes of the slot the copy writes."""

    copy_dst_slot: U32
    kernel: ArmAccess
    copy_bytes: Interval | None = None

    def __post_init__(self) -> None:
        if self.copy_bytes is not None:
            check_intervals("CopyOverlapInputs", "copy_bytes", (self.copy_bytes,))


@verdict
class Overlap:
    why: Reason = why_field()


@verdict
class Serialize:
    why: Reason = why_field()


CopyOverlapVerdict: TypeAlias = Overlap | Serialize


def can_overlap_copy_with_kernel(inputs: CopyOverlapInputs) -> CopyOverlapVerdict:
    """``Serialize`` iff the kernel reads or writes the copy's destination."""
    return judge_copy(inputs.copy_dst_slot, inputs.kernel, inputs.copy_bytes)


def judge_copy(slot: int, kernel: ArmAccess, copy_bytes: Interval | None) -> CopyOverlapVerdict:
    """The same for fields that a record of the caller's has checked."""
    if slot in kernel.writes:
        return Serialize(Reason("the kernel writes slot {}, the copy's destination", (slot,)))
    if slot in kernel.reads:
        return Serialize(Reason("the kernel reads slot {}, the copy's destination", (slot,)))
    if kernel.ranges:
        written = WHOLE if copy_bytes is None else (copy_bytes,)
        found = first_conflict((Access(slot, AccessMode.WRITE, written),), kernel.ranges)
        if found is not None:
            verb = "writes" if found.reason is ConflictReason.WRITE_WRITE else "reads"
            return Serialize(Reason("the kernel {} bytes of slot {} that the copy fills", (verb, slot)))
    return Overlap(Reason("the kernel does not touch slot {}", (slot,)))
