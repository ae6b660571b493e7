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
from vyre.adapters.cuda.machine.machine_options import MachineOptions
from vyre.adapters.cuda.runtime.backend import make_backend
from vyre.adapters.cuda.runtime.device import DEFAULT_OPTIONS, CudaOptions
from vyre.adapters.cuda.runtime.waiting import SYSTEM_CLOCK, Clock
from vyre.app.opening import open as open_session
from vyre.app.session import Session
from vyre.domain.frozen import frozen
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


def cuda_machine(runtime: CudaOptions = DEFAULT_OPTIONS, *, clock: Clock = SYSTEM_CLOCK, **machine: Any) -> CudaMachine:
    """Makes a fresh emulated device behind the CUDA backend.

    ``machine``: fields of ``MachineOptions`` (device, schedules, seed, faults).  ``runtime``: options of the backend;
    whether buffers export their addresses follows from ``export_fake``.  ``clock``: the clock of its waits.
    """
    options = MachineOptions(**machine)
    driver = MachineDriver(options)
    runtime = replace(runtime, exports=options.export_fake)
    backend = make_backend(driver, ids.MACHINE, runtime, clock=clock, work_done=lambda: driver.lane_instructions)
    return CudaMachine(backend, driver)
