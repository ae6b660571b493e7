"""The drivers of the two CUDA backends, each imported when it is first needed."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Final

from vyre.adapters.cuda.jit_cache import configure_jit_cache
from vyre.domain.errors import BackendUnavailable

if TYPE_CHECKING:
    from vyre.adapters.cuda.machine.driver import MachineDriver
    from vyre.adapters.cuda.seam import CudaDriver

DRIVER_LIBRARY: Final = "libcuda.so.1"


def library_problem() -> str | None:
    """Returns why the driver's library cannot be loaded; None if it can be, or if only the bindings know where it is.

    This is checked first because importing the bindings takes as long as everything else that opening the reference
    backend does.
    """
    if sys.platform != "linux":
        return None
    import ctypes

    try:
        ctypes.CDLL(DRIVER_LIBRARY)
    except OSError as error:
        return str(error)
    return None


def real_driver() -> CudaDriver:
    """Returns the driver of this machine, not initialised yet.

    Raises ``BackendUnavailable`` if its library is missing, or if cuda-python is, which vyre requires on Linux and
    Windows only.
    """
    configure_jit_cache(os.environ)
    problem = library_problem()
    if problem is not None:
        raise BackendUnavailable(
            f"the CUDA driver library cannot be loaded: {problem}",
            fix="install an NVIDIA driver, or open `cpu`, which needs none.",
        )
    try:
        from vyre.adapters.cuda.driver import RealDriver
    except ImportError as error:
        raise BackendUnavailable(
            f"the CUDA driver cannot be called from Python: {error}", fix="install cuda-python 13 or later."
        ) from error
    return RealDriver()


def machine_driver() -> MachineDriver:
    """Returns an emulated driver that runs every valid program as the reference does: a data race is no fault on it.

    ``vyre.testing.cuda_machine`` makes one that reports races.
    """
    from vyre.adapters.cuda.machine.driver import MachineDriver
    from vyre.adapters.cuda.machine.machine_options import MachineOptions
    from vyre.adapters.cuda.machine.options import RunOptions

    return MachineDriver(MachineOptions(kernels=RunOptions(check_races=False)))
