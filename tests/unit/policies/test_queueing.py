"""Device work queues: what they hold, and how they are drained."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from vectors.seeds.queue_expansion import ExpansionProfile, plan_queue_with_expansion
from vyre.domain.errors import PlanError
from vyre.policies.launching.queueing import (
    DrainProfile,
    DrainStrategy,
    HostSync,
    QueueDiscipline,
    QueueGridInputs,
    QueuePlan,
    QueueProfile,
    Termination,
    plan_backpressure,
    plan_queue,
    plan_queue_grid,
)

QUEUE = QueueProfile(2, 4, 16, 100, HostSync.FINAL_ONLY, 3)
DRAIN = DrainProfile(2, 4, 16, 100, HostSync.FINAL_ONLY, 8, 3)
ROOM = ExpansionProfile(2, 4, 16, 100, HostSync.FINAL_ONLY, 7)
RING = QueueProfile(2, 8, 32, 1000, HostSync.FINAL_ONLY, 4, discipline=QueueDiscipline.RING)


def kind_of(profile: QueueProfile) -> str:
    with pytest.raises(PlanError) as error:
        plan_queue(profile)
    return error.value.kind


def test_a_queue_counts_slots_and_control_words() -> None:
    plan = plan_queue(QUEUE)
    assert plan == QueuePlan(3, 12, 16, 28, 6666)
    assert str(plan.why) == "3 slots take 28 of 100 bytes"


def test_a_queue_that_fits_its_budget_exactly() -> None:
    assert plan_queue(replace(QUEUE, budget_bytes=28)).resident_bytes == 28
    assert kind_of(replace(QUEUE, budget_bytes=27)) == "OverBudget"


@pytest.mark.parametrize(
    ("wrong", "kind"),
    [
        ({"queue_capacity": 0}, "ZeroCapacity"),
        ({"entry_bytes": 0}, "ZeroEntryBytes"),
        ({"initial_items": 4}, "InitialItemsExceedCapacity"),
        ({"host_sync": HostSync.HOST_PARTICIPATES}, "HostParticipationRejected"),
        ({"entry_bytes": 2**63}, "ByteCountOverflow"),
        ({"control_bytes": 2**64 - 1}, "ByteCountOverflow"),
        ({"budget_bytes": 0}, "OverBudget"),
    ],
)
def test_malformed_queues(wrong: dict[str, Any], kind: str) -> None:
    assert kind_of(replace(QUEUE, **wrong)) == kind


@pytest.mark.parametrize(
    ("profile", "kind"),
    [
        (replace(RING, entry_bytes=7), "LayoutTooSmall"),
        (replace(RING, control_bytes=31), "LayoutTooSmall"),
        (replace(RING, queue_capacity=3), "InvalidRingCapacity"),
        (replace(RING, queue_capacity=1, initial_items=1), "InvalidRingCapacity"),
        (replace(QUEUE, entry_bytes=3, discipline=QueueDiscipline.PHASED), "LayoutTooSmall"),
        (replace(QUEUE, control_bytes=15, discipline=QueueDiscipline.PHASED), "LayoutTooSmall"),
    ],
)
def test_a_discipline_asks_for_its_widths(profile: QueueProfile, kind: str) -> None:
    assert kind_of(profile) == kind
    assert plan_queue(replace(profile, discipline=None)).queue_capacity == profile.queue_capacity


def test_the_widths_of_a_discipline_are_enough() -> None:
    assert plan_queue(RING).resident_bytes == 64
    assert plan_queue(replace(RING, queue_capacity=2)).resident_bytes == 48
    assert plan_queue(replace(QUEUE, discipline=QueueDiscipline.PHASED)) == plan_queue(QUEUE)


@pytest.mark.parametrize(
    ("budget", "initial", "discipline", "capacity"),
    [
        (100, 2, None, 9),  # all that is wanted
        (51, 2, None, 8),  # 35 bytes hold 8 slots
        (24, 2, None, 2),  # never below the initial items
        (1000, 2, QueueDiscipline.RING, 16),
        (95, 2, QueueDiscipline.RING, 4),  # 63 bytes hold 7 slots, and the power of two below is 4
        (96, 2, QueueDiscipline.RING, 8),
        (80, 3, QueueDiscipline.RING, 4),
        (48, 0, QueueDiscipline.RING, 2),
    ],
)
def test_room_follows_from_the_budget(
    budget: int, initial: int, discipline: QueueDiscipline | None, capacity: int
) -> None:
    room = replace(ROOM, budget_bytes=budget, initial_items=initial, discipline=discipline)
    if discipline is QueueDiscipline.RING:
        room = replace(room, entry_bytes=8, control_bytes=32)
    assert plan_queue_with_expansion(room).queue_capacity == capacity


@pytest.mark.parametrize(
    ("room", "kind"),
    [
        (replace(ROOM, entry_bytes=0), "ZeroEntryBytes"),
        (replace(ROOM, entry_bytes=0, expansion_items=2**64 - 1), "ByteCountOverflow"),
        (replace(ROOM, initial_items=0, expansion_items=0), "ZeroCapacity"),
        (replace(ROOM, budget_bytes=23), "OverBudget"),
        (replace(ROOM, budget_bytes=15), "OverBudget"),
    ],
)
def test_no_room(room: ExpansionProfile, kind: str) -> None:
    with pytest.raises(PlanError) as error:
        plan_queue_with_expansion(room)
    assert error.value.kind == kind


@pytest.mark.parametrize(
    ("capacity", "most", "total", "chunks", "items", "termination"),
    [
        (8, 8, None, 1, 8, Termination.LAUNCH_COUNT),
        (8, 7, None, 2, 7, Termination.LAUNCH_COUNT),
        (8, 100, None, 1, 8, Termination.LAUNCH_COUNT),
        (8, 3, None, 3, 3, Termination.LAUNCH_COUNT),
        (8, 3, 30, 10, 3, Termination.PENDING_COUNTER),
        (8, 30, 31, 2, 30, Termination.PENDING_COUNTER),  # one launch may process more than the queue holds
        (8, 3, 2, 1, 2, Termination.PENDING_COUNTER),
    ],
)
def test_launches_that_drain(
    capacity: int, most: int, total: int | None, chunks: int, items: int, termination: Termination
) -> None:
    profile = replace(DRAIN, queue_capacity=capacity, max_items_per_drain_launch=most, total_items=total)
    plan = plan_backpressure(profile)
    assert (plan.chunks, plan.items_per_chunk, plan.termination) == (chunks, items, termination)
    assert (plan.strategy is DrainStrategy.SINGLE_RESIDENT_DRAIN) == (chunks == 1)
    assert str(plan.why) == f"{capacity if total is None else total} items at most, {most} a launch"


def test_nothing_to_drain_takes_no_launch() -> None:
    plan = plan_backpressure(replace(DRAIN, initial_items=0, total_items=0))
    assert (plan.chunks, plan.strategy) == (0, DrainStrategy.SINGLE_RESIDENT_DRAIN)


@pytest.mark.parametrize(
    ("profile", "kind"),
    [
        (replace(DRAIN, max_items_per_drain_launch=0, queue_capacity=0), "ZeroDrainChunk"),
        (replace(DRAIN, total_items=1), "TotalItemsBelowInitial"),
        (replace(DRAIN, queue_capacity=0, total_items=1), "ZeroCapacity"),
    ],
)
def test_malformed_drains(profile: DrainProfile, kind: str) -> None:
    with pytest.raises(PlanError) as error:
        plan_backpressure(profile)
    assert error.value.kind == kind


# ---------------------------------------------------------------- the grid
@pytest.mark.parametrize(
    ("capacity", "device", "groups", "why"),
    [
        (1000, (0, 0), 1, "lanes run in the order of the language, so further workgroups gain nothing"),
        (1, (4, 2), 1, "one of 64 lanes for each 64 of 1 slots"),
        (64, (4, 2), 1, "one of 64 lanes for each 64 of 64 slots"),
        (65, (4, 2), 2, "one of 64 lanes for each 64 of 65 slots"),
        (512, (4, 2), 8, "one of 64 lanes for each 64 of 512 slots"),
        (513, (4, 2), 8, "8 workgroups are resident at once, 9 are wanted"),
        (2**64 - 1, (132, 32), 4224, "4224 workgroups are resident at once, 288230376151711744 are wanted"),
    ],
)
def test_the_grid_covers_the_slots_and_stays_resident(
    capacity: int, device: tuple[int, int], groups: int, why: str
) -> None:
    plan = plan_queue_grid(QueueGridInputs(capacity, 64, *device))
    assert (plan.groups, str(plan.why)) == (groups, why)
