"""The drivers of the two CUDA backends, each imported when it is first needed, and the cache of the real one.

The driver keeps the code that it assembles in a cache of its own, which helps where no tool makes machine code that
vyre could store.  It reads the cache's settings from the environment once, when it is initialised.  Settings of the
user are kept.  The cache's directory is left as it is: every library of the process shares it, and would assemble its
code again in another one.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, MutableMapping
from typing import TYPE_CHECKING, Final, NamedTuple

from vyre.domain.errors import BackendUnavailable

if TYPE_CHECKING:
    from vyre.adapters.cuda.machine.driver import MachineDriver
    from vyre.adapters.cuda.seam import CudaDriver

SIZE: Final = "CUDA_CACHE_MAXSIZE"
DISABLE: Final = "CUDA_CACHE_DISABLE"
LEAST_BYTES: Final = 1 << 30
"""The size that the driver uses by default on most systems, but not on all; a quarter of the largest that it allows."""


_DIGITS: Final = 20


class JitCacheSettings(NamedTuple):
    """Settings of the driver's cache: ``add`` holds variables that the user has not set.

    ``problem`` says why kernels may be assembled again in each process; it is empty if they are not.
    """

    add: Mapping[str, str]
    problem: str = ""


def jit_cache_settings(environment: Mapping[str, str]) -> JitCacheSettings:
    """Returns what to add to the environment of a process that has not initialised the driver yet."""
    if environment.get(DISABLE, "0") not in ("", "0"):
        return JitCacheSettings({}, f"{DISABLE}={environment[DISABLE]} turns the driver's cache off")
    size = environment.get(SIZE, "")
    if not size:
        return JitCacheSettings({SIZE: str(LEAST_BYTES)})
    if not (size.isascii() and size.isdigit() and len(size) <= _DIGITS):
        return JitCacheSettings({}, f"{SIZE}={size!r} is no number of bytes")
    if int(size) < LEAST_BYTES:
        return JitCacheSettings({}, f"{SIZE}={size} is less than the {LEAST_BYTES} bytes that vyre would take")
    return JitCacheSettings({})


def configure_jit_cache(environment: MutableMapping[str, str]) -> JitCacheSettings:
    """Adds missing settings to ``environment``, in practice ``os.environ``.

    This has an effect only before the driver is initialised.
    """
    settings = jit_cache_settings(environment)
    environment.update(settings.add)
    return settings


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
    from vyre.adapters.cuda.machine.options import MachineOptions, RunOptions

    return MachineDriver(MachineOptions(kernels=RunOptions(check_races=False)))
