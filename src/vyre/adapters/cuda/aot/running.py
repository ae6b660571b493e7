"""Bundles on a CUDA device: they run on the part of the runtime that needs no compiler."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from vyre.adapters.cuda.aot.build import Member, MemberKind
from vyre.adapters.cuda.aot.choice import Chosen, choose
from vyre.adapters.cuda.runtime.conditions import Conditions
from vyre.adapters.cuda.runtime.device import DEFAULT_OPTIONS, CudaDevice, CudaOptions
from vyre.adapters.cuda.runtime.graph_cache import GraphCache
from vyre.adapters.cuda.runtime.host_slot import SlotPool
from vyre.adapters.cuda.runtime.loaded import LoadedModule
from vyre.adapters.cuda.runtime.memory import DeviceMemory, PinnedMemory, Quarantine
from vyre.adapters.cuda.runtime.modules import ModuleLoader
from vyre.adapters.cuda.runtime.pipeline import KernelPipeline, launch_limits, refuse_on
from vyre.adapters.cuda.runtime.slot import Resources
from vyre.adapters.cuda.runtime.streams import StreamPool
from vyre.adapters.cuda.runtime.waiting import Clock
from vyre.adapters.cuda.seam import CudaDriver
from vyre.adapters.forks import process_lock
from vyre.adapters.profiling import NullProfiler
from vyre.adapters.replay_decision import ReplayPlanner
from vyre.domain.dispatch import DEFAULT_CONFIG, DispatchConfig
from vyre.domain.errors import BackendError, InvalidConfig
from vyre.domain.launch import Interface, Launch, launch_of
from vyre.domain.launch_costs import Provenance
from vyre.domain.names import BackendId
from vyre.ports.bundles import Bundle
from vyre.ports.interrupts import whole
from vyre.ports.support import OF_THE_PROCESS, Profiler, Surroundings


class BundlePipeline(KernelPipeline):
    """A bundle under one config; a dispatch has the same bytes as a dispatch of the program."""

    def __init__(
        self,
        runner: BundleRunner,
        resources: Resources,
        slots: SlotPool,
        profiler: Profiler,
        interface: Interface,
        config: DispatchConfig,
    ) -> None:
        device = resources.device
        refuse_on(device, config)
        for set_, what in ((config.workgroup is not None, "workgroup"), (config.spec is not None, "spec")):
            if set_:
                raise InvalidConfig(
                    f"{what} cannot be chosen: the bundle was compiled for one", fix="build a bundle for it."
                )
        super().__init__(
            resources,
            slots,
            profiler,
            id=f"{device.backend}:bundle:{runner.bundle.program.hex()[:16]}",
            title=runner.bundle.name or "unnamed",
            plan=interface.plan,
            config=config,
        )
        self._runner = runner
        self._interface = interface
        self._limits = launch_limits(device)

    def _resolve(self, input_nbytes: tuple[int, ...]) -> Launch:
        return launch_of(self._interface, input_nbytes, self._config, self._limits)

    def _select(self, launch: Launch) -> Callable[[], LoadedModule]:
        return self._runner.module


class BundleRunner:
    """One bundle on one device, from ``open`` to ``close``.  ``chosen`` is the code that runs."""

    def __init__(
        self,
        driver: CudaDriver,
        backend: BackendId,
        bundle: Bundle,
        options: CudaOptions = DEFAULT_OPTIONS,
        *,
        machine_code: bool = True,
        surroundings: Surroundings = OF_THE_PROCESS,
    ) -> None:
        """Chooses the code; creates no context.  ``machine_code`` tells whether the driver accepts machine code.

        Raises ``BackendUnavailable`` if the driver or the device is missing, and ``UnusableBundle`` if no member runs
        on it.
        """
        self.bundle: Final = bundle
        self.device: Final = CudaDevice(driver, options, backend=backend, clock=Clock(surroundings.now_ns))
        self.chosen: Final[Chosen] = choose(bundle, self.device.facts, machine_code=machine_code)
        memory, pinned = DeviceMemory(self.device), PinnedMemory(self.device)
        streams, self._loader = StreamPool(self.device), ModuleLoader(self.device)
        replays = ReplayPlanner(options.graph_after, options.costs, Provenance.MEASURED)
        quarantine, graphs = Quarantine(self.device), GraphCache(self.device)
        self._resources = Resources(
            self.device, memory, pinned, streams, quarantine, graphs, replays, Conditions(self.device)
        )
        self._slots = SlotPool(self._resources)
        self._profiler = surroundings.profiler or NullProfiler()
        self._interface = bundle.interface
        self._module: tuple[int, LoadedModule] | None = None
        self._lock = process_lock()

    @property
    def backend(self) -> BackendId:
        """Returns the id of the backend that runs the bundle."""
        return self.device.backend

    @property
    def image(self) -> str:
        """Returns the name of the member that runs."""
        return self.chosen.build.name_of(self.chosen.member)

    @whole
    def open(self) -> None:
        """Opens the device and loads the code; if loading fails, the device is closed again.

        Raises ``KernelCompileFailed`` if the driver refuses the code.
        """
        try:
            self.device.open()
            with self.device.calls:
                self.module()
        except BaseException as error:
            try:
                self.close()
            except BackendError as failed:
                error.add_note(f"giving the device back failed too: {failed}")
            raise

    def pipeline(self, config: DispatchConfig = DEFAULT_CONFIG) -> BundlePipeline:
        """Returns the bundle under ``config``.  Raises ``InvalidConfig`` for a field that was fixed when the bundle was
        built.
        """
        return BundlePipeline(self, self._resources, self._slots, self._profiler, self._interface, config)

    def module(self) -> LoadedModule:
        """Returns the loaded code; loads it again after the device was lost.  Call it inside ``device.calls``."""
        with self._lock:
            if self._module is None or self._module[0] != self.device.epoch:
                build, member = self.chosen
                self._module = self.device.epoch, self._loader.load(_image(member), build.kernels)
            return self._module[1]

    def recover(self) -> None:
        """Opens the device again after ``DeviceLost``."""
        self.device.recover()

    def close(self) -> None:
        """Closes the device and unloads the code."""
        self.device.close()


def _image(member: Member) -> bytes:
    return member.code + b"\0" if member.kind is MemberKind.PTX else member.code
