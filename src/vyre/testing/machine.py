"""A CUDA backend without a GPU, for your own tests: ``cuda_machine``.

Example::

    machine = cuda_machine(kernels=RunOptions(schedule="shuffled", seed=7))
    with machine.open() as session:
        session.dispatch(program, inputs)
    assert not machine.driver.violations
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from vyre.adapters.cuda import ids
from vyre.adapters.cuda.machine.driver import MachineDriver
from vyre.adapters.cuda.machine.options import MachineOptions
from vyre.adapters.cuda.machine.presets import PRESETS
from vyre.adapters.cuda.runtime.backend import make_backend
from vyre.adapters.cuda.runtime.device import DEFAULT_OPTIONS, CudaOptions
from vyre.adapters.cuda.runtime.waiting import SYSTEM_CLOCK, WaitingClock
from vyre.app.opening import open as open_session
from vyre.app.session import Session
from vyre.domain.errors import InvalidConfig
from vyre.domain.frozen import frozen
from vyre.domain.printable import shown
from vyre.ports.backend import Backend, BackendCatalog, BackendRole
from vyre.testing.fakes import registration_of


@frozen
class CudaMachine:
    """An emulated device: ``backend`` runs programs, ``driver`` is for inspection by tests.

    The driver counts calls, lists live objects, takes fault plans (``inject``), and keeps the faults of kernels and the
    violations that a real driver would not notice.  ``catalog`` holds this backend alone: pass it to ``vyre.open`` or
    override the container's with it.
    """

    backend: Backend
    driver: MachineDriver

    @property
    def catalog(self) -> BackendCatalog:
        """A catalog with this backend alone."""
        return BackendCatalog((registration_of(self.backend, role=BackendRole.EMULATION),))

    def open(self) -> Session:
        """Opens a session on this machine without a cache, so that stored costs of another machine do not affect it."""
        return open_session(self.backend.id, catalog=self.catalog, cache=False)


def cuda_machine(
    device: str | CudaOptions = DEFAULT_OPTIONS,
    runtime: CudaOptions | None = None,
    /,
    *,
    clock: WaitingClock = SYSTEM_CLOCK,
    **machine: Any,
) -> CudaMachine:
    """Makes a fresh emulated device behind the CUDA backend.

    ``device``: what is emulated, ``"t4"``, ``"sm_86"``, ``"h200"``, ``"sm_120"``, or ``"tiny"``, whose limits a test
    can reach; without a name it is ``"h200"``, and the options of the backend may come first.  ``machine``: fields of
    ``MachineOptions`` (schedules, seed, faults).  ``runtime``: options of the backend; whether buffers export their
    addresses follows from ``export_fake``.  ``clock``: the clock of its waits.  Raises ``InvalidConfig`` for a name of
    no device.
    """
    if isinstance(device, CudaOptions):
        runtime = device if runtime is None else runtime
    elif device in PRESETS:
        machine["preset"] = PRESETS[device]
    else:
        raise InvalidConfig(f"cuda_machine({shown(device)})", fix=f"use one of {', '.join(PRESETS)}.")
    options = MachineOptions(**machine)
    driver = MachineDriver(options)
    runtime = replace(runtime or DEFAULT_OPTIONS, exports=options.export_fake)
    backend = make_backend(driver, ids.MACHINE, runtime, clock=clock, work_done=lambda: driver.lane_instructions)
    return CudaMachine(backend, driver)
