"""A driver's findings about a kernel in terms of its program: buffers, elements, lanes, source lines.

The driver reports addresses and lines of the loaded text.  The emitter computes which source line a line of text was
written for, only when there is a finding; code of a bundle has no program, so its findings name buffers only.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from vyre.adapters.cuda.ptx.kernel import EmittedKernel, ParameterKind
from vyre.adapters.cuda.ptx.sites import NOWHERE, KernelSites, Site
from vyre.domain.ir.types import SCALAR_BY_TEXT
from vyre.domain.races import DataRace, RacingAccess, place_text

if TYPE_CHECKING:
    from vyre.adapters.cuda.runtime.loaded import LoadedModule
    from vyre.adapters.cuda.seam import FoundAccess, KernelFinding

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
    found = next((one for one in memory if one.buffer == named), max(below, key=lambda one: one.start, default=None))
    if found is None:
        return ("workgroup memory" if finding.space == "shared" else "device memory"), address
    return found.buffer, (address - found.start) // found.size


def _shared(sites: KernelSites) -> list[_Memory]:
    return [_Memory(*area) for area in sites.shared]


def _bound(finding: KernelFinding, sites: KernelSites, module: LoadedModule | None) -> list[_Memory]:
    """Returns the launch's buffers that have an address: from its parameters, or from the table that they point to."""
    kernels: Mapping[str, EmittedKernel] = {}
    if module is not None:
        kernels = {kernel.emitted.entry: kernel.emitted for kernel in module.kernels}
    kernel = kernels.get(finding.entry)
    found: list[_Memory] = []
    for parameter in () if kernel is None else kernel.parameters:
        if parameter.kind is ParameterKind.POINTER and parameter.name is not None and parameter.dtype is not None:
            (start,) = _POINTER.unpack_from(finding.parameters, parameter.offset)
            found.append(_Memory(parameter.name, start, SCALAR_BY_TEXT[parameter.dtype].size))
        elif parameter.kind is ParameterKind.TABLE:
            (table,) = _POINTER.unpack_from(finding.parameters, parameter.offset)
            records = _RECORD.iter_unpack(finding.read(table, _RECORD.size * len(sites.bindings)))
            found += [_Memory(n, record[0], size) for (n, size), record in zip(sites.bindings, records, strict=True)]
    return found
