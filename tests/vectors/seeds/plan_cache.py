"""Which kernel shape was chosen before for this graph, this device and a similar pressure?

Units: bytes, nanoseconds, basis points.  The key of an entry is an identity (graph layout, analysis, device) and five
figures of the wave, each rounded into a bucket.  A hit repeats the stored decision; a miss calls ``select`` with the
shape that the identity used last.  The least recently used entry is evicted first.  Every lookup is O(1).

vyre-driver renumbers its entries when a 64-bit serial runs out, and searches an identity's other entries when its last
used one is evicted.  An ordered dictionary needs no serial, and the oldest entry of all is the only one of its
identity. vyre-driver's bucket limits are not measured; here they are parameters.  A repeated decision was made for
another wave of the same bucket, so ``plan_remembered`` checks again that the bytes of the present wave fit the budget.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Annotated, Final, NamedTuple, TypeAlias

from vectors.seeds.ratios import float_ratio_bps, float_unit_bps, round_half_away, unit
from vectors.seeds.topology import (
    DEFAULT_THRESHOLDS,
    ExecutionPlan,
    FrontierSample,
    GraphSize,
    MemoryDemand,
    Topology,
    TopologyDecision,
    TopologyInputs,
    TopologyThresholds,
    WaveMemory,
    fit,
    memory_pressure_bps,
    select,
    smallest_demand,
)
from vyre.policies.record import U32, U32_MAX, U64, BasisPoints, IntRange, record, verdict

U16: TypeAlias = Annotated[int, IntRange(0, 2**16 - 1)]
Positive: TypeAlias = Annotated[int, IntRange(1, U32_MAX)]


@record
class MegakernelDeviceKey:
    """The properties of a device on which the choice of a shape may depend."""

    sm_major: U32
    sm_minor: U32
    warp_size: U16
    supports_grid_sync: bool
    supports_tensor_cores: bool
    max_workgroup_size: U32


class MegakernelAnalysisKind(Enum):
    """The analyses that have waves of their own."""

    DATAFLOW = "dataflow"
    IFDS = "ifds"
    REACHING_DEFINITIONS = "reaching_definitions"
    LIVENESS = "liveness"
    POINTS_TO = "points_to"
    PARSER_FRONTEND = "parser_frontend"


@record
class CustomAnalysis:
    """An analysis that is not in ``MegakernelAnalysisKind``, identified by a number."""

    id: U64


AnalysisKind: TypeAlias = MegakernelAnalysisKind | CustomAnalysis


@record
class PlanIdentity:
    """One analysis of one graph on one device; the waves of an identity share a history."""

    graph_layout_hash: U64
    analysis_kind: AnalysisKind
    device: MegakernelDeviceKey


@record
class WavePressures:
    """The figures of a wave that its key rounds; memory and launch pressure may exceed 10 000 bps."""

    frontier_density: float
    memory_pressure_bps: BasisPoints
    readback_bytes: U64
    launch_pressure_bps: BasisPoints
    fusion_pressure: float


@record
class BucketThresholds:
    """Widths of the buckets.

    Densities round to multiples of ``1 / density_steps``, pressures down to multiples of ``*_step_bps``.  The bucket of
    a read-back is the number of binary digits of its size in whole ``readback_unit_bytes``.
    """

    density_steps: Positive = 15
    memory_step_bps: Positive = 1000
    readback_unit_bytes: Positive = 4096
    launch_step_bps: Positive = 1000
    fusion_step_bps: Positive = 1000


class MegakernelPlanCacheKey(NamedTuple):
    """Identity and buckets; waves with equal keys get equal shapes."""

    identity: PlanIdentity
    frontier_density_bucket: int
    memory_pressure_bucket: int
    readback_pressure_bucket: int
    launch_pressure_bucket: int
    fusion_pressure_bucket: int


DEFAULT_BUCKETS: Final = BucketThresholds()


def plan_key(
    identity: PlanIdentity, pressures: WavePressures, buckets: BucketThresholds = DEFAULT_BUCKETS
) -> MegakernelPlanCacheKey:
    """Returns the key of a wave.  Shares that are not finite count as 0.  O(1)."""
    return MegakernelPlanCacheKey(
        identity,
        round_half_away(unit(pressures.frontier_density) * buckets.density_steps),
        pressures.memory_pressure_bps // buckets.memory_step_bps,
        (pressures.readback_bytes // buckets.readback_unit_bytes).bit_length(),
        pressures.launch_pressure_bps // buckets.launch_step_bps,
        float_unit_bps(pressures.fusion_pressure, if_invalid=0) // buckets.fusion_step_bps,
    )


@record
class TopologyLookup:
    """A wave whose shape is wanted."""

    identity: PlanIdentity
    sample: FrontierSample
    graph: GraphSize
    launch_overhead_ns: float
    fusion_pressure: float
    memory: MemoryDemand


@record
class ExecutionLookup:
    """A wave whose shape and memory are wanted."""

    identity: PlanIdentity
    sample: FrontierSample
    launch_overhead_ns: float
    fusion_pressure: float
    wave: WaveMemory


@verdict
class MegakernelCachedPlan:
    """A remembered decision."""

    topology: Topology
    decision: TopologyDecision


@verdict
class MegakernelPlanCacheStats:
    """Counters of a cache: the ``entries`` now, and the other figures since the cache was made."""

    hits: int
    misses: int
    evictions: int
    entries: int


WavePlanner: TypeAlias = Callable[[ExecutionLookup], ExecutionPlan]
"""Returns the shape and the memory of a wave, remembered or new."""


def usable_fusion_pressure(lookup: TopologyLookup) -> float:
    """Returns the fusion pressure of a wave; 0 without the grid-wide barrier that one kernel for all waves needs."""
    return lookup.fusion_pressure if lookup.identity.device.supports_grid_sync else 0.0


def lookup_key(lookup: TopologyLookup, buckets: BucketThresholds = DEFAULT_BUCKETS) -> MegakernelPlanCacheKey:
    """Returns the key under which the shape of a wave is remembered."""
    sample = lookup.sample
    launch = float_ratio_bps(
        lookup.launch_overhead_ns,
        sample.dispatch_cost_ns,
        rounded=False,
        if_bad_numerator=U32_MAX,
        if_bad_denominator=0,
    )
    pressures = WavePressures(
        frontier_density=sample.frontier_density,
        memory_pressure_bps=memory_pressure_bps(lookup.memory),
        readback_bytes=sample.readback_bytes,
        launch_pressure_bps=launch,
        fusion_pressure=usable_fusion_pressure(lookup),
    )
    return plan_key(lookup.identity, pressures, buckets)


def decide_topology(
    lookup: TopologyLookup, previous: Topology | None, thresholds: TopologyThresholds = DEFAULT_THRESHOLDS
) -> MegakernelCachedPlan:
    """Returns a new decision for a wave whose key is not remembered.

    ``previous`` is the shape that its identity used last, or None.
    """
    decision = select(
        TopologyInputs(
            sample=lookup.sample,
            graph=lookup.graph,
            memory=lookup.memory,
            launch_overhead_ns=lookup.launch_overhead_ns,
            fusion_pressure=usable_fusion_pressure(lookup),
            previous_topology=previous,
        ),
        thresholds,
    )
    return MegakernelCachedPlan(decision.topology, decision)


def topology_lookup(lookup: ExecutionLookup) -> TopologyLookup:
    """Returns the lookup of the shape within a lookup of shape and memory.

    Raises ``PlanError`` if the bytes of the smallest shape exceed 64 bits.
    """
    wave = lookup.wave
    return TopologyLookup(
        identity=lookup.identity,
        sample=lookup.sample,
        graph=GraphSize(wave.node_count, wave.edge_count),
        launch_overhead_ns=lookup.launch_overhead_ns,
        fusion_pressure=lookup.fusion_pressure,
        memory=smallest_demand(wave),
    )


def plan_remembered(remembered: MegakernelCachedPlan, wave: WaveMemory) -> ExecutionPlan:
    """Returns the memory for the remembered or newly chosen shape, or for the smallest shape where that one does not
    fit.

    Raises ``PlanError`` like ``topology.fit``.
    """
    return fit(remembered.topology, wave)
