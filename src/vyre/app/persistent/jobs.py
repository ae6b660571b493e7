"""``PersistentJobs``: a program that is kept running on the backend of a session."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from vyre.adapters.callbacks import call_back
from vyre.adapters.forks import process_lock, tell_in_forks
from vyre.app.host_arrays import HostInputs, HostOutputs
from vyre.app.launches import Launches
from vyre.app.lease import BackendLease
from vyre.app.output_shapes import FixedShapes, OutputShapes
from vyre.app.persistent.input_code import writer_of
from vyre.app.persistent.notices import Callbacks, LoopNotices, in_order_of_end
from vyre.app.persistent.queues import JobQueue
from vyre.app.persistent.tickets import NOT_SUBMITTED, Deadline, JobBatch, Part, ShapedTicket, Ticket
from vyre.app.resident_dispatch import has_resident
from vyre.app.result import Result
from vyre.domain.arguments import expect, items_of, path_of, whole
from vyre.domain.dispatch import DispatchConfig, DispatchTiming
from vyre.domain.errors import BackendError, InvalidInput, InvalidResource, QueueFull, VyreError
from vyre.domain.interface import interface_of
from vyre.domain.ir.buffers import outputs_of
from vyre.domain.ir.program import Program
from vyre.domain.record import U32_MAX
from vyre.domain.shared_dicts import entries_of
from vyre.domain.unique import Unique, used_in_a_fork
from vyre.ports.interrupts import sealed, undisturbed
from vyre.ports.persistent import JobMemory, PersistentEngine, PersistentExecutor
from vyre.ports.resident_buffer import warn_unclosed

if TYPE_CHECKING:
    import asyncio
    from pathlib import Path

    import numpy as np
    import numpy.typing as npt

    from vyre.app.host_arrays import Shapes
    from vyre.app.journal import DecisionJournal
    from vyre.app.pipeline import Inputs
    from vyre.domain.evidence.records import Evidence
    from vyre.ports.requests import HostBytes

MOST_LENGTHS: Final = 8
"""Combinations of input lengths that one program is kept running for."""


class PersistentJobs(Unique):
    """A program that is kept running: jobs are handed to it without a launch each.

    A context manager; every method may be called from any thread.  Every job has the bytes and the errors of a
    dispatch of the same inputs.  Inputs may have other lengths from job to job; for each of the first 8 combinations an
    engine is opened when it first comes.  Leaving the ``with`` block waits for all jobs, unless an exception leaves it:
    then jobs that have not ended are stopped, as ``close`` does.

    ``replaces``: after 8 combinations the oldest engine makes room for another, once its jobs have ended.  ``shapes``:
    those of the outputs of every job, where they are known.
    """

    def __init__(
        self,
        lease: BackendLease,
        executor: PersistentExecutor,
        program: Program,
        config: DispatchConfig,
        capacity: int,
        *,
        backpressure: bool,
        replaces: bool = False,
        shapes: Shapes | None = None,
        journal: DecisionJournal | None = None,
    ) -> None:
        self._lease, self._executor, self._journal = lease, executor, journal
        self._replaces = replaces
        self.program: Final = program
        self.config: Final = config
        self._capacity = capacity
        self._backpressure = backpressure
        self._inputs: Final = HostInputs(program)
        self._write: Final = writer_of(self._inputs)
        self.outputs: Final = HostOutputs(outputs_of(program.abi_buffers))
        """The conversion of outputs to arrays."""
        self._shapes: Final = OutputShapes(program, config) if shapes is None else FixedShapes(shapes)
        self._launches: Final = Launches(program.abi_buffers, partial(interface_of, program), config)
        self._backend: Final = str(lease.backend.id)
        self._queues: dict[tuple[int, ...], JobQueue] = {}
        self._latest: JobQueue | None = None
        """The queue that is tried first, because the job before had its lengths; None once it is closed."""
        self._lengths: dict[int, tuple[int, ...]] = {}
        self._loops: dict[int, LoopNotices] = {}
        self._callbacks: Final = Callbacks()
        self._lock = process_lock()
        self._pushes: Final = frozenset(b.name for b in program.abi_buffers if b.is_push)
        self._closed = False
        self._is_inherited = False
        tell_in_forks(self)

    # ------------------------------------------------------------ submitting
    def submit(self, inputs: Inputs = ()) -> Ticket:
        """Queues a job with these inputs, as for ``Session.dispatch``, and returns its ticket at once.

        Inputs are copied before this returns.  Raises ``InvalidInput``, ``InvalidResource`` after ``close``, and
        ``QueueFull`` if ``capacity`` jobs are under way; with ``backpressure`` it waits for room instead.
        """
        ticket = self.try_submit(inputs)
        if ticket is not None:
            return ticket
        if not self._backpressure:
            raise QueueFull(f"the queue of {self!r} is full")
        while ticket is None:
            self._engine(self._views(inputs)).wait_room()
            ticket = self.try_submit(inputs)
        return ticket

    def try_submit(self, inputs: Inputs = ()) -> Ticket | None:
        """Queues a job as ``submit`` does, or returns None if the queue is full; never waits."""
        queue, memory = self._latest, None
        try:
            if queue is None:
                queue, memory = self._written(inputs)
            else:
                memory = queue.memory()
                if not self._write(inputs, memory.inputs):
                    unfit, memory = memory, None
                    queue.engine.give_back(unfit)
                    queue, memory = self._written(inputs)
            engine = queue.engine
            shapes = self._shapes.of(inputs)
            if shapes is None:
                ticket = Ticket(self, engine, NOT_SUBMITTED, memory)
            else:
                ticket = ShapedTicket(self, engine, NOT_SUBMITTED, memory, shapes)
            number = engine.submit(memory)
            if number is None:
                unused, memory = memory, None
                engine.give_back(unused)
                return None
            memory, ticket.number = None, number  # from now on the memory is the ticket's, and nobody else's
            queue.add(ticket)
            return ticket
        except BaseException as error:  # an interrupt among them
            if queue is not None and memory is not None:
                queue.engine.take_back(memory)
            if isinstance(error, BackendError):
                self._annotate(error)
            raise

    def submit_many(self, columns: Inputs, jobs: int | None = None) -> JobBatch:
        """Queues many jobs at once, and returns them as a batch: the cheapest way.

        ``columns``: inputs by name or in binding order.  An array with two or more axes has one row for each job along
        the first; for a scalar parameter an array of one axis has one number for each job.  Everything else (numbers,
        arrays with one axis, bytes) is shared by all jobs.  ``jobs``: their number, needed only where nothing has a row
        for each.  Inputs are copied before this returns; a batch takes one place in the queue for each 65 535 jobs or
        fewer, and waits where there is none.

        Raises ``InvalidInput`` for columns of different lengths, and what ``submit`` raises.
        """
        rows, varying = self._columns(columns, jobs)
        if rows == 0:
            return JobBatch(self, ())
        shared = [name not in varying for name in self._inputs.names]
        views = self._column_views(columns, varying)
        lengths = tuple(v.nbytes if one else v.nbytes // rows for v, one in zip(views, shared, strict=True))
        engine = self._queue_for(lengths).engine
        parts, start = [], 0
        while start < rows:
            count = min(engine.most_jobs, rows - start)
            sliced = [
                view if one else view[start * nbytes : (start + count) * nbytes]
                for view, one, nbytes in zip(views, shared, lengths, strict=True)
            ]
            parts.append(self._part(engine, sliced, count, start))
            start += count
        return JobBatch(self, tuple(parts))

    def write_evidence(self, path: Path | str, inputs: Inputs = ()) -> Evidence:
        """Runs a job with these inputs and writes a file by which others can run it again and compare; returns its
        manifest.

        As ``Session.write_evidence`` does for a dispatch: an error of the program is recorded, and not raised.  Raises
        what ``submit`` raises, every other error of the job, and ``UnreadableFile``.
        """
        from vyre.app.evidence.recording import JobRun, recorded

        contents = dict(zip(self._inputs.names, map(bytes, self._views(inputs)), strict=True))
        job, backend = JobRun(self.submit, self.outputs, contents), self._lease.backend
        path = path_of("path", path)
        with self._lease.within():
            return recorded(path, self.program, self.config, backend, job, 1, self._journal, "persistent")

    # ------------------------------------------------------------ ends of jobs
    def as_completed(self, tickets: Iterable[Ticket], timeout: float | None = None) -> Iterator[Ticket]:
        """Yields tickets as their jobs end.  Raises ``TimeoutError`` if ``timeout`` seconds pass first."""
        all_tickets = list(items_of("tickets", tickets))
        for ticket in all_tickets:
            expect("tickets", ticket, Ticket, "tickets", InvalidInput)
        return self.in_order_of_end(all_tickets, timeout)

    def flush(self, timeout: float | None = None) -> None:
        """Waits until all jobs that were submitted before have ended.  Raises ``TimeoutError``."""
        left = Deadline(timeout)
        for engine in self.engines:
            if not engine.drain(left.seconds()):
                raise TimeoutError(f"jobs of {self!r} did not finish within {timeout} s")

    @property
    def closed(self) -> bool:
        """Whether ``close`` was called, or the session is closed."""
        return self._closed or self._lease.closed

    @property
    def capacity(self) -> int:
        """How many submissions may be under way at once; the backend may take more."""
        return self._capacity

    @property
    def nbytes(self) -> int:
        """The most memory in bytes that the inputs and outputs of jobs under way take, for all engines."""
        engines = [(lengths, queue.engine) for lengths, queue in entries_of(self._queues)]
        return sum(engine.capacity * (sum(lengths) + sum(engine.output_nbytes)) for lengths, engine in engines)

    def counters(self) -> dict[str, int]:
        """Returns counts of all engines so far.

        ``launches`` of kernels that serve them, ``jobs`` that have ended, ``submissions``, ``waits``: calls that had to
        sleep, ``wakes`` of sleeping callers, ``full``: refusals; a backend may count more.
        """
        counters: dict[str, int] = {}
        for engine in self.engines:
            for name, count in engine.counters().items():
                counters[name] = counters.get(name, 0) + count
        return counters

    # ------------------------------------------------------------ lifetime
    def close(self) -> None:
        """Stops the jobs that have not ended, whatever they do, and ends the engines; idempotent.

        Results of jobs that have ended can still be had; tickets of the others raise ``DispatchFailed``.
        """
        undisturbed(self._close)

    def _close(self) -> None:
        with self._lock, sealed:
            if self._closed:
                return
            self._closed, self._latest = True, None
            engines = self.engines
        for engine in engines:
            engine.close()
        self._end()

    def _end(self) -> None:
        for loop in tuple(self._loops.values()):
            loop.end()
        undisturbed(self._callbacks.end)

    def inherited(self) -> None:
        """Called in a forked child of the process that opened it: every use is refused there."""
        self._closed = self._is_inherited = True
        self._latest = None

    def __enter__(self) -> Self:
        self._check()
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None, /
    ) -> None:
        try:
            if exc_type is None and not self.closed:
                self.flush()
        finally:
            self.close()

    def __del__(self) -> None:
        if not getattr(self, "_closed", True) and self._queues:
            self.drop()
            warn_unclosed(repr(self), self)

    def drop(self) -> None:
        """Ends the threads that tell of jobs, for finalizers: the engines end themselves when they are freed."""
        self._closed = True
        self._end()

    def __repr__(self) -> str:
        state = "closed" if self._closed else "open"
        return f"<PersistentJobs of {self.program.name or 'unnamed'} on {self._backend}, {state}>"

    # ------------------------------------------------------------ for tickets
    @property
    def engines(self) -> tuple[PersistentEngine, ...]:
        """The engines that are open, in the order in which they were opened."""
        return tuple([queue.engine for queue in tuple(self._queues.values())])

    def result(self, arrays: tuple[npt.NDArray[Any], ...], timing: DispatchTiming, engine: PersistentEngine) -> Result:
        """Returns a result of these arrays."""
        lengths = self._launches.fixed
        if lengths is None:
            lengths = self._lengths[id(engine)]
        return Result(self.outputs.names, arrays, timing, self._backend, self._launches, lengths)

    def call_when_done(self, ticket: Ticket, callback: Callable[[Ticket], object]) -> None:
        """Implements ``Ticket.add_done_callback``."""
        if self._is_inherited and not ticket.done():
            self._check()
        if not undisturbed(self._callbacks.add, ticket, callback):
            call_back(callback, ticket)

    def when_done(self, ticket: Ticket) -> asyncio.Future[None]:
        """Returns a future of the running event loop that is done when the job has ended."""
        import asyncio

        loop = asyncio.get_running_loop()
        loop_notices = self._loops.get(id(loop))
        if loop_notices is None:
            self._check()
            for key, notices in entries_of(self._loops):
                if notices.is_closed:
                    del self._loops[key]
                    notices.end()
            loop_notices = self._loops[id(loop)] = LoopNotices(loop)
        return loop_notices.future(ticket, self.call_when_done)

    def in_order_of_end(self, tickets: Sequence[Any], timeout: float | None) -> Iterator[Any]:
        """Implements ``as_completed``."""
        return in_order_of_end(tickets, timeout)

    # ------------------------------------------------------------ details
    def open_for(self, inputs: Inputs) -> None:
        """Opens the engine for inputs of these lengths."""
        self._engine(self._views(inputs))

    def _views(self, inputs: Inputs) -> tuple[HostBytes, ...]:
        try:
            return self._inputs.views(inputs)
        except InvalidResource:
            if not has_resident(inputs):
                raise
            raise InvalidInput(
                "persistent jobs take host data, and a resident array was given",
                fix="pass its download(), or run it with bind_resident or a sequence.",
            ) from None

    def _written(self, inputs: Inputs) -> tuple[JobQueue, JobMemory]:
        """Returns the queue for inputs of any kind and length, and memory that holds them."""
        views = self._views(inputs)
        lengths = tuple([view.nbytes for view in views])
        queue = self._queues.get(lengths) or self._queue_for(lengths)
        memory = queue.memory()
        try:
            for target, view in zip(memory.inputs, views, strict=True):
                target[:] = view
            if not self._closed:
                self._latest = queue
            return queue, memory
        except BaseException:
            queue.engine.take_back(memory)
            raise

    def _check(self) -> None:
        if self._is_inherited:
            self._lease.check_process()
            raise used_in_a_fork(repr(self), 0, 0)
        if self._closed:
            raise InvalidResource(f"{self!r} is used after close()", fix="open another with session.persistent.")
        self._lease.check_open()

    def _engine(self, views: Sequence[HostBytes]) -> PersistentEngine:
        return self._queue_for(tuple([view.nbytes for view in views])).engine

    def _queue_for(self, lengths: tuple[int, ...]) -> JobQueue:
        self._check()
        with self._lock, sealed:
            open_queue = self._queues.get(lengths)
            if open_queue is not None:
                return open_queue
            if len(self._queues) >= MOST_LENGTHS and self._replaces:
                oldest = self._queues.pop(next(iter(self._queues))).engine
                self._latest = None
                oldest.drain()
                oldest.close()
            elif len(self._queues) >= MOST_LENGTHS:
                raise InvalidInput(
                    f"inputs of {lengths} bytes, after {MOST_LENGTHS} other combinations of lengths",
                    fix="open another with session.persistent, or dispatch.",
                )
            engine = self._opened(lengths)
            if not self._closed:
                self._lengths[id(engine)] = lengths
                queue = self._queues[lengths] = JobQueue(engine)
                return queue
        engine.close()
        self._check()
        raise AssertionError

    def _opened(self, lengths: tuple[int, ...]) -> PersistentEngine:
        try:
            return self._executor.open(self.program, self.config, lengths, self._capacity)
        except BackendError as error:
            self._annotate(error)
            raise

    def _columns(self, columns: Inputs, jobs: int | None) -> tuple[int, frozenset[str]]:
        """Returns the number of jobs, and the names of the inputs that have a row for each."""
        if jobs is not None:
            jobs = whole("jobs", jobs, 0, U32_MAX, f"give the number of jobs, an int from 0 to {U32_MAX}.")
        values = self._inputs.values(columns)
        rows: dict[str, int] = {}
        for name, value in zip(self._inputs.names, values, strict=True):
            shape = getattr(value, "shape", None)
            if isinstance(shape, tuple) and len(shape) >= (1 if name in self._pushes else 2):
                rows[name] = shape[0]
        if jobs is None:
            jobs = next(iter(rows.values()), None)
            if jobs is None:
                raise InvalidInput(
                    "submit_many got no input with a row for each job",
                    fix="pass an array with one more axis, or jobs=<their number>.",
                )
        for name, count in rows.items():
            if count != jobs:
                raise InvalidInput(
                    f"`{name}` has {count} rows for {jobs} jobs",
                    fix="give every column one row for each job, and flatten what all jobs share.",
                )
        return jobs, frozenset(rows)

    def _column_views(self, columns: Inputs, varying: frozenset[str]) -> tuple[HostBytes, ...]:
        values = self._inputs.values(columns)
        return tuple(
            self._inputs.column(name, value)
            if name in varying and name in self._pushes
            else self._inputs.view(name, value)
            for name, value in zip(self._inputs.names, values, strict=True)
        )

    def _part(self, engine: PersistentEngine, views: Sequence[HostBytes], count: int, start: int) -> Part:
        import numpy as np

        columns: list[np.ndarray[Any, Any]] = []
        for nbytes, dtype in zip(engine.output_nbytes, self.outputs.raw_types, strict=True):
            columns.append(np.empty((count, nbytes // dtype.itemsize), dtype))
        into = [_bytes_of(column) for column in columns]
        part = Part(engine, NOT_SUBMITTED, count, start, tuple(columns))
        while True:
            try:
                first = engine.submit_many(views, count, into)
            except BackendError as error:
                self._annotate(error)
                raise
            if first is not None:
                part.first = first  # from now on it forgets the jobs when nobody has it
                return part
            engine.wait_room()

    def _annotate(self, error: BackendError) -> None:
        self._lease.failed(
            error, f"program={self.program.name or 'unnamed'} label={self.config.label or '-'}", self.program
        )

    def ended_with(self, error: VyreError, ticket: int) -> None:
        """Tells telemetry that a job failed, and notes on the error which one."""
        from vyre.domain.sites import locate  # only for errors

        locate(error, (self.program,))
        self._lease.told(error, f"job of {self.program.name or 'unnamed'}")
        error.add_note(f"ticket={ticket} of {self!r}")


def _bytes_of(column: np.ndarray[Any, Any]) -> memoryview:
    return memoryview(column).cast("B") if column.size else memoryview(bytearray())  # type: ignore[arg-type]
