"""A CUDA backend without a GPU, for your own tests: ``cuda_machine``.

machine = cuda_machine(kernels=RunOptions(schedule="shuffled", seed=7))
with machine.open() as session:
    session.dispatch(program, inputs)
assert not machine.driver.violations
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from vyre.adapters.cuda import ids
from vyre.adapters.cuda.machine.driver import MachineDriver
from vyre.adapters.cuda.machine.machine_options import MachineOptions
from vyre.adapters.cuda.runtime.backend import make_backend
from vyre.adapters.cuda.runtime.device import DEFAULT_OPTIONS, CudaOptions
from vyre.adapters.cuda.runtime.waiting import SYSTEM_CLOCK, Clock
from vyre.app.opening import open as open_session
from vyre.app.session import Session
from vyre.ports.backend import Backend, BackendCatalog, BackendRole
from vyre.testing.fakes import registration_of


@dataclass(frozen=True, slots=True)
class CudaMachine:
    """An emulated device: ``backend`` is what a program runs on, ``driver`` what a test looks into.

    The driver counts calls, lists what is alive, takes fault plans (``inject``), and keeps the faults of kernels and
    the violations that a real driver would not notice.  ``catalog`` holds this backend alone: give it to ``vyre.open``
    or put it in place of the container's.
    """

    backend: Backend
    driver: MachineDriver

    @property
    def catalog(self) -> BackendCatalog:
        return BackendCatalog((registration_of(self.backend, role=BackendRole.EMULATION),))

    def open(self) -> Session:
        """A session on this machine, which finds nothing that others kept, costs of another machine say."""
        return open_session(self.backend.id, catalog=self.catalog, cache=False)


def cuda_machine(runtime: CudaOptions = DEFAULT_OPTIONS, *, clock: Clock = SYSTEM_CLOCK, **machine: Any) -> CudaMachine:
    """A fresh emulated device behind the CUDA backend.

    ``machine``: fields of ``MachineOptions`` (device, schedules, seed, faults).  ``runtime``: options of the backend;
    whether buffers export their addresses follows from ``export_fake``.  ``clock``: what its waits go by.
    """
    options = MachineOptions(**machine)
    driver = MachineDriver(options)
    runtime = replace(runtime, exports=options.export_fake)
    backend = make_backend(driver, ids.MACHINE, runtime, clock=clock, work_done=lambda: driver.lane_instructions)
    return CudaMachine(backend, driver)
