"""Requests to a backend: what a dispatch, a launch on device memory and a copy say, as plain data."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, TypeAlias

from vyre.domain.dispatch import DEFAULT_CONFIG, DispatchConfig
from vyre.domain.errors import InvalidInput, InvalidResource
from vyre.domain.frozen import frozen
from vyre.ports.resident_buffer import ResidentBuffer

if TYPE_CHECKING:
    from vyre.domain.ir.program import Program
    from vyre.ports.cancellation import Cancellation

FLAG_BYTES: Final = 4
"""Bytes of the flag of a sequence, which is a u32."""


class OutputStorage(Protocol):
    """Host memory into which an adapter writes results.  ``vyre.domain.dispatch.OutputArena`` implements it."""

    def begin(self, sizes: tuple[int, ...], /) -> tuple[memoryview, ...]:
        """Returns one writable, C-contiguous byte view per output, of these sizes in bytes.

        The content is undefined, and the start of each view is aligned for 8-byte words.  The view of a buffer that is
        passed in and returned may instead be the memory of its input, all of it, aligned for its elements: then the
        caller wants it updated in place, and it holds the input.
        """

    def clear(self) -> None:
        """Discards the views that ``begin`` returned, because the dispatch failed and has no outputs."""


HostBytes: TypeAlias = memoryview
"""A C-contiguous, read-only, one-dimensional view of unsigned bytes."""
Resource: TypeAlias = "HostBytes | ResidentBuffer"


class Upload(NamedTuple):
    """A copy of the host bytes ``data`` to ``buffer`` at byte ``offset``."""

    buffer: ResidentBuffer
    data: HostBytes
    offset: int = 0


class Readback(NamedTuple):
    """A copy from ``buffer``, starting at byte ``offset``, that fills the writable view ``into``."""

    buffer: ResidentBuffer
    into: memoryview
    offset: int = 0


@frozen
class DispatchRequest:
    """A program, one view of host bytes per input in binding order, and the config of its dispatch."""

    program: Program
    inputs: tuple[HostBytes, ...]
    config: DispatchConfig = DEFAULT_CONFIG


@frozen(weakref_slot=True)
class ResidentStep:
    """One launch on device memory.

    ``resources`` holds one entry per non-workgroup buffer, in binding order.  A buffer that the program writes must
    be a ``ResidentBuffer``; host bytes are allowed for buffers that it only reads, and are read in each run (scalar
    parameters are always host bytes).  A resident buffer may be longer than the program needs.  Outputs that the
    backend allocates are zeroed first.  Memory that is bound twice, even in part, and written through one of the
    bindings is refused, and so is memory that is not aligned for the elements of its buffer (``InvalidResource``).
    """

    program: Program
    resources: tuple[Resource, ...]
    config: DispatchConfig = DEFAULT_CONFIG


@frozen(kw_only=True, weakref_slot=True)
class ResidentSequence:
    """Launches and copies that run strictly in order with one host synchronisation.

    ``prefix`` runs once, then ``repeated`` runs ``repeat_count`` times, then ``reads`` are copied to the host.

    With a ``flag`` the rounds end early: before each round the u32 at byte 0 of ``flag`` is set to 0, and a round that
    leaves it 0 is the last.  ``repeat_count`` bounds the rounds; with 0 the flag is left alone.  The timing tells how
    many rounds ran and whether the last left the flag at 0, whichever way the backend repeats them.  Raises
    ``InvalidInput`` for a flag without steps to repeat, and ``InvalidResource`` for one of fewer than 4 bytes.

    ``replayed`` says whether the rounds are to be replayed as a graph; None: as the backend decides.  Only a backend
    whose ``submission`` is ``CHOSEN`` heeds it; it raises ``UnsupportedFeature`` for a graph that cannot be recorded.

    ``cancellation`` may ask for the end of the run.  A backend that can stop it raises ``DispatchFailed`` then, and the
    contents of what the steps write are unspecified; any other runs to its end.
    """

    prefix: tuple[ResidentStep, ...] = ()
    repeated: tuple[ResidentStep, ...] = ()
    repeat_count: int = 0
    reads: tuple[Readback, ...] = ()
    flag: ResidentBuffer | None = None
    replayed: bool | None = None
    cancellation: Cancellation | None = None

    def __post_init__(self) -> None:
        if self.flag is None:
            return
        if not self.repeated:
            raise InvalidInput("a sequence with a flag has no steps to repeat", fix="give at least one, or no flag.")
        if self.flag.nbytes < FLAG_BYTES:
            raise InvalidResource(
                f"the flag of a sequence is {self.flag!r}", fix=f"use a buffer of at least {FLAG_BYTES} bytes."
            )


class SequenceSubmission(Enum):
    """How a backend submits a ``ResidentSequence``.

    ``EACH``: launch by launch.  ``LIST``: as one list of commands.  ``CHOSEN``: as the backend decides from costs for
    each sequence, launch by launch or as a graph.
    """

    EACH = "each"
    LIST = "list"
    CHOSEN = "chosen"
