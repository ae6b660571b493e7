"""How large a device work queue is, and how many launches drain it.

Units: items and bytes in 64 bits, checked: what leaves them raises ``PlanError`` and never wraps.  A queue of N slots
takes ``N * entry_bytes + control_bytes``, and the host reads it once, after the last launch.  Everything is O(1).

What the reference gets wrong: it counts drain launches by the capacity although items may enqueue others, and it has
no way to end such a queue; and it takes widths of 4 and 16 bytes, which fit a queue that is filled and drained in
turns, for one that many producers and consumers use at once.  Here ``total_items`` counts what is ever enqueued and
asks for a counter of pending items, and a ``discipline`` says what the widths must hold.  Both default to the
reference's rule.
"""

from __future__ import annotations

from dataclasses import field
from enum import Enum
from typing import Final, NamedTuple

from vyre.domain.errors import PlanError
from vyre.policies.arith import BPS, next_power_of_two
from vyre.policies.record import U64, Reason, checked_u64, record, verdict, why_field


class HostSync(Enum):
    """Does the host look at the queue while it drains?"""

    FINAL_ONLY = "final_only"
    HOST_PARTICIPATES = "host_participates"


class QueueDiscipline(Enum):
    """Who may touch a queue at the same time.

    PHASED: producers fill one buffer while consumers drain another, and a grid barrier swaps them.  RING: any producer
    and any consumer at any time, each slot guarded by a sequence number.
    """

    PHASED = "phased"
    RING = "ring"


class SlotLayout(NamedTuple):
    """Least bytes of a slot and of the words beside the slots; ``min_capacity`` slots at least."""

    entry_bytes: int
    control_bytes: int
    min_capacity: int


LAYOUTS: Final = {
    QueueDiscipline.PHASED: SlotLayout(entry_bytes=4, control_bytes=4 * 4, min_capacity=1),
    QueueDiscipline.RING: SlotLayout(entry_bytes=4 + 4, control_bytes=4 * 8, min_capacity=2),
}
"""A phased slot is an item, its control words are the counts in, out, changed and overflow.  A ring's slot is a
sequence number and an item; its head, tail, pending and overflow counts have 64 bits each and run faster on cache lines
of their own.  A ring of one slot cannot tell full from empty by sequence numbers."""


@record
class QueueDemand:
    """What any queue is planned by; ``discipline`` None takes all widths and capacities for good."""

    initial_items: U64
    entry_bytes: U64
    control_bytes: U64
    budget_bytes: U64
    host_sync: HostSync
    discipline: QueueDiscipline | None = field(default=None, kw_only=True)


@record
class QueueProfile(QueueDemand):
    """A queue of a given size; ``queue_capacity`` in items."""

    queue_capacity: U64


@record
class ExpansionProfile(QueueDemand):
    """A queue whose size follows from the budget; ``expansion_items``: room wanted beyond the initial items."""

    expansion_items: U64


@record
class DrainProfile(QueueProfile):
    """A queue that several launches drain, each of them at most ``max_items_per_drain_launch`` items.

    ``total_items``: initial items and all that processing them enqueues; None if nothing is enqueued on the way.
    """

    max_items_per_drain_launch: U64
    total_items: U64 | None = field(default=None, kw_only=True)


@verdict
class QueuePlan:
    """Bytes of a queue that fits its budget; the occupancy is the share of slots that the initial items take."""

    queue_capacity: int
    queue_bytes: int
    control_bytes: int
    resident_bytes: int
    initial_occupancy_bps: int
    final_only_host_sync: bool = True
    why: Reason = why_field()


NO_QUEUE: Final = QueuePlan(0, 0, 0, 0, 0, why=Reason("no item is ever active"))
"""Where nothing is ever enqueued."""


class DrainStrategy(Enum):
    SINGLE_RESIDENT_DRAIN = "single_resident_drain"
    CHUNKED_RESIDENT_DRAIN = "chunked_resident_drain"


class Termination(Enum):
    """How the last launch is known: by counting launches, or by the device's count of pending items reaching 0."""

    LAUNCH_COUNT = "launch_count"
    PENDING_COUNTER = "pending_counter"


@verdict
class DrainPlan:
    """``chunks`` launches of at most ``items_per_chunk`` items; an upper bound with a pending counter."""

    queue: QueuePlan
    strategy: DrainStrategy
    items_per_chunk: int
    chunks: int
    termination: Termination
    final_only_host_sync: bool = True
    why: Reason = why_field()


def plan_queue(profile: QueueProfile) -> QueuePlan:
    """Bytes of a queue of the given capacity.

    Raises ``PlanError``: ``ZeroCapacity``, ``ZeroEntryBytes``, ``InitialItemsExceedCapacity``,
    ``HostParticipationRejected``, ``LayoutTooSmall`` and ``InvalidRingCapacity`` of a discipline,
    ``ByteCountOverflow``, ``OverBudget``.
    """
    return _plan(profile, profile.queue_capacity)


def plan_queue_with_expansion(profile: ExpansionProfile) -> QueuePlan:
    """A queue with room for all wanted items, or for as many as the budget holds, at least for the initial ones.

    ``max(min(initial + expansion, (budget - control) // entry), initial)`` slots; a ring's are powers of two.  More
    budget never shrinks the queue.  Raises like ``plan_queue``.
    """
    wanted = checked_u64(profile.initial_items + profile.expansion_items, "queue expansion capacity")
    if profile.entry_bytes == 0:
        return _plan(profile, wanted)  # refuses it, after a queue that is wanted for no items at all
    affordable = max(profile.budget_bytes - profile.control_bytes, 0) // profile.entry_bytes
    least = profile.initial_items
    if profile.discipline is QueueDiscipline.RING:
        smallest = LAYOUTS[QueueDiscipline.RING].min_capacity
        wanted, least = (max(next_power_of_two(items), smallest) for items in (wanted, least))
        affordable = next_power_of_two(affordable + 1) // 2
    return _plan(profile, max(min(wanted, affordable), least))


def plan_backpressure(profile: DrainProfile) -> DrainPlan:
    """Launches that drain a queue, ``ceil(work / max_items_per_drain_launch)`` of them.

    The work is the capacity, or ``total_items`` where processing an item enqueues others.  Raises ``ZeroDrainChunk``,
    ``TotalItemsBelowInitial``, and like ``plan_queue``.
    """
    most = profile.max_items_per_drain_launch
    if most == 0:
        raise PlanError("ZeroDrainChunk")
    queue = plan_queue(profile)
    total = profile.total_items
    if total is not None and total < profile.initial_items:
        raise PlanError("TotalItemsBelowInitial", total_items=total, initial_items=profile.initial_items)
    work = queue.queue_capacity if total is None else total
    chunks = -(-work // most)
    return DrainPlan(
        queue=queue,
        strategy=DrainStrategy.SINGLE_RESIDENT_DRAIN if chunks <= 1 else DrainStrategy.CHUNKED_RESIDENT_DRAIN,
        items_per_chunk=min(most, work),
        chunks=chunks,
        termination=Termination.LAUNCH_COUNT if total is None else Termination.PENDING_COUNTER,
        why=Reason("{} items at most, {} a launch", (work, most)),
    )


def _plan(demand: QueueDemand, capacity: int) -> QueuePlan:
    """Bytes of a queue of ``capacity`` slots, checked in the order of the reference."""
    if capacity == 0:
        raise PlanError("ZeroCapacity")
    if demand.entry_bytes == 0:
        raise PlanError("ZeroEntryBytes")
    if demand.initial_items > capacity:
        raise PlanError("InitialItemsExceedCapacity", initial_items=demand.initial_items, queue_capacity=capacity)
    if demand.host_sync is HostSync.HOST_PARTICIPATES:
        raise PlanError("HostParticipationRejected", fix="read the queue once, after the last launch.")
    if demand.discipline is not None:
        _check_layout(demand, demand.discipline, capacity)
    queue_bytes = checked_u64(capacity * demand.entry_bytes, "queue bytes")
    resident = checked_u64(queue_bytes + demand.control_bytes, "resident bytes")
    if resident > demand.budget_bytes:
        raise PlanError("OverBudget", required_bytes=resident, budget_bytes=demand.budget_bytes)
    return QueuePlan(
        queue_capacity=capacity,
        queue_bytes=queue_bytes,
        control_bytes=demand.control_bytes,
        resident_bytes=resident,
        initial_occupancy_bps=demand.initial_items * BPS // capacity,
        why=Reason("{} slots take {} of {} bytes", (capacity, resident, demand.budget_bytes)),
    )


def _check_layout(demand: QueueDemand, discipline: QueueDiscipline, capacity: int) -> None:
    layout = LAYOUTS[discipline]
    for name in ("entry_bytes", "control_bytes"):
        if getattr(demand, name) < getattr(layout, name):
            raise PlanError(
                "LayoutTooSmall",
                fix=f"a {discipline.value} queue needs at least {getattr(layout, name)}.",
                **{name: getattr(demand, name)},
            )
    if discipline is QueueDiscipline.RING and (capacity < layout.min_capacity or capacity.bit_count() > 1):
        raise PlanError("InvalidRingCapacity", fix="take a power of two from 2 on.", queue_capacity=capacity)
