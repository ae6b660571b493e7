"""Facets for persistent jobs: an engine of which jobs are sampled.

A batch counts as one dispatch, and one of its jobs is compared.  An engine keeps the code that it was opened with, so
that once its program is in quarantine every job is run again, without optimizations, when somebody waits for it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from vyre.adapters.forks import process_lock
from vyre.adapters.forwarding import ForwardsEngine
from vyre.ports.interrupts import sealed
from vyre.ports.persistent import EndedJobs, JobMemory, PersistentEngine, PersistentExecutor
from vyre.ports.requests import DispatchRequest, HostBytes

if TYPE_CHECKING:
    from vyre.app.shadow.pipelines import HostSamples
    from vyre.app.shadow.state import ShadowState
    from vyre.domain.dispatch import DispatchConfig, DispatchTiming
    from vyre.domain.ir.program import Program
    from vyre.ports.backend import Backend


class ShadowedPersistent:
    """``PersistentExecutor`` of which jobs are sampled."""

    def __init__(self, inner: PersistentExecutor, samples: HostSamples, usual: Backend) -> None:
        self._inner, self._samples, self._usual = inner, samples, usual

    def open(
        self, program: Program, config: DispatchConfig, input_nbytes: tuple[int, ...], capacity: int, /
    ) -> PersistentEngine:
        engine = self._inner.open(*self._samples.service.current(program, config), input_nbytes, capacity)
        return ShadowedEngine(engine, program, config, input_nbytes, self._samples, self._usual)


class _Job(NamedTuple):
    """A job whose outputs are to be compared, or run again: the bytes of its inputs, and where its outputs are."""

    inputs: tuple[bytes, ...]
    outputs: tuple[memoryview, ...]


class _Batch(NamedTuple):
    """Jobs of one submission that are run again."""

    jobs: list[_Job]
    left: set[int]


class ShadowedEngine(ForwardsEngine):
    """``PersistentEngine`` of which jobs are sampled."""

    def __init__(
        self,
        inner: PersistentEngine,
        program: Program,
        config: DispatchConfig,
        input_nbytes: tuple[int, ...],
        samples: HostSamples,
        usual: Backend,
    ) -> None:
        super().__init__(inner)
        self.done: Final = inner.done
        self.drain: Final = inner.drain
        self.counters: Final = inner.counters
        self._program, self._config, self._samples = program, config, samples
        self._input_nbytes = input_nbytes
        self._service, self._usual = samples.service, usual
        self._generation = self._service.generation
        self._is_right = self._service.quarantine_of(program) is not None
        """Whether the engine was opened without optimizations."""
        self._runs_again = False
        self._sampled: dict[int, tuple[ShadowState, _Job | None]] = {}
        self._again: dict[int, _Batch] = {}
        """Jobs that are run again, by the ticket of the first of their submission."""
        self._lock = process_lock()

    # ------------------------------------------------------------ submitting
    def submit(self, memory: JobMemory, /) -> int | None:
        service = self._service
        number = next(service.numbers)
        if self._generation != service.generation:
            self._look()
        if number < service.at and not self._runs_again:
            return self._inner.submit(memory)

        def job(row: int) -> _Job:
            return _Job(tuple(map(bytes, memory.inputs)), memory.outputs)

        return self._watched(number, 1, job, lambda: self._inner.submit(memory))

    def submit_many(self, columns: Sequence[HostBytes], jobs: int, into: Sequence[memoryview], /) -> int | None:
        service = self._service
        number = next(service.numbers)
        if self._generation != service.generation:
            self._look()
        if number < service.at and not self._runs_again:
            return self._inner.submit_many(columns, jobs, into)

        def job(row: int) -> _Job:
            inputs = tuple(
                bytes(column if column.nbytes == nbytes else column[row * nbytes : (row + 1) * nbytes])
                for column, nbytes in zip(columns, self._input_nbytes, strict=True)
            )
            outputs = tuple(
                view[row * nbytes : (row + 1) * nbytes] for view, nbytes in zip(into, self.output_nbytes, strict=True)
            )
            return _Job(inputs, outputs)

        return self._watched(number, jobs, job, lambda: self._inner.submit_many(columns, jobs, into))

    def _watched(
        self, number: int, jobs: int, job: Callable[[int], _Job], submit: Callable[[], int | None]
    ) -> int | None:
        """Submits jobs of which one is due to be sampled, or all are run again."""
        service = self._service
        again = _Batch([job(row) for row in range(jobs)], set(range(jobs))) if self._runs_again else None
        state: ShadowState | None = None
        sampled_job: _Job | None = None
        row = number % jobs
        if number >= service.at:
            state = service.sample(number, (self._program,), sum(self._input_nbytes))
            if state is not None and state.is_pending:
                with service.copying(state):
                    sampled_job = job(row) if again is None else again.jobs[row]
        try:
            first = submit()
        except BaseException:
            first = None
            raise
        finally:
            if first is None and state is not None:
                service.drop(state, "a full queue or an error of the dispatch")
        if first is not None:
            with self._lock, sealed:
                if again is not None:
                    self._again[first] = again
                if state is not None:
                    self._sampled[first + row] = state, sampled_job
        return first

    # ------------------------------------------------------------ ends of jobs
    def wait(self, ticket: int, /, *, timeout: float | None = None) -> DispatchTiming:
        try:
            timing = self._inner.wait(ticket, timeout=timeout)
        except TimeoutError:
            raise
        except BaseException:
            self._drop(ticket, "an error of the dispatch")
            raise
        if not self._again and not self._sampled:
            return timing
        with self._lock, sealed:
            for first, batch in self._again.items():
                if 0 <= ticket - first < len(batch.jobs):
                    self._run_again(batch, ticket - first)
            state = self._compared(ticket)
        return timing if state is None else self._service.timing(timing, state)

    def wait_many(self, first: int, jobs: int, /, *, timeout: float | None = None) -> EndedJobs:
        ended = self._inner.wait_many(first, jobs, timeout=timeout)
        if self._again or self._sampled:
            with self._lock, sealed:
                for ticket in ended.failed:
                    self._drop(ticket, "an error of the dispatch")
                batch = self._again.get(first)
                if batch is not None:
                    for row in sorted(batch.left - {ticket - first for ticket in ended.failed}):
                        self._run_again(batch, row)
                for ticket in [each for each in self._sampled if 0 <= each - first < jobs]:
                    self._compared(ticket)
        return ended

    def forget(self, ticket: int, /) -> None:
        if self._again or self._sampled:
            with self._lock, sealed:
                batch = self._again.pop(ticket, None)
                for each in range(ticket, ticket + (1 if batch is None else len(batch.jobs))):
                    self._drop(each, "nobody waited for its outputs")
        self._inner.forget(ticket)

    def close(self) -> None:
        self._inner.close()
        with self._lock, sealed:
            for ticket in tuple(self._sampled):
                self._drop(ticket, "nobody waited for its outputs")

    # ------------------------------------------------------------ details
    def _look(self) -> None:
        """Looks whether the program came into quarantine since the engine was opened."""
        self._generation = self._service.generation
        self._runs_again = not self._is_right and self._service.quarantine_of(self._program) is not None

    def _compared(self, ticket: int) -> ShadowState | None:
        """Returns the state of a job that has ended, and has it compared.  Call with the lock held."""
        state, job = self._sampled.get(ticket, (None, None))
        if state is not None and job is not None:
            self._sampled[ticket] = state, None
            self._samples.compare(state, self._program, self._config, job.inputs, job.outputs)
        return state

    def _drop(self, ticket: int, why: str) -> None:
        with self._lock, sealed:
            state, job = self._sampled.pop(ticket, (None, None))
        if state is not None and job is not None:
            self._service.drop(state, why)

    def _run_again(self, batch: _Batch, row: int) -> None:
        """Runs a job again without optimizations, over its outputs, unless that was done.  Call with the lock held."""
        if row not in batch.left:
            return
        job = batch.jobs[row]
        program, config = self._service.fallback_of(self._program, self._config)
        request = DispatchRequest(program, tuple(map(memoryview, job.inputs)), config)
        self._service.attempt(program, partial(self._usual.executor.execute, request, _Into(job.outputs)))
        batch.left.discard(row)


class _Into:
    """``OutputStorage`` over memory that there is."""

    def __init__(self, views: tuple[memoryview, ...]) -> None:
        self._views = views

    def begin(self, sizes: tuple[int, ...], /) -> tuple[memoryview, ...]:
        return self._views

    def clear(self) -> None:
        """Implements ``OutputStorage.clear``."""
