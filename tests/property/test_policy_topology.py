"""Invariants of kernel shapes, their memory, fusion pressures and the plan cache, for any wave."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, field, fields, replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from support.records import records
from vectors.seeds.fusion_pressure import FusionPressureInputs, fusion_pressures
from vectors.seeds.megakernel_plan_cache import MegakernelPlanCache
from vectors.seeds.plan_cache import (
    ExecutionLookup,
    MegakernelAnalysisKind,
    MegakernelCachedPlan,
    MegakernelDeviceKey,
    MegakernelPlanCacheKey,
    PlanIdentity,
    TopologyLookup,
    WavePressures,
    plan_key,
)
from vectors.seeds.topology import (
    ExecutionPlan,
    FrontierSample,
    GraphSize,
    MemoryDemand,
    Topology,
    TopologyInputs,
    WaveMemory,
    fit,
    select,
    smallest_demand,
)
from vectors.seeds.wave_execution import ExecutionInputs, MemoryInputs, execution_plan, memory_plan
from vyre.domain.errors import PlanError

U64_MAX = 2**64 - 1
SHARES = st.floats(0, 1) | st.sampled_from([0.1, 0.125, 0.14, 0.69, 0.7, 0.72, 0.84, 0.85]) | st.floats()
TIMES = st.sampled_from([0.0, 100.0, 130.0, 500.0, 1000.0]) | st.floats()
READBACK = st.sampled_from([0, 100, 4096, 8192, 2**20]) | st.integers(0, U64_MAX)
SAMPLES = st.builds(FrontierSample, TIMES, SHARES, READBACK)
GRAPHS = st.builds(GraphSize, st.integers(0, 100), st.integers(0, 1000)) | records(GraphSize)
DEMANDS = st.builds(MemoryDemand, st.integers(0, 10_500), st.just(10_000)) | records(MemoryDemand)
PREVIOUS = st.none() | st.sampled_from(Topology)
WAVES = st.builds(TopologyInputs, SAMPLES, GRAPHS, DEMANDS, TIMES, SHARES, PREVIOUS)


@given(WAVES)
def test_shapes(inputs: TopologyInputs) -> None:
    untouched = deepcopy(inputs)
    decision = select(inputs)
    assert select(inputs) == decision and inputs == untouched
    assert decision.log_line.endswith(decision.reason.value) and str(decision.why).startswith(decision.reason.value)
    assert decision.memory_pressure_bps <= 10_000
    fresh = select(replace(inputs, previous_topology=None))
    for figure in ("memory_pressure_bps", "average_degree_bps", "launch_pressure_bps"):
        assert getattr(decision, figure) == getattr(fresh, figure)
    assert decision.topology in {fresh.topology, inputs.previous_topology, Topology.SPARSE_FRONTIER}
    if decision.memory_pressure_bps >= 9000:
        assert decision.topology is Topology.SPARSE_FRONTIER
    if decision.topology is Topology.FUSED_WAVE:
        assert decision.memory_pressure_bps <= 8750


@given(WAVES)
def test_shapes_settle(inputs: TopologyInputs) -> None:
    """Whatever was in use: a wave that stays the same keeps its shape from the second decision on."""
    once = select(replace(inputs, previous_topology=select(inputs).topology)).topology
    assert select(replace(inputs, previous_topology=once)).topology is once


SIZES = st.integers(0, 5000)
BUDGETS = st.integers(0, 40_000)
SMALL = {f.name: SIZES for f in fields(WaveMemory)} | {
    "node_count": st.integers(0, 50),
    "edge_count": st.integers(0, 50),
    "bytes_per_node": st.integers(0, 100),
    "bytes_per_edge": st.integers(0, 100),
    "budget_bytes": BUDGETS,
}
MEMORY = records(MemoryInputs, **SMALL) | records(MemoryInputs)
BYTE_FIELDS = [f.name for f in fields(WaveMemory) if f.name != "budget_bytes"]


def attempted(function: Any, *arguments: Any) -> Any:
    """The result, or the kind of the error."""
    try:
        return function(*arguments)
    except PlanError as error:
        return error.kind


@given(MEMORY)
def test_memory_fits_and_adds_up(inputs: MemoryInputs) -> None:
    plan = attempted(memory_plan, inputs)
    if isinstance(plan, str):
        assert plan in {"OverBudget", "ByteCountOverflow"}
        return
    assert plan.required_bytes == plan.graph_bytes + plan.frontier_bytes + plan.scratch_bytes + plan.output_bytes
    assert plan.required_bytes <= plan.budget_bytes == inputs.budget_bytes
    assert plan.scratch_bytes >= inputs.scratch_bytes
    assert memory_plan(inputs) == plan
    smallest = memory_plan(replace(inputs, topology=Topology.SPARSE_FRONTIER))
    assert smallest.required_bytes <= plan.required_bytes


@given(MEMORY, st.sampled_from(BYTE_FIELDS), st.integers(1, 5000))
def test_more_bytes_never_turn_an_error_into_a_plan(inputs: MemoryInputs, name: str, more: int) -> None:
    larger = getattr(inputs, name) + more
    assume(larger <= U64_MAX)
    grown = attempted(memory_plan, replace(inputs, **dict[str, Any]({name: larger})))
    if not isinstance(grown, str):
        plan = memory_plan(inputs)
        assert plan.required_bytes <= grown.required_bytes


@pytest.mark.parametrize("topology", Topology)
@pytest.mark.parametrize("name", BYTE_FIELDS)
def test_bytes_never_wrap(topology: Topology, name: str) -> None:
    twos = MemoryInputs(**dict.fromkeys(BYTE_FIELDS, 2), budget_bytes=U64_MAX, topology=topology)
    with pytest.raises(PlanError) as error:
        memory_plan(replace(twos, **dict[str, Any]({name: U64_MAX})))
    assert error.value.kind == "ByteCountOverflow"
    assert error.value.fields["field"]


EXECUTIONS = records(
    ExecutionInputs, **SMALL, sample=SAMPLES, launch_overhead_ns=TIMES, fusion_pressure=SHARES
) | records(ExecutionInputs)


@given(EXECUTIONS)
def test_executions_fit(inputs: ExecutionInputs) -> None:
    smallest = attempted(memory_plan, _in_shape(inputs, Topology.SPARSE_FRONTIER))
    plan = attempted(execution_plan, inputs)
    if isinstance(smallest, str):
        assert plan == smallest
        return
    if isinstance(plan, str):
        assert plan == "ByteCountOverflow"
        return
    assert execution_plan(inputs) == plan
    assert plan.memory == memory_plan(_in_shape(inputs, plan.topology))
    assert str(plan.why).startswith(plan.topology.value) != plan.downgraded_to_sparse
    chosen = select(
        TopologyInputs(
            inputs.sample,
            GraphSize(inputs.node_count, inputs.edge_count),
            MemoryDemand(smallest.required_bytes, inputs.budget_bytes),
            inputs.launch_overhead_ns,
            inputs.fusion_pressure,
        )
    ).topology
    if plan.downgraded_to_sparse:
        assert plan.topology is Topology.SPARSE_FRONTIER is not chosen
        assert attempted(memory_plan, _in_shape(inputs, chosen)) == "OverBudget"
    else:
        assert plan.topology is chosen


def _in_shape(wave: WaveMemory, topology: Topology) -> MemoryInputs:
    return MemoryInputs(**{f.name: getattr(wave, f.name) for f in fields(WaveMemory)}, topology=topology)


DURATIONS = st.floats(0, 1e12)
FUSIONS = st.builds(
    FusionPressureInputs,
    st.lists(st.builds(FrontierSample, DURATIONS, st.floats(0, 1), READBACK), max_size=6).map(tuple),
    DURATIONS,
    st.integers(0, 12),
    st.floats(0, 4),
)


@given(FUSIONS, st.randoms(use_true_random=False))
def test_fusion_pressures(inputs: FusionPressureInputs, random: Any) -> None:
    found = fusion_pressures(inputs)
    assert fusion_pressures(inputs) == found
    assert len(found) == len(inputs.samples) and all(0.0 <= pressure <= 1.0 for pressure in found)
    order = list(range(len(found)))
    random.shuffle(order)
    shuffled = replace(inputs, samples=tuple(inputs.samples[i] for i in order))
    assert fusion_pressures(shuffled) == tuple(found[i] for i in order)


@given(FUSIONS)
def test_steps_answer_with_a_part_of_the_score(inputs: FusionPressureInputs) -> None:
    """The steps towards a fixed score have a closed form, which is why one of length 1 is enough."""
    length, steps = min(inputs.dt, 1.0), inputs.n_steps
    part = sum(length * (k / steps) * (1.0 - length) ** (steps - k) for k in range(1, steps + 1))
    scores = fusion_pressures(replace(inputs, n_steps=1, dt=1.0))
    assert fusion_pressures(inputs) == pytest.approx([part * score for score in scores], rel=1e-9, abs=1e-12)
    assert all(stepped <= score * (1 + 1e-9) for stepped, score in zip(fusion_pressures(inputs), scores, strict=True))


@given(FUSIONS, st.integers(0, 5), st.floats(0, 1))
def test_a_denser_frontier_gains_no_less(inputs: FusionPressureInputs, index: int, density: float) -> None:
    assume(index < len(inputs.samples))
    inputs = replace(inputs, n_steps=1, dt=1.0)
    sample = inputs.samples[index]
    denser = replace(sample, frontier_density=max(density, sample.frontier_density))
    changed = replace(inputs, samples=(*inputs.samples[:index], denser, *inputs.samples[index + 1 :]))
    assert all(
        before <= after for before, after in zip(fusion_pressures(inputs), fusion_pressures(changed), strict=True)
    )


DEVICES = [MegakernelDeviceKey(9, 0, 32, grid_sync, True, 1024) for grid_sync in (True, False)]
IDENTITIES = st.builds(PlanIdentity, st.integers(1, 2), st.just(MegakernelAnalysisKind.IFDS), st.sampled_from(DEVICES))
CACHED_SAMPLES = st.builds(
    FrontierSample,
    st.sampled_from([0.0, 500.0, 1000.0]),
    st.sampled_from([0.01, 0.05, 0.13, 0.3, 0.69, 0.72, 0.84, 0.9]),
    st.sampled_from([100, 8192]),
)
OVERHEADS = st.sampled_from([50.0, 200.0])
PRESSED = st.sampled_from([0.0, 0.65, 0.9])
LOOKUPS = st.builds(
    TopologyLookup,
    IDENTITIES,
    CACHED_SAMPLES,
    st.builds(GraphSize, st.just(100), st.sampled_from([150, 400])),
    OVERHEADS,
    PRESSED,
    st.builds(MemoryDemand, st.sampled_from([100, 870, 880, 950]), st.just(1000)),
)
EXECUTION_LOOKUPS = st.builds(
    ExecutionLookup, IDENTITIES, CACHED_SAMPLES, OVERHEADS, PRESSED, records(WaveMemory, **SMALL) | records(WaveMemory)
)
CLEAR = st.none()
OPERATIONS = st.lists(LOOKUPS | LOOKUPS | EXECUTION_LOOKUPS | CLEAR, max_size=40)


@dataclass
class NumberedCache:
    """The cache as a list of uses: every lookup has a number, the lowest leaves, and the shape in use of an identity is
    searched among its entries."""

    capacity: int
    now: int = 0
    hits: int = 0
    misses: int = 0
    evictions: int = 0
    entries: dict[MegakernelPlanCacheKey, tuple[int, Topology]] = field(default_factory=dict)

    def look_up(self, lookup: TopologyLookup) -> Topology:
        self.now += 1
        fusion = lookup.fusion_pressure if lookup.identity.device.supports_grid_sync else 0.0
        sample, memory = lookup.sample, lookup.memory
        cost, needed, there = sample.dispatch_cost_ns, memory.required_bytes, memory.budget_bytes
        pressures = WavePressures(
            sample.frontier_density,
            min(needed * 10_000 // there, 2**32 - 1) if there else (2**32 - 1 if needed else 0),
            sample.readback_bytes,
            int(lookup.launch_overhead_ns / cost * 10_000) if cost else 0,
            fusion,
        )
        key = plan_key(lookup.identity, pressures)
        if key in self.entries:
            self.hits += 1
            shape = self.entries[key][1]
        else:
            self.misses += 1
            mine = [use for other, use in self.entries.items() if other.identity == lookup.identity]
            last = max(mine, key=lambda use: use[0])[1] if mine else None
            arguments = (sample, lookup.graph, memory, lookup.launch_overhead_ns, fusion, last)
            shape = select(TopologyInputs(*arguments)).topology
            if not self.capacity:
                return shape
            while len(self.entries) >= self.capacity:
                del self.entries[min(self.entries, key=lambda k: self.entries[k][0])]
                self.evictions += 1
        self.entries[key] = (self.now, shape)
        return shape


@given(st.integers(0, 4), OPERATIONS)
def test_the_cache_is_a_list_of_uses(capacity: int, operations: list[TopologyLookup | ExecutionLookup | None]) -> None:
    cache, model = MegakernelPlanCache(capacity), NumberedCache(capacity)
    history = [cache.stats]
    for operation in operations:
        match operation:
            case None:
                cache.clear()
                model.entries.clear()
            case TopologyLookup():
                assert cache.get_or_select_topology(operation).topology is model.look_up(operation)
            case ExecutionLookup(wave=wave):
                check_execution(cache, model, operation, wave)
        history.append(cache.stats)
        counts = (cache.stats.hits, cache.stats.misses, cache.stats.evictions, cache.stats.entries)
        assert counts == (model.hits, model.misses, model.evictions, len(model.entries))
        assert cache.stats.entries <= capacity
        assert cache.stats.hits + cache.stats.misses == model.now
    for before, after in pairwise(history):
        assert before.hits <= after.hits and before.misses <= after.misses and before.evictions <= after.evictions


def check_execution(
    cache: MegakernelPlanCache, model: NumberedCache, lookup: ExecutionLookup, wave: WaveMemory
) -> None:
    plan = attempted(cache.get_or_plan_execution, lookup)
    demand = attempted(smallest_demand, wave)
    if isinstance(demand, str):
        assert plan == demand
        return
    graph = GraphSize(wave.node_count, wave.edge_count)
    shape = model.look_up(
        TopologyLookup(lookup.identity, lookup.sample, graph, lookup.launch_overhead_ns, lookup.fusion_pressure, demand)
    )
    assert plan == attempted(fit, shape, wave)
    if isinstance(plan, ExecutionPlan):
        assert plan.memory.required_bytes <= wave.budget_bytes


@given(LOOKUPS)
def test_a_hit_is_the_identical_decision(lookup: TopologyLookup) -> None:
    cache = MegakernelPlanCache()
    found: MegakernelCachedPlan = cache.get_or_select_topology(lookup)
    assert cache.get_or_select_topology(lookup) is found
    assert found.topology is found.decision.topology
