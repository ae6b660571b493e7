"""Frontier analyses of a token/fact graph: who gets which part of the budget."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vectors.seeds.frontier_execution import WaveEnvelope, fused_wave_bytes
from vectors.seeds.megakernel_plan_cache import MegakernelPlanCache
from vectors.seeds.plan_cache import MegakernelAnalysisKind, MegakernelDeviceKey, PlanIdentity
from vectors.seeds.queue_expansion import NO_QUEUE
from vectors.seeds.residency import ResidencyCounters
from vectors.seeds.token_fact_graph import LayoutInputs, TokenFactLayout, token_fact_layout
from vectors.seeds.token_fact_plan import (
    GraphResidency,
    QueueScope,
    TokenFactFrontier,
    TokenFactPlan,
    TokenFactProfile,
    plan_new_token_fact,
    plan_token_fact,
)
from vectors.seeds.topology import FrontierSample
from vyre.domain.errors import PlanError
from vyre.policies.frontiers.waves import Dependencies

DEVICE = MegakernelDeviceKey(9, 0, 32, supports_grid_sync=True, supports_tensor_cores=True, max_workgroup_size=1024)
LAYOUT = token_fact_layout(LayoutInputs((0, 3, 5, 6, 6), payload_bytes=100, node_record_bytes=8, edge_record_bytes=4))
GRAPH_BYTES = 4 * 8 + 6 * 4
WAVES = (WaveEnvelope(20, 5, 10), WaveEnvelope(30, 4, 6), WaveEnvelope(8, 2, 3))
LARGEST_WAVE = 30 + 4 * 4 + 6
CHAIN = ((0, 1), (1, 2))
PROFILE = TokenFactProfile(
    PlanIdentity(1, MegakernelAnalysisKind.PARSER_FRONTEND, DEVICE),
    FrontierSample(1000.0, 0.1, 0),
    LAYOUT,
    GraphResidency.COLD_UPLOAD,
    TokenFactFrontier(WAVES, (2, 1, 1), CHAIN),
    budget_bytes=10_000,
    launch_overhead_ns=100.0,
    fusion_pressure=0.5,
)


def plan(profile: TokenFactProfile) -> TokenFactPlan:
    return plan_token_fact(profile, MegakernelPlanCache().get_or_plan_execution)


def error_of(profile: TokenFactProfile) -> PlanError:
    with pytest.raises(PlanError) as error:
        plan(profile)
    return error.value


def with_frontier(**changes: Any) -> TokenFactProfile:
    return replace(PROFILE, frontier_input=replace(PROFILE.frontier_input, **changes))


def with_layout(**changes: Any) -> TokenFactProfile:
    return replace(PROFILE, graph_layout=replace(LAYOUT, **changes))


def test_the_queue_has_room_for_active_items_and_the_edges_that_leave_them() -> None:
    found = plan(PROFILE)
    assert found.work_queue.queue_capacity == 4 + 6
    assert found.work_queue.resident_bytes == 16 + 4 * 10
    assert found.waves.execution.memory.budget_bytes == 10_000 - 100 - 56
    assert found.total_required_bytes == found.waves.execution.memory.required_bytes + 100 + 56
    assert (found.resident_graph_bytes, found.resident_payload_bytes) == (GRAPH_BYTES, 100)


def test_graph_and_largest_wave_come_before_the_queue() -> None:
    beside_queue = 100 + GRAPH_BYTES + LARGEST_WAVE
    smallest = replace(PROFILE, budget_bytes=beside_queue + 16 + 4 * 4)
    assert plan(smallest).work_queue.queue_capacity == 4
    refused = error_of(replace(smallest, budget_bytes=smallest.budget_bytes - 1))
    assert refused.kind == "WorkQueue"
    source = refused.fields["source"]
    assert isinstance(source, PlanError) and source.kind == "OverBudget"
    assert source.fields == {"required_bytes": 32, "budget_bytes": 31}


def test_a_graph_that_is_there_is_not_uploaded() -> None:
    assert plan(PROFILE).graph_reuse == ResidencyCounters(1, 0, GRAPH_BYTES, 0)
    warm = replace(PROFILE, graph_residency=GraphResidency.WARM_RESIDENT)
    assert plan(warm) == replace(plan(PROFILE), graph_reuse=ResidencyCounters(0, 1, 0, GRAPH_BYTES))


def test_waves_without_items_have_no_queue() -> None:
    found = plan(with_frontier(active_items=(0, 0, 0)))
    assert found.work_queue == NO_QUEUE
    assert found.waves.execution.memory.budget_bytes == 10_000 - 100


def test_no_waves() -> None:
    found = plan(with_frontier(waves=(), active_items=(), dependencies=()))
    assert found.work_queue == NO_QUEUE
    assert found.waves.frontier.barriers.groups == ()


@pytest.mark.parametrize(
    ("dependencies", "initial"),
    [(CHAIN, 5), (((0, 2), (1, 2)), 9), ((), 10)],
)
def test_waves_that_run_one_after_the_other_share_a_queue(dependencies: Dependencies, initial: int) -> None:
    every = with_frontier(active_items=(5, 4, 1), dependencies=dependencies)
    assert plan(every).work_queue.queue_capacity == 10 + 6
    assert plan(replace(every, queue_scope=QueueScope.LARGEST_LAYER)).work_queue.queue_capacity == initial + 6


@pytest.mark.parametrize(
    ("profile", "kind", "fields"),
    [
        (with_frontier(active_items=(1, 2)), "ActiveItemWaveCountMismatch", {"waves": 3, "active_items": 2}),
        (with_layout(node_bytes=0, edge_bytes=0), "ZeroResidentGraphBytes", {}),
        (
            with_layout(resident_bytes=157),
            "ResidentGraphByteEnvelopeMismatch",
            {"expected_bytes": 156, "actual_bytes": 157},
        ),
        (replace(PROFILE, budget_bytes=99), "PayloadExceedsBudget", {"payload_bytes": 100, "budget_bytes": 99}),
    ],
)
def test_what_does_not_agree_is_named(profile: TokenFactProfile, kind: str, fields: dict[str, int]) -> None:
    error = error_of(profile)
    assert (error.kind, error.fields) == (kind, fields)


@pytest.mark.parametrize(
    ("profile", "field"),
    [
        (with_layout(node_bytes=2**64 - 1), "resident graph bytes"),
        (with_layout(payload_bytes=2**64 - 1), "resident graph bytes"),
        (with_frontier(active_items=(2**64 - 1, 1, 0)), "active items"),
        (with_frontier(active_items=(2**64 - 1, 1, 0), waves=(WaveEnvelope(0, 2**63, 0),) * 3), "active items"),
        (
            replace(
                with_frontier(active_items=(2**64 - 1, 1, 0), dependencies=()), queue_scope=QueueScope.LARGEST_LAYER
            ),
            "active items",
        ),
    ],
)
def test_sums_never_wrap(profile: TokenFactProfile, field: str) -> None:
    error = error_of(profile)
    assert (error.kind, error.fields) == ("ByteCountOverflow", {"field": field})


def test_a_payload_that_takes_all_leaves_no_queue() -> None:
    error = error_of(replace(PROFILE, budget_bytes=100))
    assert error.kind == "WorkQueue"


@pytest.mark.parametrize(
    ("profile", "kinds"),
    [
        (with_frontier(waves=(*WAVES[:2], WaveEnvelope(0, 2**63, 0))), ["FrontierPlan", "ByteCountOverflow"]),
        (with_frontier(dependencies=((0, 3),)), ["FrontierPlan", "Barrier", "InvalidWave"]),
        (
            replace(with_frontier(dependencies=((1, 1),)), queue_scope=QueueScope.LARGEST_LAYER),
            ["FrontierPlan", "Barrier", "SelfDependency"],
        ),
        (
            replace(with_frontier(active_items=(0, 0, 0)), budget_bytes=100 + GRAPH_BYTES),
            ["FrontierPlan", "GroupOverBudget"],
        ),
    ],
)
def test_errors_of_the_waves_are_sources(profile: TokenFactProfile, kinds: list[str]) -> None:
    error: object = error_of(profile)
    for kind in kinds:
        assert isinstance(error, PlanError)
        assert error.kind == kind
        error = error.fields.get("source")


DEGREES = st.lists(st.integers(0, 6), min_size=1, max_size=8)


def layout_of(degrees: list[int]) -> TokenFactLayout:
    offsets = [sum(degrees[:i]) for i in range(len(degrees) + 1)]
    return token_fact_layout(LayoutInputs(tuple(offsets), 10, 8, 4))


SIZES = st.integers(0, 30)
FRONTIERS = st.lists(st.tuples(st.builds(WaveEnvelope, SIZES, SIZES, SIZES), st.integers(0, 12)), max_size=5).map(
    lambda waves: TokenFactFrontier(
        tuple(envelope for envelope, _ in waves),
        tuple(items for _, items in waves),
        tuple((i, i + 1) for i in range(0, len(waves) - 1, 2)),
    )
)


PROFILES = st.builds(
    lambda degrees, frontier, budget, residency: replace(
        PROFILE,
        graph_layout=layout_of(degrees),
        frontier_input=frontier,
        budget_bytes=budget,
        graph_residency=residency,
    ),
    DEGREES,
    FRONTIERS,
    st.integers(0, 900),
    st.sampled_from(GraphResidency),
)


@given(PROFILES)
def test_plans_fit_their_budget(profile: TokenFactProfile) -> None:
    layout, frontier = profile.graph_layout, profile.frontier_input
    try:
        found = plan(profile)
    except PlanError as error:
        assert error.kind in ("PayloadExceedsBudget", "WorkQueue", "FrontierPlan")
        return
    largest_wave = max(map(fused_wave_bytes, frontier.waves), default=0)
    if found.work_queue is not NO_QUEUE:
        assert layout.resident_bytes + largest_wave + found.work_queue.resident_bytes <= profile.budget_bytes
    assert found.total_required_bytes <= profile.budget_bytes
    assert found.work_queue.queue_capacity >= sum(frontier.active_items)
    assert found.graph_reuse.upload_bytes + found.graph_reuse.avoided_upload_bytes == layout.graph_bytes
    assert plan(profile) == found


@given(PROFILES, st.integers(0, 100))
def test_a_queue_grows_with_the_budget_and_the_waves_it_serves(profile: TokenFactProfile, more: int) -> None:
    richer = replace(profile, budget_bytes=profile.budget_bytes + more)
    layered = replace(profile, queue_scope=QueueScope.LARGEST_LAYER)
    try:
        found, of_more, of_layers = (plan(p).work_queue.queue_capacity for p in (profile, richer, layered))
    except PlanError:
        return  # peaks of different waves may add up to more than a budget that holds each wave
    assert of_layers <= found <= of_more


def test_frontiers_of_marks_have_no_queue_and_leave_its_bytes_to_the_waves() -> None:
    marks = replace(PROFILE, queue_scope=QueueScope.NO_WAVES)
    assert plan(marks).work_queue == NO_QUEUE
    assert plan(marks).total_required_bytes == plan(PROFILE).total_required_bytes - (16 + 4 * 10)
    least = 100 + GRAPH_BYTES + LARGEST_WAVE
    assert plan(replace(marks, budget_bytes=least)).label == "groups"
    assert error_of(replace(marks, budget_bytes=least - 1)).kind == "FrontierPlan"


def test_an_analysis_that_never_ran_is_planned_as_with_an_empty_cache() -> None:
    for waves in (
        PROFILE,
        with_frontier(dependencies=()),
        with_frontier(waves=WAVES[:1], active_items=(2,), dependencies=()),
    ):
        assert plan_new_token_fact(waves) == plan(waves)
    alone = plan_new_token_fact(with_frontier(dependencies=()))
    assert (alone.label, plan_new_token_fact(PROFILE).label) == ("one group", "groups")
