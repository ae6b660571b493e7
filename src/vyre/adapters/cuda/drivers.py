"""The drivers of the two CUDA backends, each imported when it is asked for."""

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
    """Why the driver's library cannot be loaded; None if it can be, or if only the bindings know where it is.

    Asked first, since importing the bindings takes as long as everything else that opening the reference does.
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
    """The driver of this machine, not initialised yet.

    Raises ``BackendUnavailable`` where its library is missing, or cuda-python, a dependency on Linux and Windows only.
    """
    configure_jit_cache(os.environ)
    problem = library_problem()
    if problem is not None:
        raise BackendUnavailable(
            f"the CUDA driver library cannot be loaded: {problem}", fix="install an NVIDIA driver."
        )
    try:
        from vyre.adapters.cuda.driver import RealDriver
    except ImportError as error:
        raise BackendUnavailable(
            f"the CUDA driver cannot be called from Python: {error}", fix="install cuda-python 13 or later."
        ) from error
    return RealDriver()


def machine_driver() -> MachineDriver:
    """Runs every valid program as the reference does: one that races on purpose is no fault here.

    ``vyre.testing.cuda_machine`` reports races.
    """
    from vyre.adapters.cuda.machine.driver import MachineDriver
    from vyre.adapters.cuda.machine.machine_options import MachineOptions
    from vyre.adapters.cuda.machine.options import RunOptions

    return MachineDriver(MachineOptions(kernels=RunOptions(check_races=False)))
