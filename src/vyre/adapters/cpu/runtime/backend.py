"""The composition root of the native CPU backend: it turns the parts into the port's ``Backend``.

Parts that opening a session does not need are made, and their modules imported, when they are first used.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from vyre.adapters.cpu.ids import CPU
from vyre.adapters.cpu.llvm.options import LANES
from vyre.adapters.cpu.runtime.counters import Counters
from vyre.adapters.cpu.runtime.device import CpuDevice
from vyre.adapters.cpu.runtime.options import CpuOptions
from vyre.adapters.cpu.runtime.probe import profile_of
from vyre.adapters.cpu.runtime.tools import VERSION, Tools, toolchain_of
from vyre.adapters.on_use import OnUse
from vyre.domain.device import EngineKind
from vyre.domain.errors import InvalidConfig, UnsupportedFeature
from vyre.domain.op_ids import USUAL_OPS, native_op
from vyre.ports.backend import Backend, BackendServices
from vyre.ports.requests import SequenceSubmission

if TYPE_CHECKING:
    from vyre.adapters.cpu.pool.worker_pool import WorkerPool
    from vyre.adapters.cpu.runtime.cost_probe import CpuCostProbe
    from vyre.adapters.cpu.runtime.gathering import CpuGathering
    from vyre.adapters.cpu.runtime.kept_steps import CpuPersistentSteps
    from vyre.adapters.cpu.runtime.kernels import KernelCache
    from vyre.adapters.cpu.runtime.pending import CpuAsync
    from vyre.adapters.cpu.runtime.persistent import CpuPersistent
    from vyre.adapters.cpu.runtime.pipeline import CpuExecutor
    from vyre.adapters.cpu.runtime.resident import CpuMemory
    from vyre.adapters.execution_planning import PipelinePlanning
    from vyre.adapters.replay_decision import ReplayPlanner

STORED_ONLY: Final = 'without a compiler only stored kernels run; `pip install "vyre[cpu]"` installs one'


class CpuLifecycle:
    """``DeviceLifecycle`` of one backend."""

    __slots__ = ("_device", "_parts")

    def __init__(self, device: CpuDevice, parts: _Parts) -> None:
        self._device, self._parts = device, parts

    @property
    def epoch(self) -> int:
        """Returns 0: memory of the host is not lost."""
        return 0

    def prepare(self) -> None:
        """Finds the worker threads and the code of their runtime.  Raises ``BackendUnavailable``."""
        self._device.open()

    def flush(self) -> None:
        """Waits until all work that was begun has ended."""
        self._device.flush()

    def close(self) -> None:
        """Stops all work, also kernels that would never end, and waits for it; later work is refused."""
        parts = self._parts
        if parts.kernels.made is not None:
            parts.kernels.made.close()
        self._device.close()
        if parts.memory.made is not None:
            parts.memory.made.release()
        if parts.asynchronous.made is not None:
            parts.asynchronous.made.slots.clear()

    def device_lost(self) -> bool:
        """Returns False."""
        return False

    def recover(self) -> None:
        """Raises ``UnsupportedFeature``: there is no device that could be lost."""
        raise UnsupportedFeature(feature="device recovery", backend=self._device.backend)


def make_backend(tools: Tools, options: CpuOptions, services: BackendServices) -> Backend:
    """Returns the backend; it starts no thread and loads no code before it is needed.

    Raises ``BackendUnavailable`` for a machine that it cannot run on, and ``InvalidConfig`` for an invalid option.
    """
    if options.lanes is not None and options.lanes not in LANES:
        raise InvalidConfig(f"lanes={options.lanes} is no width of a vector", fix="use 1, 4, 8, 16 or 32.")
    counters = Counters(services.now_ns)
    can_compile = tools.version() is not None
    device = CpuDevice(CPU, options, counters, partial(_pool, tools, options, services))
    parts = _Parts(tools, options, services, counters, device)
    executor, memory = parts.executor.facet(), parts.memory.facet()
    return Backend(
        id=CPU,
        version=VERSION,
        profile=profile_of(tools.features, options),
        executor=executor,
        compiler=executor,
        supported_ops=USUAL_OPS | {native_op("llvm")},
        memory=memory,
        foreign_memory=memory,
        gathering=OnUse(parts.gathering).facet(),
        resident_executor=memory,
        resident_binder=memory,
        loops=memory,
        async_executor=parts.asynchronous.facet(),
        persistent=OnUse(parts.persistent).facet(),
        persistent_steps=OnUse(parts.persistent_steps).facet(),
        lifecycle=CpuLifecycle(device, parts),
        metric_source=counters,
        cost_probe=OnUse(partial(parts.cost_probe, can_compile)).facet(),
        planning=OnUse(parts.planning).facet(),
        submission=SequenceSubmission.LIST,
        stores_code=True,
        opens_on_use=can_compile,
        optimizes=EngineKind.NATIVE,
        toolchain=partial(toolchain_of, tools.features),
        restriction="" if can_compile else STORED_ONLY,
    )


def _pool(tools: Tools, options: CpuOptions, services: BackendServices) -> WorkerPool:
    from vyre.adapters.cpu.pool.worker_pool import shared_pool
    from vyre.adapters.cpu.runtime.runtime_code import load_entries

    return shared_pool(partial(load_entries, tools, services.artifacts(), services.now_ns), options.affinity)


class _Parts:
    """The parts of one backend; each method imports the modules of the part that it makes."""

    def __init__(
        self, tools: Tools, options: CpuOptions, services: BackendServices, counters: Counters, device: CpuDevice
    ) -> None:
        self._tools, self._options, self._services = tools, options, services
        self._counters, self._device = counters, device
        self.kernels: Final = OnUse(self._make_kernels)
        self.planner: Final = OnUse(self._make_planner)
        self.executor: Final = OnUse(self._make_executor)
        self.memory: Final = OnUse(self._make_memory)
        self.asynchronous: Final = OnUse(self._make_asynchronous)

    def _make_kernels(self) -> KernelCache:
        from vyre.adapters.cpu.runtime.code import CodeMaker
        from vyre.adapters.cpu.runtime.kernels import KernelCache

        maker = CodeMaker(self._tools, self._services, self._counters)
        return KernelCache(maker, self._counters, recompile=self._options.recompile)

    def _make_planner(self) -> ReplayPlanner:
        from vyre.adapters.replay_decision import ReplayPlanner
        from vyre.domain.launch_costs import Provenance

        options, services = self._options, self._services
        return ReplayPlanner(
            options.list_after, options.costs, Provenance.MEASURED, services.telemetry, services.decisions
        )

    def _make_executor(self) -> CpuExecutor:
        from vyre.adapters.cpu.runtime.pipeline import CpuExecutor

        return CpuExecutor(self._device, self.kernels(), self.planner())

    def _make_memory(self) -> CpuMemory:
        from vyre.adapters.cpu.runtime.resident import CpuMemory

        return CpuMemory(self._device, self.executor())

    def gathering(self) -> CpuGathering:
        """Returns the facet ``gathering``."""
        from vyre.adapters.cpu.runtime.gathering import CpuGathering

        return CpuGathering(self._device)

    def _make_asynchronous(self) -> CpuAsync:
        from vyre.adapters.cpu.runtime.pending import CpuAsync

        return CpuAsync(self._device, self.executor())

    def persistent(self) -> CpuPersistent:
        """Returns the facet ``persistent``."""
        from vyre.adapters.cpu.runtime.persistent import CpuPersistent

        return CpuPersistent(self._device, self.executor())

    def persistent_steps(self) -> CpuPersistentSteps:
        """Returns the facet ``persistent_steps``."""
        from vyre.adapters.cpu.runtime.kept_steps import CpuPersistentSteps

        return CpuPersistentSteps(self._device, self.memory())

    def planning(self) -> PipelinePlanning:
        """Returns the facet ``planning``."""
        from vyre.adapters.execution_planning import PipelinePlanning

        return PipelinePlanning(self.executor().pipeline, self.planner())

    def cost_probe(self, can_compile: bool) -> CpuCostProbe:
        """Returns the facet ``cost_probe``; where something can be compiled, it measures code that no store has."""
        from vyre.adapters.cpu.runtime.cost_probe import CpuCostProbe

        return CpuCostProbe(self._device, self.memory(), self.executor(), self._unstored if can_compile else None)

    def _unstored(self) -> CpuExecutor:
        from vyre.adapters.cpu.runtime.code import CodeMaker
        from vyre.adapters.cpu.runtime.kernels import KernelCache
        from vyre.adapters.cpu.runtime.pipeline import CpuExecutor

        maker = CodeMaker(self._tools, BackendServices(optimize=self._services.optimize), self._counters)
        return CpuExecutor(self._device, KernelCache(maker, self._counters, recompile=False), self.planner())
