"""Which kernel shape suits a frontier wave, and what memory does it take?

Units: bytes, nanoseconds, basis points; densities and pressures are ratios in 0..1.  ``select`` takes the first that
fits of a list of bands of density and degree; memory pressure forces the smallest shape, launch pressure and read-back
favour one kernel for all waves.  With ``previous_topology`` the bands get margins, so that a wave near a limit keeps
its shape.  ``memory_of`` adds up the bytes that a shape occupies, and ``fit`` falls back to the smallest shape where
the chosen one does not fit.  Everything is O(1).

vyre-driver has the same limits, which are not measured.  Here they are parameters with a ``provenance``, which every
reason repeats; measured limits can replace them without a change of the rule.
"""

from __future__ import annotations

import math
from dataclasses import replace
from enum import Enum
from typing import Final, NamedTuple, assert_never

from vectors.seeds.ratios import float_to_u32, unit
from vyre.domain.errors import PlanError
from vyre.policies.arith import BPS, ratio
from vyre.policies.record import (
    U32_MAX,
    U64,
    U64_MAX,
    BasisPoints,
    Reason,
    checked_u64,
    record,
    verdict,
    why_field,
)


class Topology(Enum):
    """Shapes of a frontier kernel.

    - ``SPARSE_FRONTIER``: a lane per active node.
    - ``WARP_SPARSE_FRONTIER``: a warp per active node.
    - ``DENSE_FRONTIER``: a scan of all nodes.
    - ``BLOCK_DENSE_FRONTIER``: a block per active node.
    - ``HYBRID_FRONTIER``: a mixture.
    - ``FUSED_WAVE``: all waves in one kernel.
    """

    SPARSE_FRONTIER = "sparse_frontier"
    WARP_SPARSE_FRONTIER = "warp_sparse_frontier"
    DENSE_FRONTIER = "dense_frontier"
    BLOCK_DENSE_FRONTIER = "block_dense_frontier"
    HYBRID_FRONTIER = "hybrid_frontier"
    FUSED_WAVE = "fused_wave"


class _Scratch(NamedTuple):
    """The scratch of a shape: ``factor`` times the wave's, which counts as at least ``minimum`` bytes."""

    factor: int
    minimum: int = 0


_SCRATCH: Final = {
    Topology.WARP_SPARSE_FRONTIER: _Scratch(1, 32),
    Topology.SPARSE_FRONTIER: _Scratch(1),
    Topology.BLOCK_DENSE_FRONTIER: _Scratch(2, 1024),
    Topology.DENSE_FRONTIER: _Scratch(2),
    Topology.HYBRID_FRONTIER: _Scratch(3),
    Topology.FUSED_WAVE: _Scratch(4),
}
FUSED_SCRATCH_FACTOR: Final = _SCRATCH[Topology.FUSED_WAVE].factor
"""The largest factor by which a topology scales a wave's scratch bytes."""


@record
class FrontierSample:
    """One observed wave: the cost of its dispatch in ns, the share of nodes that are active, the bytes read back.

    ``select`` treats a density that is not finite as 0, and a cost that is not finite as no launch pressure.
    """

    dispatch_cost_ns: float
    frontier_density: float
    readback_bytes: U64


@record
class GraphSize:
    """The number of nodes and of edges of a graph."""

    node_count: U64
    edge_count: U64


@record
class MemoryDemand:
    """The bytes that a wave needs, and those that it may take."""

    required_bytes: U64
    budget_bytes: U64


@record
class TopologyInputs:
    """A wave whose shape is to be chosen.

    ``launch_overhead_ns`` is the cost of each launch besides its kernel.  ``fusion_pressure`` is the gain expected from
    one kernel for all waves, 0..1.  ``previous_topology`` is the shape in use, which is kept near a limit; None decides
    without a history.
    """

    sample: FrontierSample
    graph: GraphSize
    memory: MemoryDemand
    launch_overhead_ns: float
    fusion_pressure: float
    previous_topology: Topology | None = None


@record
class TopologyThresholds:
    """Limits of the bands; ``*_margin`` and ``*_keep_*`` apply only to the shape in use.

    Densities and pressures are shares; ``*_degree_bps`` are edges per node (10 000 = one edge per node).
    ``provenance`` says on what the limits rest, such as a sweep on a device.
    """

    sparse_safety_memory_bps: BasisPoints = 9000
    sparse_keep_memory_bps: BasisPoints = 8750
    fused_min_pressure: float = 0.70
    fused_pressure_margin: float = 0.10
    fused_min_launch_bps: BasisPoints = 1500
    fused_keep_launch_bps: BasisPoints = 1250
    fused_min_readback_bytes: U64 = 4096
    fused_max_memory_bps: BasisPoints = 8500
    fused_keep_memory_bps: BasisPoints = 8750
    warp_sparse_max_density: float = 0.03125
    warp_sparse_max_degree_bps: U64 = 80_000
    sparse_max_density: float = 0.125
    dense_min_density: float = 0.70
    block_dense_min_density: float = 0.85
    dense_min_degree_bps: U64 = 20_000
    density_margin: float = 0.025
    provenance: str = "reference values, not measured"


class TopologyReason(Enum):
    """Why a shape was chosen; the values appear in the log line."""

    ULTRA_SPARSE = "ultra_sparse_warp_specialized"
    MEMORY_PRESSURE = "memory_pressure_sparse_safety"
    LOW_DENSITY = "low_density_sparse_queue"
    HIGH_DENSITY = "high_density_block_specialized"
    DENSE = "dense_coalesced_frontier"
    TRANSITION = "transition_band_hybrid"
    LAUNCH_PRESSURE = "launch_and_readback_pressure_fused"


_REASONS: Final = {
    Topology.WARP_SPARSE_FRONTIER: TopologyReason.ULTRA_SPARSE,
    Topology.SPARSE_FRONTIER: TopologyReason.LOW_DENSITY,
    Topology.BLOCK_DENSE_FRONTIER: TopologyReason.HIGH_DENSITY,
    Topology.DENSE_FRONTIER: TopologyReason.DENSE,
    Topology.HYBRID_FRONTIER: TopologyReason.TRANSITION,
    Topology.FUSED_WAVE: TopologyReason.LAUNCH_PRESSURE,
}


@verdict
class TopologyDecision:
    """The shape and the figures by which it was chosen, each in basis points.

    ``average_degree_bps`` is the number of edges per node, ``launch_pressure_bps`` the launch overhead over the cost of
    the dispatch.
    """

    topology: Topology
    memory_pressure_bps: int
    average_degree_bps: int
    launch_pressure_bps: int
    reason: TopologyReason
    why: Reason = why_field()

    @property
    def log_line(self) -> str:
        """One line whose format is stable across versions."""
        name = "".join(part.capitalize() for part in self.topology.value.split("_"))
        return (
            f"megakernel-topology-v1|topology={name}|memory_pressure_bps={self.memory_pressure_bps}"
            f"|average_degree_bps={self.average_degree_bps}|launch_pressure_bps={self.launch_pressure_bps}"
            f"|reason={self.reason.value}"
        )


class _Figures(NamedTuple):
    memory: int
    degree: int
    launch: int
    density: float
    fusion: float
    readback: int


DEFAULT_THRESHOLDS: Final = TopologyThresholds()


def select(inputs: TopologyInputs, thresholds: TopologyThresholds = DEFAULT_THRESHOLDS) -> TopologyDecision:
    """Returns the shape of a wave's kernel: the first band that fits, or the previous shape while its margin holds.

    If decisions are fed back as ``previous_topology`` with the same inputs, they settle after one step.
    """
    sample, overhead, fusion = inputs.sample, inputs.launch_overhead_ns, inputs.fusion_pressure
    figures = _figures(sample, inputs.graph, memory_pressure_bps(inputs.memory), overhead, fusion)
    chosen = _fresh(figures, thresholds)
    short_of_memory = figures.memory >= thresholds.sparse_safety_memory_bps
    if inputs.previous_topology is not None and not short_of_memory:
        chosen = _with_previous(inputs.previous_topology, chosen, figures, thresholds)
    reason = TopologyReason.MEMORY_PRESSURE if short_of_memory else _REASONS[chosen]
    return TopologyDecision(
        chosen,
        figures.memory,
        figures.degree,
        figures.launch,
        reason,
        Reason(
            "{}: {} of the nodes active, {} bps edges per node, memory {} bps full, launch {} bps of the cost"
            " (limits: {})",
            (reason.value, figures.density, figures.degree, figures.memory, figures.launch, thresholds.provenance),
        ),
    )


def _figures(
    sample: FrontierSample, graph: GraphSize | WaveMemory, memory_bps: int, launch_overhead: float, fusion: float
) -> _Figures:
    nodes, edges = graph.node_count, graph.edge_count
    degree = ratio(edges, nodes, BPS, if_zero=U64_MAX if edges else 0, cap=U64_MAX)
    launch = _launch_pressure_bps(launch_overhead, sample.dispatch_cost_ns)
    return _Figures(
        min(memory_bps, BPS), degree, launch, unit(sample.frontier_density), unit(fusion), sample.readback_bytes
    )


def _launch_pressure_bps(overhead: float, cost: float) -> int:
    if not math.isfinite(cost) or cost <= 0 or math.isnan(overhead):
        return 0
    return float_to_u32(max(overhead, 0.0) / cost * BPS, rounded=True)


def _fresh(f: _Figures, t: TopologyThresholds) -> Topology:
    if f.memory >= t.sparse_safety_memory_bps:
        return Topology.SPARSE_FRONTIER
    if (
        f.fusion >= t.fused_min_pressure
        and f.launch >= t.fused_min_launch_bps
        and f.readback >= t.fused_min_readback_bytes
        and f.memory <= t.fused_max_memory_bps
    ):
        return Topology.FUSED_WAVE
    if f.density <= t.warp_sparse_max_density and f.degree <= t.warp_sparse_max_degree_bps:
        return Topology.WARP_SPARSE_FRONTIER
    if f.density <= t.sparse_max_density:
        return Topology.SPARSE_FRONTIER
    if f.degree >= t.dense_min_degree_bps:
        if f.density >= t.block_dense_min_density:
            return Topology.BLOCK_DENSE_FRONTIER
        if f.density >= t.dense_min_density:
            return Topology.DENSE_FRONTIER
    return Topology.HYBRID_FRONTIER


_SPARSE: Final = (Topology.SPARSE_FRONTIER, Topology.WARP_SPARSE_FRONTIER)
_DENSE: Final = (Topology.DENSE_FRONTIER, Topology.BLOCK_DENSE_FRONTIER)


def _with_previous(previous: Topology, fresh: Topology, f: _Figures, t: TopologyThresholds) -> Topology:
    if previous in _SPARSE and f.memory >= t.sparse_keep_memory_bps:
        return Topology.SPARSE_FRONTIER
    return previous if _holds(previous, fresh, f, t) else fresh


def _holds(previous: Topology, fresh: Topology, f: _Figures, t: TopologyThresholds) -> bool:
    """Returns whether the wave is inside the band of its previous shape, widened by the margin."""
    margin = t.density_margin
    match previous:
        case Topology.WARP_SPARSE_FRONTIER:
            return f.density <= t.warp_sparse_max_density + margin and f.degree <= t.warp_sparse_max_degree_bps
        case Topology.SPARSE_FRONTIER:
            return f.density <= t.sparse_max_density + margin
        case Topology.HYBRID_FRONTIER:
            below = fresh is Topology.SPARSE_FRONTIER and f.density >= t.sparse_max_density - margin
            above = fresh in _DENSE and f.density <= t.dense_min_density + margin
            return below or above
        case Topology.DENSE_FRONTIER:
            return f.density >= t.dense_min_density - margin and f.degree >= t.dense_min_degree_bps
        case Topology.BLOCK_DENSE_FRONTIER:
            return f.density >= t.block_dense_min_density - margin and f.degree >= t.dense_min_degree_bps
        case Topology.FUSED_WAVE:
            return (
                f.fusion >= t.fused_min_pressure - t.fused_pressure_margin
                and f.launch >= t.fused_keep_launch_bps
                and f.readback >= t.fused_min_readback_bytes
                and f.memory <= t.fused_keep_memory_bps
            )
        case _:  # pragma: no cover
            assert_never(previous)


def memory_pressure_bps(memory: MemoryDemand) -> int:
    """Returns required over budgeted bytes, at most 2^32-1; a positive requirement of a budget of 0 gives 2^32-1."""
    required, budget = memory.required_bytes, memory.budget_bytes
    return ratio(required, budget, BPS, if_zero=U32_MAX if required else 0, cap=U32_MAX)


@record
class WaveMemory:
    """The bytes of a wave over a graph; ``scratch_bytes`` are the wave's own, before a shape scales them."""

    node_count: U64
    edge_count: U64
    bytes_per_node: U64
    bytes_per_edge: U64
    frontier_bytes: U64
    scratch_bytes: U64
    output_bytes: U64
    budget_bytes: U64


@verdict
class MemoryPlan:
    """Bytes by purpose; ``required_bytes`` is their sum and at most ``budget_bytes``."""

    graph_bytes: int
    frontier_bytes: int
    scratch_bytes: int
    output_bytes: int
    required_bytes: int
    budget_bytes: int
    memory_pressure_bps: int


@verdict
class ExecutionPlan:
    """A shape and its memory.

    ``downgraded_to_sparse`` says that the shape that suited the wave did not fit, and the smallest one does.
    """

    topology: Topology
    memory: MemoryPlan
    downgraded_to_sparse: bool
    why: Reason = why_field()


def memory_of(topology: Topology, wave: WaveMemory) -> MemoryPlan:
    """Returns the memory of a wave in the shape ``topology``: ``nodes * bytes + edges * bytes + frontier + scaled
    scratch + output``, all alive at once.

    Raises ``PlanError``: ``OverBudget``, or ``ByteCountOverflow`` for a sum that exceeds 64 bits.  More bytes never
    turn an error into a plan.
    """
    graph = graph_bytes(wave.node_count, wave.edge_count, wave.bytes_per_node, wave.bytes_per_edge)
    partial = checked_u64(graph + wave.frontier_bytes, "graph plus frontier bytes")
    scaling = _SCRATCH[topology]
    scratch = scaling.factor * max(wave.scratch_bytes, scaling.minimum)
    if scratch > U64_MAX:
        raise PlanError("ByteCountOverflow", field=f"{topology.value} scratch bytes")
    partial = checked_u64(partial + scratch, "scratch bytes")
    required = checked_u64(partial + wave.output_bytes, "required bytes")
    if required > wave.budget_bytes:
        raise PlanError(
            "OverBudget",
            fix="give the wave more memory, or split the graph.",
            topology=topology,
            required_bytes=required,
            budget_bytes=wave.budget_bytes,
            node_count=wave.node_count,
            edge_count=wave.edge_count,
        )
    return MemoryPlan(
        graph_bytes=graph,
        frontier_bytes=wave.frontier_bytes,
        scratch_bytes=scratch,
        output_bytes=wave.output_bytes,
        required_bytes=required,
        budget_bytes=wave.budget_bytes,
        memory_pressure_bps=ratio(required, wave.budget_bytes, BPS, if_zero=0, cap=BPS),
    )


def graph_bytes(node_count: int, edge_count: int, bytes_per_node: int, bytes_per_edge: int) -> int:
    """Returns the bytes of a graph's layout; raises ``PlanError("ByteCountOverflow")``."""
    nodes = checked_u64(node_count * bytes_per_node, "node layout bytes")
    edges = checked_u64(edge_count * bytes_per_edge, "edge layout bytes")
    return checked_u64(nodes + edges, "graph layout bytes")


def fit(topology: Topology, wave: WaveMemory) -> ExecutionPlan:
    """Plans a wave in ``topology`` if that fits its budget, else in the smallest shape.

    Raises ``PlanError``: ``OverBudget`` if neither fits, ``ByteCountOverflow`` without trying the smallest.
    """
    try:
        memory = memory_of(topology, wave)
    except PlanError as error:
        if error.kind != "OverBudget" or topology is Topology.SPARSE_FRONTIER:
            raise
        wanted = error.fields["required_bytes"]
    else:
        return ExecutionPlan(
            topology,
            memory,
            downgraded_to_sparse=False,
            why=Reason("{} needs {} of {} bytes", (topology.value, memory.required_bytes, memory.budget_bytes)),
        )
    memory = memory_of(Topology.SPARSE_FRONTIER, wave)
    return ExecutionPlan(
        Topology.SPARSE_FRONTIER,
        memory,
        downgraded_to_sparse=True,
        why=Reason(
            "{} needs {} bytes, more than the {} there are; {} needs {}",
            (topology.value, wanted, wave.budget_bytes, Topology.SPARSE_FRONTIER.value, memory.required_bytes),
        ),
    )


def smallest_demand(wave: WaveMemory) -> MemoryDemand:
    """Returns the bytes of the smallest shape and the wave's budget, whether they fit it or not."""
    unlimited = memory_of(Topology.SPARSE_FRONTIER, replace(wave, budget_bytes=U64_MAX))
    return MemoryDemand(unlimited.required_bytes, wave.budget_bytes)
