"""The memory of a session about waves of its work graphs: programs by structure, shapes, and measured times."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from math import prod
from threading import Lock
from typing import TYPE_CHECKING, Final, NamedTuple

from vyre.app.work_graph.plan_cache import MegakernelPlanCache
from vyre.app.work_graph.wave_times import KnownWaveTimes
from vyre.domain.fusion.waves import JoinedWaves, join_waves
from vyre.domain.record import U64_MAX
from vyre.domain.wave_times import WaveTime
from vyre.policies.frontiers.frontier_ir import FrontierWaveSizes, waves_from_frontier_ir
from vyre.policies.frontiers.fusion_pressure import FusionPressureInputs, fusion_pressures
from vyre.policies.frontiers.plan_cache import (
    CustomAnalysis,
    ExecutionLookup,
    MegakernelDeviceKey,
    MegakernelPlanCacheKey,
    MegakernelPlanCacheStats,
    PlanIdentity,
    lookup_key,
    topology_lookup,
)
from vyre.policies.frontiers.topology import (
    ExecutionPlan,
    FrontierSample,
    GraphSize,
    WaveKernel,
    WaveKernelInputs,
    choose_wave_kernel,
)
from vyre.policies.frontiers.waves import FrontierExecutionInputs, plan_frontier_execution
from vyre.policies.journal import DecisionSink, decide

if TYPE_CHECKING:
    from vyre.domain.device import DeviceProfile
    from vyre.domain.fusion.stages import CannotJoin, StageCall

MOST_PROGRAMS: Final = 64
"""The joined programs that a session remembers."""
_WORK_GRAPH: Final = CustomAnalysis(0)
"""The analysis of which the waves of a work graph are."""


class WaveFacts(NamedTuple):
    """A round of waves for the decision: launches of each wave, and the measured time of a launch and of its overhead
    in ns.
    """

    calls: Sequence[Sequence[StageCall]]
    kernel_ns: float
    launch_ns: float


@dataclass(frozen=True, slots=True)
class WavePlanStats:
    """Counters of a session's plans for waves.

    ``shapes``: those of the cache of shapes.  ``joined``: programs that were joined, and ``reused``: those that an
    equal graph had joined before.
    """

    shapes: MegakernelPlanCacheStats
    joined: int
    reused: int


class WaveShape(NamedTuple):
    """Whether waves run in one kernel, and the key under which their times are remembered."""

    kernel: WaveKernel
    key: MegakernelPlanCacheKey


class WavePlans:
    """The plans of one session; any thread may use them.

    ``sink`` receives the decisions.  ``times``: measured times of waves; None: only those that are learned here.
    """

    def __init__(self, sink: DecisionSink | None = None, times: KnownWaveTimes | None = None) -> None:
        self._sink = sink
        self._times = KnownWaveTimes() if times is None else times
        self._lock = Lock()
        self._shapes = MegakernelPlanCache(sink=sink)
        self._programs: OrderedDict[Hashable, JoinedWaves | CannotJoin] = OrderedDict()
        self._joined = self._reused = 0

    @property
    def stats(self) -> WavePlanStats:
        """Returns the counters."""
        with self._lock:
            return WavePlanStats(self._shapes.stats, self._joined, self._reused)

    def joined(self, calls: Sequence[Sequence[StageCall]], times: int, most_groups: int) -> JoinedWaves | CannotJoin:
        """Returns what ``join_waves`` returns, which is the same for every graph with this structure."""
        key = (times, most_groups, structure_of_waves(calls))
        with self._lock:
            found = self._programs.get(key)
            if found is not None:
                self._programs.move_to_end(key)
                self._reused += 1
                return found
        found = join_waves(calls, times=times, most_groups=most_groups)
        with self._lock:
            self._joined += 1
            self._programs[key] = found
            while len(self._programs) > MOST_PROGRAMS:
                self._programs.popitem(last=False)
        return found

    def shape(self, facts: WaveFacts, profile: DeviceProfile) -> WaveShape:
        """Returns whether waves run in one kernel: as was measured of equal waves, else as their shape says."""
        keys: list[MegakernelPlanCacheKey] = []

        def plan_wave(lookup: ExecutionLookup) -> ExecutionPlan:
            keys.append(lookup_key(topology_lookup(lookup)))
            return self._shapes.get_or_plan_execution(lookup)

        with self._lock:
            plan = plan_frontier_execution(self._inputs(facts, profile), plan_wave)
        inputs = WaveKernelInputs(plan.execution.topology)
        if (found := self._times.get(keys[0])) is not None:
            time, stored = found
            inputs = WaveKernelInputs(plan.execution.topology, time.one_kernel_ns, time.launches_ns, stored=stored)
        return WaveShape(decide(self._sink, choose_wave_kernel, inputs), keys[0])

    def learn(self, key: MegakernelPlanCacheKey, one_kernel_ns: int, launches_ns: int) -> None:
        """Records the measured times of a round of waves: in one kernel, and with a launch for each step."""
        self._times.learn(key, WaveTime(min(one_kernel_ns, U64_MAX), min(launches_ns, U64_MAX)))

    def _inputs(self, facts: WaveFacts, profile: DeviceProfile) -> FrontierExecutionInputs:
        items = [sum(prod(call.grid) * prod(call.workgroup) for call in wave) for wave in facts.calls]
        written = [sum(map(_written, wave)) for wave in facts.calls]
        widest = max(items, default=0)
        samples = tuple(
            FrontierSample(facts.kernel_ns * len(wave), count / max(1, widest), min(nbytes, U64_MAX))
            for wave, count, nbytes in zip(facts.calls, items, written, strict=True)
        )
        pressures = decide(self._sink, fusion_pressures, FusionPressureInputs(samples, facts.launch_ns))
        sizes = decide(
            self._sink,
            waves_from_frontier_ir,
            FrontierWaveSizes(tuple(items), 0, 0, min(max(written, default=0), U64_MAX)),
        )
        whole = sum(sample.dispatch_cost_ns for sample in samples) / max(1, len(samples))
        density = sum(items) / max(1, widest * len(items))
        return FrontierExecutionInputs(
            identity=PlanIdentity(_hash(facts.calls), _WORK_GRAPH, device_key(profile)),
            sample=FrontierSample(whole, density, 0),
            graph=GraphSize(sum(map(len, facts.calls)), 0),
            bytes_per_node=0,  # the arrays are in memory already
            bytes_per_edge=0,
            waves=sizes.waves,
            dependencies=sizes.dependencies,
            budget_bytes=U64_MAX,
            launch_overhead_ns=facts.launch_ns,
            fusion_pressure=sum(pressures) / max(1, len(pressures)),
        )


def structure_of_waves(calls: Sequence[Sequence[StageCall]]) -> Hashable:
    """Returns what is equal for waves of equal launches on arrays that are shared alike, whichever these are."""
    numbers: dict[Hashable, int] = {}
    return tuple(
        tuple(
            (
                call.program.digest,
                call.grid,
                call.workgroup,
                call.counts,
                call.nbytes,
                tuple(numbers.setdefault(identity, len(numbers)) for identity in call.buffers),
                tuple(sorted((name, value.dtype.text, value.bits) for name, value in call.values.items())),
                tuple(sorted((name, value.dtype.text, value.bits) for name, value in call.spec.items())),
            )
            for call in wave
        )
        for wave in calls
    )


def _hash(calls: Sequence[Sequence[StageCall]]) -> int:
    digest = blake2b(repr(structure_of_waves(calls)).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little")


def _written(call: StageCall) -> int:
    return sum(
        nbytes for buffer, nbytes in zip(call.program.abi_buffers, call.nbytes, strict=True) if buffer.is_writable
    )


def device_key(profile: DeviceProfile) -> MegakernelDeviceKey:
    return MegakernelDeviceKey(
        sm_major=0,
        sm_minor=0,
        warp_size=profile.subgroup_size or 0,
        supports_grid_sync=profile.supports_grid_sync or profile.allows_host_grid_sync_split,
        supports_tensor_cores=profile.supports_tensor_cores,
        max_workgroup_size=profile.max_invocations_per_workgroup or 0,
    )
