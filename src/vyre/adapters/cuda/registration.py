"""The two CUDA backends: ``cuda`` on the driver of this machine, ``cuda-machine`` on an emulated one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from vyre.adapters.cuda import ids
from vyre.domain.device import DeviceProfile
from vyre.domain.errors import BackendUnavailable
from vyre.ports.backend import Backend, BackendRegistration, BackendRole

if TYPE_CHECKING:
    from vyre.adapters.cuda.machine.driver import MachineDriver
    from vyre.adapters.cuda.seam import CudaDriver


def _driver() -> CudaDriver:
    """Raises ``BackendUnavailable`` where cuda-python, a dependency on Linux and Windows only, is missing."""
    try:
        from vyre.adapters.cuda.driver import RealDriver
    except ImportError as error:
        raise BackendUnavailable(
            f"the CUDA driver cannot be called from Python: {error}", fix="install cuda-python 13 or later."
        ) from error
    return RealDriver()


def _cuda() -> Backend:
    from vyre.adapters.cuda.runtime.backend import make_backend, options_from
    from vyre.adapters.cuda.runtime.profiling import profiler_from
    from vyre.adapters.system import ProcessEnvironment

    environment = ProcessEnvironment()
    return make_backend(_driver(), ids.CUDA, options_from(environment), profiler=profiler_from(environment))


def _probe_cuda() -> DeviceProfile:
    from vyre.adapters.cuda.runtime.backend import options_from, probe
    from vyre.adapters.system import ProcessEnvironment

    return probe(_driver(), ids.CUDA, options_from(ProcessEnvironment()))


def _machine_driver() -> MachineDriver:
    """Runs every valid program as the reference does: one that races on purpose is no fault here.

    ``vyre.testing.cuda_machine`` reports races.
    """
    from vyre.adapters.cuda.machine.driver import MachineDriver
    from vyre.adapters.cuda.machine.machine_options import MachineOptions
    from vyre.adapters.cuda.machine.options import RunOptions

    return MachineDriver(MachineOptions(kernels=RunOptions(check_races=False)))


def _machine() -> Backend:
    from vyre.adapters.cuda.runtime.backend import make_backend
    from vyre.adapters.cuda.runtime.device import CudaOptions

    return make_backend(_machine_driver(), ids.MACHINE, CudaOptions(exports=False))


def _probe_machine() -> DeviceProfile:
    from vyre.adapters.cuda.runtime.backend import probe

    return probe(_machine_driver(), ids.MACHINE)


CUDA: Final = BackendRegistration(id=ids.CUDA, rank=100, role=BackendRole.PRODUCTION, factory=_cuda, probe=_probe_cuda)
CUDA_MACHINE: Final = BackendRegistration(
    id=ids.MACHINE, rank=950, role=BackendRole.EMULATION, factory=_machine, probe=_probe_machine
)
