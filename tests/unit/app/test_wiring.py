"""One wiring: where a provider is overridden, its double alone is used, by sessions, kernels and the command line."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, nullcontext
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import pytest
from dependency_injector import providers

import vyre
from support.small_programs import square_program
from unit.app.test_wave_times import choice_of
from vyre.adapters.discovery import load_catalog
from vyre.app.cli import main
from vyre.app.container import ADAPTERS, MADE, Container
from vyre.app.dialects.registry import DialectRegistry
from vyre.app.services import USUAL
from vyre.app.tuning.tuner import TuningSettings
from vyre.domain.dialects.core import core_dialect
from vyre.domain.dialects.operations import Dialect, Lowering, Operation
from vyre.domain.ir.text_parser import parse_definition
from vyre.ports.support import NullTelemetry
from vyre.testing.fakes import MemoryArtifactStore
from vyre.testing.recording_telemetry import RecordingTelemetry

X: Final = np.arange(8, dtype=np.uint32)
MADE_S: Final = 1_000_000_000
"""The time of the clock of the tests, in seconds since the epoch."""
STEP_NS: Final = 1_000_003
"""The time that passes with each reading of the tests' clock; no duration on another clock is a multiple of it."""
HALVE: Final = parse_definition("define acme.halve version 1.0.0 (x: u32) -> u32 {\nresult x / 2u\n}", "a test", 0)
SHIFT: Final = parse_definition("define acme.halve version 1.0.0 (x: u32) -> u32 {\nresult x >> 1u\n}", "a test", 0)
HALVED: Final = (
    "workgroup_size 64, 1, 1\nbuffer y @0 read_write u32[runtime]\nbody {\n  y[gid.x] = acme.halve(y[gid.x])\n}\n"
)
SHARED: Final = (
    "workgroup_size 64, 1, 1 buffer x @0 read u32[runtime] buffer s @1 read u32[runtime] "
    "buffer y @2 write u32[runtime] like x body { y[gid.x] = x[gid.x] + s[gid.x] }"
)


@vyre.kernel
def doubled(x: vyre.InOut[vyre.u32]) -> None:
    i = vyre.global_id(0)
    x[i] = x[i] + x[i]


class Double:
    """Passes everything on to an adapter that is held in memory, and remembers what was asked for."""

    def __init__(self, inner: object) -> None:
        self.inner, self.asked = inner, list[str]()

    def __getattr__(self, name: str) -> Any:
        self.asked.append(name)
        return getattr(self.inner, name)


class Variables:
    def __init__(self, **values: str) -> None:
        self.values = values

    def get(self, name: str, /) -> str | None:
        return self.values.get(name)


class StillClock:
    """The time of day stands still, and so many nanoseconds pass whenever the other time is read."""

    def __init__(self, step_ns: int = STEP_NS) -> None:
        self.ns, self.step_ns = 0, step_ns

    def now_ns(self) -> int:
        self.ns += self.step_ns
        return self.ns

    def time_ns(self) -> int:
        return MADE_S * 10**9


class NoRepository:
    def working_tree(self) -> None: ...


class Ranges:
    def range(self, name: str, /) -> AbstractContextManager[object]:
        return nullcontext()


class EmptyStore:
    """A store of samples, of verdicts, of costs and of times of waves, which keeps nothing."""

    def get(self, key: object, /) -> Any: ...

    def of_operation(self, operation: str, backend: str, /) -> tuple[Any, ...]:
        return ()

    def records(self) -> Iterator[Any]:
        return iter(())

    def put(self, put: object, /) -> bool:
        return True

    def load(self, source: object, /) -> None: ...

    def save(self, saved: object, /) -> None: ...


class EmptySamples(EmptyStore):
    def get(self, key: object, /) -> Sequence[Any]:
        return ()


def acme() -> DialectRegistry:
    """A registry with an operation that has a lowering for the reference."""
    made = DialectRegistry()
    operation = Operation.of(HALVE, lowerings={"reference": Lowering.of(HALVE, SHIFT)})
    made.register(core_dialect(), Dialect("acme", HALVE.version, (operation,)), registrant="a test")
    return made


# ------------------------------------------------------------ what asks the adapters
def dispatched(session: vyre.Session, folder: Path) -> None:
    assert np.array_equal(session.dispatch(square_program(), {"x": X})["y"], X * X)
    called = X.copy()
    doubled(called)
    assert np.array_equal(called, 2 * X)


def recorded(session: vyre.Session, folder: Path) -> None:
    program = square_program()
    session.write_evidence(folder / "evidence.vyre-evidence", program, {"x": X})
    with (
        session.resident(X) as x,
        session.resident(X.nbytes) as y,
        session.sequence([vyre.Step(program, {"x": x, "y": y})]) as sequence,
    ):
        sequence.write_evidence(folder / "work.vyre-evidence")


def timed(session: vyre.Session, folder: Path) -> None:
    dispatched(session, folder)
    tuned(session, folder)
    program = square_program()
    result = session.dispatch(program, {"x": X}, vyre.DispatchConfig(timeout_s=3600))
    walls = [result.timing.wall_ns, session.dispatch_many(program, [{"x": X}] * 3)[0].timing.wall_ns]
    with (
        session.resident(X) as x,
        session.resident(X.nbytes) as y,
        session.sequence([vyre.Step(program, {"x": x, "y": y})]) as sequence,
    ):
        walls += [sequence(3).timing.wall_ns, sequence(64).timing.wall_ns]
    with session.queries(vyre.Program.from_text(SHARED), {"s": X}) as queries:
        walls.append(queries({"x": X.reshape(2, 4)}).wall_ns)
    assert all(ns > 0 and ns % STEP_NS == 0 for ns in walls), walls
    session.calibrate(rounds=5)
    made = session.write_evidence(folder / "timed", square_program(), {"x": X})
    assert made.made_at == "2001-09-09T01:46:40+00:00"
    assert {event.at_s for event in session.recent()} == {MADE_S}


def tuned(session: vyre.Session, folder: Path) -> None:
    session.tune(square_program(), {"x": X}, settings=TuningSettings(profiles=False, budget_s=1e-6))


def halved(session: vyre.Session, folder: Path) -> None:
    assert session.dispatch(vyre.Program.from_text(HALVED), {"y": X})["y"].tolist() == [0, 0, 1, 1, 2, 2, 3, 3]


def calibrated(session: vyre.Session, folder: Path) -> None:
    session.calibrate(rounds=5)


class Case(NamedTuple):
    """A provider: its double, what the usual adapter is made or asked by, and what asks it."""

    double: Callable[[], object]
    usual: tuple[str, ...]
    work: Callable[[vyre.Session, Path], object]
    command: str
    backend: str = "reference"


RUN: Final = "run square.vyre --in x=1,2,3"
CASES: Final = {
    "environment": Case(
        lambda: Variables(VYRE_CACHE_DISABLE="1", VYRE_BACKEND="reference"),
        ("vyre.adapters.system.ProcessEnvironment.get", "vyre.adapters.system.ProcessEnvironment.names"),
        recorded, f"{RUN} --evidence e", "auto",
    ),
    "clock": Case(
        StillClock,
        ("vyre.adapters.system.SystemClock.now_ns", "vyre.adapters.system.SystemClock.time_ns"),
        timed, f"{RUN} --evidence e",
    ),
    "telemetry": Case(NullTelemetry, ("vyre.adapters.telemetry.guarded.ApplicationTelemetry",), dispatched, RUN),
    "catalog": Case(load_catalog, ("vyre.adapters.discovery.assemble_catalog",), recorded, "emit square.vyre"),
    "source_repository": Case(NoRepository, ("vyre.adapters.git.GitRepository",), recorded, f"{RUN} --evidence e"),
    "profiler": Case(Ranges, ("vyre.adapters.profiling.profiler_from",), dispatched, RUN),
    "dialect_registry": Case(
        acme, ("vyre.app.dialects.loading.loaded_registry",), halved, "run halved.vyre --in y=1,2,3"
    ),
    "artifact_store": Case(
        MemoryArtifactStore, ("vyre.adapters.disk.artifact_store.DiskArtifactStore",), dispatched, RUN, "cpu"
    ),
    "tuning_store": Case(
        EmptySamples, ("vyre.adapters.disk.tuning_store.DiskTuningStore",),
        tuned, "tune square.vyre --in x=1,2,3 --budget 0.000001 --sizes-only",
    ),
    "cost_store": Case(
        EmptyStore, ("vyre.adapters.disk.measurement_stores.DiskCostStore",), calibrated, "calibrate --rounds 5"
    ),
    "wave_time_store": Case(
        EmptyStore, ("vyre.adapters.disk.measurement_stores.DiskWaveTimeStore",),
        lambda session, folder: choice_of(session), "",
    ),
    "verdict_store": Case(
        EmptyStore, ("vyre.adapters.disk.verdict_store.DiskVerdictStore",), halved, "dialects verify acme.halve"
    ),
}  # fmt: skip


def test_every_adapter_of_the_wiring_has_a_case() -> None:
    assert CASES.keys() == {*ADAPTERS, *MADE} == {*USUAL._fields} - {"options", "kernels"}


@pytest.mark.parametrize("provider", CASES)
def test_a_double_alone_is_used(
    provider: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    case = CASES[provider]
    monkeypatch.chdir(tmp_path)
    Path("square.vyre").write_text(square_program().to_text(), encoding="utf-8")
    Path("halved.vyre").write_text(HALVED, encoding="utf-8")
    container = Container(environment=Variables(VYRE_CACHE_DIR=str(tmp_path / "cache")), backend_name=case.backend)
    if provider == "verdict_store":
        container.dialect_registry.override(providers.Object(acme()))
    double = Double(case.double())
    asked = double.asked
    made: Any = providers.Object(double)
    if provider == "catalog":  # a record, whose type is checked
        made = providers.Callable(lambda: (double.by_precedence, double.inner)[1])
    getattr(container, provider).override(made)

    def usual(*arguments: object, **named: object) -> Any:
        raise AssertionError("the usual adapter was made or asked")

    for name in case.usual:
        monkeypatch.setattr(name, usual)
    with container.session() as session:
        case.work(session, tmp_path)
    assert asked, "by the session of the container"
    asked.clear()
    with container.applied(), closing(vyre.open()) as session:  # not entered, so that kernels are called outside of it
        case.work(session, tmp_path)
    assert asked, "by vyre.open"
    asked.clear()
    if case.command:
        with container.applied():
            code = main(case.command.split())
        assert code == 0, capsys.readouterr()
        assert asked, "by the command line"


SPIN: Final = (
    "workgroup_size 64, 1, 1 buffer y @0 read_write u32[runtime] "
    "body {{ for i in 0u .. {}u {{ y[gid.x] = y[gid.x] * 5u ^ i }} }}"
)


@pytest.mark.parametrize("backend", ["reference", "reference-scalar", "cuda-machine", "cpu"])
def test_time_limits_and_times_of_results_are_told_by_the_clock(backend: str) -> None:
    clock = StillClock()
    container = Container(backend_name=backend, cache=False, clock=clock)
    rounds = 4000 if backend == "cuda-machine" else 0xFFFFFFFF  # of a launch that nothing stops, or of one that is
    spin = vyre.Program.from_text(SPIN.format(rounds))
    with container.session() as session:
        assert session.dispatch(square_program(), {"x": X}).timing.wall_ns % STEP_NS == 0
        if backend != "cpu":  # whose limits machine code keeps, on a thread without Python
            clock.step_ns = 60 * 10**9
        with pytest.raises(vyre.DispatchTimeout):
            session.dispatch(spin, {"y": X}, vyre.DispatchConfig(timeout_s=100 if backend != "cpu" else 0.05))
        clock.step_ns = STEP_NS


OF_THE_MACHINE: Final = {
    "adapters/system.py": "It is the usual clock.",
    "ports/backend.py": "It is what a backend is given that nobody opens with a session.",
    "ports/interrupts.py": "A lock counts the time of its wait itself.",
    "adapters/forks.py": "A lock counts the time of its wait itself.",
    "adapters/cpu/pool/worker_pool.py": "Waits of machine code and of threads count their time themselves.",
    "adapters/cpu/runtime/persistent.py": "Waits of machine code count their time themselves.",
    "adapters/cpu/native/server.py": "A timer of threading ends a compiler that does not answer.",
    "adapters/cuda/machine/streams.py": "It is how the emulated device waits, whose own time is simulated.",
    "adapters/cuda/machine/driver.py": "It is how long emulated kernels that hang take.",
    "adapters/cuda/runtime/waiting.py": "It is the default of a device that is made without a session.",
    "app/asynchrony/work.py": "A future counts the time of a wait itself.",
    "app/persistent/tickets.py": "What is left of a wait for jobs is given to waits that count their time themselves.",
    "app/shadow/service.py": "It reads the processor time of a thread; a lock counts the time of its wait itself.",
    "adapters/telemetry/prometheus.py": "A receiver is made before there is a session, and may be told by several.",
    "adapters/telemetry/guarded.py": "A ring that is made before there is a session; that of a session has its clock.",
    "adapters/caching/memory_cache.py": "It is the default of a parameter that every backend gives.",
    "adapters/caching/retention.py": "It is the default of a parameter, of caches in memory that have no session.",
    "adapters/disk/file_operations.py": "It is the default of a field that ``Place.files`` replaces.",
    "adapters/pipelines.py": "It is the default of a parameter that every backend gives.",
    "adapters/reference/executor.py": "It is the default of a parameter that every backend gives.",
    "adapters/cpu/runtime/counters.py": "It is the default of a parameter that the backend gives.",
    "adapters/cpu/runtime/runtime_code.py": "It is the default of a parameter that the backend gives.",
    "app/lease.py": "It is the default of a lease without a session.",
    "app/persistent/many.py": "It is the default of a parameter that every session gives.",
    "__init__.py": "It is the time of the import, before there is a wiring, with which files are compared.",
    "gallery/__main__.py": "It is a program of its own, which times whole examples.",
}
"""The modules that read the clock of the machine, whatever clock a container has, and why."""
CLOCKS: Final = {"time", "monotonic", "perf_counter", "process_time", "thread_time"}


def test_the_clock_of_the_machine_is_read_for_stated_reasons_only() -> None:
    package = Path(vyre.__file__).parent
    names = CLOCKS | {f"{name}_ns" for name in CLOCKS}
    found, called = set(), {*(f"time.{name}" for name in CLOCKS), "from time import"}
    for path in package.rglob("*.py"):
        module = path.relative_to(package).as_posix()
        text = path.read_text(encoding="utf-8")
        if module.startswith("testing/") or not any(name in text for name in called):
            continue
        for node in ast.walk(ast.parse(text)):
            match node:
                case ast.Attribute(ast.Name("time"), str(name)) if name in names:
                    found.add(module)
                case ast.ImportFrom("time", imported) if {each.name for each in imported} & names:
                    found.add(module)
    assert found == OF_THE_MACHINE.keys()


def test_called_kernels_run_on_the_container_only_while_it_is_applied() -> None:
    telemetry = RecordingTelemetry()
    container = Container(backend_name="reference", cache=False, telemetry=telemetry)
    x = X.copy()
    doubled(x)  # the session of the process is open from now on
    for calls in (1, 2):
        with container.applied():
            doubled(x)
        doubled(x)
        assert sum(n for (name, _), n in telemetry.counts.items() if name == "vyre.dispatches") == calls
    assert np.array_equal(x, 32 * X)


def test_options_of_a_container_stand_for_arguments_that_are_left_out(tmp_path: Path) -> None:
    container = Container(backend_name="reference", cache=False, resident_budget=64)
    with container.applied():
        with vyre.open() as session, pytest.raises(vyre.DeviceOutOfMemory):
            session.resident(65)
        with vyre.open("reference-scalar", resident_budget=128) as session, session.resident(65):
            assert session.backend == "reference-scalar"
    with vyre.open("reference", cache=False) as session, session.resident(65):
        assert session._lease.budget is None, "the container counts only where it is applied"
