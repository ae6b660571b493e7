"""The composition root of the CUDA backend: it turns a driver into the port's ``Backend``."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from vyre.adapters.cuda import ids
from vyre.adapters.cuda.code_tools import CodeTool
from vyre.adapters.cuda.ptx.emit import emit, sites
from vyre.adapters.cuda.runtime.code import CodeMaker
from vyre.adapters.cuda.runtime.conditions import Conditions
from vyre.adapters.cuda.runtime.cost_probe import CudaCostProbe
from vyre.adapters.cuda.runtime.device import DEFAULT_OPTIONS, CudaDevice, CudaOptions
from vyre.adapters.cuda.runtime.executor import CudaExecutor
from vyre.adapters.cuda.runtime.facts import profile_of
from vyre.adapters.cuda.runtime.graphs import GraphCache
from vyre.adapters.cuda.runtime.host_slot import SlotPool
from vyre.adapters.cuda.runtime.kernels import KernelCache
from vyre.adapters.cuda.runtime.memory import DeviceMemory, PinnedMemory, Quarantine
from vyre.adapters.cuda.runtime.pending import CudaAsync
from vyre.adapters.cuda.runtime.persistent import CudaPersistent
from vyre.adapters.cuda.runtime.resident import ResidentStore
from vyre.adapters.cuda.runtime.resident_run import ResidentRunner
from vyre.adapters.cuda.runtime.slot import Resources
from vyre.adapters.cuda.runtime.streams import StreamPool
from vyre.adapters.cuda.runtime.tunable import CudaTunable
from vyre.adapters.cuda.runtime.waiting import WaitingClock
from vyre.adapters.cuda.seam import CudaDriver
from vyre.adapters.execution_planning import PipelinePlanning
from vyre.adapters.profiling import NullProfiler
from vyre.adapters.replay_decision import ReplayPlanner
from vyre.domain.device import EngineKind
from vyre.domain.ir.program import BackendId
from vyre.domain.launch_costs import Provenance
from vyre.domain.op_ids import USUAL_OPS, native_op
from vyre.ports.backend import NO_SERVICES, Backend, BackendServices
from vyre.ports.requests import SequenceSubmission
from vyre.ports.support import Profiler


def _toolchain(device: CudaDevice) -> str:
    """Returns the versions of the backend, its emitter, the driver and the device."""
    facts = device.facts
    return f"{ids.emitter_version()}, driver {facts.driver_version}, {facts.name}"


def make_backend(
    driver: CudaDriver,
    backend: BackendId,
    options: CudaOptions = DEFAULT_OPTIONS,
    services: BackendServices = NO_SERVICES,
    *,
    clock: WaitingClock | None = None,
    profiler: Profiler | None = None,
    find_tool: Callable[[], CodeTool | None] | None = None,
    work_done: Callable[[], int] | None = None,
) -> Backend:
    """Returns the backend on ``driver``.

    It probes the device and creates no context: ``CudaDevice.prepare`` does.  ``find_tool`` returns a tool that makes
    machine code; it is None for a driver that takes PTX only.  ``work_done`` returns the work of all kernels so far,
    for a driver whose times are not real; it is None for one with clocks.  ``clock`` is that
    of the services unless it is given.  Raises ``BackendUnavailable`` if the driver or the device is missing.
    """
    device = CudaDevice(driver, options, backend=backend, clock=clock or WaitingClock(services.now_ns))
    profile = profile_of(device.facts, backend, options.grid_sync)
    memory, pinned = DeviceMemory(device), PinnedMemory(device)
    streams, kernels = (StreamPool(device), KernelCache(device, CodeMaker(device, emit, services, find_tool, sites)))
    times = Provenance.MEASURED if work_done is None else Provenance.EMULATED
    replays = ReplayPlanner(options.graph_after, options.costs, times, services.telemetry, services.decisions)
    quarantine, graphs = Quarantine(device), GraphCache(device, services.decisions)
    conditions = Conditions(device)
    resources = Resources(device, memory, pinned, streams, quarantine, graphs, replays, conditions, services.decisions)
    profiler = profiler or NullProfiler()
    slots = SlotPool(resources)
    executor = CudaExecutor(resources, kernels, slots, profiler)
    store = ResidentStore(resources, exports=options.exports)
    runner = ResidentRunner(resources, executor, store, profiler)
    persistent = CudaPersistent(resources, executor)

    def unstored() -> CudaExecutor:
        apart = KernelCache(device, CodeMaker(device, emit, BackendServices(optimize=services.optimize), None, sites))
        return CudaExecutor(resources, apart, slots, profiler)

    return Backend(
        id=backend,
        version=ids.VERSION,
        profile=profile,
        executor=executor,
        compiler=executor,
        memory=store,
        foreign_memory=store,
        resident_executor=runner,
        resident_binder=runner,
        loops=runner,
        async_executor=CudaAsync(device, executor),
        lifecycle=device,
        metric_source=device.counters,
        tunable=CudaTunable(device, executor, work_done),
        persistent=persistent,
        cost_probe=CudaCostProbe(resources, executor, runner, persistent, unstored),
        planning=PipelinePlanning(executor.pipeline, replays),
        supported_ops=USUAL_OPS | {native_op("ptx")},
        submission=SequenceSubmission.CHOSEN,
        stores_code=True,
        optimizes=EngineKind.DEVICE,
        toolchain=partial(_toolchain, device),
    )
