"""Tickets: what a caller holds of submitted jobs.  A ticket is complete without any thread of Python."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol

from vyre.app.host_arrays import Shapes, shape_for
from vyre.app.result import Result
from vyre.domain.arguments import real
from vyre.domain.errors import InvalidConfig, InvalidResource, VyreError
from vyre.domain.ir.numpy_scalars import whole_number
from vyre.domain.printable import shown
from vyre.domain.unique import Unique
from vyre.ports.persistent import JobMemory, PersistentEngine

if TYPE_CHECKING:
    import asyncio

    import numpy.typing as npt

    from vyre.app.host_arrays import HostOutputs
    from vyre.domain.dispatch import DispatchTiming

MOST_SECONDS: Final = 1_000_000_000
NOT_SUBMITTED: Final = -1
"""The number of a ticket whose job the engine does not have yet: it owns nothing that it could give back."""


class SubmittedJobs(Protocol):
    """What tickets need of the ``PersistentJobs`` that have made them."""

    @property
    def outputs(self) -> HostOutputs: ...
    def result(
        self, arrays: tuple[npt.NDArray[Any], ...], timing: DispatchTiming, engine: PersistentEngine
    ) -> Result: ...
    def call_when_done(self, ticket: Ticket, callback: Callable[[Ticket], object]) -> None: ...
    def when_done(self, ticket: Ticket) -> asyncio.Future[None]: ...
    def ended_with(self, error: VyreError, ticket: int) -> None: ...
    def in_order_of_end(self, tickets: Sequence[Any], timeout: float | None) -> Iterator[Any]: ...


class Ticket(Unique):
    """One submitted job.  Every method may be called from any thread; ``await ticket`` gives the result, too.

    ``number`` is a 64-bit number that no other job of the same engine has.
    """

    __slots__ = ("__weakref__", "_outcome", "engine", "jobs", "memory", "number")
    _wanted: Shapes | None = None
    """The shapes of the outputs; None if all have one axis."""

    def __init__(self, jobs: SubmittedJobs, engine: PersistentEngine, number: int, memory: JobMemory | None) -> None:
        self.jobs: Final = jobs
        self.engine: Final = engine
        self.number: int = number
        self.memory = memory
        """The memory of the job; None once the outcome is there, or for a job of a batch."""
        self._outcome: Result | VyreError | None = None

    def done(self) -> bool:
        """Returns whether the job has ended, with or without an error: reads one word of memory."""
        if self._outcome is not None:
            return True
        try:
            return self.engine.done(self.number)
        except VyreError:
            if self.is_collected:  # meanwhile, by another thread, which has forgotten the ticket
                return True
            raise

    @property
    def is_collected(self) -> bool:
        """Whether somebody has the result, or the error."""
        return self._outcome is not None

    def result(self, timeout: float | None = None) -> Result:
        """Waits for the job, at most ``timeout`` seconds, and returns its outputs; later calls return the same.

        The waiting is done without Python, and Ctrl-C ends it: the job goes on.  Raises the error of the job, which is
        that of this ticket alone, and ``TimeoutError``.
        """
        if timeout is not None:
            timeout = checked_timeout(timeout)
        outcome = self._outcome
        if outcome is None:
            outcome = self.collect(timeout)
        if type(outcome) is Result:  # the quick test of most
            return outcome
        if isinstance(outcome, VyreError):
            raise outcome
        return outcome

    def exception(self, timeout: float | None = None) -> VyreError | None:
        """Waits as ``result`` does; returns the error of the job, or None."""
        if timeout is not None:
            timeout = checked_timeout(timeout)
        outcome = self._outcome
        if outcome is None:
            outcome = self.collect(timeout)
        return outcome if isinstance(outcome, VyreError) else None

    def add_done_callback(self, callback: Callable[[Ticket], object]) -> None:
        """Calls ``callback(ticket)`` once, when the job has ended: now if it has, else on a thread of the engine that
        does nothing else.
        """
        if not callable(callback):
            raise InvalidConfig(f"callback={shown(callback)}", fix="pass a function of the ticket.")
        self.jobs.call_when_done(self, callback)

    def __await__(self) -> Generator[Any, None, Result]:
        if not self.done():
            yield from self.jobs.when_done(self).__await__()
        return self.result()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.number} of {self.jobs!r}, {'done' if self.done() else 'under way'}>"

    def __del__(self) -> None:
        if getattr(self, "_outcome", self) is None and self.number != NOT_SUBMITTED:  # it was not collected
            self._forget()

    def _forget(self) -> None:
        self.engine.forget(self.number)

    def collect(self, timeout: float | None = None) -> Result | VyreError:
        """Waits and stores the outcome; several threads may do so at once, and all store the same."""
        try:
            outcome: Result | VyreError = self._collected(timeout)
        except VyreError as error:
            if self._outcome is not None:
                return self._outcome  # another thread has stored it and forgotten the ticket
            if not self.engine.done(self.number):
                raise  # it is no error of the job
            self.jobs.ended_with(error, self.number)
            outcome = error
        settled = self._outcome
        if settled is not None:
            return settled  # another thread has forgotten the ticket: what was read may be of a later job
        self._outcome = outcome
        self.memory = None
        self._forget()
        return outcome

    def _collected(self, timeout: float | None) -> Result:
        jobs, memory = self.jobs, self.memory
        timing = self.engine.wait(self.number, timeout=timeout)
        if memory is None:
            raise InvalidResource("the ticket was forgotten", fix="keep the result.")
        kept = memory.held
        if kept is None:
            kept = memory.held = jobs.outputs.over(memory.outputs)
        if self._wanted is not None:
            kept = [array.reshape(shape_for(array.size, s)) for array, s in zip(kept, self._wanted, strict=True)]
        arrays = (kept[0].copy(),) if len(kept) == 1 else tuple([array.copy() for array in kept])
        return jobs.result(jobs.outputs.typed(arrays) if jobs.outputs.converts else arrays, timing, self.engine)


class ShapedTicket(Ticket):
    """The ticket of a job whose outputs have more than one axis."""

    __slots__ = ("_wanted",)

    def __init__(
        self, jobs: SubmittedJobs, engine: PersistentEngine, number: int, memory: JobMemory, shapes: Shapes
    ) -> None:
        super().__init__(jobs, engine, number, memory)
        self._wanted = shapes


class BatchTicket(Ticket):
    """The ticket of one job of a batch; ``index`` is its position there."""

    __slots__ = ("batch", "index")

    def __init__(self, batch: JobBatch, engine: PersistentEngine, number: int, index: int) -> None:
        super().__init__(batch.jobs, engine, number, None)
        self.batch: Final = batch
        self.index: Final = index

    def _forget(self) -> None:
        """Does nothing: the batch keeps its results."""

    def _collected(self, timeout: float | None) -> Result:
        timing = self.engine.wait(self.number, timeout=timeout)
        return self.jobs.result(self.batch.rows_of(self.index), timing, self.engine)


class Part(Unique):
    """The jobs of a batch that were submitted together: ``jobs`` from ``first``, whose position is ``start``."""

    __slots__ = ("columns", "engine", "first", "jobs", "start")

    def __init__(
        self, engine: PersistentEngine, first: int, jobs: int, start: int, columns: tuple[npt.NDArray[Any], ...]
    ) -> None:
        self.engine: Final = engine
        self.first: int = first
        self.jobs: Final = jobs
        self.start: Final = start
        self.columns: Final = columns

    def __del__(self) -> None:
        if getattr(self, "first", NOT_SUBMITTED) != NOT_SUBMITTED:
            self.engine.forget(self.first)


class JobBatch(Unique):
    """Jobs that were submitted together: ``batch[i]`` is the ticket of one, ``len(batch)`` their number.

    ``batch.result()`` waits for all and returns the outputs by name, as arrays with one row for each job.  Iterating
    gives the ``Result`` of each job, in order, as soon as it is there; ``as_completed`` gives tickets as they end.
    """

    def __init__(self, jobs: SubmittedJobs, parts: tuple[Part, ...]) -> None:
        self.jobs: Final = jobs
        self._parts = parts
        self._length = sum(part.jobs for part in parts)
        self._tickets: dict[int, BatchTicket] = {}

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, index: int) -> BatchTicket:
        """Returns the ticket of the job at this position, counted from the end if it is negative.

        Raises ``InvalidConfig`` for anything but a position.
        """
        number = whole_number(index)
        if number is None:
            raise InvalidConfig(f"batch[{shown(index)}]", fix="use the position of a job, an int.")
        if not -self._length <= number < self._length:
            raise IndexError(f"job {number} of a batch of {self._length}")
        index = number % self._length
        ticket = self._tickets.get(index)
        if ticket is None:
            part = self._part(index)
            number = part.first + index - part.start
            ticket = self._tickets.setdefault(index, BatchTicket(self, part.engine, number, index))
        return ticket

    def __iter__(self) -> Iterator[Result]:
        """Yields the results in order; raises the error of a job at its place."""
        for index in range(self._length):
            yield self[index].result()

    def done(self) -> bool:
        """Returns whether all jobs have ended."""
        return all(part.engine.done(part.first + row) for part in self._parts for row in range(part.jobs))

    def wait(self, timeout: float | None = None) -> int:
        """Waits for all jobs, at most ``timeout`` seconds in all; returns how many failed.  Raises ``TimeoutError``."""
        return len(self._failed(timeout))

    def result(self, timeout: float | None = None) -> dict[str, npt.NDArray[Any]]:
        """Waits for all jobs; returns their outputs by name: arrays of shape (jobs, elements of an output).

        Raises the error of the first job that failed, and ``TimeoutError``.  ``errors`` tells which failed; the results
        of the others can still be had by their tickets.
        """
        failed = self._failed(timeout)
        if failed:
            raise self._error(failed[0])
        columns = [part.columns for part in self._parts]
        if len(columns) == 1:
            arrays = columns[0]
        else:
            import numpy as np

            arrays = tuple(np.concatenate(each) for each in zip(*columns, strict=True))
        return dict(zip(self.jobs.outputs.names, self.jobs.outputs.typed(arrays), strict=True))

    def errors(self, timeout: float | None = None) -> Mapping[int, VyreError]:
        """Waits for all jobs; returns the errors of those that failed, by position."""
        return {index: self._error(index) for index in self._failed(timeout)}

    def as_completed(self, timeout: float | None = None) -> Iterator[BatchTicket]:
        """Yields the tickets as the jobs end.  Raises ``TimeoutError`` if ``timeout`` seconds pass first."""
        return self.jobs.in_order_of_end([self[index] for index in range(self._length)], timeout)

    def __repr__(self) -> str:
        return f"<JobBatch of {self._length} jobs of {self.jobs!r}>"

    def rows_of(self, index: int) -> tuple[npt.NDArray[Any], ...]:
        """Returns the outputs of one job that has ended, as the caller's own arrays."""
        part = self._part(index)
        rows = tuple(column[index - part.start].copy() for column in part.columns)
        return self.jobs.outputs.typed(rows)

    def _part(self, index: int) -> Part:
        return next(part for part in self._parts if index < part.start + part.jobs)

    def _failed(self, timeout: float | None) -> list[int]:
        left = Deadline(timeout)
        failed: list[int] = []
        for part in self._parts:
            ended = part.engine.wait_many(part.first, part.jobs, timeout=left.seconds())
            failed += [part.start + ticket - part.first for ticket in ended.failed]
        return failed

    def _error(self, index: int) -> VyreError:
        error = self[index].exception()
        assert error is not None
        return error


class Deadline:
    """A moment that lies ``timeout`` seconds ahead; None: never."""

    __slots__ = ("_end",)

    def __init__(self, timeout: float | None) -> None:
        from time import monotonic

        self._end = None if timeout is None else monotonic() + checked_timeout(timeout)

    def seconds(self) -> float | None:
        """Returns the seconds that are left, at least 0."""
        from time import monotonic

        return None if self._end is None else max(0.0, self._end - monotonic())


def checked_timeout(timeout: object, name: str = "timeout") -> float:
    """Returns a timeout in seconds.  Raises ``InvalidConfig`` for anything but a number from 0 to ``MOST_SECONDS``."""
    return real(name, timeout, 0, MOST_SECONDS, f"give seconds from 0 to {MOST_SECONDS}, or None.")
