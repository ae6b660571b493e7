"""Runs two programs in turns on an emulated device under settings of every switch, and tells what can be seen of it.

Settings are values by the name of the switch: ``emitter``, ``emission``, ``cuda``, ``open``, ``cache``, ``prediction``,
``dispatch``, ``session`` or ``config``, a dot, and the field or argument.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, Final, NamedTuple, TypeAlias
from unittest import mock

import numpy as np

import vyre
from support.machine.fuzzing import machine_case, reference
from support.programs import Case, Order
from support.running import Failure, Outcome, Outputs
from vyre.adapters.cuda import ids
from vyre.adapters.cuda.machine.driver import MachineDriver
from vyre.adapters.cuda.machine.options import MachineOptions, RunOptions
from vyre.adapters.cuda.machine.streams import StreamSchedule
from vyre.adapters.cuda.ptx.emit import emit
from vyre.adapters.cuda.ptx.kernel import EmittedModule
from vyre.adapters.cuda.ptx.options import EmitOptions, Switches
from vyre.adapters.cuda.runtime import backend as cuda_backend
from vyre.adapters.cuda.runtime.device import CudaOptions
from vyre.adapters.disk.configuration import CacheOption
from vyre.adapters.disk.layout import SUFFIX
from vyre.app import preparing
from vyre.app.prediction import PredictionConfig
from vyre.app.result import Result
from vyre.app.tuning.keys import tuning_key
from vyre.app.tuning.launches import tuned_launch
from vyre.domain.binding import plan_bindings
from vyre.domain.cache_config import CacheConfig
from vyre.domain.errors import TrapError
from vyre.domain.geometry import LaunchLimits
from vyre.domain.interface import resolve_launch
from vyre.domain.ir.program import Program
from vyre.domain.ir.types import ScalarType
from vyre.domain.tuning import Candidate, TimeKind
from vyre.domain.tuning_pins import Pin, Pins
from vyre.ports.backend import (
    Backend,
    BackendCatalog,
    BackendRegistration,
    BackendServices,
)
from vyre.testing.recording_telemetry import RecordingTelemetry

Settings: TypeAlias = Mapping[str, Any]
LAPS: Final = 4
"""Dispatches of each program, with its own parameters and with zeros in turn."""
CALLS: Final = 14
"""Of a specialized pipeline: so many that it is worth code of its own."""
WORK: Final = 2_000
"""Node evaluations of a random program, about."""
RUNS: Final = 3
"""Of sequences on resident memory, and of bound launches."""
COPIES: Final = 2
"""Sets of arrays that the steps of a sequence mix."""
ITERATIONS: Final = (2, 16)
"""Of bound launches: too few, and enough, for a graph to be thought of."""


class Scenario(NamedTuple):
    """``choices``: what decides about everything that is drawn while it runs."""

    cases: tuple[Case, ...]
    schedule: RunOptions
    streams: StreamSchedule
    choices: int


def scenario(seed: int, first: Case | None = None) -> Scenario:
    """``first`` or a random program, and another random one."""
    choices = Random(seed)
    orders = [Order.ATOMIC if choices.random() < 0.3 else Order.INDEPENDENT for _ in range(2)]
    cases = [machine_case(choices.randrange(1 << 30), order, WORK) for order in orders]
    if first is not None:
        cases[0] = first
    schedule = choices.choice(("lockstep", "reverse", "shuffled"))
    if any(case.order is Order.ATOMIC for case in cases):
        schedule = "lockstep"
    runs = RunOptions(schedule=schedule, seed=seed)  # type: ignore[arg-type]  # one of them
    return Scenario(tuple(cases), runs, choices.choice(tuple(StreamSchedule)), seed)


@dataclass(slots=True)
class Seen:
    """``texts``: of kernels, without their names.  ``calls``: of the driver.  ``decided``: verdicts by policy.
    ``stored``: entries on disk.  ``predicted``: counts, and the guesses.  ``guessed``: runs of code for
    parameters that were guessed.  ``journal``: its length.
    """

    texts: set[str] = field(default_factory=set)
    calls: Counter[str] = field(default_factory=Counter)
    decided: Counter[str] = field(default_factory=Counter)
    metrics: Counter[str] = field(default_factory=Counter)
    stored: int = 0
    predicted: tuple[object, ...] = ()
    guessed: int = 0
    journal: int = 0


# ---------------------------------------------------------------- what must come out
def variants(case: Case) -> tuple[Case, Case]:
    """The case, and with zeros for its parameters."""
    pushed = {b.name for b in case.program.buffers if b.is_push}
    zeros = {name: bytes(len(data)) if name in pushed else data for name, data in case.inputs.items()}
    return case, replace(case, inputs=zeros)


class Expected(NamedTuple):
    """``dispatched``: by case and variant."""

    dispatched: tuple[tuple[Outcome, ...], ...]
    resident: tuple[object, ...]


def expected(scenario: Scenario) -> Expected:
    """By the reference, one workgroup at a time."""
    dispatched = tuple(tuple(_as_array(case, reference(each)) for each in variants(case)) for case in scenario.cases)
    alone = [replace(case, config=replace(case.config, chunk_workgroups=1)) for case in scenario.cases]
    with vyre.open("reference", environment=_NoVariables(), cache=False) as session:
        return Expected(dispatched, tuple(on_resident_memory(session, alone, scenario.choices)))


def _as_array(case: Case, outcome: Outcome) -> Outcome:
    """As a session gives it: bools as bytes, unless the range of an output cuts through their words."""
    if isinstance(outcome, Failure):
        return outcome
    flags = {
        buffer.name
        for buffer in case.program.buffers
        if buffer.element is ScalarType.BOOL and not any(offset % 4 for offset in buffer.output_range or ())
    }
    return Outputs(
        {
            name: (np.frombuffer(data, "<u4") != 0).tobytes() if name in flags else data
            for name, data in outcome.bytes.items()
        }
    )


# ---------------------------------------------------------------- one run
def run(settings: Settings, scenario: Scenario, wanted: Expected, directory: Path) -> Seen:
    """What could be seen; fails where a byte differs from what is ``wanted``."""
    seen, folder = Seen(), directory / "cache"
    alone = {**settings, "cache.layers": False, "open.cache": "cold"}
    fills = [folder] * (settings["open.cache"] == "warm") + [directory / "layer"] * settings["cache.layers"]
    for number, place in enumerate((*fills, folder)):
        seen = Seen()
        _session(alone if number < len(fills) else settings, scenario, wanted, place, seen)
    return seen


def _session(settings: Settings, scenario: Scenario, wanted: Expected, folder: Path, seen: Seen) -> None:
    telemetry = RecordingTelemetry()
    with ExitStack() as stack:
        stack.enter_context(mock.patch.object(preparing, "PREPARED", 1))
        drivers: list[MachineDriver] = []
        catalog = BackendCatalog((_registration(settings, scenario, seen, drivers),))
        journal = vyre.DecisionJournal() if settings["open.journal"] else None
        with vyre.open(
            ids.MACHINE,
            catalog=catalog,
            telemetry=telemetry,
            environment=_NoVariables(),
            cache=_cache(settings, folder),
            pins=_pins(settings, scenario),
            predict=settings["open.predict"] and PredictionConfig(**_of(settings, "prediction")),
            journal=journal,
        ) as session:
            _run_all(session, settings, scenario, wanted, seen)
            seen.metrics.update(session.metrics())
    driver = drivers[0]
    assert not driver.violations, driver.violations
    assert not any(driver.live().values()), driver.live()
    seen.calls.update(driver.calls)
    seen.stored = sum(path.is_file() for path in folder.rglob(f"*{SUFFIX}")) if folder.exists() else 0
    seen.journal = 0 if journal is None else len(journal)
    for (name, labels), count in telemetry.counts.items():
        if name == "vyre.decision":
            seen.decided[dict(labels)["policy"]] += count


def _run_all(session: vyre.Session, settings: Settings, scenario: Scenario, wanted: Expected, seen: Seen) -> None:
    configured = [replace(case, config=replace(case.config, **_of(settings, "config"))) for case in scenario.cases]
    tune = settings["dispatch.tune"] and settings["config.profile"] is None  # else there is nothing to tune
    for lap in range(LAPS):
        for case, outcomes in zip(configured, wanted.dispatched, strict=True):
            given = variants(case)[lap % 2]
            found = _outcome(partial(session.dispatch, given.program, given.arguments(), given.config, tune=tune))
            assert found == outcomes[lap % 2], f"dispatch {lap} of {given}"
            session._background.join()
    report = session.predictions()
    guesses = [(each.shape, each.prediction.confidence_bps, each.prepares) for each in report.decisions]
    seen.predicted = (report.shapes, report.asked, report.right, *guesses)
    pending: list[tuple[Future[Result], Outcome]] = []
    for case, outcomes in zip(configured, wanted.dispatched, strict=True):
        for given, outcome in zip(variants(case), outcomes, strict=True):
            pending.append((session.submit(given.program, given.arguments(), given.config), outcome))
    for future, outcome in pending:
        assert _outcome(future.result) == outcome
    if settings["session.specialize"]:
        for case, outcomes in zip(configured, wanted.dispatched, strict=True):
            seen.guessed += _specialized(session, case, outcomes)
    assert tuple(on_resident_memory(session, configured, scenario.choices)) == wanted.resident


def _specialized(session: vyre.Session, case: Case, outcomes: Sequence[Outcome]) -> int:
    """Runs of special code."""
    if not any(buffer.is_push for buffer in case.program.buffers):
        return 0
    pipeline = session.specialize(case.program, config=case.config)
    given = variants(case)
    for number in (*[0] * CALLS, 1, 0):
        assert _outcome(partial(pipeline, given[number].arguments())) == outcomes[number], given[number]
        if number == CALLS - 3:
            session._background.join()
    return pipeline.explain().special


def _outcome(work: Callable[[], Result]) -> Outcome:
    try:
        result = work()
    except TrapError as error:
        return Failure(TrapError, (error.tag, error.address, error.global_id))
    return Outputs({name: array.tobytes() for name, array in result.items()})


def on_resident_memory(session: vyre.Session, cases: Sequence[Case], choices: int) -> Iterator[object]:
    """What resident arrays hold after each run of sequences of all cases, and of bound launches of the first.

    Each goes on until it traps, which is told in place of that.
    """
    yield from _sequenced(session, cases, Random(choices))
    for iterations in ITERATIONS:
        config = replace(cases[0].config, fixpoint_iterations=iterations)
        yield from _bound(session, replace(cases[0], config=config))


def _sequenced(session: vyre.Session, cases: Sequence[Case], drawn: Random) -> Iterator[object]:
    """The steps are of all cases and variants, each on any mixture of two sets of arrays, and of host data; forwards
    and backwards in turn.
    """
    with ExitStack() as stack:
        steps: list[vyre.Step] = []
        held: list[vyre.ResidentArray] = []
        for case in cases:
            copies = [_arrays(session, case, stack) for _ in range(COPIES)]
            held += [array for copy in copies for array in copy.values()]
            written = {buffer.name for buffer in case.program.buffers if buffer.is_writable}
            for given in variants(case):
                bound = {
                    name: drawn.choice(copies)[name] for name in copies[0] if name in written or drawn.random() < 0.5
                }
                steps.append(vyre.Step(given.program, given.arguments() | bound, given.config))
        loops = [session.sequence(order, first=order[:1]) for order in (steps, steps[::-1])]
        yield from _after_each([partial(loops[number % 2], 2) for number in range(RUNS)], held)


def _bound(session: vyre.Session, case: Case) -> Iterator[object]:
    with ExitStack() as stack:
        arrays = _arrays(session, case, stack)
        launch = stack.enter_context(session.bind_resident(case.program, case.arguments() | arrays, case.config))
        yield from _after_each([launch] * RUNS, arrays.values())


def _arrays(session: vyre.Session, case: Case, stack: ExitStack) -> dict[str, vyre.ResidentArray]:
    """Everything but parameters, by name."""
    plan = plan_bindings(case.program)
    lengths = tuple(len(case.inputs[plan.bindings[place].buffer.name]) for place in plan.inputs)
    sizes = resolve_launch(case.program, lengths, case.config, LaunchLimits(session.backend)).nbytes
    return {
        b.buffer.name: stack.enter_context(session.resident(case.inputs.get(b.buffer.name, nbytes)))
        for b, nbytes in zip(plan.bindings, sizes, strict=True)
        if not b.buffer.is_push
    }


def _after_each(runs: Iterable[Callable[[], object]], arrays: Collection[vyre.ResidentArray]) -> Iterator[object]:
    for run in runs:
        try:
            run()
        except TrapError as error:
            yield error.tag, error.address, error.global_id
            return
        yield tuple(array.download().tobytes() for array in arrays)


# ---------------------------------------------------------------- settings
def _of(settings: Settings, group: str) -> dict[str, Any]:
    """The fields of a group."""
    return {name.removeprefix(f"{group}."): value for name, value in settings.items() if name.startswith(f"{group}.")}


def _registration(
    settings: Settings, scenario: Scenario, seen: Seen, drivers: list[MachineDriver]
) -> BackendRegistration:
    """Of an emulated device; its driver goes to ``drivers``."""
    from vyre.adapters.cuda.registration import CUDA_MACHINE

    def make(services: BackendServices) -> Backend:
        driver = MachineDriver(
            MachineOptions(kernels=scenario.schedule, schedule=scenario.streams, seed=scenario.choices)
        )
        options = CudaOptions(exports=False, **_of(settings, "cuda"))
        with mock.patch.object(cuda_backend, "emit", partial(_emit, settings, seen)):
            backend = cuda_backend.make_backend(
                driver, ids.MACHINE, options, services, work_done=lambda: driver.lane_instructions
            )
        drivers.append(driver)
        return backend

    return replace(CUDA_MACHINE, factory=make)


def _emit(settings: Settings, seen: Seen, program: Program, options: EmitOptions, *rest: Any) -> EmittedModule:
    """As ``emit`` with less than what the backend permits."""
    switches = Switches(
        **{name: on and getattr(options.switches, name) for name, on in _of(settings, "emitter").items()}
    )
    forced = {name: value for name, value in _of(settings, "emission").items() if value is not None}
    assume = options.assume if forced.pop("assume") else frozenset()
    switched = replace(options, switches=switches, assume=assume, **forced)
    if switched.pointer_table is False or switched.mailbox:  # a small limit would ask for a table that it may not have
        switched = replace(switched, parameter_limit=options.parameter_limit)
    module = emit(program, switched, *rest)
    seen.texts |= {text.partition("\n")[2] for text in module.ptx.split(".visible .entry")[1:]}
    return module


def _cache(settings: Settings, folder: Path) -> CacheOption:
    if settings["open.cache"] == "none":
        return False
    fields = _of(settings, "cache")
    layers = (folder.parent / "layer",) if fields.pop("layers") else ()
    return CacheConfig(directory=folder, layers=layers, **fields)


def _pins(settings: Settings, scenario: Scenario) -> Pins | None:
    """Another size for each launch that may have one."""
    if not settings["open.pins"]:
        return None
    found = []
    backend = _registration(settings, scenario, Seen(), []).make()
    for case in scenario.cases:
        lengths = tuple(len(case.inputs[b.name]) for b in case.program.abi_buffers if b.takes_input)
        config = replace(case.config, **_of(settings, "config"))
        launch = tuned_launch(case.program, lengths, config, backend.profile.launch_limits())
        found += [
            Pin(tuning_key(backend, launch), Candidate(size), TimeKind.ESTIMATED) for size in launch.sizes().sizes[1:2]
        ]
    return Pins.of(found)


class _NoVariables:
    def get(self, name: str, /) -> str | None:
        return None
