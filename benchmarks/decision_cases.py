"""Inputs on which the cost of a decision is measured, and what it is compared with.

A decision is called with inputs and thresholds that are built already.  Where its answers cost different amounts there
is a call for each; the dearest counts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

from vyre.adapters.cpu.decisions import effort_choice, private_atomics, thread_plan, vector_width
from vyre.adapters.cuda.decisions import ptx_target
from vyre.domain.analysis.atomic_uses import AtomicUse
from vyre.domain.dispatch import SpeculationMode
from vyre.domain.ir.operators import AtomicOp
from vyre.domain.ir.types import ScalarType
from vyre.policies.caching import cache_eviction, cache_eviction_heat
from vyre.policies.devices import occupancy
from vyre.policies.emission import constant_division
from vyre.policies.frontiers import fixpoint, wave_kernel
from vyre.policies.launching import (
    bindless,
    command_reuse,
    fixpoint_iterations,
    grid_sync_mode,
    param_inlining,
    persistent_kernel,
    queueing,
)
from vyre.policies.prediction import shape_prediction, speculate, trace_jit

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
_Path = speculate.PathInputs
_AXES = occupancy.AxisLimits((1024, 1024, 64), (2**31 - 1, 65_535, 65_535), 65_536)
_DEVICE = occupancy.DeviceEnvelope(1024, 49_152, True, _AXES)
_SHAPE = occupancy.LaunchShape((64, 1, 1), (256, 1, 1), 1024, False, 32)
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
        _Table(64, True, 64, 4096),
        _Table(640, True, 64, 4096),
        _Table(640, False, 64, 4096),
    ),
    "trace_jit": _calls(
        trace_jit.decide_trace_jit_speculation,
        _Jit(1, 9000, 100, 1000),
        _Jit(9, 90, 100, 1000),
        _Jit(9, 9000, 100, 1000),
        _Jit(9, 9000, 1000, 100),
    ),
    "speculate.path": _calls(
        speculate.choose_path,
        *(_Path(mode, speculate.GuessRate()) for mode in (SpeculationMode.FORCE, SpeculationMode.DISABLE, None)),
    ),
    "fixpoint_iterations": _calls(
        fixpoint_iterations.resolve_fixpoint_iterations, fixpoint_iterations.FixpointInputs(3, "cuda")
    ),
    "cache_eviction.share": _calls(
        cache_eviction.eviction_basis_points, cache_eviction.EvictionCounts(dropped_entries=10, total_entries=100)
    ),
    "cache_eviction_heat": _calls(cache_eviction_heat.heat, (cache_eviction_heat.HeatEntry(1, 10, 5.0), 100.0)),
    "shape_prediction": _calls(shape_prediction.next_by_period, tuple((i % 2,) for i in range(16))),
    "wave_kernel": _calls(
        wave_kernel.choose_wave_kernel,
        wave_kernel.WaveKernelInputs(40, 1_000, 900),
        wave_kernel.WaveKernelInputs(40, 1_000, 900, 20_000, 30_000),
    ),
    "ptx_target": _calls(
        ptx_target.select_target,
        *(ptx_target.TargetInputs(90, frozenset(f)) for f in ((), [ptx_target.Feature.REDUCE])),
    ),
    "first_effort": _calls(
        effort_choice.first_effort,
        *(effort_choice.TextInputs(blocks, 5_000) for blocks in (100, 5_000)),
    ),
    "compiler_effort": _calls(
        effort_choice.compiler_effort,
        *(effort_choice.EffortInputs(9, spent, 100) for spent in (10**6, 10**9)),
    ),
    "thread_plan": _calls(
        thread_plan.thread_plan,
        *(thread_plan.ThreadInputs(1_000, each, 5_000, 8) for each in (1, 10**6)),
    ),
    "grid_sync_mode": _calls(grid_sync_mode.choose_grid_sync, *_GRIDS),
    "launch_diagnosis": _calls(occupancy.diagnose_shape, occupancy.ShapeDiagnosisInputs("k", _DEVICE, _SHAPE, None)),
}
"""Decisions whose inputs are a fixed number of scalars (or a few slots) and whose answer is one choice."""

_SM, _USAGE = occupancy.SM_MODELS["sm_90"], occupancy.KernelUsage(64, 8192, 4096, 256, 1)
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
    "speculate.rate": _calls(speculate.GuessRate().after, True, False),
    "fixpoint": _calls(
        fixpoint.choose_executor,
        *(fixpoint.FixpointProfile(100, grid, conditional) for grid in _GRIDS for conditional in (False, True)),
    ),
    "queueing": _calls(queueing.plan_queue, queueing.QueueProfile(*_QUEUE, 4096)),
    "queueing.drain": _calls(queueing.plan_backpressure, queueing.DrainProfile(*_QUEUE, 4096, 512)),
    "occupancy": _calls(occupancy.estimate, (_SM, _USAGE)),
}
"""The same, but the answer is a record of several figures."""
