"""What ``judge_arms`` says of two arms as a verdict, and sets of the slots of an arm, for the vectors."""

from __future__ import annotations

from typing import TypeAlias

from vectors.seeds.arm_independence import ArmAccess, judge_arms
from vyre.policies.concurrency.hazards import ConflictReason
from vyre.policies.record import U32, Reason, record, verdict, why_field


@verdict
class Independent:
    """The arms may run at the same time."""

    why: Reason = why_field()


@verdict
class SerializeRequired:
    """The arms must run one after the other; ``reason`` is the first conflict in the order of the rule."""

    reason: ConflictReason
    why: Reason = why_field()


ArmVerdict: TypeAlias = Independent | SerializeRequired


def can_dispatch_concurrently(a: ArmAccess, b: ArmAccess) -> ArmVerdict:
    """Returns ``Independent`` iff no slot (with ranges: no byte) written by one arm is accessed by the other."""
    reason, why = judge_arms(a, b)
    return Independent(why) if reason is None else SerializeRequired(reason, why)


@record
class BindingSlotSet:
    """An immutable set of binding slots."""

    slots: frozenset[U32] = frozenset()

    def insert(self, slot: int) -> tuple[BindingSlotSet, bool]:
        """Returns the set with ``slot`` added, and whether the slot is new."""
        return (self, False) if slot in self.slots else (BindingSlotSet(self.slots | {slot}), True)

    def __contains__(self, slot: int) -> bool:
        return slot in self.slots

    def intersects(self, other: BindingSlotSet) -> bool:
        """Returns whether the two sets have a slot in common."""
        return not self.slots.isdisjoint(other.slots)
