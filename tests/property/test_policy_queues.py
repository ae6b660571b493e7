"""Invariants of work queues, convergence loops and the host ring, for any input."""

from __future__ import annotations

from collections import deque
from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from support.records import records
from vectors.seeds.host_ring import HostRing, RingItem
from vectors.seeds.queue_expansion import ExpansionProfile, plan_queue_with_expansion
from vyre.domain.errors import PlanError
from vyre.policies.frontiers.fixpoint import FixpointExecutor, FixpointProfile, choose_executor, rounds_unrolled
from vyre.policies.launching.grid_sync_mode import GridSyncMode
from vyre.policies.launching.queueing import (
    LAYOUTS,
    DrainProfile,
    HostSync,
    QueueDiscipline,
    QueueProfile,
    plan_backpressure,
    plan_queue,
)

SMALL = st.integers(0, 60)
FINAL = st.just(HostSync.FINAL_ONLY)
WIDTHS = {"entry_bytes": st.integers(1, 12), "control_bytes": st.integers(0, 64)}
BUDGETS = st.integers(0, 1500)
QUEUES = records(
    QueueProfile, initial_items=SMALL, queue_capacity=SMALL, budget_bytes=BUDGETS, host_sync=FINAL, **WIDTHS
)
ROOMS = records(
    ExpansionProfile, initial_items=SMALL, expansion_items=SMALL, budget_bytes=BUDGETS, host_sync=FINAL, **WIDTHS
)
DRAINS = records(
    DrainProfile,
    initial_items=SMALL,
    queue_capacity=SMALL,
    budget_bytes=BUDGETS,
    host_sync=FINAL,
    max_items_per_drain_launch=SMALL | st.just(2**64 - 1),
    total_items=st.none() | st.integers(0, 200),
    **WIDTHS,
)


@given(QUEUES | records(QueueProfile))
def test_a_planned_queue_fits(profile: QueueProfile) -> None:
    try:
        plan = plan_queue(profile)
    except PlanError:
        return
    assert plan.queue_bytes == profile.queue_capacity * profile.entry_bytes
    assert plan.resident_bytes == plan.queue_bytes + profile.control_bytes <= profile.budget_bytes < 2**64
    assert profile.initial_items <= plan.queue_capacity == profile.queue_capacity
    assert 0 <= plan.initial_occupancy_bps <= 10_000
    assert (plan.initial_occupancy_bps == 10_000) == (profile.initial_items == profile.queue_capacity)
    assert plan_queue(profile) == plan
    if profile.discipline is not None:
        layout = LAYOUTS[profile.discipline]
        assert profile.entry_bytes >= layout.entry_bytes and profile.control_bytes >= layout.control_bytes
        assert plan == plan_queue(replace(profile, discipline=None))


@given(ROOMS | records(ExpansionProfile), st.integers(1, 200))
def test_more_budget_never_shrinks_a_queue(profile: ExpansionProfile, more: int) -> None:
    try:
        plan = plan_queue_with_expansion(profile)
    except PlanError:
        return
    assert plan.queue_capacity >= profile.initial_items
    assert plan.resident_bytes <= profile.budget_bytes
    richer = replace(profile, budget_bytes=min(profile.budget_bytes + more, 2**64 - 1))
    assert plan_queue_with_expansion(richer).queue_capacity >= plan.queue_capacity
    if profile.discipline is QueueDiscipline.RING:
        assert plan.queue_capacity >= 2 and plan.queue_capacity.bit_count() == 1
    else:
        wanted = profile.initial_items + profile.expansion_items
        one_more = (plan.queue_capacity + 1) * profile.entry_bytes + profile.control_bytes
        assert plan.queue_capacity == wanted or one_more > profile.budget_bytes


@given(DRAINS | records(DrainProfile))
def test_drains_reach_every_item(profile: DrainProfile) -> None:
    try:
        plan = plan_backpressure(profile)
    except PlanError:
        return
    work = profile.queue_capacity if profile.total_items is None else profile.total_items
    assert plan.chunks * plan.items_per_chunk >= work >= profile.initial_items
    assert plan.items_per_chunk <= profile.max_items_per_drain_launch
    assert (plan.chunks - 1) * profile.max_items_per_drain_launch < work or work == 0
    members = {f.name: getattr(profile, f.name) for f in fields(QueueProfile)}
    assert plan.queue == plan_queue(QueueProfile(**members))


FIELDS = ["entry_bytes", "control_bytes", "queue_capacity"]


@given(QUEUES, st.sampled_from(FIELDS))
def test_queue_bytes_never_wrap(profile: QueueProfile, name: str) -> None:
    full = replace(
        profile,
        queue_capacity=max(profile.queue_capacity, 2),
        control_bytes=max(profile.control_bytes, 1),
        initial_items=0,
        budget_bytes=2**64 - 1,
        discipline=None,
    )
    with pytest.raises(PlanError) as error:
        plan_queue(replace(full, **dict[str, Any]({name: 2**64 - 1})))
    assert error.value.kind == "ByteCountOverflow"


@given(records(FixpointProfile))
def test_a_loop_runs_by_what_works_and_is_wanted(profile: FixpointProfile) -> None:
    grid, forced = profile.grid, profile.forced
    resident = grid is not None and grid.workgroups <= grid.multiprocessors * grid.resident_per_multiprocessor
    native = grid is not None and grid.cooperative and resident and grid.forced is not GridSyncMode.SPLIT
    works = {
        FixpointExecutor.COMMAND_LIST: profile.repeats_lists,
        FixpointExecutor.COOPERATIVE: native or (grid is not None and profile.repeats_lists),
        FixpointExecutor.WHILE_GRAPH: profile.supports_conditional_graphs,
        FixpointExecutor.UNROLLED_GRAPH: profile.guardable,
        FixpointExecutor.POLLED: True,
    }
    try:
        plan = choose_executor(profile)
    except PlanError as error:
        match error.kind:
            case "GridBarrierImpossible":
                assert grid is not None and grid.forced is GridSyncMode.NATIVE and not (grid.cooperative and resident)
            case "ExecutorUnavailable":
                assert forced is not None and not works[forced]
            case _:
                assert error.kind == "EveryExecutorForbidden" and forced is None
                assert {each for each, ok in works.items() if ok} <= profile.forbidden
        return
    assert works[plan.executor] or (grid is not None and grid.workgroups <= 1)
    assert plan.executor is forced if forced is not None else plan.executor not in profile.forbidden
    polled = plan.executor is FixpointExecutor.POLLED
    assert (plan.max_iterations, plan.early_exit) == (profile.max_iterations, profile.early_exit)
    assert plan.host_sync_points == (profile.max_iterations if polled else 1)
    assert 1 <= plan.host_launches <= profile.max_iterations
    assert 1 <= rounds_unrolled(profile) <= profile.max_iterations
    assert choose_executor(profile) == plan


class RingAgainstQueue(RuleBasedStateMachine):
    """A ring does what an unbounded queue with a length limit does."""

    @initialize(exponent=st.integers(1, 3))
    def make(self, exponent: int) -> None:
        self.ring = HostRing(2**exponent)
        self.queue: deque[tuple[int, RingItem]] = deque()
        self.claimed: list[int] = []
        self.completed: set[int] = set()
        self.issued = 0

    @rule(item=records(RingItem))
    def enqueue(self, item: RingItem) -> None:
        ticket = self.ring.enqueue(item)
        if len(self.queue) == self.ring.ring_size:
            assert ticket is None
            return
        assert ticket == self.issued
        self.queue.append((ticket, item))
        self.issued += 1

    @rule()
    def claim(self) -> None:
        claim = self.ring.claim()
        assert claim == (self.queue.popleft() if self.queue else None)
        if claim is not None:
            self.claimed.append(claim.ticket)

    @precondition(lambda self: self.claimed)
    @rule(data=st.data())
    def complete(self, data: st.DataObject) -> None:
        ticket = data.draw(st.sampled_from(self.claimed))
        self.ring.complete(ticket)
        self.claimed.remove(ticket)
        self.completed.add(ticket)

    @invariant()
    def agree(self) -> None:
        state = self.ring.state()
        assert (state.head, state.in_flight) == (self.issued, len(self.queue))
        assert {t for t in range(self.issued) if self.ring.is_complete(t)} == self.completed


TestRingAgainstQueue = RingAgainstQueue.TestCase
