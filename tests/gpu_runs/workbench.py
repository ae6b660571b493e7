"""A CUDA device under our own hands: kernels launched one by one, memory and time by the driver seam.

Groups use it where the backend's own path is what they compare with, or where a kernel must run that no program can
express (one that faults, for one).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from vyre.adapters.cuda import ids
from vyre.adapters.cuda.ptx.emit import emit
from vyre.adapters.cuda.ptx.options import EmitOptions
from vyre.adapters.cuda.runtime.backend import make_backend
from vyre.adapters.cuda.runtime.code import CodeMaker
from vyre.adapters.cuda.runtime.device import DEFAULT_OPTIONS, CudaDevice, CudaOptions
from vyre.adapters.cuda.runtime.kernels import KernelCache
from vyre.adapters.cuda.runtime.launch import PreparedLaunch, ScratchAddresses, plan_scratch
from vyre.adapters.cuda.runtime.loaded import LoadedModule
from vyre.adapters.cuda.seam import CudaDriver, DeviceAddress, Event, LaunchShape, ParameterBlock, Stream
from vyre.adapters.kernel_source import KernelSource
from vyre.app.opening import open as open_session
from vyre.app.session import Session
from vyre.domain.binding import plan_bindings
from vyre.domain.errors import BackendUnavailable
from vyre.domain.ir.program import BackendId, Dim3, Program
from vyre.ports.backend import NO_SERVICES, Backend, BackendCatalog
from vyre.testing.execution import open_backend
from vyre.testing.fakes import registration_of

Array = npt.NDArray[Any]
_TARGET_FREE: Final = EmitOptions()


def has_driver(backend: str) -> bool:
    """Whether the backend runs on a CUDA driver, real or emulated."""
    return backend in (ids.CUDA, ids.MACHINE)


def new_driver(backend: str) -> CudaDriver:
    """The driver under a CUDA backend.  Raises ``BackendUnavailable`` for another backend, or where it is missing."""
    if backend == ids.CUDA:
        from vyre.adapters.cuda.driver import RealDriver

        return RealDriver()
    if backend == ids.MACHINE:
        from vyre.adapters.cuda.machine.driver import MachineDriver

        return MachineDriver()
    raise BackendUnavailable(f"backend `{backend}` has no CUDA driver", fix="run this group on `cuda`.")


def small_driver(backend: str) -> CudaDriver | None:
    """The driver of a small emulated device, for what has to fill one; None for another backend, whose own it is."""
    if backend != ids.MACHINE:
        return None
    from vyre.adapters.cuda.machine.driver import MachineDriver
    from vyre.adapters.cuda.machine.options import MachineOptions
    from vyre.adapters.cuda.machine.presets import H200, TINY

    return MachineDriver(MachineOptions(preset=replace(TINY, max_grid=H200.max_grid)))


def backend_with(
    backend: str, options: CudaOptions, driver: CudaDriver | None = None, *, exports: bool = False
) -> Backend:
    """The backend under options of its own; one without a CUDA driver has none and comes as it is.

    ``exports``: an emulated device gives its addresses away too, to a group that hands them back and uses them for
    nothing else.
    """
    if not has_driver(backend):
        return open_backend(backend)
    driver = driver or new_driver(backend)
    if backend != ids.MACHINE:
        return make_backend(driver, BackendId(backend), options)
    work_done = partial(getattr, driver, "lane_instructions")  # so that its times count as made up
    return make_backend(driver, BackendId(backend), replace(options, exports=exports), work_done=work_done)


def session_on(backend: Backend) -> Session:
    """A session that holds ``backend``, and closes it."""
    return open_session(backend.id, catalog=BackendCatalog((registration_of(backend),)))


class Workbench:
    """One stream and one pool on a device.  A context manager: what was allocated is freed at its end.

    One thread.  Raises ``CudaCallError``.
    """

    def __init__(self, backend: str, options: CudaOptions = DEFAULT_OPTIONS, driver: CudaDriver | None = None) -> None:
        self.driver: Final = driver or new_driver(backend)
        self.device: Final = CudaDevice(self.driver, options, backend=BackendId(backend))
        self.kernels: Final = KernelCache(self.device, CodeMaker(self.device, emit, NO_SERVICES))
        self._owned: list[DeviceAddress] = []

    def __enter__(self) -> Workbench:
        self.device.prepare()
        self.device.enter()
        self.stream: Stream = self.driver.stream_create()
        self._pool = self.driver.pool_create(self.device.options.ordinal)
        self.events: tuple[Event, Event] = (
            self.driver.event_create(timing=True),
            self.driver.event_create(timing=True),
        )
        self._done = self.driver.event_create()
        return self

    def __exit__(self, *_: object) -> None:
        self.synchronize()
        for address in self._owned:
            self.driver.mem_free_async(address, self.stream)
        self.synchronize()
        for event in (*self.events, self._done):
            self.driver.event_destroy(event)
        self.driver.pool_destroy(self._pool)
        self.driver.stream_destroy(self.stream)
        self.device.close()

    # ---- memory
    def allocate(self, nbytes: int) -> DeviceAddress:
        """Memory until the end; its content is undefined."""
        address = self.driver.mem_alloc_async(max(1, nbytes), self._pool, self.stream)
        self._owned.append(address)
        return address

    def upload(self, data: Array, address: DeviceAddress | None = None) -> DeviceAddress:
        """Copy ``data`` to ``address``, or to new memory; read when this returns."""
        data = np.ascontiguousarray(data)
        address = self.allocate(data.nbytes) if address is None else address
        if data.nbytes:
            self.driver.copy_to_device(address, data.ctypes.data, data.nbytes, self.stream)
            self.synchronize()
        return address

    def download(self, address: DeviceAddress, count: int, dtype: npt.DTypeLike) -> Array:
        out = np.empty(count, dtype)
        if out.nbytes:
            self.driver.copy_to_host(out.ctypes.data, address, out.nbytes, self.stream)
            self.synchronize()
        return out

    def zero(self, address: DeviceAddress, nbytes: int) -> None:
        if nbytes:
            self.driver.memset8(address, 0, nbytes, self.stream)

    def synchronize(self) -> None:
        self.driver.stream_synchronize(self.stream)

    def wait(self) -> None:
        """As a dispatch without a deadline waits for what is on the stream."""
        self.driver.event_record(self._done, self.stream)
        self.device.waiter.event(self._done, None)

    # ---- kernels
    def options(self, options: EmitOptions = _TARGET_FREE) -> EmitOptions:
        """``options`` for this device."""
        facts = self.device.facts
        return replace(options, target=facts.target, parameter_limit=facts.parameter_limit)

    @contextmanager
    def module(self, program: Program, options: EmitOptions = _TARGET_FREE) -> Iterator[LoadedModule]:
        """``program``, emitted for this device and loaded."""
        yield self.kernels.get(KernelSource.of(program), self.options(options))

    def prepare(
        self,
        program: Program,
        module: LoadedModule,
        grid: Dim3,
        addresses: Sequence[DeviceAddress],
        counts: Sequence[int],
        values: Mapping[str, bytes] | None = None,
    ) -> PreparedLaunch:
        """A launch on the stream; addresses and element counts by position among the bindings, scalars by name."""
        plan = plan_bindings(program)
        launch = PreparedLaunch(self.device, module, plan, grid, self.stream, cooperative=False)
        scratch = plan_scratch(module)
        places = []
        for nbytes in (scratch.table, scratch.zeroed, 32 * len(module.kernels) if scratch.can_trap else 0):
            address = self.allocate(nbytes) if nbytes else 0
            self.zero(address, nbytes)
            places.append(address)
        launch.bind(addresses, counts, ScratchAddresses(*places))
        given = values or {}
        launch.set_values([memoryview(given[b.buffer.name]) if b.buffer.name in given else None for b in plan.bindings])
        return launch

    def launch_text(self, ptx: str, entry: str, shape: LaunchShape, parameters: ParameterBlock) -> Callable[[], None]:
        """A launcher of hand-written text."""
        library = self.driver.library_load(ptx.encode() + b"\0").library
        return self.driver.prepare_launch(self.driver.library_kernel(library, entry), shape, self.stream, parameters)

    # ---- time
    def device_ms(self, work: Callable[[], object]) -> float:
        """Milliseconds of device time that ``work`` enqueues."""
        start, end = self.events
        self.driver.event_record(start, self.stream)
        work()
        self.driver.event_record(end, self.stream)
        self.driver.event_synchronize(end)
        return self.driver.event_elapsed_ms(start, end)
