"""May two arms of work run at the same time, on independent streams?

Rule, first match wins: both write a slot (WRITE_WRITE); ``a`` writes a slot that ``b`` reads (READ_AFTER_WRITE); ``a``
reads a slot that ``b`` writes (WRITE_AFTER_READ); otherwise they are independent.  Expected O(min(|a|, |b|)) with hash
sets.

vyre-driver has this rule and applies it to slot numbers.  These are per program, so slot 0 of two programs need not be
one buffer, and two slots may alias one.  Pass ids of *resources* instead, and ``ranges`` where the bytes are known;
then the same rule holds per byte interval, as in ``hazards``.
"""

from __future__ import annotations

from typing import Final

from vyre.policies.concurrency.hazards import Access, AccessMode, ConflictReason, first_conflict
from vyre.policies.record import U32, Reason, record


@record
class ArmAccess:
    """The slots (or resource ids) that an arm reads and writes as a whole, and the byte ``ranges`` of other ones."""

    reads: frozenset[U32]
    writes: frozenset[U32]
    ranges: tuple[Access, ...] = ()

    @property
    def accesses(self) -> tuple[Access, ...]:
        """The same as accesses of resources."""
        reads = (Access(slot, AccessMode.READ) for slot in sorted(self.reads))
        writes = (Access(slot, AccessMode.WRITE) for slot in sorted(self.writes))
        return (*reads, *writes, *self.ranges)


def judge_arms(a: ArmAccess, b: ArmAccess) -> tuple[ConflictReason | None, Reason]:
    """Returns the first conflict in the order of the rule, or None, and the reason."""
    if a.ranges or b.ranges:
        return _judge_bytes(a, b)
    if not a.writes.isdisjoint(b.writes):
        return _conflict(ConflictReason.WRITE_WRITE, a.writes & b.writes)
    if not a.writes.isdisjoint(b.reads):
        return _conflict(ConflictReason.READ_AFTER_WRITE, a.writes & b.reads)
    if not a.reads.isdisjoint(b.writes):
        return _conflict(ConflictReason.WRITE_AFTER_READ, a.reads & b.writes)
    return None, Reason("no slot written by one arm is touched by the other")


def _judge_bytes(a: ArmAccess, b: ArmAccess) -> tuple[ConflictReason | None, Reason]:
    found = first_conflict(a.accesses, b.accesses)
    if found is None:
        return None, Reason("no byte written by one arm is touched by the other")
    return _conflict(found.reason, frozenset({found.resource}))


_TEMPLATES: Final = {
    ConflictReason.WRITE_WRITE: "both arms write slot(s) {}",
    ConflictReason.READ_AFTER_WRITE: "the later arm reads slot(s) {}",
    ConflictReason.WRITE_AFTER_READ: "the later arm overwrites slot(s) {}",
}


def _conflict(reason: ConflictReason, slots: frozenset[int]) -> tuple[ConflictReason, Reason]:
    return reason, Reason(_TEMPLATES[reason], (sorted(slots)[:4],))
