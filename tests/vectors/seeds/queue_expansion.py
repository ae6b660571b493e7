"""How large is a queue whose size follows from the budget?  O(1)."""

from __future__ import annotations

from typing import Final

from vyre.policies.arith import next_power_of_two
from vyre.policies.launching.queueing import LAYOUTS, QueueDemand, QueueDiscipline, QueuePlan, _plan
from vyre.policies.record import U64, Reason, checked_u64, record


@record
class ExpansionProfile(QueueDemand):
    """A queue whose size follows from the budget; ``expansion_items`` is the room wanted beyond the initial items."""

    expansion_items: U64


NO_QUEUE: Final = QueuePlan(0, 0, 0, 0, 0, why=Reason("no item is ever active"))
"""The plan if nothing is ever enqueued."""


def plan_queue_with_expansion(profile: ExpansionProfile) -> QueuePlan:
    """Returns a queue with room for all wanted items, or for as many as the budget holds, at least for the initial
    ones.

    It has ``max(min(initial + expansion, (budget - control) // entry), initial)`` slots; for a ring these are powers of
    two.  More budget never shrinks the queue.  Raises like ``plan_queue``.
    """
    wanted = checked_u64(profile.initial_items + profile.expansion_items, "queue expansion capacity")
    if profile.entry_bytes == 0:
        return _plan(profile, wanted)  # raises ZeroCapacity for no items at all, else ZeroEntryBytes
    affordable = max(profile.budget_bytes - profile.control_bytes, 0) // profile.entry_bytes
    least = profile.initial_items
    if profile.discipline is QueueDiscipline.RING:
        smallest = LAYOUTS[QueueDiscipline.RING].min_capacity
        wanted, least = (max(next_power_of_two(items), smallest) for items in (wanted, least))
        affordable = next_power_of_two(affordable + 1) // 2
    return _plan(profile, max(min(wanted, affordable), least))
