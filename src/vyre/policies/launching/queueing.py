"""How large is a device work queue, and how many launches drain it?

Units: items and bytes in 64 bits; a figure that exceeds them raises ``PlanError`` and never wraps.  A queue of N slots
takes ``N * entry_bytes + control_bytes``, and the host reads it once, after the last launch.  Everything is O(1).

vyre-driver counts drain launches by the capacity although items may enqueue others, and cannot tell when such a queue
is empty; and it uses widths of 4 and 16 bytes, which suffice for a queue that is filled and drained in turns, for a
queue that many producers and consumers use at once.  Here ``total_items`` counts all items that are ever enqueued and
requires a counter of pending items, and a ``discipline`` says what the widths must hold.  Without them the rule is
vyre-driver's.
"""

from __future__ import annotations

from dataclasses import field
from enum import Enum
from typing import Annotated, Final, NamedTuple

from vyre.domain.errors import PlanError
from vyre.domain.record import U32_MAX
from vyre.policies.arith import BPS
from vyre.policies.record import U32, U64, IntRange, Reason, checked_u64, record, verdict, why_field


class HostSync(Enum):
    """Whether the host accesses the queue only after it is drained, or also while it drains."""

    FINAL_ONLY = "final_only"
    HOST_PARTICIPATES = "host_participates"


class QueueDiscipline(Enum):
    """Which lanes may access a queue at the same time.

    - ``PHASED``: producers fill one buffer while consumers drain another, and a grid barrier swaps them.
    - ``RING``: any producer and any consumer at any time, each slot guarded by a sequence number.
    """

    PHASED = "phased"
    RING = "ring"


class SlotLayout(NamedTuple):
    """The least bytes of a slot and of the control words, and the least number of slots."""

    entry_bytes: int
    control_bytes: int
    min_capacity: int


LAYOUTS: Final = {
    QueueDiscipline.PHASED: SlotLayout(entry_bytes=4, control_bytes=4 * 4, min_capacity=1),
    QueueDiscipline.RING: SlotLayout(entry_bytes=4 + 4, control_bytes=4 * 8, min_capacity=2),
}
"""The layout of each discipline.

A phased slot is an item, and the control words are the counts in, out, changed and overflow.  A ring's slot is a
sequence number and an item; its head, tail, pending and overflow counts have 64 bits each and run faster on cache lines
of their own.  A ring of one slot cannot tell full from empty by sequence numbers.
"""


@record
class QueueDemand:
    """The inputs of every queue plan; with a ``discipline`` of None all widths and capacities are accepted."""

    initial_items: U64
    entry_bytes: U64
    control_bytes: U64
    budget_bytes: U64
    host_sync: HostSync
    discipline: QueueDiscipline | None = field(default=None, kw_only=True)


@record
class QueueProfile(QueueDemand):
    """A queue of a given size; ``queue_capacity`` is in items."""

    queue_capacity: U64


@record
class DrainProfile(QueueProfile):
    """A queue that several launches drain, each of them at most ``max_items_per_drain_launch`` items.

    ``total_items`` counts the initial items and all items that processing them enqueues; None if processing enqueues
    nothing.
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


class DrainStrategy(Enum):
    """Whether one launch drains the queue, or several."""

    SINGLE_RESIDENT_DRAIN = "single_resident_drain"
    CHUNKED_RESIDENT_DRAIN = "chunked_resident_drain"


class Termination(Enum):
    """How the last launch is known: by counting launches, or by the device's count of pending items reaching 0."""

    LAUNCH_COUNT = "launch_count"
    PENDING_COUNTER = "pending_counter"


@verdict
class DrainPlan:
    """``chunks`` launches of at most ``items_per_chunk`` items; with a pending counter this is an upper bound."""

    queue: QueuePlan
    strategy: DrainStrategy
    items_per_chunk: int
    chunks: int
    termination: Termination
    final_only_host_sync: bool = True
    why: Reason = why_field()


@record
class QueueGridInputs:
    """A phased queue and the device that drains it with a grid that stays.

    - ``capacity``: the slots of the queue.
    - ``lanes``: the lanes of a workgroup, each of which takes an item at a time.
    - ``multiprocessors``, ``resident_per_multiprocessor``: the device, and the workgroups that one of them holds at
      once; 0 where the device runs the lanes of programs that depend on their order one after the other.
    """

    capacity: U64
    lanes: Annotated[int, IntRange(1, U32_MAX)]
    multiprocessors: U32
    resident_per_multiprocessor: U32


@verdict
class QueueGrid:
    """The workgroups that drain a queue, at least 1."""

    groups: int
    why: Reason = why_field()


def plan_queue_grid(inputs: QueueGridInputs) -> QueueGrid:
    """Returns a workgroup for each ``lanes`` slots, but not more than are resident at once, so that they may wait for
    each other.

    A device that runs the lanes one after the other gets one workgroup: more would only be visited in each phase.
    """
    resident = inputs.multiprocessors * inputs.resident_per_multiprocessor
    if resident == 0:
        return QueueGrid(1, Reason("lanes run in the order of the language, so further workgroups gain nothing"))
    wanted = max(-(-inputs.capacity // inputs.lanes), 1)
    if wanted <= resident:
        return QueueGrid(
            wanted, Reason("one of {} lanes for each {} of {} slots", (inputs.lanes, inputs.lanes, inputs.capacity))
        )
    return QueueGrid(resident, Reason("{} workgroups are resident at once, {} are wanted", (resident, wanted)))


def plan_queue(profile: QueueProfile) -> QueuePlan:
    """Returns the bytes of a queue of the given capacity.

    Raises ``PlanError``: ``ZeroCapacity``, ``ZeroEntryBytes``, ``InitialItemsExceedCapacity``,
    ``HostParticipationRejected``, ``LayoutTooSmall`` and ``InvalidRingCapacity`` of a discipline,
    ``ByteCountOverflow``, ``OverBudget``.
    """
    return _plan(profile, profile.queue_capacity)


def plan_backpressure(profile: DrainProfile) -> DrainPlan:
    """Returns the launches that drain a queue, ``ceil(work / max_items_per_drain_launch)`` of them.

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
    """Returns the bytes of a queue of ``capacity`` slots, checked in vyre-driver's order."""
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
