"""May two arms of work run at the same time, on independent streams?

Rule, first match wins: both write a slot (WRITE_WRITE); ``a`` writes what ``b`` reads (READ_AFTER_WRITE); ``a`` reads
what ``b`` writes (WRITE_AFTER_READ); else independent.  Expected O(min(|a|, |b|)) with hash sets.

What the reference gets wrong is the key: slot numbers are per program, so slot 0 of two programs need not be one
buffer, and two slots may alias one.  Feed ids of *resources*; ``hazards`` does the same by byte interval.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from vyre.policies.record import U32, Reason, record, verdict, why_field


@record
class ArmAccess:
    """Slots (or resource ids) an arm reads and writes."""

    reads: frozenset[U32]
    writes: frozenset[U32]


class ConflictReason(Enum):
    """Why two arms must stay in order."""

    WRITE_WRITE = "write_write"
    READ_AFTER_WRITE = "read_after_write"
    WRITE_AFTER_READ = "write_after_read"


@verdict
class Independent:
    why: Reason = why_field()


@verdict
class SerializeRequired:
    """``reason`` is the first conflict found, by the order of the rule."""

    reason: ConflictReason
    why: Reason = why_field()


ArmVerdict: TypeAlias = Independent | SerializeRequired


def can_dispatch_concurrently(a: ArmAccess, b: ArmAccess) -> ArmVerdict:
    """``Independent`` iff no slot is written by one arm and touched by the other."""
    if not a.writes.isdisjoint(b.writes):
        return _serialize(ConflictReason.WRITE_WRITE, "both arms write slot(s) {}", a.writes & b.writes)
    if not a.writes.isdisjoint(b.reads):
        return _serialize(ConflictReason.READ_AFTER_WRITE, "the later arm reads slot(s) {}", a.writes & b.reads)
    if not a.reads.isdisjoint(b.writes):
        return _serialize(ConflictReason.WRITE_AFTER_READ, "the later arm overwrites slot(s) {}", a.reads & b.writes)
    return Independent(Reason("no slot written by one arm is touched by the other"))


def _serialize(reason: ConflictReason, template: str, slots: frozenset[int]) -> SerializeRequired:
    return SerializeRequired(reason, Reason(template, (sorted(slots)[:4],)))


@dataclass(frozen=True, slots=True)
class BindingSlotSet:
    """An immutable set of binding slots."""

    slots: frozenset[int] = frozenset()

    def insert(self, slot: int) -> tuple[BindingSlotSet, bool]:
        """The set with ``slot``, and whether it is new."""
        return (self, False) if slot in self.slots else (BindingSlotSet(self.slots | {slot}), True)

    def __contains__(self, slot: int) -> bool:
        return slot in self.slots

    def intersects(self, other: BindingSlotSet) -> bool:
        return not self.slots.isdisjoint(other.slots)
