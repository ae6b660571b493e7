"""A backend whose runs are counted and timed: every facet that runs programs or moves bytes tells a telemetry.

It is made only where somebody listens, so that nobody else pays for it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from vyre.adapters.forwarding import (
    ForwardsCompiler,
    ForwardsEngine,
    ForwardsPreparation,
    ForwardsStepLimits,
    KeptStorage,
    is_preparable,
)
from vyre.adapters.telemetry.guarded import CURRENT_DISPATCH, GuardedTelemetry
from vyre.domain.errors import BackendError
from vyre.ports.execution import (
    AsyncExecutor,
    BoundResidentStep,
    CompiledPipeline,
    CompileResult,
    PendingDispatch,
    PipelineCompiler,
    PreparablePipeline,
    ProgramExecutor,
    ResidentBinder,
    ResidentExecutor,
    ResidentMemory,
)
from vyre.ports.gathering import BoundGather, GatheredReads, Ranges
from vyre.ports.persistent import (
    EndedJobs,
    JobMemory,
    KeptSteps,
    PersistentEngine,
    PersistentExecutor,
    PersistentSteps,
    StepsRan,
)
from vyre.ports.resident_buffer import ResidentBuffer

if TYPE_CHECKING:
    from vyre.domain.dispatch import DispatchConfig, DispatchTiming
    from vyre.domain.ir.program import Program
    from vyre.ports.backend import Backend
    from vyre.ports.requests import (
        DispatchRequest,
        HostBytes,
        OutputStorage,
        Readback,
        ResidentSequence,
        ResidentStep,
        Upload,
    )

LOOKS: Final = 4
"""The oldest jobs that a submission looks at, at most: they are counted faster than they are submitted."""
R = TypeVar("R")
F = TypeVar("F")
G = TypeVar("G")


def observed(backend: Backend, telemetry: GuardedTelemetry) -> Backend:
    """Returns ``backend`` with all that it runs told to ``telemetry``, and marked in the timeline of its profiler."""
    watch = _Watch(telemetry, str(backend.id))
    return replace(
        backend,
        executor=_Executor(backend.executor, watch),
        compiler=_on(backend.compiler, lambda inner: _Compiler(inner, watch)),
        memory=_on(backend.memory, lambda inner: _Memory(inner, watch)),
        resident_executor=_on(backend.resident_executor, lambda inner: _ResidentExecutor(inner, watch)),
        resident_binder=_on(backend.resident_binder, lambda inner: _Binder(inner, watch)),
        async_executor=_on(backend.async_executor, lambda inner: _AsyncExecutor(inner, watch)),
        gathering=_on(backend.gathering, lambda inner: _Gathering(inner, watch)),
        persistent=_on(backend.persistent, lambda inner: _Persistent(inner, watch)),
        persistent_steps=_on(backend.persistent_steps, lambda inner: _PersistentSteps(inner, watch)),
    )


def _on(facet: F | None, wrap: Callable[[F], G]) -> G | None:
    return None if facet is None else wrap(facet)


def label_of(program: Program, config: DispatchConfig) -> str:
    """Returns the name under which runs of a program are counted: the label of the config, else its own name."""
    return config.label or program.name or "unnamed"


class _Watch:
    """The common base of the facets of one backend, which call ``run`` for everything that they pass on."""

    def __init__(self, telemetry: GuardedTelemetry, backend: str) -> None:
        self.telemetry: Final = telemetry
        self.backend: Final = backend
        self._ranges: Final = telemetry.ranges
        self._numbers: Final = count(1)

    def run(self, name: str, way: str, work: Callable[[], R]) -> R:
        """Runs a dispatch, counts and times it."""
        telemetry, backend = self.telemetry, self.backend
        token = CURRENT_DISPATCH.set(next(self._numbers))
        try:
            began = telemetry.now_ns()
            if self._ranges is None:
                result = work()
            else:
                with self._ranges(f"vyre.dispatch {name}"):
                    result = work()
            taken = telemetry.now_ns() - began
            telemetry.count("vyre.dispatches", backend=backend, program=name, way=way)
            telemetry.observe("vyre.dispatch.seconds", taken / 1e9, backend=backend, program=name, way=way)
            return result
        except BackendError as error:
            telemetry.failed(error, backend, name)
            raise
        finally:
            CURRENT_DISPATCH.reset(token)

    def launched(self, name: str, launches: int) -> None:
        """Counts launches of a program."""
        if launches:
            self.telemetry.count("vyre.launches", launches, backend=self.backend, program=name)

    def device_time(self, name: str, timing: DispatchTiming) -> None:
        """Adds the time of a dispatch on its device, if it was measured."""
        if timing.device_ns is not None:
            seconds = timing.device_ns / 1e9
            self.telemetry.observe("vyre.device.seconds", seconds, backend=self.backend, program=name)

    def ran(self, name: str, way: str, config: DispatchConfig, timing: DispatchTiming) -> None:
        """Counts a run of a program that has ended, with its times."""
        labels = {"backend": self.backend, "program": name, "way": way}
        self.telemetry.count("vyre.dispatches", **labels)
        self.telemetry.observe("vyre.dispatch.seconds", timing.wall_ns / 1e9, **labels)
        self.launched(name, config.launches)
        self.device_time(name, timing)

    def moved(self, direction: str, nbytes: int) -> None:
        """Counts bytes between the host and the backend: ``in`` are those that it takes, ``out`` those it returns."""
        if nbytes:
            self.telemetry.count("vyre.bytes", nbytes, backend=self.backend, direction=direction)


class _Facet(Generic[F]):
    """The common base of the facets of an observed backend: ``inner`` is the facet itself."""

    def __init__(self, inner: F, watch: _Watch) -> None:
        self._inner, self._watch = inner, watch


def _dispatch(
    watch: _Watch,
    program: Program,
    config: DispatchConfig,
    inputs: Sequence[HostBytes],
    outputs: OutputStorage,
    run: Callable[[OutputStorage], DispatchTiming],
) -> DispatchTiming:
    """Runs a dispatch of host data, and counts it with its bytes."""
    name, storage = label_of(program, config), KeptStorage(outputs)
    timing = watch.run(name, "host", lambda: run(storage))
    watch.launched(name, config.launches)
    watch.device_time(name, timing)
    watch.moved("in", sum(map(len, inputs)))
    watch.moved("out", storage.nbytes)
    return timing


class _Executor(_Facet[ProgramExecutor]):
    """``ProgramExecutor`` whose dispatches are counted."""

    def execute(self, request: DispatchRequest, outputs: OutputStorage, /) -> DispatchTiming:
        inner = self._inner
        return _dispatch(
            self._watch,
            request.program,
            request.config,
            request.inputs,
            outputs,
            lambda storage: inner.execute(request, storage),
        )


class _Counted:
    """``CompiledPipeline`` whose dispatches are counted."""

    __slots__ = ("__weakref__", "_config", "_inner", "_program", "_watch")

    def __init__(self, inner: CompiledPipeline, program: Program, config: DispatchConfig, watch: _Watch) -> None:
        self._inner, self._program, self._config, self._watch = inner, program, config, watch

    @property
    def id(self) -> str:
        return self._inner.id

    def dispatch(self, inputs: Sequence[HostBytes], outputs: OutputStorage, /) -> DispatchTiming:
        inner = self._inner
        return _dispatch(
            self._watch, self._program, self._config, inputs, outputs, lambda storage: inner.dispatch(inputs, storage)
        )


class _Preparable(ForwardsPreparation, _Counted):
    """``PreparablePipeline`` whose dispatches are counted."""

    __slots__ = ()
    _inner: PreparablePipeline


class _Compiler(ForwardsCompiler):
    """``PipelineCompiler`` whose pipelines are counted."""

    def __init__(self, inner: PipelineCompiler, watch: _Watch) -> None:
        super().__init__(inner)
        self._watch = watch

    def compile(self, program: Program, config: DispatchConfig, /) -> CompileResult:
        watch = self._watch
        began = watch.telemetry.now_ns()
        compiled = self._inner.compile(program, config)
        seconds = (watch.telemetry.now_ns() - began) / 1e9
        watch.telemetry.observe("vyre.compile.seconds", seconds, backend=watch.backend, cache=compiled.cache.value)
        kind = _Preparable if is_preparable(type(compiled.pipeline)) else _Counted
        return compiled._replace(pipeline=kind(compiled.pipeline, program, config, watch))


class _Memory(_Facet[ResidentMemory]):
    """``ResidentMemory`` whose copies are counted."""

    def allocate(self, nbytes: int, /, *, label: str | None = None) -> ResidentBuffer:
        return self._inner.allocate(nbytes, label=label)

    def upload(self, uploads: Sequence[Upload], /) -> None:
        self._told("upload", lambda: self._inner.upload(uploads))
        self._watch.moved("in", sum(len(each.data) for each in uploads))

    def download(self, reads: Sequence[Readback], /) -> None:
        self._told("download", lambda: self._inner.download(reads))
        self._watch.moved("out", sum(len(each.into) for each in reads))

    def _told(self, what: str, work: Callable[[], None]) -> None:
        try:
            work()
        except BackendError as error:
            self._watch.telemetry.failed(error, self._watch.backend, what)
            raise


class _Gathering(_Facet[GatheredReads]):
    """``GatheredReads`` whose copies are counted."""

    def bind(self, buffers: Sequence[ResidentBuffer], ranges: Ranges, /) -> BoundGather:
        bound, nbytes = self._inner.bind(buffers, ranges), int(ranges.nbytes.sum())

        def gather(into: memoryview, /) -> None:
            bound(into)
            self._watch.moved("out", nbytes)

        return gather


def _host_nbytes(steps: Iterable[ResidentStep]) -> int:
    """Returns the bytes of the host that are bound in steps."""
    return sum(len(each) for step in steps for each in step.resources if not isinstance(each, ResidentBuffer))


def _steps_name(steps: Sequence[ResidentStep]) -> str:
    return label_of(steps[0].program, steps[0].config) if len(steps) == 1 else "(sequence)"


class _ResidentExecutor(_Facet[ResidentExecutor]):
    """``ResidentExecutor`` whose runs are counted."""

    def run(self, sequence: ResidentSequence, /) -> DispatchTiming:
        every = *sequence.prefix, *sequence.repeated
        watch, name = self._watch, _steps_name(every)
        timing = watch.run(name, "resident", lambda: self._inner.run(sequence))
        rounds = sequence.repeat_count if timing.rounds is None else timing.rounds
        for part, times in ((sequence.prefix, 1), (sequence.repeated, rounds)):
            for label, steps in Counter(label_of(step.program, step.config) for step in part).items():
                watch.launched(label, steps * times)
        watch.device_time(name, timing)
        watch.moved("in", _host_nbytes(every))
        watch.moved("out", sum(len(each.into) for each in sequence.reads))
        return timing


class _Bound:
    """``BoundResidentStep`` whose launches are counted."""

    __slots__ = ("_inner", "_name", "_watch")

    def __init__(self, inner: BoundResidentStep, name: str, watch: _Watch) -> None:
        self._inner, self._name, self._watch = inner, name, watch

    def __call__(self) -> None:
        self._watch.run(self._name, "bound", self._inner)
        self._watch.launched(self._name, 1)

    def close(self) -> None:
        self._inner.close()


class _Binder(_Facet[ResidentBinder]):
    """``ResidentBinder`` whose launches are counted."""

    def bind(self, step: ResidentStep, /) -> BoundResidentStep:
        bound = _Bound(self._inner.bind(step), label_of(step.program, step.config), self._watch)
        self._watch.moved("in", _host_nbytes((step,)))
        return bound


class _Pending:
    """``PendingDispatch`` that is counted when it is collected first."""

    __slots__ = ("_inner", "_is_told", "_request", "_watch", "add_done_callback", "cancel", "done")

    def __init__(self, inner: PendingDispatch, request: DispatchRequest, watch: _Watch) -> None:
        self._inner, self._request, self._watch = inner, request, watch
        self._is_told = False
        self.done: Final = inner.done
        self.add_done_callback: Final = inner.add_done_callback
        self.cancel: Final = inner.cancel

    def wait(self, outputs: OutputStorage, /, *, timeout: float | None = None) -> DispatchTiming:
        if self._is_told:
            return self._inner.wait(outputs, timeout=timeout)
        request, watch, storage = self._request, self._watch, KeptStorage(outputs)
        name = label_of(request.program, request.config)
        try:
            timing = self._inner.wait(storage, timeout=timeout)
        except BackendError as error:
            watch.telemetry.failed(error, watch.backend, name)
            raise
        self._is_told = True
        watch.ran(name, "async", request.config, timing)
        watch.moved("in", sum(map(len, request.inputs)))
        watch.moved("out", storage.nbytes)
        return timing


class _AsyncExecutor(_Facet[AsyncExecutor]):
    """``AsyncExecutor`` whose dispatches are counted."""

    def submit(self, request: DispatchRequest, /) -> PendingDispatch:
        return _Pending(self._inner.submit(request), request, self._watch)


class _KeptSteps:
    """``KeptSteps`` whose runs are counted."""

    def __init__(self, inner: KeptSteps, launches: Sequence[Counter[str]], names: Sequence[str], watch: _Watch) -> None:
        self._inner, self._launches, self._names, self._watch = inner, launches, names, watch
        self.counters: Final = inner.counters
        self.close: Final = inner.close

    def run(self, part: int, times: int, /) -> StepsRan:
        ran = self._watch.run(self._names[part], "kept", lambda: self._inner.run(part, times))
        for name, steps in self._launches[part].items():
            self._watch.launched(name, steps * times)
        return ran


class _PersistentSteps(ForwardsStepLimits, _Facet[PersistentSteps]):
    """``PersistentSteps`` whose runs are counted."""

    def keep(self, parts: Sequence[Sequence[Sequence[ResidentStep]]], /) -> KeptSteps:
        flat = [[step for wave in part for step in wave] for part in parts]
        launches = [Counter(label_of(step.program, step.config) for step in part) for part in flat]
        kept = _KeptSteps(self._inner.keep(parts), launches, list(map(_steps_name, flat)), self._watch)
        self._watch.moved("in", sum(map(_host_nbytes, flat)))
        return kept


class _Engine(ForwardsEngine):
    """``PersistentEngine`` whose jobs are counted, each once a call finds that it has ended: no thread looks for that.

    Calls about a job count it, ``submit`` the oldest that have ended, at most ``LOOKS`` of them, and ``drain``,
    ``counters`` and ``close`` all.  A job that its caller has forgotten is kept until it is counted.
    """

    def __init__(
        self, inner: PersistentEngine, program: Program, config: DispatchConfig, input_nbytes: int, watch: _Watch
    ) -> None:
        super().__init__(inner)
        self._name, self._config = label_of(program, config), config
        self._input_nbytes, self._watch = input_nbytes, watch
        self._uncounted: dict[int, None] = {}
        """Tickets by age."""
        self._failed: set[int] = set()
        """Jobs that have failed, and are told."""
        self._batches: dict[int, int] = {}
        self._dropped: dict[int, range] = {}
        """Jobs, by their first ticket, that their callers have forgotten and that are not counted yet."""

    def submit(self, memory: JobMemory, /) -> int | None:
        ticket = self._inner.submit(memory)
        if ticket is not None:
            self._uncounted[ticket] = None
            self._watch.moved("in", self._input_nbytes)
            self._count_oldest()
        return ticket

    def submit_many(self, columns: Sequence[HostBytes], jobs: int, into: Sequence[memoryview], /) -> int | None:
        first = self._inner.submit_many(columns, jobs, into)
        if first is not None:
            self._batches[first] = jobs
            self._uncounted.update(dict.fromkeys(range(first, first + jobs)))
            self._watch.moved("in", sum(map(len, columns)))
        return first

    def wait(self, ticket: int, /, *, timeout: float | None = None) -> DispatchTiming:
        try:
            timing = self._inner.wait(ticket, timeout=timeout)
        except BackendError as error:  # who waits first tells it
            if ticket in self._failed:
                self._watch.telemetry.attach(error)
            elif self._uncounted.pop(ticket, self) is not self:
                self._failed.add(ticket)
            raise
        if ticket in self._uncounted:
            with suppress(KeyError):  # another thread counts it
                self._uncounted.pop(ticket)
                self._watch.ran(self._name, "job", self._config, timing)
                self._watch.moved("out", sum(self._inner.output_nbytes))
        return timing

    def wait_many(self, first: int, jobs: int, /, *, timeout: float | None = None) -> EndedJobs:
        ended = self._inner.wait_many(first, jobs, timeout=timeout)
        for ticket in range(first, first + jobs):
            self._count(ticket)
        return ended

    def done(self, ticket: int, /) -> bool:
        is_done = self._inner.done(ticket)
        if is_done:
            self._count(ticket)
        return is_done

    def drain(self, timeout: float | None = None, /) -> bool:
        is_empty = self._inner.drain(timeout)
        self._count_all()
        return is_empty

    def counters(self) -> Mapping[str, int]:
        self._count_all()
        return self._inner.counters()

    def close(self) -> None:
        with suppress(BackendError):  # of an engine that was closed
            self._count_all()
        self._inner.close()

    def forget(self, ticket: int, /) -> None:
        """Implements ``PersistentEngine.forget``; it may be called by a finaliser, which counts nothing."""
        tickets = range(ticket, ticket + self._batches.pop(ticket, 1))
        if any(each in self._uncounted for each in tickets):
            self._dropped[ticket] = tickets
        else:
            self._failed.difference_update(tickets)
            self._inner.forget(ticket)

    def _count(self, ticket: int) -> None:
        """Counts a job that has ended, unless it is counted."""
        if ticket in self._uncounted:
            try:
                self.wait(ticket)
            except BackendError as error:
                self._watch.telemetry.failed(error, self._watch.backend, f"job of {self._name}")

    def _count_oldest(self) -> None:
        for _ in range(LOOKS):
            if (ticket := _oldest(self._uncounted)) is None or not self.done(ticket):
                break
        self._forget_oldest(LOOKS)

    def _count_all(self) -> None:
        for ticket in list(self._uncounted):
            self.done(ticket)
        self._forget_oldest(len(self._dropped))

    def _forget_oldest(self, most: int) -> None:
        for _ in range(most):
            first = _oldest(self._dropped)
            if first is None or any(ticket in self._uncounted for ticket in self._dropped.get(first, ())):
                break
            if (tickets := self._dropped.pop(first, None)) is not None:
                self._failed.difference_update(tickets)
                self._inner.forget(first)


def _oldest(tickets: Mapping[int, object]) -> int | None:
    try:
        return next(iter(tickets), None)
    except RuntimeError:  # another thread changes it
        return None


class _Persistent(_Facet[PersistentExecutor]):
    """``PersistentExecutor`` whose jobs are counted."""

    def open(
        self, program: Program, config: DispatchConfig, input_nbytes: tuple[int, ...], capacity: int, /
    ) -> PersistentEngine:
        engine = self._inner.open(program, config, input_nbytes, capacity)
        return _Engine(engine, program, config, sum(input_nbytes), self._watch)
