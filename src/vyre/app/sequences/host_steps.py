"""Steps of the host: functions that run between the launches of a sequence, and the executor that cuts it there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from inspect import iscoroutinefunction
from itertools import chain
from typing import Final, NamedTuple, TypeAlias

from vyre.app.lease import BackendLease
from vyre.app.resident import ResidentArray
from vyre.app.resident_dispatch import BoundWork, check_residents
from vyre.app.sequences.execution import Launch, Launches, LaunchPart, Parts, Ran, Waves, WorkExecutor, total
from vyre.app.sequences.steps import HostStep
from vyre.domain.arguments import expect, items_of
from vyre.domain.dispatch import DispatchConfig, DispatchTiming
from vyre.domain.errors import HostStepFailed, InvalidInput, InvalidResource
from vyre.domain.frozen import frozen
from vyre.domain.geometry import LaunchLimits
from vyre.domain.interface import resolve_launch
from vyre.domain.ir.program import Program
from vyre.domain.ir.types import ScalarType
from vyre.domain.printable import shown
from vyre.ports.ownership import check_ownership
from vyre.ports.requests import ResidentStep
from vyre.ports.resident_buffer import ResidentBuffer

HOST_STEP: Final = "a function of the host, which runs between two submissions"
MOST_TIMES: Final = 1024
"""The times of pieces of a run that are kept before they are summed up."""


class Bound(NamedTuple):
    """An array of a host step; ``written``: the function may write it."""

    array: ResidentArray
    written: bool


@frozen(kw_only=True)
class HostCall(ResidentStep):
    """A host step with its memory; its program declares that memory for plans of every kind, and never runs."""

    place: str
    host: HostStep
    bound: tuple[Bound, ...]

    def call(self, lease: BackendLease) -> None:
        """Calls the function, and waits for the work that it has left on the device.

        Raises ``HostStepFailed`` from what the function raises, and ``InvalidResource`` for memory that was closed.
        """
        lease.check_open()
        lease.wait_for(None)
        backend = lease.backend
        buffers = [resource for resource in self.resources if isinstance(resource, ResidentBuffer)]
        check_ownership(backend.id, backend.lifecycle.epoch, buffers)
        arguments = [_argument(lease, each, buffer) for each, buffer in zip(self.bound, buffers, strict=True)]
        cause: Exception | None = None
        try:
            self.host.function(*arguments)
        except Exception as error:
            cause = error
        if any(isinstance(argument, ResidentArray) for argument in arguments):
            lease.flush()
        if cause is not None:
            raise HostStepFailed(step=name_of(self), place=self.place, reason=shown(cause)) from cause


def _argument(lease: BackendLease, bound: Bound, buffer: ResidentBuffer) -> object:
    array, written = bound
    handle = buffer.view(0, buffer.nbytes, readonly=not written)
    data = handle.host_bytes
    if data is not None:
        is_same_size = array.dtype.itemsize == array.stored.itemsize
        return data.view(array.dtype if is_same_size else array.stored).reshape(array.shape)
    lent = ResidentArray(handle, lease.backend.require_memory(), array.dtype, array.shape, array.stored)
    lent._set_owner(lease)
    return lent


def name_of(step: ResidentStep) -> str:
    """Returns what plans and messages call a step."""
    if not isinstance(step, HostCall):
        return step.program.name or "unnamed"
    function = step.host.function
    return step.host.name or getattr(function, "__name__", None) or type(function).__name__


def host_work(lease: BackendLease, place: str, step: HostStep) -> BoundWork:
    """Returns a host step with its memory.  Raises ``InvalidInput`` and ``InvalidResource`` as ``check_residents``."""
    if not callable(step.function) or iscoroutinefunction(step.function):
        raise InvalidInput(f"the host step calls {shown(step.function)}", fix="give a function that is no coroutine.")
    expect("name", step.name, (str, type(None)), "a text, or None")
    bound: list[Bound] = []
    for name, arrays in (("reads", step.reads), ("writes", step.writes)):
        for array in items_of(name, arrays):
            expect(name, array, ResidentArray, "resident arrays", InvalidInput)
            assert isinstance(array, ResidentArray)
            bound.append(Bound(array, name == "writes"))
    program = _declaring(tuple(written for _, written in bound))
    names = [buffer.name for buffer in program.abi_buffers]
    arguments = dict(zip(names, (array for array, _ in bound), strict=True))
    check_residents(lease, program, arguments, temporaries=True, typed=False)
    for name, (array, written) in zip(names, bound, strict=True):
        if written and array.buffer.readonly:
            raise InvalidResource(
                f"`{name}` is bound to {array!r}, which is read-only", fix="copy it, or read it only."
            )
    buffers = tuple(array.buffer for array, _ in bound)
    config = DispatchConfig(grid=1)
    lengths = tuple(buffer.nbytes for buffer in buffers)
    launch = resolve_launch(program, lengths, config, LaunchLimits(str(lease.backend.id)))
    return BoundWork(HostCall(program, buffers, config, place=place, host=step, bound=tuple(bound)), launch, config)


@cache
def _declaring(written: tuple[bool, ...]) -> Program:
    """Returns a program that declares one buffer of bytes for each array, and does nothing."""
    from vyre.domain.ir.builder import ProgramBuilder

    reads = written.count(False)
    with ProgramBuilder("host_step", workgroup=1) as p:
        for number, writes in enumerate(written):
            if writes:
                p.inout(f"writes_{number - reads}", ScalarType.U8)
            else:
                p.input(f"reads_{number}", ScalarType.U8)
    return p.build()


Piece: TypeAlias = "WorkExecutor | HostCall"


class InPieces:
    """Runs launches in pieces, between which it calls functions of the host; one thread at a time may run it.

    ``make`` returns the executor of a piece, whose launches are all in parts; ``waves`` are those of ``first`` and of
    the parts, if it needs some.  No lock is held while a function runs.
    """

    def __init__(
        self,
        lease: BackendLease,
        launches: Launches,
        waves: Sequence[Waves],
        make: Callable[[Launches, Sequence[Waves]], WorkExecutor],
    ) -> None:
        self._lease, self._make = lease, make
        self._executors: list[WorkExecutor] = []
        parts = (LaunchPart(launches.first), *launches.parts)
        try:
            once, *cut = [self._cut(part.launches, waves[place] if waves else None) for place, part in enumerate(parts)]
        except BaseException:
            self.close()
            raise
        times = (part.times for part in launches.parts)
        self._parts: Final[Parts[list[Piece]]] = Parts(once, list(zip(cut, times, strict=True)))

    def _cut(self, launches: Sequence[Launch], waves: Waves | None) -> list[Piece]:
        """Returns host steps, each in a wave of its own, and executors of the launches between them."""
        pieces: list[Piece] = []
        start = 0
        calls = [(place, launch.step) for place, launch in enumerate(launches) if isinstance(launch.step, HostCall)]
        for stop, call in (*calls, (len(launches), None)):
            if stop > start:
                between = (tuple(place - start for place in wave) for wave in waves or () if start <= wave[0] < stop)
                part = LaunchPart(tuple(launches[start:stop]))
                own = () if waves is None else ((), tuple(between))
                executor = self._make(Launches((), (part,)), own)
                self._executors.append(executor)
                pieces.append(executor)
            if call is not None:
                pieces.append(call)
            start = stop + 1
        return pieces

    def run(self, rounds: int, *, first: bool = True) -> Ran:
        """Implements ``WorkExecutor.run``."""
        ran: list[Ran] = []
        for pieces, times in chain([(self._parts.first, int(first))], self._parts.turns(rounds)):
            each = times if len(pieces) == 1 else 1
            for _ in range(times // each if each else 0):
                ran += [self._ran(piece, each) for piece in pieces]
                if len(ran) > MOST_TIMES:
                    ran = [total(ran)]
        return total(ran)

    def _ran(self, piece: Piece, times: int) -> Ran:
        lease = self._lease
        if not isinstance(piece, HostCall):
            lease.check_open()  # a function may have closed the session, forked, or begun something
            lease.wait_for(None)
            return piece.run(times, first=False)
        began = lease.now_ns()
        for _ in range(times):
            piece.call(lease)
        taken = lease.now_ns() - began
        if lease.telemetry is not None:
            labels = {"backend": str(lease.backend.id), "step": name_of(piece)}
            lease.telemetry.observe("vyre.host_step.seconds", taken / 1e9, **labels)
        return Ran(DispatchTiming(0), 0, taken)

    def close(self) -> None:
        """Implements ``WorkExecutor.close``."""
        executors, self._executors = self._executors, []
        for executor in executors:
            executor.close()
