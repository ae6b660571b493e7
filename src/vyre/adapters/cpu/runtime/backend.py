"""The composition root of the native CPU backend: it turns the parts into the port's ``Backend``."""

from __future__ import annotations

from functools import partial
from typing import Final

from vyre.adapters.cpu.ids import CPU
from vyre.adapters.cpu.llvm.options import LANES
from vyre.adapters.cpu.pool.shared import shared_pool
from vyre.adapters.cpu.pool.worker_pool import WorkerPool
from vyre.adapters.cpu.runtime.code import CodeMaker
from vyre.adapters.cpu.runtime.cost_probe import CpuCostProbe
from vyre.adapters.cpu.runtime.counters import Counters
from vyre.adapters.cpu.runtime.device import CpuDevice
from vyre.adapters.cpu.runtime.gathering import CpuGathering
from vyre.adapters.cpu.runtime.kept_steps import CpuPersistentSteps
from vyre.adapters.cpu.runtime.kernels import KernelCache
from vyre.adapters.cpu.runtime.options import CpuOptions
from vyre.adapters.cpu.runtime.pending import CpuAsync
from vyre.adapters.cpu.runtime.persistent import CpuPersistent
from vyre.adapters.cpu.runtime.pipeline import CpuExecutor
from vyre.adapters.cpu.runtime.planning import CpuPlanning
from vyre.adapters.cpu.runtime.probe import profile_of
from vyre.adapters.cpu.runtime.resident import CpuMemory
from vyre.adapters.cpu.runtime.runtime_code import load_entries
from vyre.adapters.cpu.runtime.toolchain import VERSION, toolchain_of
from vyre.adapters.cpu.runtime.tools import Tools
from vyre.adapters.replay_decision import ReplayPlanner
from vyre.domain.errors import InvalidConfig, UnsupportedFeature
from vyre.domain.launch_costs import Provenance
from vyre.policies.optimizing.program_passes import EngineKind
from vyre.ports.backend import Backend, BackendServices, SequenceSubmission

STORED_ONLY: Final = 'without a compiler only stored kernels run; `pip install "vyre[cpu]"` installs one'


class CpuLifecycle:
    """``DeviceLifecycle`` of one backend."""

    __slots__ = ("_device", "_kernels", "_memory")

    def __init__(self, device: CpuDevice, kernels: KernelCache, memory: CpuMemory) -> None:
        self._device, self._kernels, self._memory = device, kernels, memory

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
        self._kernels.close()
        self._device.close()
        self._memory.release()

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
    counters = Counters()
    profile = profile_of(tools.features, options)

    def pool() -> WorkerPool:
        return shared_pool(partial(load_entries, tools, services.artifacts()), options.affinity)

    device = CpuDevice(CPU, options, counters, pool)
    maker = CodeMaker(tools, services, counters)
    kernels = KernelCache(maker, counters, recompile=options.recompile)
    planner = ReplayPlanner(
        options.list_after,
        options.costs,
        Provenance.MEASURED,
        services.telemetry,
        services.decisions,
        "vyre.cpu.plan",
    )
    executor = CpuExecutor(device, kernels, planner)
    memory = CpuMemory(device, executor)

    def unstored() -> CpuExecutor:
        apart = KernelCache(
            CodeMaker(tools, BackendServices(optimize=services.optimize), counters), counters, recompile=False
        )
        return CpuExecutor(device, apart, planner)

    return Backend(
        id=CPU,
        version=VERSION,
        profile=profile,
        executor=executor,
        compiler=executor,
        memory=memory,
        foreign_memory=memory,
        gathering=CpuGathering(device),
        resident_executor=memory,
        resident_binder=memory,
        loops=memory,
        async_executor=CpuAsync(device, executor),
        persistent=CpuPersistent(device, executor),
        persistent_steps=CpuPersistentSteps(device, memory),
        lifecycle=CpuLifecycle(device, kernels, memory),
        metric_source=counters,
        cost_probe=CpuCostProbe(device, memory, executor, unstored if maker.can_compile else None),
        planning=CpuPlanning(executor, planner),
        submission=SequenceSubmission.LIST,
        stores_code=True,
        optimizes=EngineKind.NATIVE,
        toolchain=partial(toolchain_of, tools.features),
        restriction="" if maker.can_compile else STORED_ONLY,
    )
