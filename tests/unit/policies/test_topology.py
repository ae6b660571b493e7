"""Where the bands of kernel shapes begin and end, and what their memory and fusion pressures are."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any, Final, NamedTuple

import pytest

from vectors.seeds.fusion_pressure import FusionPressureInputs, fusion_pressures
from vectors.seeds.telemetry_samples import FrontierCount, TelemetryInputs, sample_from_telemetry
from vectors.seeds.topology import (
    DEFAULT_THRESHOLDS,
    FrontierSample,
    GraphSize,
    MemoryDemand,
    Topology,
    TopologyInputs,
    TopologyReason,
    TopologyThresholds,
    WaveMemory,
    fit,
    memory_of,
    select,
)
from vectors.seeds.wave_execution import ExecutionInputs, MemoryInputs, execution_plan, memory_plan
from vyre.domain.errors import PlanError

SPARSE, WARP = Topology.SPARSE_FRONTIER, Topology.WARP_SPARSE_FRONTIER
DENSE, BLOCK = Topology.DENSE_FRONTIER, Topology.BLOCK_DENSE_FRONTIER
HYBRID, FUSED = Topology.HYBRID_FRONTIER, Topology.FUSED_WAVE


def wave(
    density: float = 0.4,
    degree_bps: int = 40_000,
    memory_bps: int = 1000,
    launch_bps: int = 0,
    readback: int = 0,
    fusion: float = 0.0,
    previous: Topology | None = None,
) -> TopologyInputs:
    """A wave by the figures that the bands are made of."""
    return TopologyInputs(
        FrontierSample(10_000.0, density, readback),
        GraphSize(10_000, degree_bps),
        MemoryDemand(memory_bps, 10_000),
        float(launch_bps),
        fusion,
        previous,
    )


class Limit(NamedTuple):
    """``at`` the limit, ``figure`` still belongs to the band; ``step`` further it does not."""

    figure: str
    at: float
    step: float
    inside: Topology
    outside: Topology
    others: dict[str, Any]

    def holds(self, thresholds: TopologyThresholds = DEFAULT_THRESHOLDS) -> bool:
        found = [
            select(wave(**self.others | {self.figure: value}), thresholds).topology
            for value in (self.at, self.at + self.step)
        ]
        return found == [self.inside, self.outside]


EPSILON: Final = 1e-9
FUSABLE: Final[dict[str, Any]] = {"fusion": 0.7, "launch_bps": 1500, "readback": 4096}
KEPT: Final[dict[str, Any]] = {"fusion": 0.65, "launch_bps": 1300, "readback": 4096, "previous": FUSED}
LIMITS: Final = {
    "sparse_safety_memory_bps": Limit("memory_bps", 9000, -1, SPARSE, HYBRID, {}),
    "sparse_keep_memory_bps": Limit("memory_bps", 8750, -1, SPARSE, WARP, {"density": 0.01, "previous": WARP}),
    "fused_min_pressure": Limit("fusion", 0.70, -EPSILON, FUSED, HYBRID, FUSABLE),
    "fused_pressure_margin": Limit("fusion", 0.70 - 0.10, -EPSILON, FUSED, HYBRID, KEPT),
    "fused_min_launch_bps": Limit("launch_bps", 1500, -1, FUSED, HYBRID, FUSABLE),
    "fused_keep_launch_bps": Limit("launch_bps", 1250, -1, FUSED, HYBRID, KEPT),
    "fused_min_readback_bytes": Limit("readback", 4096, -1, FUSED, HYBRID, FUSABLE),
    "fused_max_memory_bps": Limit("memory_bps", 8500, 1, FUSED, HYBRID, FUSABLE),
    "fused_keep_memory_bps": Limit("memory_bps", 8750, 1, FUSED, HYBRID, KEPT),
    "warp_sparse_max_density": Limit("density", 0.03125, EPSILON, WARP, SPARSE, {}),
    "warp_sparse_max_degree_bps": Limit("degree_bps", 80_000, 1, WARP, SPARSE, {"density": 0.01}),
    "sparse_max_density": Limit("density", 0.125, EPSILON, SPARSE, HYBRID, {}),
    "dense_min_density": Limit("density", 0.70, -EPSILON, DENSE, HYBRID, {}),
    "block_dense_min_density": Limit("density", 0.85, -EPSILON, BLOCK, DENSE, {}),
    "dense_min_degree_bps": Limit("degree_bps", 20_000, -1, DENSE, HYBRID, {"density": 0.8}),
    "density_margin": Limit("density", 0.125 + 0.025, EPSILON, SPARSE, HYBRID, {"previous": SPARSE}),
}


def test_every_limit_is_listed() -> None:
    assert LIMITS.keys() | {"provenance"} == {f.name for f in fields(TopologyThresholds)}


@pytest.mark.parametrize("field", LIMITS)
def test_a_limit_is_where_it_is_said_to_be(field: str) -> None:
    limit, value = LIMITS[field], getattr(DEFAULT_THRESHOLDS, field)
    assert limit.holds()
    step = 1 if isinstance(value, int) else 10 * EPSILON
    for moved in (value - step, value + step):
        assert not limit.holds(replace(DEFAULT_THRESHOLDS, **dict[str, Any]({field: moved})))


KEEPING: Final = [
    Limit("density", 0.03125 + 0.025, EPSILON, WARP, SPARSE, {"previous": WARP}),
    Limit("degree_bps", 80_000, 1, WARP, SPARSE, {"density": 0.04, "previous": WARP}),
    Limit("density", 0.125 - 0.025, -EPSILON, HYBRID, SPARSE, {"previous": HYBRID}),
    Limit("density", 0.70 + 0.025, EPSILON, HYBRID, DENSE, {"previous": HYBRID}),
    Limit("density", 0.70 - 0.025, -EPSILON, DENSE, HYBRID, {"previous": DENSE}),
    Limit("degree_bps", 20_000, -1, DENSE, HYBRID, {"density": 0.69, "previous": DENSE}),
    Limit("density", 0.85 - 0.025, -EPSILON, BLOCK, DENSE, {"previous": BLOCK}),
    Limit("degree_bps", 20_000, -1, BLOCK, HYBRID, {"density": 0.84, "previous": BLOCK}),
    Limit("readback", 4096, -1, FUSED, HYBRID, KEPT),
    Limit("memory_bps", 8999, 1, DENSE, SPARSE, {"density": 0.69, "previous": DENSE}),
]


@pytest.mark.parametrize("limit", KEEPING)
def test_a_shape_is_kept_until_its_margin_ends(limit: Limit) -> None:
    assert limit.holds()


def test_reasons() -> None:
    found = {
        select(inputs).reason
        for inputs in (
            wave(density=0.01),
            wave(density=0.1),
            wave(density=0.1, memory_bps=9000),
            wave(density=0.9),
            wave(density=0.8),
            wave(),
            wave(**FUSABLE),
        )
    }
    assert found == set(TopologyReason)
    short = select(wave(density=0.1, memory_bps=8800, previous=SPARSE))
    assert short.reason is TopologyReason.LOW_DENSITY
    assert str(select(wave()).why) == (
        "transition_band_hybrid: 0.4 of the nodes active, 40000 bps edges per node, memory 1000 bps full, "
        "launch 0 bps of the cost (limits: reference values, not measured)"
    )
    swept = replace(DEFAULT_THRESHOLDS, provenance="sweep of device 0")
    assert str(select(wave(), swept).why).endswith("(limits: sweep of device 0)")


def test_log_line() -> None:
    assert select(wave(density=0.01)).log_line == (
        "megakernel-topology-v1|topology=WarpSparseFrontier|memory_pressure_bps=1000|average_degree_bps=40000"
        "|launch_pressure_bps=0|reason=ultra_sparse_warp_specialized"
    )


INF, NAN = float("inf"), float("nan")


@pytest.mark.parametrize(
    ("overhead", "cost", "bps"),
    [
        (1.0, 0.0, 0),
        (1.0, -1.0, 0),
        (1.0, INF, 0),
        (1.0, NAN, 0),
        (NAN, 1.0, 0),
        (-1.0, 1.0, 0),
        (INF, 1.0, 2**32 - 1),
        (1e308, 1e-308, 2**32 - 1),
        (0.00025, 10.0, 0),
        (0.0005, 10.0, 1),
        (1.5, 1.0, 15_000),
    ],
)
def test_launch_pressure_of_odd_times(overhead: float, cost: float, bps: int) -> None:
    inputs = replace(wave(), launch_overhead_ns=overhead, sample=FrontierSample(cost, 0.4, 0))
    assert select(inputs).launch_pressure_bps == bps


@pytest.mark.parametrize(
    ("nodes", "edges", "bps"), [(0, 0, 0), (0, 1, 2**64 - 1), (1, 2**64 - 1, 2**64 - 1), (3, 1, 3333)]
)
def test_average_degree(nodes: int, edges: int, bps: int) -> None:
    assert select(replace(wave(), graph=GraphSize(nodes, edges))).average_degree_bps == bps


@pytest.mark.parametrize(("required", "budget", "bps"), [(0, 0, 0), (1, 0, 10_000), (1, 3, 3333), (9, 3, 10_000)])
def test_memory_pressure(required: int, budget: int, bps: int) -> None:
    assert select(replace(wave(), memory=MemoryDemand(required, budget))).memory_pressure_bps == bps


@pytest.mark.parametrize(
    ("topology", "scratch", "scaled"),
    [
        (SPARSE, 7, 7),
        (WARP, 31, 32),
        (WARP, 33, 33),
        (DENSE, 7, 14),
        (BLOCK, 1023, 2048),
        (BLOCK, 1025, 2050),
        (HYBRID, 7, 21),
        (FUSED, 7, 28),
    ],
)
def test_memory_of_each_shape(topology: Topology, scratch: int, scaled: int) -> None:
    plan = memory_plan(MemoryInputs(2, 3, 10, 100, 1000, scratch, 10_000, 20_000, topology))
    assert (plan.graph_bytes, plan.frontier_bytes, plan.scratch_bytes, plan.output_bytes) == (320, 1000, scaled, 10_000)
    assert plan.required_bytes == 11_320 + scaled
    assert plan.memory_pressure_bps == plan.required_bytes // 2


EXECUTION: Final = ExecutionInputs(
    node_count=10,
    edge_count=100,
    bytes_per_node=1,
    bytes_per_edge=1,
    frontier_bytes=10,
    scratch_bytes=100,
    output_bytes=10,
    budget_bytes=1000,
    sample=FrontierSample(100.0, 0.4, 0),
    launch_overhead_ns=0.0,
    fusion_pressure=0.0,
)


def test_a_shape_that_does_not_fit_gives_way_to_the_smallest() -> None:
    roomy = execution_plan(EXECUTION)
    assert (roomy.topology, roomy.downgraded_to_sparse) == (HYBRID, False)
    assert str(roomy.why) == "hybrid_frontier needs 430 of 1000 bytes"
    tight = execution_plan(replace(EXECUTION, budget_bytes=300))
    assert (tight.topology, tight.downgraded_to_sparse, tight.memory.required_bytes) == (SPARSE, True, 230)
    assert str(tight.why) == "hybrid_frontier needs 430 bytes, more than the 300 there are; sparse_frontier needs 230"
    with pytest.raises(PlanError) as error:
        execution_plan(replace(EXECUTION, budget_bytes=229))
    assert (error.value.kind, error.value.fields["topology"]) == ("OverBudget", SPARSE)


def test_scratch_may_be_all_there_is() -> None:
    most = WaveMemory(0, 0, 0, 0, 0, 2**64 - 1, 0, 2**64 - 1)
    assert memory_of(SPARSE, most).required_bytes == 2**64 - 1


def test_an_overflow_is_no_reason_for_a_smaller_shape() -> None:
    huge = replace(EXECUTION, scratch_bytes=2**63, budget_bytes=2**64 - 1)
    assert fit(SPARSE, huge).memory.scratch_bytes == 2**63
    with pytest.raises(PlanError) as error:
        fit(HYBRID, huge)
    assert error.value.kind == "ByteCountOverflow"


def test_execution_takes_limits() -> None:
    never_hybrid = replace(DEFAULT_THRESHOLDS, sparse_max_density=1.0)
    assert execution_plan(EXECUTION, never_hybrid).topology is SPARSE


@pytest.mark.parametrize(
    ("frontier", "density"),
    [
        (None, 0.75),
        (FrontierCount(5, 20), 0.25),
        (FrontierCount(0, 20), 0.0),
        (FrontierCount(25, 20), 1.0),
        (FrontierCount(0, 0), 0.0),
    ],
)
def test_a_counted_frontier_replaces_the_fill_of_the_grid(frontier: FrontierCount | None, density: float) -> None:
    sample = sample_from_telemetry(TelemetryInputs(7500, 64, 10.0, frontier))
    assert sample == FrontierSample(10.0, density, 64)


def test_one_step_is_the_score() -> None:
    samples = (FrontierSample(100.0, 1.0, 10), FrontierSample(50.0, 0.0, 0), FrontierSample(0.0, 0.0, 5))
    found = fusion_pressures(FusionPressureInputs(samples, 100.0))
    assert found == pytest.approx((0.55 + 0.25 + 0.15 / 2 + 0.05, 0.55 * 0.5 * 0.65 + 0.15 * 2 / 3, 0.125 + 0.15))
    assert fusion_pressures(FusionPressureInputs(samples, 100.0, n_steps=1, dt=7.0)) == found
    assert fusion_pressures(FusionPressureInputs(samples, 100.0, n_steps=0)) == (0.0,) * 3


@pytest.mark.parametrize(
    ("sample", "overhead", "score"),
    [
        (FrontierSample(0.0, 1.0, 0), 0.0, 0.0),
        (FrontierSample(0.0, 1.0, 0), 1.0, 0.2),
        (FrontierSample(0.0, 1.0, 1), 0.0, 0.3),
        (FrontierSample(1.0, 1.0, 0), 0.0, 0.6),
    ],
)
def test_absent_terms_count_nothing(sample: FrontierSample, overhead: float, score: float) -> None:
    (found,) = fusion_pressures(FusionPressureInputs((sample,), overhead))
    assert found == pytest.approx(score)


GOOD: Final = FusionPressureInputs((FrontierSample(1.0, 0.5, 1),) * 2, 1.0)


@pytest.mark.parametrize(
    ("bad", "kind", "found"),
    [
        (replace(GOOD, dt=-1.0, launch_overhead_ns=-1.0), "InvalidStep", {"value": -1.0}),
        (replace(GOOD, dt=INF), "InvalidStep", {"value": INF}),
        (replace(GOOD, launch_overhead_ns=INF, samples=()), "InvalidLaunchOverhead", {"value": INF}),
        (
            replace(GOOD, samples=(*GOOD.samples, FrontierSample(INF, 7.0, 0))),
            "InvalidCost",
            {"index": 2, "value": INF},
        ),
        (
            replace(GOOD, samples=(FrontierSample(1.0, 1.5, 0), FrontierSample(-1.0, 0.0, 0))),
            "InvalidFrontierDensity",
            {"index": 0, "value": 1.5},
        ),
        (
            replace(GOOD, samples=(FrontierSample(1.0, -0.5, 0),)),
            "InvalidFrontierDensity",
            {"index": 0, "value": -0.5},
        ),
    ],
)
def test_figures_that_are_none(bad: FusionPressureInputs, kind: str, found: dict[str, float]) -> None:
    with pytest.raises(PlanError) as error:
        fusion_pressures(bad)
    assert (error.value.kind, error.value.fields) == (kind, found)


def test_a_density_that_is_no_number() -> None:
    with pytest.raises(PlanError) as error:
        fusion_pressures(replace(GOOD, samples=(FrontierSample(1.0, NAN, 0),)))
    assert error.value.kind == "InvalidFrontierDensity"
