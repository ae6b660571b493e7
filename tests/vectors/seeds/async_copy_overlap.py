"""May a host-to-device copy run beside a kernel?

Rule: no if the kernel accesses the destination, otherwise yes.  Expected O(1).  The answer says that overlap is legal,
not that it saves time; ``plan_execution`` compares prices.

Unlike vyre-driver, which knows whole slots only, so that a copy into one half of a buffer waits for a kernel that reads
the other half, this decides by byte where ``copy_bytes`` and the kernel's ``ranges`` are given.  Without ``copy_bytes``
(None) a copy writes the whole slot, as in vyre-driver.
"""

from __future__ import annotations

from typing import TypeAlias

from vectors.seeds.arm_independence import ArmAccess
from vectors.seeds.intervals import check_intervals
from vyre.policies.concurrency.hazards import (
    WHOLE,
    Access,
    AccessMode,
    ConflictReason,
    Interval,
    first_conflict,
)
from vyre.policies.record import U32, Reason, record, verdict, why_field


@record
class CopyOverlapInputs:
    """The slot that the copy writes, the accesses of the kernel, and the bytes of the slot that the copy writes.

    ``copy_bytes`` None means all bytes.
    """

    copy_dst_slot: U32
    kernel: ArmAccess
    copy_bytes: Interval | None = None

    def __post_init__(self) -> None:
        if self.copy_bytes is not None:
            check_intervals("CopyOverlapInputs", "copy_bytes", (self.copy_bytes,))


@verdict
class Overlap:
    """The copy may run beside the kernel."""

    why: Reason = why_field()


@verdict
class Serialize:
    """The copy and the kernel must run one after the other."""

    why: Reason = why_field()


CopyOverlapVerdict: TypeAlias = Overlap | Serialize


def can_overlap_copy_with_kernel(inputs: CopyOverlapInputs) -> CopyOverlapVerdict:
    """Returns ``Serialize`` iff the kernel reads or writes the copy's destination."""
    return judge_copy(inputs.copy_dst_slot, inputs.kernel, inputs.copy_bytes)


def judge_copy(slot: int, kernel: ArmAccess, copy_bytes: Interval | None) -> CopyOverlapVerdict:
    """Decides like ``can_overlap_copy_with_kernel``, for fields that the caller's own record has checked."""
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
