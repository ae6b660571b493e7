"""Keys of the plan cache, and what it remembers and forgets."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import pytest

from vectors.seeds.device_keys import device_key
from vectors.seeds.launch_diagnosis import DeviceEnvelope
from vectors.seeds.megakernel_plan_cache import MegakernelPlanCache
from vectors.seeds.plan_cache import (
    BucketThresholds,
    CustomAnalysis,
    ExecutionLookup,
    MegakernelAnalysisKind,
    MegakernelDeviceKey,
    MegakernelPlanCacheKey,
    MegakernelPlanCacheStats,
    PlanIdentity,
    TopologyLookup,
    WavePressures,
    plan_key,
)
from vectors.seeds.topology import DEFAULT_THRESHOLDS, FrontierSample, GraphSize, MemoryDemand, Topology, WaveMemory
from vyre.domain.errors import InvalidConfig, PlanError

DEVICE: Final = MegakernelDeviceKey(9, 0, 32, True, True, 1024)
IDENTITY: Final = PlanIdentity(5, MegakernelAnalysisKind.DATAFLOW, DEVICE)
PRESSURES: Final = WavePressures(0.0, 0, 0, 0, 0.0)
INF, NAN = float("inf"), float("nan")


@pytest.mark.parametrize(
    ("figure", "value", "bucket"),
    [
        ("frontier_density", 0.0, 0),
        ("frontier_density", 0.0333, 0),
        ("frontier_density", 0.0334, 1),
        ("frontier_density", 0.1, 2),  # 1.5 rounds away from zero
        ("frontier_density", 0.9666, 14),
        ("frontier_density", 0.9667, 15),
        ("frontier_density", 7.0, 15),
        ("frontier_density", -1.0, 0),
        ("frontier_density", INF, 0),
        ("frontier_density", NAN, 0),
        ("memory_pressure_bps", 999, 0),
        ("memory_pressure_bps", 1000, 1),
        ("memory_pressure_bps", 2**32 - 1, 4_294_967),
        ("readback_bytes", 4095, 0),
        ("readback_bytes", 4096, 1),
        ("readback_bytes", 8191, 1),
        ("readback_bytes", 8192, 2),
        ("readback_bytes", 2**64 - 1, 52),
        ("launch_pressure_bps", 2999, 2),
        ("launch_pressure_bps", 3000, 3),
        ("fusion_pressure", 0.0999, 0),
        ("fusion_pressure", 0.1, 1),
        ("fusion_pressure", 1.0, 10),
        ("fusion_pressure", 5.0, 50),
        ("fusion_pressure", -0.5, 0),
        ("fusion_pressure", INF, 0),
        ("fusion_pressure", NAN, 0),
        ("fusion_pressure", 1e308, 4_294_967),
    ],
)
def test_buckets(figure: str, value: float, bucket: int) -> None:
    names = [name for name in MegakernelPlanCacheKey._fields if name != "identity"]
    order = ["frontier_density", "memory_pressure_bps", "readback_bytes", "launch_pressure_bps", "fusion_pressure"]
    expected = dict.fromkeys(names, 0) | {names[order.index(figure)]: bucket}
    key = plan_key(IDENTITY, replace(PRESSURES, **dict[str, Any]({figure: value})))
    assert key._asdict() == {"identity": IDENTITY} | expected


@pytest.mark.parametrize(
    ("major", "cooperative", "tensor_cores", "grid_sync", "tensor"),
    [
        (5, True, True, False, False),
        (6, True, True, True, False),
        (6, False, True, False, False),
        (7, True, True, True, True),
        (7, True, False, True, False),
    ],
)
def test_device_keys(major: int, cooperative: bool, tensor_cores: bool, grid_sync: bool, tensor: bool) -> None:
    device = DeviceEnvelope(major, 5, 512, 0, cooperative, tensor_cores)
    assert device_key(device, 32) == MegakernelDeviceKey(major, 5, 32, grid_sync, tensor, 512)


def lookup(
    density: float = 0.4,
    memory_bps: int = 1000,
    identity: PlanIdentity = IDENTITY,
    overhead: float = 0.0,
    cost: float = 1000.0,
    fusion: float = 0.0,
) -> TopologyLookup:
    return TopologyLookup(
        identity=identity,
        sample=FrontierSample(cost, density, 8192),
        graph=GraphSize(100, 400),
        launch_overhead_ns=overhead,
        fusion_pressure=fusion,
        memory=MemoryDemand(memory_bps, 10_000),
    )


def test_a_hit_repeats_the_very_decision() -> None:
    cache = MegakernelPlanCache()
    first = cache.get_or_select_topology(lookup(0.4))
    assert first.topology is first.decision.topology is Topology.HYBRID_FRONTIER
    assert cache.get_or_select_topology(lookup(0.41)) is first
    assert cache.get_or_select_topology(lookup(0.8)) is not first
    assert cache.stats == MegakernelPlanCacheStats(hits=1, misses=2, evictions=0, entries=2)


@pytest.mark.parametrize(
    "other",
    [
        PlanIdentity(6, MegakernelAnalysisKind.DATAFLOW, DEVICE),
        PlanIdentity(5, MegakernelAnalysisKind.LIVENESS, DEVICE),
        PlanIdentity(5, CustomAnalysis(0), DEVICE),
        PlanIdentity(5, MegakernelAnalysisKind.DATAFLOW, replace(DEVICE, sm_minor=1)),
    ],
)
def test_identities_share_nothing(other: PlanIdentity) -> None:
    cache = MegakernelPlanCache()
    cache.get_or_select_topology(lookup(0.8))
    assert cache.get_or_select_topology(lookup(0.69)).topology is Topology.DENSE_FRONTIER
    assert cache.get_or_select_topology(lookup(0.69, identity=other)).topology is Topology.HYBRID_FRONTIER
    assert cache.stats.misses == 3


def test_a_hit_counts_as_use() -> None:
    cache = MegakernelPlanCache(2)
    hybrid, dense = lookup(0.4), lookup(0.8)
    kept = cache.get_or_select_topology(hybrid)
    cache.get_or_select_topology(dense)
    assert cache.get_or_select_topology(hybrid) is kept
    cache.get_or_select_topology(lookup(0.01))
    assert cache.get_or_select_topology(hybrid) is kept
    cache.get_or_select_topology(dense)
    assert cache.stats == MegakernelPlanCacheStats(hits=2, misses=4, evictions=2, entries=2)


def test_the_shape_in_use_is_that_of_the_last_hit() -> None:
    near = lookup(0.69)
    cache = MegakernelPlanCache()
    cache.get_or_select_topology(lookup(0.4))
    cache.get_or_select_topology(lookup(0.8))
    cache.get_or_select_topology(lookup(0.4))
    assert cache.get_or_select_topology(near).topology is Topology.HYBRID_FRONTIER


def test_an_identity_without_entries_has_no_history() -> None:
    other = replace(IDENTITY, graph_layout_hash=6)
    cache = MegakernelPlanCache(1)
    cache.get_or_select_topology(lookup(0.8))
    cache.get_or_select_topology(lookup(0.8, identity=other))
    assert cache.get_or_select_topology(lookup(0.69)).topology is Topology.HYBRID_FRONTIER


def test_the_shape_in_use_is_read_before_it_leaves() -> None:
    cache = MegakernelPlanCache(1)
    cache.get_or_select_topology(lookup(0.8))
    assert cache.get_or_select_topology(lookup(0.69)).topology is Topology.DENSE_FRONTIER
    assert cache.stats.evictions == 1


def test_no_capacity_remembers_nothing() -> None:
    cache = MegakernelPlanCache(0)
    cache.get_or_select_topology(lookup(0.8))
    assert cache.get_or_select_topology(lookup(0.69)).topology is Topology.HYBRID_FRONTIER
    assert cache.stats == MegakernelPlanCacheStats(hits=0, misses=2, evictions=0, entries=0)


def test_clear_forgets_decisions_and_keeps_counters() -> None:
    cache = MegakernelPlanCache()
    cache.get_or_select_topology(lookup(0.8))
    cache.clear()
    assert cache.stats == MegakernelPlanCacheStats(hits=0, misses=1, evictions=0, entries=0)
    assert cache.get_or_select_topology(lookup(0.69)).topology is Topology.HYBRID_FRONTIER


def test_any_capacity_of_64_bits() -> None:
    assert MegakernelPlanCache(2**64 - 1).stats.entries == 0


@pytest.mark.parametrize("capacity", [-1, 2**64, True, 1.0, None])
def test_capacities_that_are_none(capacity: Any) -> None:
    with pytest.raises(InvalidConfig, match=r"max_entries=.* is not an int in 0\.\."):
        MegakernelPlanCache(capacity)


def test_the_default_capacity() -> None:
    cache = MegakernelPlanCache()
    for graph in range(257):
        cache.get_or_select_topology(lookup(identity=replace(IDENTITY, graph_layout_hash=graph)))
    assert cache.stats == MegakernelPlanCacheStats(hits=0, misses=257, evictions=1, entries=256)


def test_one_kernel_for_all_waves_takes_a_barrier() -> None:
    fused = lookup(overhead=200.0, fusion=0.9)
    without = replace(fused, identity=replace(IDENTITY, device=replace(DEVICE, supports_grid_sync=False)))
    cache = MegakernelPlanCache()
    assert cache.get_or_select_topology(fused).topology is Topology.FUSED_WAVE
    assert cache.get_or_select_topology(without).topology is Topology.HYBRID_FRONTIER
    assert cache.get_or_select_topology(replace(without, fusion_pressure=0.0)).topology is Topology.HYBRID_FRONTIER
    assert cache.stats.hits == 1


@pytest.mark.parametrize(
    ("overhead", "cost", "other"),
    [
        (NAN, 1000.0, lookup(overhead=INF)),
        (NAN, NAN, lookup(overhead=INF)),
        (500.0, -1.0, lookup(overhead=0.0)),
        (199.99, 1000.0, lookup(overhead=100.0)),
    ],
)
def test_launch_pressures_that_share_a_bucket(overhead: float, cost: float, other: TopologyLookup) -> None:
    cache = MegakernelPlanCache()
    found = cache.get_or_select_topology(lookup(overhead=overhead, cost=cost))
    assert cache.get_or_select_topology(other) is found


def test_what_is_no_pressure_is_none_in_the_finest_buckets() -> None:
    finest = BucketThresholds(launch_step_bps=1, fusion_step_bps=1)
    assert plan_key(IDENTITY, replace(PRESSURES, fusion_pressure=NAN), finest).fusion_pressure_bucket == 0
    cache = MegakernelPlanCache(buckets=finest)
    found = cache.get_or_select_topology(lookup(overhead=0.0))
    assert cache.get_or_select_topology(lookup(overhead=500.0, cost=0.0)) is found


def test_limits_and_buckets_are_injected() -> None:
    thresholds = replace(DEFAULT_THRESHOLDS, sparse_max_density=0.5)
    cache = MegakernelPlanCache(thresholds=thresholds, buckets=BucketThresholds(density_steps=1))
    assert cache.get_or_select_topology(lookup(0.4)).topology is Topology.SPARSE_FRONTIER
    assert cache.get_or_select_topology(lookup(0.1)).topology is Topology.SPARSE_FRONTIER
    assert cache.stats.hits == 1


def execution(**changes: Any) -> ExecutionLookup:
    members = {
        "node_count": 10,
        "edge_count": 100,
        "bytes_per_node": 1,
        "bytes_per_edge": 1,
        "frontier_bytes": 10,
        "scratch_bytes": 100,
        "output_bytes": 10,
        "budget_bytes": 500,
    }
    wave = WaveMemory(**members | changes)
    return ExecutionLookup(IDENTITY, FrontierSample(100.0, 0.4, 0), 0.0, 0.0, wave)


def test_a_remembered_shape_is_planned_for_the_memory_there_is() -> None:
    cache = MegakernelPlanCache()
    plan = cache.get_or_plan_execution(execution())
    assert (plan.topology, plan.memory.required_bytes) == (Topology.HYBRID_FRONTIER, 430)
    tighter = cache.get_or_plan_execution(execution(budget_bytes=429))
    assert (tighter.topology, tighter.downgraded_to_sparse) == (Topology.SPARSE_FRONTIER, True)
    assert (cache.stats.hits, cache.stats.misses) == (0, 2)
    again = cache.get_or_plan_execution(execution(budget_bytes=430))
    assert (again.topology, again.memory.memory_pressure_bps) == (Topology.HYBRID_FRONTIER, 10_000)
    assert (cache.stats.hits, cache.stats.misses) == (1, 2)


def test_a_wave_over_budget_is_looked_up_and_one_over_64_bits_is_not() -> None:
    cache = MegakernelPlanCache()
    with pytest.raises(PlanError) as over:
        cache.get_or_plan_execution(execution(budget_bytes=229))
    assert (over.value.kind, over.value.fields["required_bytes"]) == ("OverBudget", 230)
    assert cache.stats.misses == 1
    with pytest.raises(PlanError) as wide:
        cache.get_or_plan_execution(execution(output_bytes=2**64 - 1))
    assert wide.value.kind == "ByteCountOverflow"
    assert cache.stats.misses == 1
