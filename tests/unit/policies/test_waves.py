"""Waves of a frontier analysis: layers, groups that fit, and the kernel that runs them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from vectors.seeds.frontier_execution import (
    FrontierExecutionInputs,
    FrontierInputs,
    WaveEnvelope,
    fused_wave_bytes,
    plan_frontier,
    plan_frontier_execution,
)
from vectors.seeds.megakernel_plan_cache import MegakernelPlanCache
from vectors.seeds.plan_cache import MegakernelAnalysisKind, MegakernelDeviceKey, PlanIdentity
from vectors.seeds.topology import FrontierSample, GraphSize, Topology
from vyre.domain.errors import PlanError
from vyre.policies.frontiers.waves import BarrierInputs, Dependencies, plan_barriers

WAVES = (WaveEnvelope(10, 5, 10), WaveEnvelope(30, 0, 10), WaveEnvelope(0, 10, 0))
EACH = 40
"""Fused bytes of every one of them."""
TOGETHER = FrontierInputs(WAVES, (), resident_graph_bytes=100, budget_bytes=1000, readback_bytes=7)


def groups_of(inputs: FrontierInputs) -> tuple[tuple[int, ...], ...]:
    return plan_frontier(inputs).barriers.groups


def error_of(inputs: FrontierInputs) -> PlanError:
    with pytest.raises(PlanError) as error:
        plan_frontier(inputs)
    return error.value


def test_a_wave_runs_after_all_that_it_depends_on() -> None:
    plan = plan_barriers(BarrierInputs(5, ((1, 2), (1, 2), (0, 3), (3, 2))))
    assert plan.groups == ((0, 1, 4), (3,), (2,))
    assert plan.global_barriers == 2
    assert str(plan.why) == "a chain of 3 waves is the longest"


@pytest.mark.parametrize(("count", "groups"), [(0, ()), (1, ((0,),)), (3, ((0, 1, 2),))])
def test_waves_without_dependencies_need_no_barrier(count: int, groups: tuple[tuple[int, ...], ...]) -> None:
    plan = plan_barriers(BarrierInputs(count, ()))
    assert (plan.groups, plan.global_barriers) == (groups, 0)


@pytest.mark.parametrize(
    ("count", "dependencies", "kind", "fields"),
    [
        (0, ((0, 0),), "InvalidWave", {"wave_count": 0, "before": 0, "after": 0}),
        (2, ((0, 1), (0, 2)), "InvalidWave", {"wave_count": 2, "before": 0, "after": 2}),
        (2, ((2, 0), (1, 1)), "InvalidWave", {"wave_count": 2, "before": 2, "after": 0}),
        (2, ((1, 1), (2, 0)), "SelfDependency", {"wave": 1}),
        (4, ((0, 1), (1, 2), (2, 1)), "Cycle", {"unscheduled_waves": 2}),
    ],
)
def test_orders_that_do_not_exist(count: int, dependencies: Dependencies, kind: str, fields: dict[str, int]) -> None:
    with pytest.raises(PlanError) as error:
        plan_barriers(BarrierInputs(count, dependencies))
    assert (error.value.kind, error.value.fields) == (kind, fields)


def test_a_fused_wave_scales_its_scratch() -> None:
    assert [fused_wave_bytes(wave) for wave in WAVES] == [EACH] * 3
    for wave in (WaveEnvelope(0, 2**62, 0), WaveEnvelope(2**64 - 1, 0, 1)):
        with pytest.raises(PlanError) as error:
            fused_wave_bytes(wave)
        assert error.value.kind == "ByteCountOverflow"


def test_peaks_are_those_of_any_group_and_live_bytes_those_of_one() -> None:
    plan = plan_frontier(replace(TOGETHER, budget_bytes=100 + 2 * EACH))
    assert plan.barriers.groups == ((0, 1), (2,))
    assert (plan.peak_frontier_bytes, plan.peak_scratch_bytes, plan.peak_output_bytes) == (40, 10, 20)
    assert plan.peak_live_bytes == 100 + 2 * EACH
    assert (plan.max_group_width, plan.amortized_readback_bytes) == (2, 20)
    assert str(plan.barriers.why) == "1 layers take 2 groups of up to 80 bytes"
    assert plan_frontier(replace(TOGETHER, readback_bytes=21)).amortized_readback_bytes == 21


@pytest.mark.parametrize(
    ("budget", "groups"),
    [(220, ((0, 1, 2),)), (219, ((0, 1), (2,))), (180, ((0, 1), (2,))), (179, ((0,), (1,), (2,)))],
)
def test_groups_are_as_large_as_the_budget_holds(budget: int, groups: tuple[tuple[int, ...], ...]) -> None:
    assert groups_of(replace(TOGETHER, budget_bytes=budget)) == groups


def test_no_waves_take_the_graph_only() -> None:
    plan = plan_frontier(replace(TOGETHER, waves=(), budget_bytes=100))
    assert (plan.barriers.groups, plan.max_group_width, plan.peak_live_bytes) == ((), 0, 100)
    assert (plan.peak_frontier_bytes, plan.peak_scratch_bytes, plan.peak_output_bytes) == (0, 0, 0)


@pytest.mark.parametrize(
    ("budget", "fields"),
    [
        (99, {"required_bytes": 100, "budget_bytes": 99, "field": "resident graph bytes"}),
        (139, {"required_bytes": 40, "budget_bytes": 39, "field": "single fused frontier wave bytes"}),
    ],
)
def test_what_does_not_fit_is_named(budget: int, fields: dict[str, object]) -> None:
    error = error_of(replace(TOGETHER, budget_bytes=budget))
    assert (error.kind, error.fields) == ("GroupOverBudget", fields)


def test_a_large_wave_behind_another_is_refused_on_demand() -> None:
    hidden = replace(TOGETHER, waves=(WAVES[0], WaveEnvelope(50, 0, 0)), budget_bytes=145)
    assert groups_of(hidden) == ((0,), (1,))
    assert error_of(replace(hidden, check_every_wave=True)).fields["required_bytes"] == 50
    assert groups_of(replace(hidden, check_every_wave=True, budget_bytes=150)) == ((0,), (1,))


def test_group_bytes_never_wrap() -> None:
    half = 2**63
    for waves, field in (
        ((WaveEnvelope(half, 0, 0), WaveEnvelope(half, 0, 0)), "frontier group bytes"),
        ((WaveEnvelope(half, 0, half),), "fused wave bytes"),
        ((WaveEnvelope(0, half, 0),), "fused wave scratch bytes"),
    ):
        error = error_of(FrontierInputs(waves, (), 0, 2**64 - 1, 0))
        assert (error.kind, error.fields) == ("ByteCountOverflow", {"field": field})


DEVICE = MegakernelDeviceKey(9, 0, 32, supports_grid_sync=True, supports_tensor_cores=True, max_workgroup_size=1024)
EXECUTION = FrontierExecutionInputs(
    PlanIdentity(1, MegakernelAnalysisKind.DATAFLOW, DEVICE),
    FrontierSample(1000.0, 0.5, 3),
    GraphSize(10, 5),
    bytes_per_node=8,
    bytes_per_edge=4,
    waves=WAVES,
    dependencies=((0, 1),),
    budget_bytes=1000,
    launch_overhead_ns=100.0,
    fusion_pressure=0.5,
)


def test_the_shape_is_planned_for_the_peaks() -> None:
    plan = plan_frontier_execution(EXECUTION, MegakernelPlanCache().get_or_plan_execution)
    frontier, memory = plan.frontier, plan.execution.memory
    assert frontier == plan_frontier(FrontierInputs(WAVES, ((0, 1),), 100, 1000, 3))
    assert (memory.graph_bytes, memory.frontier_bytes, memory.output_bytes) == (100, 30, 10)
    assert (memory.frontier_bytes, memory.output_bytes) == (frontier.peak_frontier_bytes, frontier.peak_output_bytes)


def test_the_largest_output_is_what_is_read_back() -> None:
    """Of two waves alike but for their output only the one that is worth reading back runs in one kernel."""
    for output, topology in ((4096, Topology.FUSED_WAVE), (4095, Topology.HYBRID_FRONTIER)):
        inputs = replace(
            EXECUTION,
            graph=GraphSize(10, 20),
            waves=(WaveEnvelope(1, 1, output),),
            dependencies=(),
            budget_bytes=100_000,
            launch_overhead_ns=500.0,
            fusion_pressure=0.9,
        )
        assert (
            plan_frontier_execution(inputs, MegakernelPlanCache().get_or_plan_execution).execution.topology is topology
        )


def test_execution_remembers_shapes() -> None:
    cache = MegakernelPlanCache()
    plan = cache.get_or_plan_execution
    assert plan_frontier_execution(EXECUTION, plan) == plan_frontier_execution(EXECUTION, plan)
    assert (cache.stats.hits, cache.stats.misses) == (1, 1)


def test_a_kernel_that_does_not_fit_is_the_source() -> None:
    waves = (WaveEnvelope(100, 0, 0), WaveEnvelope(0, 25, 0), WaveEnvelope(0, 0, 100))
    apart = replace(EXECUTION, waves=waves, dependencies=(), budget_bytes=200)
    with pytest.raises(PlanError) as error:
        plan_frontier_execution(apart, MegakernelPlanCache().get_or_plan_execution)
    source = error.value.fields["source"]
    assert error.value.kind == "Memory" and isinstance(source, PlanError) and source.kind == "OverBudget"
