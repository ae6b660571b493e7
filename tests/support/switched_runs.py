"""Runs two programs in turns on an emulated device under settings of every switch, and tells what can be seen of it.

Settings are values by the name of the switch: ``emitter``, ``emission``, ``cuda``, ``open``, ``cache``, ``prediction``,
``dispatch``, ``session`` or ``config``, a dot, and the field or argument.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
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
from support.machine_fuzzing import machine_case, reference
from support.programs import Case, Order
from support.running import Failure, Outcome, Outputs
from vyre.adapters.cuda import ids
from vyre.adapters.cuda.machine.driver import MachineDriver
from vyre.adapters.cuda.machine.machine_options import MachineOptions
from vyre.adapters.cuda.machine.options import RunOptions
from vyre.adapters.cuda.machine.streams import StreamSchedule
from vyre.adapters.cuda.ptx.emit import emit
from vyre.adapters.cuda.ptx.kernel import EmittedModule
from vyre.adapters.cuda.ptx.options import EmitOptions, Switches
from vyre.adapters.cuda.runtime import backend as cuda_backend
from vyre.adapters.cuda.runtime.device import CudaOptions
from vyre.adapters.disk.configuration import CacheOption
from vyre.adapters.disk.layout import SUFFIX
from vyre.adapters.reference.registration import REFERENCE
from vyre.adapters.telemetry.recording import RecordingTelemetry
from vyre.app import preparing
from vyre.app.prediction import PredictionConfig
from vyre.app.result import Result
from vyre.app.tuning.keys import tuning_key
from vyre.app.tuning.launches import limits_of, tuned_launch
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
    Readback,
    ResidentSequence,
    ResidentStep,
    Resource,
    Upload,
)

Settings: TypeAlias = Mapping[str, Any]
LAPS: Final = 4
"""Dispatches of each program, with its own parameters and with zeros in turn."""
CALLS: Final = 14
"""Of a specialized pipeline: so many that it is worth code of its own."""
WORK: Final = 12_000
"""Node evaluations of a random program, about."""
RUNS: Final = 3
"""Of a sequence on resident memory."""
COPIES: Final = 2
"""Sets of buffers that its steps mix."""


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
    sequenced: tuple[object, ...]


def expected(scenario: Scenario) -> Expected:
    """By the reference, one workgroup at a time."""
    dispatched = tuple(tuple(_as_array(case, reference(each)) for each in variants(case)) for case in scenario.cases)
    alone = [replace(case, config=replace(case.config, chunk_workgroups=1)) for case in scenario.cases]
    return Expected(dispatched, tuple(sequenced(REFERENCE.make(), alone, scenario.choices)))


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
        drivers: list[tuple[MachineDriver, Backend]] = []
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
            _run_all(session, drivers[0][1], settings, scenario, wanted, seen)
            seen.metrics.update(session.metrics())
    driver = drivers[0][0]
    assert not driver.violations, driver.violations
    assert not any(driver.live().values()), driver.live()
    seen.calls.update(driver.calls)
    seen.stored = sum(path.is_file() for path in folder.rglob(f"*{SUFFIX}")) if folder.exists() else 0
    seen.journal = 0 if journal is None else len(journal)
    for (name, labels), count in telemetry.counts.items():
        if name == "vyre.decision":
            seen.decided[dict(labels)["policy"]] += count


def _run_all(
    session: vyre.Session, backend: Backend, settings: Settings, scenario: Scenario, wanted: Expected, seen: Seen
) -> None:
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
    assert tuple(sequenced(backend, configured, scenario.choices)) == wanted.sequenced


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


def sequenced(backend: Backend, cases: Sequence[Case], choices: int) -> Iterator[object]:
    """What the buffers hold after each run of a sequence, up to the first trap.

    Its steps are of all cases and variants, each on any mixture of two sets of buffers, and of host bytes.
    """
    drawn = Random(choices)
    memory, executor = backend.require_memory(), backend.require_resident_executor()
    with ExitStack() as stack:
        steps: list[ResidentStep] = []
        into: list[Readback] = []
        for case in cases:
            plan = plan_bindings(case.program)
            lengths = tuple(len(case.inputs[plan.bindings[i].buffer.name]) for i in plan.inputs)
            sizes = resolve_launch(case.program, lengths, case.config, LaunchLimits(str(backend.id))).nbytes
            buffers = {
                (b.buffer.name, copy): stack.enter_context(memory.allocate(nbytes))
                for b, nbytes in zip(plan.bindings, sizes, strict=True)
                for copy in range(COPIES)
                if not b.buffer.is_push
            }
            memory.upload([Upload(held, memoryview(case.inputs.get(name, b""))) for (name, _), held in buffers.items()])
            into += [Readback(held, memoryview(bytearray(held.nbytes))) for held in buffers.values()]
            for given in variants(case):
                bound: list[Resource] = [
                    memoryview(given.inputs[b.buffer.name])
                    if b.buffer.is_push or (not b.buffer.is_writable and drawn.random() < 0.5)
                    else buffers[b.buffer.name, drawn.randrange(COPIES)]
                    for b in plan.bindings
                ]
                steps.append(ResidentStep(case.program, tuple(bound), case.config))
        for number in range(RUNS):
            order = tuple(steps if number % 2 == 0 else steps[::-1])
            try:
                executor.run(ResidentSequence(prefix=order[:1], repeated=order, repeat_count=2, reads=tuple(into)))
            except TrapError as error:
                yield error.tag, error.address, error.global_id
                return
            yield tuple(bytes(read.into) for read in into)


# ---------------------------------------------------------------- settings
def _of(settings: Settings, group: str) -> dict[str, Any]:
    """The fields of a group."""
    return {name.removeprefix(f"{group}."): value for name, value in settings.items() if name.startswith(f"{group}.")}


def _registration(
    settings: Settings, scenario: Scenario, seen: Seen, made: list[tuple[MachineDriver, Backend]]
) -> BackendRegistration:
    """Of an emulated device; what is made of it goes to ``made``."""
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
        made.append((driver, backend))
        return backend

    return replace(CUDA_MACHINE, factory=make)


def _emit(settings: Settings, seen: Seen, program: Program, options: EmitOptions, *rest: Any) -> EmittedModule:
    """As ``emit`` with less than what the backend permits."""
    switches = Switches(
        **{name: on and getattr(options.switches, name) for name, on in _of(settings, "emitter").items()}
    )
    forced = _of(settings, "emission")
    assume = options.assume if forced.pop("assume") else frozenset()
    module = emit(program, replace(options, switches=switches, assume=assume, **forced), *rest)
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
    made: list[tuple[MachineDriver, Backend]] = []
    backend = _registration(settings, scenario, Seen(), made).make()
    for case in scenario.cases:
        lengths = tuple(len(case.inputs[b.name]) for b in case.program.abi_buffers if b.takes_input)
        config = replace(case.config, **_of(settings, "config"))
        launch = tuned_launch(case.program, lengths, config, limits_of(backend))
        found += [
            Pin(tuning_key(backend, launch), Candidate(size), TimeKind.ESTIMATED) for size in launch.sizes().sizes[1:2]
        ]
    return Pins.of(found)


class _NoVariables:
    def get(self, name: str, /) -> str | None:
        return None
