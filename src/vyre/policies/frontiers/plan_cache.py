"""Remember which kernel shape was chosen for a graph, a device and a level of pressure.

Units: bytes, nanoseconds, basis points.  An entry's key is an identity (graph layout, analysis, device) and five
figures of the wave, each rounded into a bucket.  A hit repeats the stored decision; a miss takes ``select``
with the shape that the identity used last.  The least recently used entry leaves first.  Every lookup is O(1).

What the reference gets wrong: it renumbers its entries when a 64-bit serial runs out, and searches an identity's other
entries when the one it used last leaves.  An ordered dictionary needs no serial, and an entry that leaves because it
is the oldest of all is the only one of its identity.  Its limits of the buckets are unmeasured; here they are a value.
A decision that is repeated was made for another wave of the same bucket: what must hold for the wave at hand, that its
bytes fit the budget, is checked again by ``get_or_plan_execution``.
"""

from __future__ import annotations

from collections import OrderedDict
from enum import Enum
from typing import Annotated, Final, NamedTuple, TypeAlias

from vyre.domain.errors import InvalidField
from vyre.policies.arith import float_ratio_bps, float_unit_bps, round_half_away, unit
from vyre.policies.devices.occupancy import DeviceEnvelope
from vyre.policies.frontiers.topology import (
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
from vyre.policies.record import U32, U32_MAX, U64, U64_MAX, BasisPoints, IntRange, record, verdict

U16: TypeAlias = Annotated[int, IntRange(0, 2**16 - 1)]
Positive: TypeAlias = Annotated[int, IntRange(1, U32_MAX)]
DEFAULT_CAPACITY: Final = 256


@record
class MegakernelDeviceKey:
    """What of a device the choice of a shape may depend on."""

    sm_major: U32
    sm_minor: U32
    warp_size: U16
    supports_grid_sync: bool
    supports_tensor_cores: bool
    max_workgroup_size: U32


_GRID_SYNC_SM_MAJOR: Final = 6
_TENSOR_CORES_SM_MAJOR: Final = 7


def device_key(device: DeviceEnvelope, warp_size: int) -> MegakernelDeviceKey:
    """The key of a device.

    A grid-wide barrier takes compute capability 6.0 and cooperative launches, tensor cores take 7.0 and a device that
    has them: some of that generation do not.
    """
    return MegakernelDeviceKey(
        sm_major=device.sm_major,
        sm_minor=device.sm_minor,
        warp_size=warp_size,
        supports_grid_sync=device.supports_cooperative_launch and device.sm_major >= _GRID_SYNC_SM_MAJOR,
        supports_tensor_cores=device.supports_tensor_cores and device.sm_major >= _TENSOR_CORES_SM_MAJOR,
        max_workgroup_size=device.max_threads_per_block,
    )


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
    """An analysis that is none of ``MegakernelAnalysisKind``, told apart by a number."""

    id: U64


AnalysisKind: TypeAlias = MegakernelAnalysisKind | CustomAnalysis


@record
class PlanIdentity:
    """Whose waves share a history: one analysis of one graph on one device."""

    graph_layout_hash: U64
    analysis_kind: AnalysisKind
    device: MegakernelDeviceKey


@record
class WavePressures:
    """The figures of a wave that its key rounds; memory and launch pressure are not capped at 10 000 bps."""

    frontier_density: float
    memory_pressure_bps: BasisPoints
    readback_bytes: U64
    launch_pressure_bps: BasisPoints
    fusion_pressure: float


@record
class BucketThresholds:
    """Widths of the buckets.

    Densities round to multiples of ``1 / density_steps``, pressures down to multiples of ``*_step_bps``; a read-back
    counts the binary digits of its whole ``readback_unit_bytes``.
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
    """The key of a wave.  Shares that are not finite count as 0; O(1)."""
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
    """A wave whose shape is asked for."""

    identity: PlanIdentity
    sample: FrontierSample
    graph: GraphSize
    launch_overhead_ns: float
    fusion_pressure: float
    memory: MemoryDemand


@record
class ExecutionLookup:
    """A wave whose shape and memory are asked for."""

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
    """``entries`` now; the rest since the cache was made."""

    hits: int
    misses: int
    evictions: int
    entries: int


class MegakernelPlanCache:
    """Decisions by key, at most ``max_entries`` of them (0 remembers nothing).

    It changes in place: it is state, not a value, and its answers depend on what was asked before.
    """

    def __init__(
        self,
        max_entries: int = DEFAULT_CAPACITY,
        *,
        thresholds: TopologyThresholds = DEFAULT_THRESHOLDS,
        buckets: BucketThresholds = DEFAULT_BUCKETS,
    ) -> None:
        if type(max_entries) is not int or not 0 <= max_entries <= U64_MAX:
            raise InvalidField(
                record="MegakernelPlanCache",
                field="max_entries",
                value=max_entries,
                expected=f"an int in 0..{U64_MAX}",
            )
        self._max_entries, self._thresholds, self._buckets = max_entries, thresholds, buckets
        self._entries: OrderedDict[MegakernelPlanCacheKey, MegakernelCachedPlan] = OrderedDict()
        self._last_used: dict[PlanIdentity, MegakernelPlanCacheKey] = {}
        self._hits = self._misses = self._evictions = 0

    @property
    def stats(self) -> MegakernelPlanCacheStats:
        return MegakernelPlanCacheStats(self._hits, self._misses, self._evictions, len(self._entries))

    def clear(self) -> None:
        """Forget every decision; the counters go on."""
        self._entries.clear()
        self._last_used.clear()

    def get_or_select_topology(self, lookup: TopologyLookup) -> MegakernelCachedPlan:
        """The remembered decision of an equal key, the very object; else a new one, remembered.

        Fusion pressure counts as 0 on a device without a grid-wide barrier, which one kernel for all waves needs.
        """
        fusion = lookup.fusion_pressure if lookup.identity.device.supports_grid_sync else 0.0
        key = self._key(lookup, fusion)
        found = self._entries.get(key)
        if found is not None:
            self._hits += 1
            self._entries.move_to_end(key)
        else:
            self._misses += 1
            found = self._decide(lookup, fusion)
            if self._max_entries == 0:
                return found
            while len(self._entries) >= self._max_entries:
                self._evict()
            self._entries[key] = found
        self._last_used[lookup.identity] = key
        return found

    def get_or_plan_execution(self, lookup: ExecutionLookup) -> ExecutionPlan:
        """Memory for the remembered or newly chosen shape, or for the smallest one where that shape does not fit.

        Raises ``PlanError`` like ``fit``; bytes that leave 64 bits in the smallest shape raise before
        anything is looked up.
        """
        wave = lookup.wave
        found = self.get_or_select_topology(
            TopologyLookup(
                identity=lookup.identity,
                sample=lookup.sample,
                graph=GraphSize(wave.node_count, wave.edge_count),
                launch_overhead_ns=lookup.launch_overhead_ns,
                fusion_pressure=lookup.fusion_pressure,
                memory=smallest_demand(wave),
            )
        )
        return fit(found.topology, wave)

    def _key(self, lookup: TopologyLookup, fusion_pressure: float) -> MegakernelPlanCacheKey:
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
            fusion_pressure=fusion_pressure,
        )
        return plan_key(lookup.identity, pressures, self._buckets)

    def _decide(self, lookup: TopologyLookup, fusion_pressure: float) -> MegakernelCachedPlan:
        last = self._last_used.get(lookup.identity)
        decision = select(
            TopologyInputs(
                sample=lookup.sample,
                graph=lookup.graph,
                memory=lookup.memory,
                launch_overhead_ns=lookup.launch_overhead_ns,
                fusion_pressure=fusion_pressure,
                previous_topology=None if last is None else self._entries[last].topology,
            ),
            self._thresholds,
        )
        return MegakernelCachedPlan(decision.topology, decision)

    def _evict(self) -> None:
        key, _ = self._entries.popitem(last=False)
        self._evictions += 1
        if self._last_used[key.identity] == key:  # then it was the only one: others would have left before it
            del self._last_used[key.identity]
