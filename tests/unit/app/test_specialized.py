"""Guessed parameters: special code runs for the values that it was made for, and for no others."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterator

import numpy as np
import numpy.typing as npt
import pytest

import vyre
from support.forgetful_backend import ForgetfulCompiler, forgetful_backend
from support.limits import LIMIT_S
from support.small_programs import catalog_of, saxpy_kernel, saxpy_program, square_program
from vyre.app.journal import DecisionJournal
from vyre.app.pipeline import Inputs
from vyre.app.specialized import Specialization, SpecializedPipeline
from vyre.domain.dispatch import DispatchConfig, SpeculationMode
from vyre.domain.errors import InvalidConfig, InvalidInput, KernelCompileFailed
from vyre.domain.ir.program import Program
from vyre.policies.prediction.speculate import PathVerdict, SpeculationPath, choose_path
from vyre.policies.tuning.paired_race import RaceThresholds
from vyre.testing.recording_telemetry import RecordingTelemetry

X = np.arange(8, dtype=np.float32)
Y = np.ones(8, dtype=np.float32)


class Running:
    """Calls of a specialized pipeline that wait for the background, and what the backend compiled."""

    def __init__(self, session: vyre.Session, compiler: ForgetfulCompiler, config: DispatchConfig | None) -> None:
        self.session, self.compiler = session, compiler
        self.pipeline = session.specialize(saxpy_program(), ["a"], config)

    def __call__(self, a: float) -> npt.NDArray[np.float32]:
        result: npt.NDArray[np.float32] = self.pipeline([a, X, Y])["y"]
        np.testing.assert_array_equal(result, np.float32(a) * X + Y)
        self.session._background.join()
        return result

    @property
    def special(self) -> list[Program]:
        return self.compiler.compiled[1:]


@pytest.fixture
def compiler() -> ForgetfulCompiler:
    return ForgetfulCompiler(saxpy_kernel, keeps=64)


@pytest.fixture
def telemetry() -> RecordingTelemetry:
    return RecordingTelemetry()


@pytest.fixture
def journal() -> DecisionJournal:
    return DecisionJournal()


@pytest.fixture
def session(
    compiler: ForgetfulCompiler, telemetry: RecordingTelemetry, journal: DecisionJournal
) -> Iterator[vyre.Session]:
    with vyre.open(catalog=catalog_of(forgetful_backend(compiler)), telemetry=telemetry, journal=journal) as opened:
        yield opened


@pytest.fixture
def running(session: vyre.Session, compiler: ForgetfulCompiler) -> Running:
    return Running(session, compiler, None)


def test_a_value_that_stays_gets_code_of_its_own(running: Running) -> None:
    assert running.pipeline.explain().guess is None
    for _ in range(8):
        running(2.5)
    assert not running.special, "not hot yet"
    for _ in range(12):
        running(2.5)
    (special,) = running.special
    assert "2.5f * x" in special.to_text()
    report = running.pipeline.explain()
    assert report.guess == {"a": 2.5}
    assert (report.state, report.guesses) == ("special code is there", 1)
    assert report.special + report.general == 20 and report.special >= 10
    (compiled,) = report.decisions
    assert compiled.what is Specialization.COMPILE
    assert str(compiled).startswith("compile: an expected stall of")
    assert "guess {'a': 2.5}: special code is there" in str(report)


def test_a_path_is_recorded_where_it_turns(running: Running, journal: DecisionJournal) -> None:
    def paths() -> list[SpeculationPath]:
        found = [decision.verdict for decision in journal.decisions if decision.policy is choose_path]
        return [verdict.path for verdict in found if isinstance(verdict, PathVerdict)]

    for _ in range(20):
        running(2.5)
    running(2.0)
    for _ in range(5):
        running(2.5)
    assert paths() == [SpeculationPath.SPECIAL]
    for _ in range(20):
        running(3.0)
    assert running.pipeline.explain().guesses == 2
    assert paths() == [SpeculationPath.SPECIAL] * 2, "once for each guess"


def test_other_values_take_the_general_code(running: Running) -> None:
    for _ in range(20):
        running(2.5)
    before = running.pipeline.explain()
    for a in (2.0, -2.5, np.nextafter(np.float32(2.5), np.float32(3))):
        running(float(a))
    after = running.pipeline.explain()
    assert (after.special, after.general) == (before.special, before.general + 3)
    running(2.5)
    assert running.pipeline.explain().special == after.special + 1, "a few misses do not end it"


def test_zeros_of_either_sign_are_different_values(running: Running) -> None:
    for _ in range(20):
        running(0.0)
    special = running.pipeline.explain().special
    running(-0.0)
    assert running.pipeline.explain().special == special


def test_a_guess_that_fails_is_replaced(running: Running) -> None:
    for a in (2.0, 3.0):
        for _ in range(30):
            running(a)
    assert ["2.0f * x" in p.to_text() for p in running.special] == [True, False]
    report = running.pipeline.explain()
    assert (report.guess, report.guesses) == ({"a": 3.0}, 2)
    assert [decision.what for decision in report.decisions] == [
        Specialization.COMPILE,
        Specialization.ANOTHER_GUESS,
        Specialization.COMPILE,
    ]
    assert str(report.decisions[1]).startswith("another guess: it held in")


def test_values_that_never_stay_are_never_compiled_for(running: Running) -> None:
    for number in range(200):
        running(float(number))
    assert not running.special and running.pipeline.explain().special == 0


@pytest.mark.parametrize("config", [DispatchConfig(speculation=SpeculationMode.DISABLE)])
def test_speculation_can_be_switched_off(
    session: vyre.Session, compiler: ForgetfulCompiler, config: DispatchConfig
) -> None:
    running = Running(session, compiler, config)
    for _ in range(30):
        running(2.5)
    assert not running.special and running.pipeline.explain().special == 0


def test_speculation_can_be_forced() -> None:
    force = DispatchConfig(speculation=SpeculationMode.FORCE)
    with vyre.open("reference") as session:
        special = session.specialize(saxpy_program(), config=force)
        for _ in range(20):
            np.testing.assert_array_equal(special([2.5, X, Y])["y"], np.float32(2.5) * X + Y)
            session._background.join()
        assert special.explain().special > 0


def test_what_cannot_be_compiled_stays_general(
    running: Running, compiler: ForgetfulCompiler, telemetry: RecordingTelemetry
) -> None:
    def step(what: str, nbytes: tuple[int, ...]) -> None:
        if what == "compile":
            raise KernelCompileFailed(backend="fake", compiler_log="too special")

    compiler.step = step
    for _ in range(30):
        running(2.5)
    report = running.pipeline.explain()
    assert report.special == 0 and report.state.startswith("it cannot be compiled: ")
    assert [event.name for event in telemetry.events].count("vyre.background.failed") == 1, "once"


def test_a_race_that_is_not_won_ends_the_special_code(running: Running) -> None:
    inputs: Inputs = [2.5, X, Y]
    with pytest.raises(InvalidConfig, match="no special code"):
        running.pipeline.race(inputs)
    for _ in range(30):
        running(2.5)
    with pytest.raises(InvalidConfig, match="no special code"):
        running.pipeline.race([2.0, X, Y])
    report = running.pipeline.race(inputs, RaceThresholds(max_pairs=2))
    assert report.measured and report.winner == "general"
    assert running.pipeline.explain().state.startswith("the race: 2 pair(s) prove nothing")
    special = running.pipeline.explain().special
    for _ in range(5):
        running(2.5)
    assert running.pipeline.explain().special == special and len(running.special) == 1


class Wishes:
    """A background that takes every wish, and does nothing by itself."""

    load_bps = 0

    def __init__(self) -> None:
        self.works: list[Callable[[], object]] = []

    def wish(self, key: Hashable, work: Callable[[], object]) -> bool:
        self.works.append(work)
        return True


def test_code_that_lands_after_it_was_refused_is_not_used(session: vyre.Session) -> None:
    background = Wishes()
    inputs: Inputs = [2.5, X, Y]
    pipeline = SpecializedPipeline(
        session.compile(saxpy_program()),
        ["a"],
        session.compile,
        background,  # type: ignore[arg-type]  # all of it that is used
        session._lease.backend,
    )
    for _ in range(100):
        pipeline(inputs)
    first, second, *_ = background.works
    first()
    report = pipeline.race(inputs, RaceThresholds(max_pairs=2))
    assert report.measured and report.winner == "general"
    second()
    refused = pipeline.explain()
    for _ in range(5):
        pipeline(inputs)
    assert refused.state.startswith("the race: ")
    assert pipeline.explain() == refused._replace(general=refused.general + 5)


class CallingBack(RecordingTelemetry):
    """Asks a specialized pipeline what it has decided, at every decision."""

    pipeline: SpecializedPipeline | None = None
    asked = 0

    def count(self, name: str, value: int = 1, /, **labels: str) -> None:
        super().count(name, value, **labels)
        if name == "vyre.decision" and self.pipeline is not None:
            self.pipeline.explain()
            self.asked += 1


def test_telemetry_may_call_the_pipeline(compiler: ForgetfulCompiler) -> None:
    telemetry = CallingBack()
    with vyre.open(catalog=catalog_of(forgetful_backend(compiler)), telemetry=telemetry) as session:
        running = Running(session, compiler, None)
        telemetry.pipeline = running.pipeline
        calls = threading.Thread(target=lambda: [running(2.5) for _ in range(20)], daemon=True)
        calls.start()
        calls.join(LIMIT_S)
        assert not calls.is_alive(), "it waits for itself"
        assert telemetry.asked and running.pipeline.explain().special


def test_all_scalars_are_guessed_unless_named(session: vyre.Session) -> None:
    with vyre.ProgramBuilder("two", workgroup=64) as p:
        a, b, flag = p.param("a", vyre.f32), p.param("b", vyre.i32), p.param("flag", vyre.bool_)
        p.output("y", vyre.f32, 1)[0] = vyre.select(flag, a, b.cast(vyre.f32))
    program = p.build()
    with vyre.open("reference") as reference:
        pipeline = reference.specialize(program)
        for _ in range(20):
            assert pipeline({"a": 1.5, "b": -3, "flag": True})["y"][0] == 1.5
            reference._background.join()
        report = pipeline.explain()
        assert report.guess == {"a": 1.5, "b": -3, "flag": True} and report.special
        assert pipeline({"a": 1.5, "b": -3, "flag": False})["y"][0] == -3.0


@pytest.mark.parametrize("names", [["x"], ["a", "nowhere"], []])
def test_only_scalar_parameters_can_be_guessed(session: vyre.Session, names: list[str]) -> None:
    with pytest.raises(InvalidInput, match="has no scalar parameter"):
        session.specialize(saxpy_program(), names)
    with pytest.raises(InvalidInput, match="there are none"):
        session.specialize(square_program())


def test_outputs_and_threads(running: Running) -> None:
    failures: list[BaseException] = []

    def work(pipeline: SpecializedPipeline) -> None:
        try:
            for turn in range(60):
                a = 2.0 if turn % 30 < 25 else float(turn)
                out = np.empty(8, np.float32)
                assert pipeline([a, X, Y], out={"y": out})["y"] is out
                np.testing.assert_array_equal(out, np.float32(a) * X + Y)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(running.pipeline,)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    report = running.pipeline.explain()
    assert not failures and report.special + report.general == 240
