"""Failed driver calls as the typed errors of the port, and a driver's findings about a kernel in terms of its program.

One table maps driver codes to errors.  Every message has what a caller needs to act: the call, its arguments, the
driver's name and number for the failure, its log if it wrote one, and a fix.

A driver that watches kernels reports addresses and lines of the loaded text; an error names buffers, elements, lanes
and source lines.  The emitter computes which source line a line of text was written for, only when there is a finding;
code of a bundle has no program, so its findings name buffers only.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from enum import Enum
from typing import TYPE_CHECKING, Final, NamedTuple

from vyre.adapters.cuda.codes import Result, is_sticky
from vyre.adapters.cuda.ptx.kernel import EmittedKernel, ParameterKind
from vyre.adapters.cuda.ptx.sites import NOWHERE, KernelSites, Site
from vyre.adapters.cuda.seam import CudaCallError, FoundAccess, KernelDiagnosis, KernelFinding
from vyre.domain.errors import (
    BackendError,
    BackendUnavailable,
    DataRaceError,
    DeviceLost,
    DeviceOutOfMemory,
    DispatchFailed,
    KernelCompileFailed,
    UnsupportedFeature,
)
from vyre.domain.ir.types import SCALAR_BY_TEXT
from vyre.domain.races import DataRace, RacingAccess, place_text

if TYPE_CHECKING:
    from vyre.adapters.cuda.runtime.loaded import LoadedModule

_POINTER: Final = struct.Struct("<Q")
_RECORD: Final = struct.Struct("<QII")
_NO_SITES: Final = KernelSites((), (), (), ())


class _Memory(NamedTuple):
    """A buffer: its first address, and the size of its elements in bytes."""

    buffer: str
    start: int
    size: int


def race_of(finding: KernelFinding, module: LoadedModule | None) -> DataRace:
    """Returns the race that stopped a kernel; ``module`` contains the kernel, None if it is no longer loaded."""
    sites = _sites(finding, module)
    before, after = finding.accesses
    buffer, element = _element(finding, sites, module)
    first, second = (RacingAccess(a.kind, a.lane, _site(sites, a).loc(element)) for a in (before, after))
    return DataRace(buffer, element, first, second)


def sentence_of(finding: KernelFinding, module: LoadedModule | None) -> str:
    """Returns which lane failed where: ``load of x[7] by lane 7 (...) at kernel.py:12``; empty if no lane is known.

    Of a kernel that does not end it returns ``load of x[7] waits for a change; lane 7 (...) at kernel.py:12``.
    """
    if not finding.accesses:
        return ""
    access = finding.accesses[-1]
    sites = _sites(finding, module)
    what, number = "", 0
    if finding.address is not None and access.kind and finding.space in ("global", "shared"):
        buffer, number = _element(finding, sites, module)
        what = f"{access.kind} of {buffer}[{number}] by "
    elif finding.address is not None and finding.space:
        poll = finding.accesses[0]
        buffer, element = _element(finding, sites, module, poll)
        what = f"{poll.kind} of {buffer}[{element}] waits for a change; "
    return f"{what}{access.lane} at {place_text(_site(sites, access).loc(number))}"


def _sites(finding: KernelFinding, module: LoadedModule | None) -> KernelSites:
    if module is None or module.sites is None:
        return _NO_SITES
    return module.sites().get(finding.entry, _NO_SITES)


def _site(sites: KernelSites, access: FoundAccess) -> Site:
    return NOWHERE if access.line is None else sites.at(access.line)


def _element(
    finding: KernelFinding, sites: KernelSites, module: LoadedModule | None, access: FoundAccess | None = None
) -> tuple[str, int]:
    """Returns buffer and element of the address: in the buffer that the source names, else in the nearest one below."""
    assert finding.address is not None
    address, named = finding.address, _site(sites, access or finding.accesses[-1]).buffer
    memory = _shared(sites) if finding.space == "shared" else _bound(finding, sites, module)
    below = [one for one in memory if one.start <= address]
    nearest = next((one for one in memory if one.buffer == named), max(below, key=lambda one: one.start, default=None))
    if nearest is None:
        return ("workgroup memory" if finding.space == "shared" else "device memory"), address
    return nearest.buffer, (address - nearest.start) // nearest.size


def _shared(sites: KernelSites) -> list[_Memory]:
    return [_Memory(*area) for area in sites.shared]


def _bound(finding: KernelFinding, sites: KernelSites, module: LoadedModule | None) -> list[_Memory]:
    """Returns the launch's buffers that have an address: from its parameters, or from the table that they point to."""
    kernels: Mapping[str, EmittedKernel] = {}
    if module is not None:
        kernels = {kernel.emitted.entry: kernel.emitted for kernel in module.kernels}
    kernel = kernels.get(finding.entry)
    buffers: list[_Memory] = []
    for parameter in () if kernel is None else kernel.parameters:
        if parameter.kind is ParameterKind.POINTER and parameter.name is not None and parameter.dtype is not None:
            (start,) = _POINTER.unpack_from(finding.parameters, parameter.offset)
            buffers.append(_Memory(parameter.name, start, SCALAR_BY_TEXT[parameter.dtype].size))
        elif parameter.kind is ParameterKind.TABLE:
            (table,) = _POINTER.unpack_from(finding.parameters, parameter.offset)
            records = _RECORD.iter_unpack(finding.read(table, _RECORD.size * len(sites.bindings)))
            buffers += [_Memory(n, record[0], size) for (n, size), record in zip(sites.bindings, records, strict=True)]
    return buffers


_NOTHING: Final[Mapping[str, LoadedModule]] = {}


class Kind(Enum):
    """The meaning of a driver code for a caller."""

    MEMORY = "memory"
    COMPILE = "compile"
    UNAVAILABLE = "unavailable"
    UNSUPPORTED = "unsupported"
    REFUSED = "refused"
    LOST = "lost"


KINDS: Final[Mapping[int, Kind]] = {
    Result.OUT_OF_MEMORY: Kind.MEMORY,
    Result.INVALID_IMAGE: Kind.COMPILE,
    Result.NO_BINARY_FOR_GPU: Kind.COMPILE,
    Result.INVALID_PTX: Kind.COMPILE,
    Result.JIT_COMPILER_NOT_FOUND: Kind.COMPILE,
    Result.UNSUPPORTED_PTX_VERSION: Kind.COMPILE,
    Result.JIT_COMPILATION_DISABLED: Kind.COMPILE,
    Result.INSUFFICIENT_LOADER_VERSION: Kind.COMPILE,
    Result.INVALID_SOURCE: Kind.COMPILE,
    Result.NOT_INITIALIZED: Kind.UNAVAILABLE,
    Result.STUB_LIBRARY: Kind.UNAVAILABLE,
    Result.CALL_REQUIRES_NEWER_DRIVER: Kind.UNAVAILABLE,
    Result.NO_DEVICE: Kind.UNAVAILABLE,
    Result.INVALID_DEVICE: Kind.UNAVAILABLE,
    Result.DEVICE_NOT_LICENSED: Kind.UNAVAILABLE,
    Result.SYSTEM_NOT_READY: Kind.UNAVAILABLE,
    Result.SYSTEM_DRIVER_MISMATCH: Kind.UNAVAILABLE,
    Result.COMPAT_NOT_SUPPORTED_ON_DEVICE: Kind.UNAVAILABLE,
    Result.NOT_SUPPORTED: Kind.UNSUPPORTED,
}
"""The kind of each code.  Sticky codes are LOST; a code that is not listed is REFUSED."""

FIXES: Final[Mapping[int, str]] = {
    Result.INVALID_VALUE: "this is a defect of the backend: report the call and its arguments.",
    Result.NOT_INITIALIZED: "the driver was not initialised; open the session again.",
    Result.DEINITIALIZED: "the driver is shutting down; close sessions before the interpreter exits.",
    Result.STUB_LIBRARY: "a stub library was loaded; install the driver or take the stub off the library path.",
    Result.NO_DEVICE: "no CUDA device is visible; check CUDA_VISIBLE_DEVICES and `nvidia-smi`, or ask for `reference`.",
    Result.INVALID_DEVICE: "choose a device ordinal that `nvidia-smi` lists.",
    Result.ILLEGAL_ADDRESS: "a kernel left its buffers; run the program on `cuda-machine` to find the access.",
    Result.MISALIGNED_ADDRESS: "a kernel's access was not aligned; run the program on `cuda-machine` to find it.",
    Result.LAUNCH_OUT_OF_RESOURCES: "the kernel takes more registers or shared memory than a block may; use a smaller "
    "workgroup.",
    Result.LAUNCH_TIMEOUT: "the display watchdog stopped the kernel; make the dispatch smaller or use another device.",
    Result.COOPERATIVE_LAUNCH_TOO_LARGE: "fewer blocks fit at once than the grid has; use a smaller grid.",
    Result.SYSTEM_DRIVER_MISMATCH: "the kernel module and the driver library differ in version; reboot or reinstall.",
    Result.COMPAT_NOT_SUPPORTED_ON_DEVICE: "this driver is older than the device needs; update it.",
}


FIXES_OF_FINDINGS: Final[Mapping[int, str]] = {
    Result.ILLEGAL_ADDRESS: "the access named leaves its buffer, which no valid program does: report it.",
    Result.MISALIGNED_ADDRESS: "the access named is not aligned, which no valid program's is: report it.",
    Result.LAUNCH_TIMEOUT: "the kernel does not end: make the loop named end, or let others do what it waits for.",
    Result.LAUNCH_FAILED: "repair what the lane named does there.",
}
"""Fixes for a failure of which the driver reported the lane at fault."""


def kind_of(code: int) -> Kind:
    """Returns the meaning of a driver code for a caller."""
    return Kind.LOST if is_sticky(code) else KINDS.get(code, Kind.REFUSED)


def typed_error(
    error: CudaCallError, backend: str, *, available: int | None = None, loaded: Mapping[str, LoadedModule] = _NOTHING
) -> BackendError:
    """Returns the error of the port for a failed call.

    ``available``: bytes free on the device, if known.  ``loaded``: modules by entry, to explain the finding of a driver
    that watches kernels.
    """
    fix, finding = FIXES.get(error.code), error.finding
    module = None if finding is None else loaded.get(finding.entry)
    if finding is not None and isinstance(error, KernelDiagnosis):
        return DataRaceError(races=(race_of(finding, module),))
    place = ""
    if finding is not None:
        place, fix = sentence_of(finding, module), FIXES_OF_FINDINGS.get(error.code, fix)
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
            where = f"; {place}" if place else ""
            return DeviceLost(f"backend `{backend}` lost its device: {error}{where}", fix=_recovery(fix))
        case Kind.REFUSED:
            return DispatchFailed(f"backend `{backend}`: {error}", native_code=error.code, fix=fix)


def _requested(error: CudaCallError) -> int:
    nbytes = error.arguments.get("nbytes", 0)
    return nbytes if isinstance(nbytes, int) else 0


def _recovery(fix: str | None) -> str:
    recover = DeviceLost.default_fix
    return recover if fix is None else f"{fix} Then {recover}"
