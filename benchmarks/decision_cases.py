"""Inputs on which the cost of a decision is measured, and what it is compared with.

A decision is called with inputs and thresholds that are built already.  Where its answers cost different amounts there
is a call for each; the dearest counts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

from vyre.adapters.cpu.decisions import pipeline_choice, private_atomics, thread_plan, vector_width
from vyre.adapters.cuda.decisions import ptx_target
from vyre.domain.analysis.atomic_uses import AtomicUse
from vyre.domain.dispatch import SpeculationMode
from vyre.domain.ir.operators import AtomicOp
from vyre.domain.ir.types import ScalarType
from vyre.policies.caching import cache_eviction, cache_eviction_heat
from vyre.policies.concurrency import arm_independence, async_copy_overlap
from vyre.policies.devices import occupancy, subgroup
from vyre.policies.egraphs import extraction_cost
from vyre.policies.emission import constant_division
from vyre.policies.frontiers import fixpoint, plan_cache, topology
from vyre.policies.launching import (
    bindless,
    command_reuse,
    dispatch_policy,
    fixpoint_iterations,
    grid_sync_mode,
    param_inlining,
    persistent_kernel,
    queueing,
)
from vyre.policies.prediction import shape_prediction, speculate, speculation, trace_jit
from vyre.policies.stage_fusion import pipeline_fusion
from vyre.policies.transfer import residency
from vyre.policies.variants import routing, strategy

Call = Callable[[], object]


@dataclass(frozen=True)
class Yardstick:
    """A frozen dataclass of four fields; the costs of decisions are multiples of the time of building one."""

    a: int
    b: int
    c: int
    d: int


def yardstick() -> object:
    return Yardstick(1, 2, 3, 4)


def _calls(function: Callable[..., object], *inputs: object) -> tuple[Call, ...]:
    """A call for each input; a tuple is several arguments."""
    return tuple(
        partial(function, *given) if isinstance(given, tuple) else partial(function, given) for given in inputs
    )


_Persistent = persistent_kernel.PersistentKernelInputs
_Reuse = command_reuse.CommandReuseInputs
_Table = bindless.ResourceTableInputs
_Jit = trace_jit.TraceJitInputs
_Seen = speculation.SpeculationObservation
_Path = speculate.PathInputs
_FULL, _STATIC = bindless.BindlessSupport.FULL, bindless.BindlessSupport.STATIC
_READER = arm_independence.ArmAccess(frozenset({0, 1, 2}), frozenset({3}))
_APART = arm_independence.ArmAccess(frozenset({0, 1}), frozenset({4, 5}))
_AFTER = arm_independence.ArmAccess(frozenset({3}), frozenset({6}))
_SAME = arm_independence.ArmAccess(frozenset({0}), frozenset({3}))
_ADAPTIVE = speculate.SpeculatorState.start()
_HINTS = extraction_cost.NodeHints(fp16_eligible=True, compile_time_constant=True)
_TENSORS = extraction_cost.ExtractionProfile(supports_tensor_cores=True, supports_f16=True, hot=True)
_DEVICE = occupancy.DeviceEnvelope(9, 0, 1024, 49_152, True, True)
_IDENTITY = plan_cache.PlanIdentity(
    1, plan_cache.MegakernelAnalysisKind.DATAFLOW, plan_cache.MegakernelDeviceKey(9, 0, 32, True, True, 1024)
)
_SHAPE = occupancy.LaunchShape((64, 1, 1), (256, 1, 1), 1024, False, False)
_GRIDS = tuple(grid_sync_mode.GridSyncInputs(True, 264, 132, resident) for resident in (1, 2))

SCALAR_DECISIONS: Final[dict[str, tuple[Call, ...]]] = {
    "persistent_kernel": _calls(
        persistent_kernel.decide_persistent_kernel,
        _Persistent(1, 5000, 900, 50_000),
        _Persistent(2, 5000, 900, 50_000),
        _Persistent(64, 5000, 900, 50_000),
    ),
    "command_reuse": _calls(
        command_reuse.decide_command_reuse,
        _Reuse(1, 5000, 90_000, 500),
        _Reuse(2, 5000, 90_000, 500),
        _Reuse(64, 5000, 90_000, 500),
        _Reuse(64, 500, 90_000, 500),
    ),
    "param_inlining": _calls(
        param_inlining.decide_param_inlining, *map(param_inlining.ParamInliningInputs, (100, 101, 10_000))
    ),
    "bindless.resource_table": _calls(
        bindless.plan_resource_table,
        _Table(64, _FULL, False, 64, 4096, 10, 100, 5000),
        _Table(64, _FULL, False, 64, 4096, 100, 100, 5000),
        _Table(64, _STATIC, True, 64, 4096, 10, 100, 5000),
        _Table(640, _FULL, False, 64, 4096, 10, 100, 5000),
    ),
    "trace_jit": _calls(
        trace_jit.decide_trace_jit_speculation,
        _Jit(1, 9000, 100, 1000),
        _Jit(9, 90, 100, 1000),
        _Jit(9, 9000, 100, 1000),
        _Jit(9, 9000, 1000, 100),
    ),
    "speculation": _calls(
        speculation.decide_speculation,
        _Seen(1, 1000, 9, 500, 100),
        _Seen(9, 1000, 9, 500, 100),
        _Seen(9, 1000, 9, 999, 900),
        _Seen(9, 1000, 9, 980, 9),
    ),
    "speculate.path": _calls(
        speculate.choose_path,
        _Path(SpeculationMode.AUTO, True, _ADAPTIVE),
        _Path(SpeculationMode.FORCE, True, _ADAPTIVE),
        _Path(SpeculationMode.DISABLE, True, _ADAPTIVE),
    ),
    "arm_independence": _calls(
        arm_independence.judge_arms,
        (_READER, _APART),
        (_READER, _AFTER),
        (_AFTER, _READER),
        (_READER, _SAME),
    ),
    "async_copy_overlap": _calls(
        async_copy_overlap.can_overlap_copy_with_kernel,
        *(async_copy_overlap.CopyOverlapInputs(slot, _READER) for slot in (0, 3, 9)),
    ),
    "pipeline_fusion": _calls(
        pipeline_fusion.decide_cross_pipeline_fusion, (_READER, _APART), (_READER, _AFTER), (_READER, _SAME)
    ),
    "primary_mode": _calls(
        dispatch_policy.select_primary_execution_mode,
        (persistent_kernel.PersistentKernel(100), command_reuse.RecordAndReplay(90)),
        (persistent_kernel.PersistentKernel(90), command_reuse.RecordAndReplay(100)),
    ),
    "fixpoint_iterations": _calls(
        fixpoint_iterations.resolve_fixpoint_iterations, fixpoint_iterations.FixpointInputs(3, "cuda")
    ),
    "extraction_cost": _calls(
        extraction_cost.device_aware_cost, extraction_cost.NodeCostInputs(_TENSORS, 1000, _HINTS)
    ),
    "subgroup.capabilities": _calls(subgroup.from_feature_range, subgroup.SubgroupFeatureRange(True, True, 8, 32)),
    "subgroup.reduction": _calls(subgroup.reduction_offsets, subgroup.ReductionInputs(32)),
    "strategy": _calls(
        strategy.select_strategy,
        strategy.StrategyInputs((strategy.Strategy("native", True, 100), strategy.Strategy("portable", True, 10))),
    ),
    "cache_eviction.share": _calls(
        cache_eviction.eviction_basis_points, cache_eviction.EvictionCounts(dropped_entries=10, total_entries=100)
    ),
    "cache_eviction_heat": _calls(cache_eviction_heat.heat, (cache_eviction_heat.HeatEntry(1, 10, 5.0), 100.0)),
    "routing": _calls(
        routing.select_sort_backend,
        *(routing.KeyDistribution(*seen) for seen in ((9, 9, 1), (999, 9, 1), (999, 999, 99), (999, 999, 1))),
    ),
    "shape_prediction": _calls(shape_prediction.ShapeHistory(tuple((i % 2,) for i in range(16))).predict_next, ()),
    "fixpoint.contract": _calls(fixpoint.plan_convergence, fixpoint.ConvergenceInputs(100, 4, 0)),
    "plan_cache.key": _calls(plan_cache.plan_key, (_IDENTITY, plan_cache.WavePressures(0.3, 5000, 8192, 2000, 0.2))),
    "ptx_target": _calls(
        ptx_target.select_target,
        *(ptx_target.TargetInputs(90, frozenset(f)) for f in ((), [ptx_target.Feature.REDUCE])),
    ),
    "first_pipeline": _calls(
        pipeline_choice.first_pipeline,
        *(pipeline_choice.TextInputs(blocks, 5_000) for blocks in (100, 5_000)),
    ),
    "compile_pipeline": _calls(
        pipeline_choice.compile_pipeline,
        *(pipeline_choice.PipelineInputs(9, spent, 100) for spent in (10**6, 10**9)),
    ),
    "thread_plan": _calls(
        thread_plan.thread_plan,
        *(thread_plan.ThreadInputs(1_000, each, 5_000, 8) for each in (1, 10**6)),
    ),
    "grid_sync_mode": _calls(grid_sync_mode.choose_grid_sync, *_GRIDS),
    "launch_diagnosis": _calls(occupancy.diagnose_shape, occupancy.ShapeDiagnosisInputs("k", _DEVICE, _SHAPE, None)),
}
"""Decisions whose inputs are a fixed number of scalars (or a few slots) and whose answer is one choice."""

_SAMPLE = topology.FrontierSample(50_000.0, 0.3, 8192)
_SIZES = (topology.GraphSize(10_000, 80_000), topology.MemoryDemand(10**6, 2**30))
_WAVE = (10_000, 80_000, 8, 8, 40_000, 4096, 40_000, 2**30)
_SM, _USAGE = occupancy.SM_MODELS["sm_90"], occupancy.KernelUsage(64, 8192, 4096, 256)
_QUEUE = (1000, 4, 64, 2**20, queueing.HostSync.FINAL_ONLY)

SCALAR_PLANS: Final[dict[str, tuple[Call, ...]]] = {
    "vector_width": _calls(
        vector_width.vector_width, vector_width.VectorInputs(512, 64), vector_width.VectorInputs(512, 4)
    ),
    "private_atomics": _calls(
        private_atomics.private_atomics,
        private_atomics.PrivateInputs(
            (private_atomics.AtomicBuffer(AtomicUse("counts", ScalarType.U32, frozenset({AtomicOp.ADD})), 1024),),
            8,
            10**6,
        ),
    ),
    "constant_division": _calls(
        constant_division.divide_by,
        *(
            constant_division.DivisionInputs(*given)
            for given in ((7, 32, False), (641, 64, False), (28, 32, False), (7, 32, True), (641, 64, True))
        ),
    ),
    "speculate.record": _calls(_ADAPTIVE.record, speculate.SpeculationReport(90, 10)),
    "fixpoint": _calls(
        fixpoint.choose_executor,
        *(fixpoint.FixpointProfile(100, grid, conditional) for grid in _GRIDS for conditional in (False, True)),
    ),
    "queueing": _calls(queueing.plan_queue, queueing.QueueProfile(*_QUEUE, 4096)),
    "queueing.drain": _calls(queueing.plan_backpressure, queueing.DrainProfile(*_QUEUE, 4096, 512)),
    "topology": _calls(
        topology.select,
        *(
            topology.TopologyInputs(_SAMPLE, *_SIZES, 5_000.0, pressure, previous)
            for pressure in (0.2, 0.9)
            for previous in (None, *topology.Topology)
        ),
    ),
    "topology.memory": _calls(topology.memory_of, *((t, topology.WaveMemory(*_WAVE)) for t in topology.Topology)),
    "occupancy": _calls(occupancy.estimate, (_SM, _USAGE)),
    "residency.session": _calls(
        residency.plan_session,
        residency.SessionProfile(1, 10**6, 100, 1000, 1000, 1000, 10**8, residency.Readback.FINAL_ONLY),
    ),
}
"""The same, but the answer is a record of several figures."""


def _wave_execution(inputs: topology.TopologyInputs) -> topology.ExecutionPlan:
    return topology.fit(topology.select(inputs).topology, topology.WaveMemory(*_WAVE))


COMPOSED: Final[dict[str, tuple[Call, ...]]] = {
    "topology.execution": _calls(
        _wave_execution, *(topology.TopologyInputs(_SAMPLE, *_SIZES, 5_000.0, pressure) for pressure in (0.2, 0.9))
    ),
}
"""Several decisions in one: the shape and the memory of a wave."""
