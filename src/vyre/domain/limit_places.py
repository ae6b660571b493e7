"""The places in a program of what is above a limit of a device."""

from __future__ import annotations

from vyre.domain.errors import DeviceLimitExceeded
from vyre.domain.ir.program import Program
from vyre.domain.source_location import SourceLocation, joined_places


def limit_places(excess: DeviceLimitExceeded, program: Program) -> tuple[SourceLocation, ...]:
    """Returns where a program declares what is above a limit: a buffer, its workgroup memory, or else itself."""
    if excess.buffer is not None:
        nodes = [buffer.loc for buffer in program.buffers if buffer.name == excess.buffer]
    elif excess.limit == "max_shared_memory_bytes":
        nodes = [buffer.loc for buffer in program.buffers if buffer.is_workgroup]
    else:
        nodes = [program.loc]
    return tuple([loc for loc in nodes if loc is not None])


def place_limit(excess: DeviceLimitExceeded, program: Program) -> None:
    """Sets the ``loc`` of an error that has none to these places, if there are any."""
    if excess.loc is None and (place := joined_places(*limit_places(excess, program))) is not None:
        excess.place(place)
