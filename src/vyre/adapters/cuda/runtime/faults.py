"""Failed driver calls as the typed errors of the port.

One table by driver code.  What a caller needs to act is in every message: the call, its arguments, the driver's name
and number for the failure, its log if it wrote one, and what to do.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final

from vyre.adapters.cuda.codes import is_sticky
from vyre.adapters.cuda.seam import CudaCallError
from vyre.domain.errors import (
    BackendError,
    BackendUnavailable,
    DeviceLost,
    DeviceOutOfMemory,
    DispatchFailed,
    KernelCompileFailed,
    UnsupportedFeature,
)

OUT_OF_MEMORY: Final = 2


class Kind(Enum):
    """What a driver code means to a caller."""

    MEMORY = "memory"
    COMPILE = "compile"
    UNAVAILABLE = "unavailable"
    UNSUPPORTED = "unsupported"
    REFUSED = "refused"
    LOST = "lost"


KINDS: Final[Mapping[int, Kind]] = {
    OUT_OF_MEMORY: Kind.MEMORY,
    **dict.fromkeys((200, 209, 218, 221, 222, 223, 227, 300), Kind.COMPILE),
    **dict.fromkeys((3, 34, 36, 100, 101, 102, 802, 803, 804), Kind.UNAVAILABLE),
    801: Kind.UNSUPPORTED,
}
"""Sticky codes are LOST; a code that is not listed is REFUSED."""

FIXES: Final[Mapping[int, str]] = {
    1: "this is a defect of the backend: report the call and its arguments.",
    3: "the driver was not initialised; open the session again.",
    4: "the driver is shutting down; close sessions before the interpreter exits.",
    34: "a stub library was loaded; install the NVIDIA driver or remove the stub from the library path.",
    100: "no CUDA device is visible; check CUDA_VISIBLE_DEVICES and `nvidia-smi`, or ask for `reference`.",
    101: "choose a device ordinal that `nvidia-smi` lists.",
    700: "a kernel left its buffers; run the program on `cuda-machine` or `reference` to find the access.",
    701: "the kernel takes more registers or shared memory than a block may; use a smaller workgroup.",
    702: "the display watchdog stopped the kernel; make the dispatch smaller or use another device.",
    720: "fewer blocks fit at once than the grid has; use a smaller grid, or grid barriers split into launches.",
    803: "the kernel module and the user-space driver differ in version; reboot or reinstall the driver.",
    804: "this driver is older than the device code needs; update it.",
}


def kind_of(code: int) -> Kind:
    """What a driver code means."""
    return Kind.LOST if is_sticky(code) else KINDS.get(code, Kind.REFUSED)


def typed_error(error: CudaCallError, backend: str, *, available: int | None = None) -> BackendError:
    """The error of the port for a failed call.  ``available``: bytes free on the device, if known."""
    fix = FIXES.get(error.code)
    match kind_of(error.code):
        case Kind.MEMORY:
            return DeviceOutOfMemory(requested=_requested(error), available=available)
        case Kind.COMPILE:
            return KernelCompileFailed(backend=backend, compiler_log=error.log or str(error))
        case Kind.UNAVAILABLE:
            return BackendUnavailable(f"backend `{backend}`: {error}", fix=fix)
        case Kind.UNSUPPORTED:
            return UnsupportedFeature(feature=f"{error.call} ({error})", backend=backend)
        case Kind.LOST:
            return DeviceLost(f"backend `{backend}` lost its device: {error}", fix=_recovery(fix))
        case Kind.REFUSED:
            return DispatchFailed(f"backend `{backend}`: {error}", native_code=error.code, fix=fix)


def _requested(error: CudaCallError) -> int:
    nbytes = error.arguments.get("nbytes", 0)
    return nbytes if isinstance(nbytes, int) else 0


def _recovery(fix: str | None) -> str:
    recover = DeviceLost.default_fix
    return recover if fix is None else f"{fix} Then {recover}"
