"""Backends that break one rule each, and the case of the contract that says so; faithful decorators break none."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any, Final, TypeGuard

import pytest

from vyre.adapters.discovery import load_catalog
from vyre.adapters.reference.executor import ReferencePipeline
from vyre.domain.dispatch import DEFAULT_CONFIG, DispatchConfig, DispatchTiming, OutputArena, TimingQuality
from vyre.domain.errors import (
    BackendError,
    DispatchFailed,
    InvalidInput,
    InvalidResource,
    TrapError,
    UnsupportedFeature,
)
from vyre.domain.geometry import LaunchLimits
from vyre.domain.interface import resolve_launch
from vyre.domain.ir.program import BackendId, Program
from vyre.domain.launch_costs import ASSUMED, LaunchCosts, Measured, Provenance
from vyre.domain.op_ids import ALL_OPS
from vyre.policies.journal import Decision, DecisionSink, decide
from vyre.policies.launching.execution_prices import ExecutionMode, Workload
from vyre.policies.launching.grid_sync_mode import GridSyncInputs, choose_grid_sync
from vyre.policies.launching.plan_execution import ExecutionInputs, plan_execution
from vyre.ports.backend import PORT_API_VERSION, Backend, BackendRegistration
from vyre.ports.cost_probe import CostExperiment, ExperimentTimer
from vyre.ports.execution import CacheCounters, CompiledPipeline, CompileResult, PendingDispatch
from vyre.ports.gathering import Ranges
from vyre.ports.lifecycle import NullLifecycle
from vyre.ports.planning import DispatchWork, PlannedExecution
from vyre.ports.requests import (
    DispatchRequest,
    HostBytes,
    OutputStorage,
    Readback,
    ResidentSequence,
    ResidentStep,
    Resource,
    Upload,
)
from vyre.ports.resident_buffer import ResidentBuffer
from vyre.testing.backend_contract import CASES, Subject, run_cases
from vyre.testing.fakes import recording
from vyre.testing.outcomes import Verdict

Break = Callable[[Backend], Backend]


def _reference() -> BackendRegistration:
    found = load_catalog().get("reference")
    assert found is not None
    return found


REFERENCE: Final = _reference()


def registration_with(broken: Break, **fields: Any) -> BackendRegistration:
    return replace(REFERENCE, factory=lambda services: broken(REFERENCE.make()), **fields)


def failures(registration: BackendRegistration, pattern: str) -> list[str]:
    """The ids of the cases that fail; at least one has to run."""
    with Subject(registration) as subject:
        outcomes = list(run_cases(CASES, subject, pattern))
    assert any(o.verdict is not Verdict.SKIPPED for o in outcomes), f"no case fits {pattern}"
    return [o.name for o in outcomes if o.verdict is Verdict.FAILED]


# ---------------------------------------------------------------- faithful decorators
def test_a_recording_backend_keeps_the_contract() -> None:
    assert failures(registration_with(lambda backend: recording(backend)[0]), "[!o]*") == []


@dataclass
class Pending:
    """A dispatch in a thread of its own."""

    request: DispatchRequest
    inner: Backend
    finished: threading.Event = field(default_factory=threading.Event)
    lock: threading.Lock = field(default_factory=threading.Lock)
    arena: OutputArena = field(default_factory=OutputArena)
    error: BackendError | None = None
    timing: DispatchTiming | None = None
    callbacks: list[Callable[[], object]] = field(default_factory=list)

    def run(self) -> None:
        try:
            self.timing = self.inner.executor.execute(self.request, self.arena)
        except BackendError as error:
            self.error = error
        with self.lock:
            self.finished.set()
        for callback in self.callbacks:
            callback()

    def done(self) -> bool:
        return self.finished.is_set()

    def wait(self, outputs: OutputStorage, /, *, timeout: float | None = None) -> DispatchTiming:
        if not self.finished.wait(timeout):
            raise TimeoutError
        if self.error is not None:
            outputs.clear()
            raise self.error
        results = self.arena.to_bytes()
        for view, data in zip(outputs.begin(tuple(map(len, results))), results, strict=True):
            view[:] = data
        assert self.timing is not None
        return self.timing

    def add_done_callback(self, callback: Callable[[], object], /) -> None:
        with self.lock:
            if not self.done():
                self.callbacks.append(callback)
                return
        callback()

    def cancel(self) -> bool:
        return False


@dataclass
class Threads:
    """``AsyncExecutor``; ``made`` is the kind of its pending dispatches."""

    inner: Backend
    made: type[Pending] = Pending
    snapshot: bool = True
    delay: float = 0.0

    def submit(self, request: DispatchRequest, /) -> PendingDispatch:
        if self.snapshot:
            request = replace(request, inputs=tuple(memoryview(bytes(view)) for view in request.inputs))
        pending = self.made(request, self.inner)
        threading.Timer(self.delay, pending.run).start()
        return pending


def asynchronous(**options: Any) -> Break:
    return lambda backend: replace(backend, async_executor=Threads(backend, **options))


def test_a_backend_of_threads_keeps_the_contract() -> None:
    registration = registration_with(asynchronous())
    assert failures(registration, "asynchronous.*") == []
    assert failures(registration, "lifecycle.a_pending*") == []


# ---------------------------------------------------------------- executors
Execute = Callable[[Backend, DispatchRequest, OutputStorage], DispatchTiming]


@dataclass
class Executor:
    inner: Backend
    run: Execute

    def execute(self, request: DispatchRequest, outputs: OutputStorage, /) -> DispatchTiming:
        return self.run(self.inner, request, outputs)


def executing(run: Execute) -> Break:
    return lambda backend: replace(backend, executor=Executor(backend, run))


def without(name: str) -> Break:
    """Ignores one field of the config."""
    default = {name: getattr(DEFAULT_CONFIG, name)}
    return executing(lambda b, r, o: b.executor.execute(replace(r, config=replace(r.config, **default)), o))


class Uncleared:
    """Passes ``begin`` on and swallows ``clear``."""

    def __init__(self, inner: OutputStorage) -> None:
        self.begin: Final = inner.begin

    def clear(self) -> None:
        return None


def leave_zeros_out(backend: Backend, request: DispatchRequest, outputs: OutputStorage) -> DispatchTiming:
    arena = OutputArena()
    timing = backend.executor.execute(request, arena)
    results = arena.to_bytes()
    for view, data in zip(outputs.begin(tuple(map(len, results))), results, strict=True):
        if any(data):
            view[:] = data
    return timing


def clear_what_begins(backend: Backend, request: DispatchRequest, outputs: OutputStorage) -> DispatchTiming:
    """Zeroes the storage before it reads the inputs."""

    class Cleared:
        clear: Final = staticmethod(outputs.clear)

        def begin(self, sizes: tuple[int, ...], /) -> tuple[memoryview, ...]:
            views = outputs.begin(sizes)
            for view in views:
                view[:] = bytes(view.nbytes)
            return views

    return backend.executor.execute(request, Cleared())


def begin_twice(backend: Backend, request: DispatchRequest, outputs: OutputStorage) -> DispatchTiming:
    outputs.begin((0,))
    return backend.executor.execute(request, outputs)


def untyped_errors(backend: Backend, request: DispatchRequest, outputs: OutputStorage) -> DispatchTiming:
    try:
        return backend.executor.execute(request, outputs)
    except InvalidInput as error:
        raise ValueError(str(error)) from error


def errors_without_a_fix(backend: Backend, request: DispatchRequest, outputs: OutputStorage) -> DispatchTiming:
    try:
        return backend.executor.execute(request, outputs)
    except InvalidInput as error:
        raise InvalidInput(error.message, fix="") from error


def another_lane(backend: Backend, request: DispatchRequest, outputs: OutputStorage) -> DispatchTiming:
    try:
        return backend.executor.execute(request, outputs)
    except TrapError as error:
        x, y, z = error.global_id
        raise TrapError(tag=error.tag, address=error.address, global_id=(x + 1, y, z)) from error


def pad_inputs(backend: Backend, request: DispatchRequest, outputs: OutputStorage) -> DispatchTiming:
    """Rounds lengths up to whole words instead of refusing them."""
    padded = tuple(memoryview(bytes(view) + bytes(-len(view) % 4)) for view in request.inputs)
    return backend.executor.execute(replace(request, inputs=padded), outputs)


def shared_arena() -> Break:
    """One arena for all threads."""
    arena = OutputArena()

    def run(backend: Backend, request: DispatchRequest, outputs: OutputStorage) -> DispatchTiming:
        timing = backend.executor.execute(request, arena)
        time.sleep(0.001)
        results = arena.to_bytes()
        for view, data in zip(outputs.begin(tuple(map(len, results))), results, strict=True):
            view[:] = data
        return timing

    return executing(run)


def one_chunk_less(backend: Backend, request: DispatchRequest, outputs: OutputStorage) -> DispatchTiming:
    """Loses the last workgroup of a grid that is given."""
    config = request.config
    if config.grid is not None and config.grid[0] > 1:
        config = replace(config, grid=(config.grid[0] - 1, *config.grid[1:]))
    return backend.executor.execute(replace(request, config=config), outputs)


BROKEN_EXECUTORS: Final[dict[str, tuple[Break, str]]] = {
    "outputs keep garbage": (executing(leave_zeros_out), "elements.outputs_start_as_zeros.*"),
    "storage is cleared before inputs are read": (executing(clear_what_begins), "inputs.an_update_in_place.*"),
    "begin is called twice": (executing(begin_twice), "outputs.begin_is_called_once*"),
    "failures clear nothing": (
        executing(lambda b, r, o: b.executor.execute(r, Uncleared(o))),
        "outputs.a_failure_leaves_no_outputs.trap",
    ),
    "errors are not ours": (executing(untyped_errors), "inputs.the_wrong_number_is_refused.*"),
    "errors have no fix": (executing(errors_without_a_fix), "inputs.the_wrong_number_is_refused.*"),
    "another lane is blamed": (executing(another_lane), "traps.the_lowest_lane_is_named.*"),
    "lengths are rounded up": (executing(pad_inputs), "elements.half_an_element_is_refused.*"),
    "threads share an arena": (shared_arena(), "threads.dispatches_at_once.*"),
    "the last workgroup is lost": (executing(one_chunk_less), "geometry.large_grids.*"),
    "spec is ignored": (without("spec"), "config.spec.*"),
    "grid is ignored": (without("grid"), "geometry.ids_of_a_grid.*"),
    "extent is ignored": (without("extent"), "geometry.an_extent*"),
    "workgroup is ignored": (without("workgroup"), "geometry.a_workgroup_override_is_what*"),
    "element_count_override is ignored": (without("element_count_override"), "geometry.an_element_count*"),
    "output_counts is ignored": (without("output_counts"), "outputs.output_counts_size*"),
    "max_output_bytes is ignored": (without("max_output_bytes"), "outputs.max_output_bytes.*"),
    "step_budget is ignored": (without("step_budget"), "config.step_budget.*"),
    "race_check is ignored": (without("race_check"), "config.race_check"),
    "profile is ignored": (without("profile"), "config.an_unknown_profile*"),
    "speculation is ignored": (without("speculation"), "config.modes.speculation"),
    "persistent_thread is ignored": (without("persistent_thread"), "config.modes.persistent_thread"),
    "fixpoint_iterations is ignored": (without("fixpoint_iterations"), "config.fixpoint_iterations.*"),
}


@pytest.mark.parametrize("defect", BROKEN_EXECUTORS)
def test_broken_executors_are_found(defect: str) -> None:
    broken, pattern = BROKEN_EXECUTORS[defect]
    assert failures(registration_with(broken), pattern)


# ---------------------------------------------------------------- compilers
@dataclass
class Pipeline:
    """Runs what ``run`` says; everything else as the pipeline below."""

    inner: CompiledPipeline
    run: Callable[[CompiledPipeline, Sequence[HostBytes], OutputStorage], DispatchTiming]
    name: str | None = None

    @property
    def id(self) -> str:
        return self.name or self.inner.id

    def dispatch(self, inputs: Sequence[HostBytes], outputs: OutputStorage, /) -> DispatchTiming:
        return self.run(self.inner, inputs, outputs)


Compile = Callable[[Backend, Program, DispatchConfig], CompileResult]


@dataclass
class Compiler:
    inner: Backend
    run: Compile
    counters: Callable[[], CacheCounters] | None = None
    forgotten: Callable[[Backend, Collection[bytes] | None], int] | None = None

    def compile(self, program: Program, config: DispatchConfig, /) -> CompileResult:
        return self.run(self.inner, program, config)

    def cache_counters(self) -> CacheCounters:
        assert self.inner.compiler is not None
        return self.counters() if self.counters is not None else self.inner.compiler.cache_counters()

    def forget(self, programs: Collection[bytes] | None, /) -> int:
        return (self.forgotten or _forgotten)(self.inner, programs)


def _forgotten(backend: Backend, programs: Collection[bytes] | None) -> int:
    assert backend.compiler is not None
    return backend.compiler.forget(programs)


def forgetting(run: Callable[[Backend, Collection[bytes] | None], int]) -> Break:
    return lambda backend: replace(backend, compiler=Compiler(backend, _compiled, forgotten=run))


def _compiled(backend: Backend, program: Program, config: DispatchConfig) -> CompileResult:
    assert backend.compiler is not None
    return backend.compiler.compile(program, config)


def compiling(run: Compile, counters: Callable[[], CacheCounters] | None = None) -> Break:
    return lambda backend: replace(backend, compiler=Compiler(backend, run, counters))


def cached_by(key: Callable[[Program, DispatchConfig], object]) -> Break:
    """Keeps pipelines by too small a key."""
    made: dict[object, CompileResult] = {}

    def run(backend: Backend, program: Program, config: DispatchConfig) -> CompileResult:
        return made.setdefault(key(program, config), _compiled(backend, program, config))

    return compiling(run)


def dispatching(
    run: Callable[[CompiledPipeline, Sequence[HostBytes], OutputStorage], DispatchTiming],
) -> Break:
    def compile_(backend: Backend, program: Program, config: DispatchConfig) -> CompileResult:
        made = _compiled(backend, program, config)
        return made._replace(pipeline=Pipeline(made.pipeline, run))

    return compiling(compile_)


def keep_the_last() -> Break:
    """Answers with what the pipeline gave before, once it gave something."""
    kept: dict[int, tuple[bytes, ...]] = {}

    def run(pipeline: CompiledPipeline, inputs: Sequence[HostBytes], outputs: OutputStorage) -> DispatchTiming:
        arena = OutputArena()
        timing = pipeline.dispatch(inputs, arena)
        results = kept.setdefault(id(pipeline), arena.to_bytes())
        for view, data in zip(outputs.begin(tuple(map(len, results))), results, strict=True):
            view[:] = data
        return timing

    return dispatching(run)


def new_ids() -> Break:
    numbers = count()

    def run(backend: Backend, program: Program, config: DispatchConfig) -> CompileResult:
        made = _compiled(backend, program, config)
        name = f"{backend.id}:{next(numbers)}"
        return made._replace(pipeline=Pipeline(made.pipeline, lambda p, i, o: p.dispatch(i, o), name))

    return compiling(run)


def falling_counters() -> Break:
    numbers = count(100, -1)
    return compiling(_compiled, lambda: CacheCounters(next(numbers), 0))


BROKEN_COMPILERS: Final[dict[str, tuple[Break, str]]] = {
    "configs are mixed up": (cached_by(lambda p, c: p.digest), "compiler.the_config_of_a_pipeline*"),
    "names are left out of the key": (cached_by(lambda p, c: (p.digest, c)), "compiler.names_are_interface"),
    "programs are mixed up": (cached_by(lambda p, c: p.workgroup_size), "compiler.pipelines_of_different*"),
    "the first lengths are kept": (keep_the_last(), "compiler.input_lengths_may_differ.*"),
    "defaults are compiled": (
        compiling(lambda b, p, c: _compiled(b, p, DEFAULT_CONFIG)),
        "compiler.a_pipeline_equals_execute.*",
    ),
    "ids change": (new_ids(), "compiler.an_id_is_stable"),
    "nothing is forgotten": (forgetting(lambda b, p: 2), "compiler.a_forgotten_program*"),
    "all is never forgotten": (
        forgetting(lambda b, p: 2 if p is None else _forgotten(b, p)),
        "compiler.a_forgotten_program*with_all_others*",
    ),
    "too much is forgotten": (forgetting(lambda b, p: _forgotten(b, None)), "compiler.other_programs*"),
    "counters fall": (falling_counters(), "compiler.counters_only_grow"),
}


@pytest.mark.parametrize("defect", BROKEN_COMPILERS)
def test_broken_compilers_are_found(defect: str) -> None:
    broken, pattern = BROKEN_COMPILERS[defect]
    assert failures(registration_with(broken), pattern)


# ---------------------------------------------------------------- pipelines that are prepared
class Ready:
    """``PreparablePipeline`` over a pipeline of the reference: it keeps the lengths that were prepared."""

    def __init__(self, inner: ReferencePipeline) -> None:
        self.inner = inner
        self.lengths: list[tuple[int, ...]] = []

    @property
    def id(self) -> str:
        return self.inner.id

    def dispatch(self, inputs: Sequence[HostBytes], outputs: OutputStorage, /) -> DispatchTiming:
        return self.inner.dispatch(inputs, outputs)

    def is_prepared(self, input_nbytes: tuple[int, ...], /) -> bool:
        return input_nbytes in self.lengths

    def prepare(self, input_nbytes: tuple[int, ...], /) -> None:
        self.inner.launch(input_nbytes)
        self.lengths.append(input_nbytes)


class Launches(Ready):
    def prepare(self, input_nbytes: tuple[int, ...], /) -> None:
        super().prepare(input_nbytes)
        self.dispatch(tuple(memoryview(bytes(nbytes)) for nbytes in input_nbytes), OutputArena())


class NeverReady(Ready):
    def is_prepared(self, input_nbytes: tuple[int, ...], /) -> bool:
        return False


class AlwaysReady(Ready):
    def is_prepared(self, input_nbytes: tuple[int, ...], /) -> bool:
        return True


class ChecksNothing(Ready):
    def prepare(self, input_nbytes: tuple[int, ...], /) -> None:
        self.lengths.append(input_nbytes)


class ReadyOnceRefused(Ready):
    """What it refuses counts as prepared."""

    def prepare(self, input_nbytes: tuple[int, ...], /) -> None:
        self.lengths.append(input_nbytes)
        super().prepare(input_nbytes)


class RunsTheLast(Ready):
    """Every dispatch takes the lengths that were prepared last."""

    def dispatch(self, inputs: Sequence[HostBytes], outputs: OutputStorage, /) -> DispatchTiming:
        cut = [
            memoryview(bytes(view)[:nbytes].ljust(nbytes, b"\0"))
            for view, nbytes in zip(inputs, (self.lengths or [tuple(view.nbytes for view in inputs)])[-1], strict=True)
        ]
        return super().dispatch(cut, outputs)


class BreaksOnceRefused(Ready):
    broken = False

    def prepare(self, input_nbytes: tuple[int, ...], /) -> None:
        self.broken = True
        super().prepare(input_nbytes)
        self.broken = False

    def dispatch(self, inputs: Sequence[HostBytes], outputs: OutputStorage, /) -> DispatchTiming:
        if self.broken:
            raise BackendError("it was refused once")
        return super().dispatch(inputs, outputs)


class KeepsTheFirst(Ready):
    """It is full soon, and gives up nothing."""

    def prepare(self, input_nbytes: tuple[int, ...], /) -> None:
        super().prepare(input_nbytes)
        del self.lengths[8:]


class OneAtATime(Ready):
    def __init__(self, inner: ReferencePipeline) -> None:
        super().__init__(inner)
        self.busy = threading.Lock()

    def prepare(self, input_nbytes: tuple[int, ...], /) -> None:
        if not self.busy.acquire(blocking=False):
            raise BackendError("another thread prepares something")
        time.sleep(0.01)
        super().prepare(input_nbytes)
        self.busy.release()


def preparing(kind: type[Ready]) -> Break:
    def run(backend: Backend, program: Program, config: DispatchConfig) -> CompileResult:
        made = _compiled(backend, program, config)
        assert isinstance(made.pipeline, ReferencePipeline)
        return made._replace(pipeline=kind(made.pipeline))

    return compiling(run)


def test_pipelines_that_are_prepared_keep_the_contract() -> None:
    assert failures(registration_with(preparing(Ready)), "prepared.*") == []


BROKEN_PREPARATIONS: Final[dict[str, tuple[type[Ready], str]]] = {
    "it launches": (Launches, "prepared.preparing_launches_nothing"),
    "nothing is ever prepared": (NeverReady, "prepared.a_prepared_length*"),
    "everything is": (AlwaysReady, "prepared.what_cannot_be*"),
    "no length is checked": (ChecksNothing, "prepared.what_cannot_be*"),
    "no config is enforced": (ChecksNothing, "prepared.a_config_is_enforced*"),
    "what is refused is prepared": (ReadyOnceRefused, "prepared.what_cannot_be*"),
    "lengths are mixed up": (RunsTheLast, "prepared.lengths_are_told_apart"),
    "a refusal breaks it": (BreaksOnceRefused, "prepared.what_cannot_be*"),
    "it is full soon": (KeepsTheFirst, "prepared.many_lengths*"),
    "threads are turned away": (OneAtATime, "prepared.threads_prepare*"),
}


@pytest.mark.parametrize("defect", BROKEN_PREPARATIONS)
def test_broken_preparations_are_found(defect: str) -> None:
    kind, pattern = BROKEN_PREPARATIONS[defect]
    assert failures(registration_with(preparing(kind)), pattern)


# ---------------------------------------------------------------- plans
@dataclass
class Planner:
    """Decides about every dispatch; executor and planning of a backend that cannot but launch."""

    inner: Backend
    costs: LaunchCosts = ASSUMED
    found: list[PlannedExecution] = field(default_factory=list)

    def execute(self, request: DispatchRequest, outputs: OutputStorage, /) -> DispatchTiming:
        nodes = request.config.fixpoint_iterations or 1
        self.found.append(self.decided(ExecutionInputs(Workload(nodes, 1, 1, KERNEL), self.costs, frozenset())))
        return self.inner.executor.execute(request, outputs)

    def work(
        self,
        program: Program,
        config: DispatchConfig,
        input_nbytes: tuple[int, ...],
        sink: DecisionSink | None = None,
        /,
    ) -> DispatchWork:
        resolve_launch(program, input_nbytes, config, LaunchLimits(self.inner.id))
        decide(sink, choose_grid_sync, GridSyncInputs(False, 1, 1, 1))
        return self.told(DispatchWork(config.fixpoint_iterations or 1, config.fixpoint_iterations or 1, frozenset()))

    def told(self, work: DispatchWork) -> DispatchWork:
        return work

    def decided(self, inputs: ExecutionInputs) -> PlannedExecution:
        return PlannedExecution("a dispatch", inputs, plan_execution(inputs))

    def use_costs(self, costs: LaunchCosts, /) -> None:
        self.costs = costs

    def plans(self) -> tuple[PlannedExecution, ...]:
        return tuple(self.found)


KERNEL: Final = Measured(5_000, 0, 0, 0, Provenance.ASSUMED)


class DecidesNothing(Planner):
    def plans(self) -> tuple[PlannedExecution, ...]:
        return ()


class KeepsItsCosts(Planner):
    def use_costs(self, costs: LaunchCosts, /) -> None:
        return None


class ShowsItsList(Planner):
    def plans(self) -> tuple[PlannedExecution, ...]:
        return self.found  # type: ignore[return-value]  # the defect


class MakesUp(Planner):
    def decided(self, inputs: ExecutionInputs) -> PlannedExecution:
        plan = super().decided(inputs).plan
        return PlannedExecution("a dispatch", inputs, replace(plan, gain_ns=plan.gain_ns + 1))


class CannotDoIt(Planner):
    def decided(self, inputs: ExecutionInputs) -> PlannedExecution:
        plan = super().decided(inputs).plan
        return PlannedExecution("a dispatch", inputs, replace(plan, mode=ExecutionMode.GRAPH))


class ForgetsIterations(Planner):
    def told(self, work: DispatchWork) -> DispatchWork:
        return work._replace(operations=1)


class CannotDoWhatItTells(Planner):
    def told(self, work: DispatchWork) -> DispatchWork:
        return work._replace(executable=frozenset({ExecutionMode.GRAPH}))


class CountsKernelsOnce(Planner):
    def told(self, work: DispatchWork) -> DispatchWork:
        return work._replace(kernels=1)


class CountsMoreKernelsThanOperations(Planner):
    def told(self, work: DispatchWork) -> DispatchWork:
        return work._replace(kernels=2 * work.kernels)


class PlansWhenAsked(Planner):
    def told(self, work: DispatchWork) -> DispatchWork:
        self.found.append(self.decided(ExecutionInputs(Workload(1, 1, 1, KERNEL), self.costs, frozenset())))
        return work


class MakesUpWhy(Planner):
    def work(
        self,
        program: Program,
        config: DispatchConfig,
        input_nbytes: tuple[int, ...],
        sink: DecisionSink | None = None,
        /,
    ) -> DispatchWork:
        if sink is not None:
            sink.note(Decision(choose_grid_sync, (GridSyncInputs(False, 1, 1, 1),), "whatever"))
        return super().work(program, config, input_nbytes, None)


class AcceptsEveryLength(Planner):
    def work(
        self,
        program: Program,
        config: DispatchConfig,
        input_nbytes: tuple[int, ...],
        sink: DecisionSink | None = None,
        /,
    ) -> DispatchWork:
        return super().work(program, config, (8,), sink)


def planning(kind: type[Planner] = Planner) -> Break:
    def broken(backend: Backend) -> Backend:
        planner = kind(backend)
        return replace(backend, executor=planner, planning=planner)

    return broken


BROKEN_PLANS: Final[dict[str, tuple[type[Planner], str]]] = {
    "nothing is decided": (DecidesNothing, "planning.a_plan_is_what_the_policy_answers"),
    "costs are not taken over": (KeepsItsCosts, "planning.costs_are_those_at_hand.*"),
    "what was read changes": (ShowsItsList, "planning.plans_are_a_snapshot"),
    "the policy said something else": (MakesUp, "planning.a_plan_is_what_the_policy_answers"),
    "what is planned cannot be done": (CannotDoIt, "planning.a_plan_is_one_that_can_be_executed"),
    "iterations are not counted": (ForgetsIterations, "planning.work_is_what_plans_are_made_of.in a row"),
    "what is told cannot be done": (CannotDoWhatItTells, "planning.work_is_what_plans_are_made_of.*"),
    "kernels of iterations are not counted": (CountsKernelsOnce, "planning.kernels_are_counted"),
    "kernels are no operations": (CountsMoreKernelsThanOperations, "planning.kernels_are_counted"),
    "a question is planned for": (PlansWhenAsked, "planning.asking_for_work_decides_nothing"),
    "its reasons are made up": (MakesUpWhy, "planning.asking_for_work_decides_nothing"),
    "work of what cannot be run": (AcceptsEveryLength, "planning.what_cannot_be_run_has_no_work"),
}


def test_plans_without_effect_keep_the_contract() -> None:
    assert failures(registration_with(planning()), "planning.*") == []


@pytest.mark.parametrize("defect", BROKEN_PLANS)
def test_broken_plans_are_found(defect: str) -> None:
    kind, pattern = BROKEN_PLANS[defect]
    assert failures(registration_with(planning(kind)), pattern)


# ---------------------------------------------------------------- memory
@dataclass
class Memory:
    """Memory with replaceable methods."""

    inner: Backend
    allocate_: Callable[[Backend, int, str | None], ResidentBuffer] | None = None
    upload_: Callable[[Backend, Sequence[Upload]], None] | None = None
    download_: Callable[[Backend, Sequence[Readback]], None] | None = None

    def allocate(self, nbytes: int, /, *, label: str | None = None) -> ResidentBuffer:
        if self.allocate_ is not None:
            return self.allocate_(self.inner, nbytes, label)
        return self.inner.require_memory().allocate(nbytes, label=label)

    def upload(self, uploads: Sequence[Upload], /) -> None:
        (self.upload_ or _upload)(self.inner, uploads)

    def download(self, reads: Sequence[Readback], /) -> None:
        (self.download_ or _download)(self.inner, reads)


def _upload(backend: Backend, uploads: Sequence[Upload]) -> None:
    backend.require_memory().upload(uploads)


def _download(backend: Backend, reads: Sequence[Readback]) -> None:
    backend.require_memory().download(reads)


def remembering(**methods: Any) -> Break:
    return lambda backend: replace(backend, memory=Memory(backend, **methods))


def garbage(backend: Backend, nbytes: int, label: str | None) -> ResidentBuffer:
    buffer = backend.require_memory().allocate(nbytes, label=label)
    _upload(backend, [Upload(buffer, memoryview(b"\xcd" * nbytes))])
    return buffer


def one_by_one(backend: Backend, uploads: Sequence[Upload]) -> None:
    for upload in uploads:
        _upload(backend, [upload])


def read_one_by_one(backend: Backend, reads: Sequence[Readback]) -> None:
    for read in reads:
        _download(backend, [read])


def clip(backend: Backend, uploads: Sequence[Upload]) -> None:
    """Drops what does not fit instead of refusing it."""
    for upload in uploads:
        with suppress(InvalidResource):
            _upload(backend, [upload])


def without_offsets(backend: Backend, uploads: Sequence[Upload]) -> None:
    _upload(backend, [upload._replace(offset=0) for upload in uploads])


def whole_for_a_part(backend: Backend, uploads: Sequence[Upload]) -> None:
    """Copies to the beginning of the allocation that a view is a part of."""
    _upload(backend, [upload._replace(buffer=upload.buffer.root) for upload in uploads])


def writes_what_is_read_only(backend: Backend, uploads: Sequence[Upload]) -> None:
    """Copies by a view that may be written."""
    writable = [upload.buffer.root.view(upload.buffer.offset, upload.buffer.nbytes) for upload in uploads]
    _upload(backend, [upload._replace(buffer=each) for upload, each in zip(uploads, writable, strict=True)])


def reads_whole_for_a_part(backend: Backend, reads: Sequence[Readback]) -> None:
    _download(backend, [read._replace(buffer=read.buffer.root) for read in reads])


class Gather:
    """``BoundGather`` by a download of each range; ``checked`` looks at nothing where it is False."""

    def __init__(self, inner: Backend, buffers: Sequence[ResidentBuffer], ranges: Ranges, checked: bool) -> None:
        self.inner, self.buffers, self.checked = inner, buffers, checked
        self.rows = [tuple(map(int, row)) for row in zip(*ranges, strict=True)]
        wrong = [r for r in self.rows if min(r[1:]) < 0 or r[1] + r[2] > buffers[r[0]].nbytes]
        if checked and (wrong or any(buffer.closed for buffer in buffers)):
            raise InvalidResource(f"ranges {wrong}", fix="stay within the memory.")

    def reads(self, into: memoryview) -> list[Readback]:
        return [Readback(self.buffers[b], into[to : to + size], start) for b, start, size, to in self.rows]

    def __call__(self, into: memoryview, /) -> None:
        if self.checked and max(size + to for _, _, size, to in self.rows) > into.nbytes:
            raise InvalidResource("short memory", fix="pass more.")
        _download(self.inner, self.reads(into))


class OneByOne(Gather):
    def __call__(self, into: memoryview, /) -> None:
        read_one_by_one(self.inner, self.reads(into))


class AtZero(Gather):
    def reads(self, into: memoryview) -> list[Readback]:
        return [read._replace(into=into[: read.into.nbytes]) for read in super().reads(into)]


class Remembers(Gather):
    """Answers with the content that it found first."""

    found: bytes | None = None

    def __call__(self, into: memoryview, /) -> None:
        if self.found is None:
            super().__call__(into)
            self.found = bytes(into)
        into[:] = self.found


@dataclass
class Gathers:
    """``GatheredReads`` that binds ``kind``."""

    inner: Backend
    kind: type[Gather] = Gather
    checked: bool = True

    def bind(self, buffers: Sequence[ResidentBuffer], ranges: Ranges, /) -> Gather:
        return self.kind(self.inner, buffers, ranges, self.checked)


def gathering(kind: type[Gather] = Gather, *, checked: bool = True) -> Break:
    return lambda backend: replace(backend, gathering=Gathers(backend, kind, checked))


def test_gathering_by_downloads_keeps_the_contract() -> None:
    assert failures(registration_with(gathering()), "gathering.*") == []


@pytest.mark.parametrize(
    ("broken", "pattern"),
    [
        (gathering(checked=False), "gathering.a_wrong_range*"),
        (gathering(checked=False), "gathering.short_memory*"),
        (gathering(OneByOne), "gathering.short_memory*"),
        (gathering(AtZero), "gathering.ranges_go*"),
        (gathering(Remembers), "gathering.ranges_go*"),
    ],
)
def test_broken_gathering_is_found(broken: Break, pattern: str) -> None:
    assert failures(registration_with(broken), pattern)


BROKEN_MEMORY: Final[dict[str, tuple[Break, str]]] = {
    "memory is garbage": (remembering(allocate_=garbage), "memory.memory_starts_as_zeros.*"),
    "labels are dropped": (
        remembering(allocate_=lambda b, n, label: b.require_memory().allocate(n)),
        "memory.an_allocation_has*",
    ),
    "sizes are rounded": (
        remembering(allocate_=lambda b, n, label: b.require_memory().allocate(n + -n % 4, label=label)),
        "memory.an_allocation_has*",
    ),
    "uploads go one by one": (remembering(upload_=one_by_one), "memory.upload_checks_every_range*"),
    "reads go one by one": (remembering(download_=read_one_by_one), "memory.download_checks_every_range*"),
    "uploads are clipped": (remembering(upload_=clip), "memory.a_closed_buffer_is_refused"),
    "batches go backwards": (
        remembering(upload_=lambda b, uploads: _upload(b, list(reversed(uploads)))),
        "memory.overlapping_uploads_go_in_order",
    ),
    "uploads ignore where a part begins": (remembering(upload_=whole_for_a_part), "views.copies_stay*"),
    "uploads ignore what is read-only": (
        remembering(upload_=writes_what_is_read_only),
        "views.nothing_is_written*",
    ),
    "reads ignore where a part begins": (remembering(download_=reads_whole_for_a_part), "views.copies_stay*"),
    "offsets are ignored": (remembering(upload_=without_offsets), "memory.an_upload_changes_its_range_only.*"),
}


@pytest.mark.parametrize("defect", BROKEN_MEMORY)
def test_broken_memory_is_found(defect: str) -> None:
    broken, pattern = BROKEN_MEMORY[defect]
    assert failures(registration_with(broken), pattern)


# ---------------------------------------------------------------- resident sequences
@dataclass
class Resident:
    inner: Backend
    change: Callable[[ResidentSequence], ResidentSequence]

    def run(self, sequence: ResidentSequence, /) -> DispatchTiming:
        return self.inner.require_resident_executor().run(self.change(sequence))


@dataclass
class ReadsFirst:
    inner: Backend

    def run(self, sequence: ResidentSequence, /) -> DispatchTiming:
        self.inner.require_memory().download(sequence.reads)
        return self.inner.require_resident_executor().run(replace(sequence, reads=()))


@dataclass
class GoesOn:
    """Runs what stands behind a trap, and raises the trap at the end."""

    inner: Backend

    def run(self, sequence: ResidentSequence, /) -> DispatchTiming:
        executor, trap = self.inner.require_resident_executor(), None
        for step in (*sequence.prefix, *sequence.repeated * sequence.repeat_count):
            try:
                executor.run(ResidentSequence(prefix=(step,)))
            except TrapError as error:
                trap = trap or error
        timing = executor.run(ResidentSequence(reads=sequence.reads))
        if trap is not None:
            raise trap
        return timing


@dataclass
class Times:
    """Says something else of every dispatch."""

    inner: Backend
    told: dict[str, int]

    def run(self, sequence: ResidentSequence, /) -> DispatchTiming:
        told: dict[str, Any] = dict(self.told)
        return self.inner.require_resident_executor().run(sequence)._replace(**told)


def telling(**told: int) -> Break:
    return lambda backend: replace(backend, resident_executor=Times(backend, told))


def running(change: Callable[[ResidentSequence], ResidentSequence]) -> Break:
    return lambda backend: replace(backend, resident_executor=Resident(backend, change))


def without_configs(sequence: ResidentSequence) -> ResidentSequence:
    return replace(sequence, prefix=tuple(replace(step, config=DEFAULT_CONFIG) for step in sequence.prefix))


BROKEN_SEQUENCES: Final[dict[str, tuple[Break, str]]] = {
    "repetitions are forgotten": (running(lambda s: replace(s, repeat_count=1)), "resident.prefix_repeat_reads.*"),
    "the prefix is repeated": (running(lambda s: replace(s, prefix=s.prefix * 2)), "resident.prefix_repeat_reads.*"),
    "steps go backwards": (running(lambda s: replace(s, prefix=s.prefix[::-1])), "resident.steps_go_in_order"),
    "grids are known before the steps": (
        running(lambda s: replace(s, prefix=s.prefix[::-1])),
        "resident.a_grid_from_memory.*",
    ),
    "steps are lost": (running(lambda s: replace(s, prefix=s.prefix[:3])), "resident.host_bytes_of_each_step"),
    "configs are ignored": (running(without_configs), "resident.a_step_has_a_config.*"),
    "reads come first": (
        lambda backend: replace(backend, resident_executor=ReadsFirst(backend)),
        "resident.prefix_repeat_reads.*",
    ),
    "all launches are told for one": (
        telling(enqueue_ns=64_000, launches=64, launch_ns=64_000),
        "resident.a_launch_is_a_part_of_submitting_them",
    ),
    "a replay is told for launches": (
        telling(enqueue_ns=64_000, launches=0, launch_ns=10),
        "resident.a_launch_is_a_part_of_submitting_them",
    ),
    "a time is negative": (
        telling(enqueue_ns=64_000, launches=64, launch_ns=-1),
        "resident.a_launch_is_a_part_of_submitting_them",
    ),
    "a count is negative": (telling(launches=-1), "resident.a_launch_is_a_part_of_submitting_them"),
    "steps run behind a trap": (
        lambda backend: replace(backend, resident_executor=GoesOn(backend)),
        "resident.nothing_runs_behind_a_trap",
    ),
}


@dataclass
class OtherRounds:
    """Honours no flag, or tells something else of the rounds."""

    inner: Backend
    told: Callable[[DispatchTiming, ResidentSequence], DispatchTiming]
    change: Callable[[ResidentSequence], ResidentSequence] = lambda sequence: sequence

    def run(self, sequence: ResidentSequence, /) -> DispatchTiming:
        timing = self.inner.require_resident_executor().run(self.change(sequence))
        return timing if sequence.flag is None else self.told(timing, sequence)


def rounds_told(
    told: Callable[[DispatchTiming, ResidentSequence], DispatchTiming] = lambda timing, _: timing,
    change: Callable[[ResidentSequence], ResidentSequence] = lambda sequence: sequence,
) -> Break:
    return lambda backend: replace(backend, resident_executor=OtherRounds(backend, told, change))


def without_exit(sequence: ResidentSequence) -> ResidentSequence:
    return replace(sequence, flag=None, repeat_count=min(sequence.repeat_count, 500))


BROKEN_ROUNDS: Final[dict[str, tuple[Break, str]]] = {
    "the flag is ignored": (
        rounds_told(lambda t, s: t._replace(rounds=min(s.repeat_count, 500), converged=False), without_exit),
        "rounds.rounds_end_when_nothing_changes.*",
    ),
    "no rounds are told": (
        rounds_told(lambda t, _: t._replace(rounds=None, converged=None)),
        "rounds.rounds_end_when_nothing_changes.*",
    ),
    "a limit that was reached is told for a fixed point": (
        rounds_told(lambda t, _: t._replace(converged=True)),
        "rounds.rounds_end_when_nothing_changes.*",
    ),
    "the limit is told for the rounds": (
        rounds_told(lambda t, s: t._replace(rounds=s.repeat_count)),
        "rounds.rounds_end_when_nothing_changes.*",
    ),
    "one round too many runs": (
        rounds_told(change=lambda s: replace(s, repeat_count=s.repeat_count + 1) if s.flag is not None else s),
        "rounds.rounds_end_when_nothing_changes.*",
    ),
}


@pytest.mark.parametrize("defect", BROKEN_ROUNDS)
def test_broken_rounds_are_found(defect: str) -> None:
    broken, pattern = BROKEN_ROUNDS[defect]
    assert failures(registration_with(broken), pattern)


@pytest.mark.parametrize("defect", BROKEN_SEQUENCES)
def test_broken_sequences_are_found(defect: str) -> None:
    broken, pattern = BROKEN_SEQUENCES[defect]
    assert failures(registration_with(broken), pattern)


# ---------------------------------------------------------------- bound steps
@dataclass
class Bound:
    """A faithful one, on a backend that never recovers."""

    inner: Backend
    step: ResidentStep
    closed: bool = False

    def __call__(self) -> None:
        if self.closed:
            raise InvalidResource("the bound launch was closed", fix="bind it again.")
        self.inner.require_resident_executor().run(ResidentSequence(prefix=(self.step,)))

    def close(self) -> None:
        self.closed = True


class NeverCloses(Bound):
    def close(self) -> None:
        return None


@dataclass
class RunsOnce(Bound):
    ran: bool = False

    def __call__(self) -> None:
        if not self.ran:
            super().__call__()
        self.ran = True


@dataclass
class Binder:
    inner: Backend
    kind: type[Bound] = Bound
    takes: bool = True
    eager: bool = False

    def bind(self, step: ResidentStep, /) -> Bound:
        if self.takes:
            step = replace(step, resources=tuple(memoryview(bytes(r)) if is_host(r) else r for r in step.resources))
        self.inner.require_resident_executor().run(ResidentSequence(prefix=(step,) if self.eager else ()))
        return self.kind(self.inner, step)


def is_host(resource: Resource) -> TypeGuard[HostBytes]:
    return isinstance(resource, memoryview)


def binding(kind: type[Bound] = Bound, *, takes: bool = True, eager: bool = False) -> Break:
    return lambda backend: replace(backend, resident_binder=Binder(backend, kind, takes, eager))


BROKEN_BINDERS: Final[dict[str, tuple[Break, str]]] = {
    "host bytes are looked at later": (binding(takes=False), "binder.host_bytes_are_taken_at_the_bind"),
    "binding launches": (binding(eager=True), "binder.a_bound_step_runs_when_called"),
    "what is closed runs": (binding(NeverCloses), "binder.a_bound_step_closes_twice"),
    "it runs once": (binding(RunsOnce), "binder.a_bound_step_runs_when_called"),
}


def test_a_binder_by_sequences_keeps_the_contract() -> None:
    found = failures(registration_with(binding()), "binder.*")
    assert {name.rpartition(".")[0] for name in found} == {"binder.a_step_that_does_not_fit_is_refused"}  # when it runs


@pytest.mark.parametrize("defect", BROKEN_BINDERS)
def test_broken_binders_are_found(defect: str) -> None:
    broken, pattern = BROKEN_BINDERS[defect]
    assert failures(registration_with(broken), pattern)


# ---------------------------------------------------------------- asynchronous dispatch
class NeverCallsBack(Pending):
    def add_done_callback(self, callback: Callable[[], object], /) -> None:
        return None


class WaitsOnce(Pending):
    def wait(self, outputs: OutputStorage, /, *, timeout: float | None = None) -> DispatchTiming:
        timing = super().wait(outputs, timeout=timeout)
        self.arena.clear()
        return timing


class NeverDone(Pending):
    def done(self) -> bool:
        return False


class StopsSilently(Pending):
    def cancel(self) -> bool:
        self.error = DispatchFailed("it was stopped")
        return False


class ForgetsWhenCancelled(Pending):
    def cancel(self) -> bool:
        self.arena.clear()
        return True


class SwallowsErrors(Pending):
    def wait(self, outputs: OutputStorage, /, *, timeout: float | None = None) -> DispatchTiming:
        with suppress(BackendError):
            return super().wait(outputs, timeout=timeout)
        return DispatchTiming(0)


BROKEN_ASYNC: Final[dict[str, tuple[Break, str]]] = {
    "inputs are not copied": (asynchronous(snapshot=False, delay=0.02), "asynchronous.inputs_are_taken_at_submit"),
    "views are kept": (asynchronous(snapshot=False, delay=0.02), "asynchronous.no_view_of_the_caller_is_kept"),
    "results go with the first wait": (asynchronous(made=WaitsOnce), "asynchronous.waiting_twice"),
    "it is never done": (asynchronous(made=NeverDone), "asynchronous.done_after_wait"),
    "it never calls back": (asynchronous(made=NeverCallsBack), "asynchronous.a_callback_is_called_once"),
    "what was not asked to end is stopped": (asynchronous(made=StopsSilently), "asynchronous.a_cancelled_run_ends"),
    "cancelling takes away a result": (
        asynchronous(made=ForgetsWhenCancelled),
        "asynchronous.a_run_that_has_ended_is_not_cancelled",
    ),
    "errors are swallowed": (asynchronous(made=SwallowsErrors), "asynchronous.a_trap_is_raised_by_wait"),
}


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize("defect", BROKEN_ASYNC)
def test_broken_asynchronous_executors_are_found(defect: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vyre.testing.backend_contract.asynchronous._ENDLESS_S", 0.2)
    broken, pattern = BROKEN_ASYNC[defect]
    assert failures(registration_with(broken), pattern)


# ---------------------------------------------------------------- lifecycle, metrics, registration
class RestlessEpoch(NullLifecycle):
    """Every look is a new epoch."""

    __slots__ = ("numbers",)

    def __init__(self, backend: BackendId) -> None:
        super().__init__(backend)
        self.numbers: Iterator[int] = count()

    @property
    def epoch(self) -> int:
        return next(self.numbers)


class LostDevice(NullLifecycle):
    __slots__ = ()

    def device_lost(self) -> bool:
        return True


class ClosesOnce(NullLifecycle):
    __slots__ = ("closed",)

    def __init__(self, backend: BackendId) -> None:
        super().__init__(backend)
        self.closed = False

    def close(self) -> None:
        if self.closed:
            raise RuntimeError("closed already")
        self.closed = True


class RecoversNothing(NullLifecycle):
    """Claims to recover and stays in its epoch."""

    __slots__ = ()

    def recover(self) -> None:
        return None


@dataclass
class Metrics:
    values: Iterator[int]

    def metrics(self) -> Mapping[str, int]:
        return {"dispatches": next(self.values)}


def counting(values: Callable[[], Iterator[int]]) -> Break:
    return lambda backend: replace(backend, metric_source=Metrics(values()))


def living(lifecycle: Callable[[BackendId], NullLifecycle]) -> Break:
    return lambda backend: replace(backend, lifecycle=lifecycle(backend.id))


def profiled(**facts: Any) -> BackendRegistration:
    """A backend and a probe that agree on a profile with these facts."""
    profile = replace(REFERENCE.probe(), **facts)
    return registration_with(lambda backend: replace(backend, profile=profile), probe=lambda: profile)


_SHARED: Final = REFERENCE.make()
BROKEN_REGISTRATIONS: Final[dict[str, tuple[BackendRegistration, str]]] = {
    "the epoch changes": (registration_with(living(RestlessEpoch)), "lifecycle.the_epoch_is_steady"),
    "the device is lost": (registration_with(living(LostDevice)), "lifecycle.a_healthy_device*"),
    "it closes once": (registration_with(living(ClosesOnce)), "lifecycle.close_is_idempotent"),
    "it recovers nothing": (registration_with(living(RecoversNothing)), "lifecycle.recovery_starts*"),
    "metrics fall": (registration_with(counting(lambda: count(100, -1))), "metrics.metrics_only_grow"),
    "metrics are negative": (registration_with(counting(lambda: count(-5, -1))), "metrics.metrics_are_counts"),
    "metrics do not count": (registration_with(counting(lambda: count(7, 0))), "metrics.a_dispatch_is_counted"),
    "another version of the port": (
        replace(REFERENCE, api_version=PORT_API_VERSION + 1),
        "registration.it_speaks_this_version*",
    ),
    "another id": (replace(REFERENCE, id=BackendId("Ref")), "registration.its_id_is_a_name"),
    "one backend for all": (replace(REFERENCE, factory=lambda services: _SHARED), "registration.each_backend_is_new"),
    "no version": (
        registration_with(lambda backend: replace(backend, version="unspecified")),
        "registration.it_has_a_version",
    ),
    "another profile than probed": (
        registration_with(lambda b: replace(b, profile=replace(b.profile, compute_units=3))),
        "registration.the_probe_tells*",
    ),
    "a claim that nobody tests": (profiled(supports_tensor_cores=True), "claims.every_claim_is_tested"),
    "a claim without its facet": (profiled(supports_async_compute=True), "claims.a_claim_and_its_facet*"),
    "an operation that is claimed and not listed": (
        profiled(supports_indirect_dispatch=True),
        "claims.a_claim_and_its_facet*",
    ),
    "an operation that is listed and not run": (
        registration_with(lambda backend: replace(backend, supported_ops=ALL_OPS)),
        "claims.an_indirect_dispatch_runs",
    ),
    "times that nobody takes": (
        profiled(timing_quality=TimingQuality.HOST_ENQUEUE_WAIT),
        "profile.times_are_as_good*",
    ),
    "buffers that nobody limits": (
        profiled(max_storage_buffer_bytes=1 << 15),
        "profile.storage_buffers_up_to_the_limit.one_more",
    ),
    "unknown is zero": (profiled(compute_units=0), "profile.unknown_is_none"),
    "narrow subgroups": (profiled(subgroup_size=16), "profile.a_subgroup_has_32_lanes"),
    "limits of workgroups that nobody keeps": (
        profiled(max_workgroup_size=(64, 64, 64)),
        "profile.a_larger_workgroup_is_refused.*",
    ),
    "limits of lanes that nobody keeps": (
        profiled(max_invocations_per_workgroup=64),
        "profile.too_many_lanes*",
    ),
    "limits of grids that nobody keeps": (profiled(max_grid_size=(64, 64, 64)), "profile.a_larger_grid_is_refused.*"),
    "workgroup memory that nobody limits": (
        profiled(max_shared_memory_bytes=1 << 15),
        "profile.more_workgroup_memory_is_refused",
    ),
    "clocks that are not there": (profiled(supports_device_timestamps=True), "profile.times_are_as_good*"),
}


@pytest.mark.parametrize("defect", BROKEN_REGISTRATIONS)
def test_broken_registrations_are_found(defect: str) -> None:
    registration, pattern = BROKEN_REGISTRATIONS[defect]
    assert failures(registration, pattern)


# ---------------------------------------------------------------- costs
@dataclass
class Probing:
    """``CostProbe`` that tells a time, and offers what it does not refuse."""

    time: Any = 7
    experiments: frozenset[CostExperiment] = frozenset((CostExperiment.LAUNCHES,))
    refuses: bool = True
    disturb: Callable[[], object] = lambda: None

    @contextmanager
    def measuring(self) -> Iterator[ExperimentTimer]:
        def timed(experiment: CostExperiment, size: int) -> int:
            if self.refuses and experiment not in self.experiments:
                raise UnsupportedFeature(feature=experiment.value, backend=BackendId("probing"))
            self.disturb()
            return self.time  # type: ignore[no-any-return]

        yield timed


@pytest.mark.parametrize(
    ("broken", "case"),
    [
        (Probing(), None),
        (Probing(experiments=frozenset()), None),
        (Probing(time=0), "costs.an_experiment_takes_time.launches"),
        (Probing(time=-1), "costs.an_experiment_takes_time.launches"),
        (Probing(time=1.5), "costs.an_experiment_takes_time.launches"),
        (Probing(refuses=False), "costs.an_experiment_takes_time.persistent"),
    ],
)
def test_times_of_experiments(broken: Probing, case: str | None) -> None:
    found = failures(registration_with(lambda backend: replace(backend, cost_probe=broken)), "costs.*")
    assert (case in found) if case else found == []


def test_experiments_that_disturb_dispatches_are_found() -> None:
    disturbed = [False]

    @dataclass
    class Disturbed:
        inner: Backend

        def execute(self, request: DispatchRequest, outputs: OutputStorage, /) -> DispatchTiming:
            timing = self.inner.executor.execute(request, outputs)
            if disturbed[0]:
                outputs.begin((8,))[0][:] = bytes(8)
            return timing

    probe = Probing(disturb=lambda: disturbed.__setitem__(0, True))
    broken = registration_with(
        lambda backend: replace(backend, executor=Disturbed(backend), compiler=None, cost_probe=probe)
    )
    assert failures(broken, "costs.experiments_change*") == ["costs.experiments_change_no_byte"]
