"""What a session predicts, prepares ahead and tells, on a backend that keeps few shapes."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pytest

import vyre
from support.forgetful_backend import ForgetfulCompiler, forgetful_backend
from support.limits import LIMIT_S
from support.small_programs import catalog_of, saxpy_catalog, square_kernel, square_program
from support.storms.interrupt_storm import Places
from support.storms.interrupts import interrupted_everywhere
from vyre.adapters.forks import is_held_here
from vyre.app import prediction, preparing
from vyre.app.prediction import OFF, PredictionConfig
from vyre.domain.errors import KernelCompileFailed
from vyre.policies.prediction.trace_jit import HoldSteady, Speculate, TraceJitThresholds
from vyre.testing.fakes import function_backend, recording
from vyre.testing.recording_telemetry import RecordingTelemetry

EAGER = PredictionConfig(jit=TraceJitThresholds(hot_hits=0, min_confidence_bps=5_000))
LENGTHS = (1, 2, 3, 4)
"""More shapes than the backend keeps."""


class Running:
    """A session on a compiler, and dispatches that wait until the background is idle."""

    def __init__(self, session: vyre.Session) -> None:
        self.session = session
        self.program = square_program()

    def dispatch(self, length: int) -> npt.NDArray[np.uint32]:
        result: npt.NDArray[np.uint32] = self.session.dispatch(self.program, [np.arange(length, dtype=np.uint32)])["y"]
        self.idle()
        return result

    def rounds(self, times: int, lengths: Sequence[int] = LENGTHS) -> None:
        for _ in range(times):
            for length in lengths:
                np.testing.assert_array_equal(self.dispatch(length), np.arange(length, dtype=np.uint32) ** 2)

    def idle(self) -> None:
        self.session._background.join()


@pytest.fixture
def compiler() -> ForgetfulCompiler:
    return ForgetfulCompiler(square_kernel)


@pytest.fixture
def telemetry() -> RecordingTelemetry:
    return RecordingTelemetry()


@pytest.fixture
def running(compiler: ForgetfulCompiler, telemetry: RecordingTelemetry) -> Iterator[Running]:
    with vyre.open(catalog=catalog_of(forgetful_backend(compiler)), telemetry=telemetry, predict=EAGER) as session:
        yield Running(session)


def test_it_is_off_unless_asked_for() -> None:
    with vyre.open(catalog=saxpy_catalog()) as session:
        assert session.predictions() is OFF
        assert not session.predictions().enabled
        assert type(session.compile(square_program())) is vyre.Pipeline


def test_nothing_is_asked_as_long_as_everything_is_at_hand(running: Running, compiler: ForgetfulCompiler) -> None:
    running.rounds(10, (1, 2))
    report = running.session.predictions()
    assert (report.enabled, report.asking, report.shapes, report.missed, report.asked) == (True, False, 2, 0, 0)
    assert not report.decisions
    assert compiler.prepared == [(4,), (8,)]


def test_a_cycle_of_shapes_is_learned_and_prepared_ahead(
    running: Running, compiler: ForgetfulCompiler, telemetry: RecordingTelemetry
) -> None:
    running.rounds(6)
    before = running.session.predictions()
    assert before.asking and before.missed and before.right
    running.rounds(5)
    after = running.session.predictions()
    assert after.missed == before.missed, "no dispatch has to prepare anything any more"
    assert after.used - before.used == 20
    assert after.right - before.right == 20 and after.wrong == before.wrong
    assert after.asked == after.right + after.wrong
    assert len(compiler.compiled) == 1
    assert telemetry.counts["vyre.prediction.ahead", ()] == after.ahead


def test_an_interrupt_anywhere_leaves_the_learning_to_the_next_call(running: Running) -> None:
    pipeline = running.session.compile(running.program)
    assert isinstance(pipeline, prediction.ObservedPipeline)
    observer = pipeline._observer
    assert isinstance(observer, prediction.ShapeObserver)

    def learn() -> None:
        observer._attention = 9
        running.dispatch(1)

    def works() -> None:
        learn()
        assert not is_held_here(observer._learning)

    for places in Places:
        assert interrupted_everywhere((prediction,), learn, works, places) > 8


def test_shapes_of_several_programs_and_configs_are_told_apart(running: Running) -> None:
    other = square_program("other")
    x = np.arange(4, dtype=np.uint32)
    for _ in range(8):
        running.dispatch(1)
        running.dispatch(2)
        running.dispatch(3)
        running.session.dispatch(other, [x])
        running.session.dispatch(other, [x], grid=2)
    assert running.session.predictions().shapes == 5


def test_a_pipeline_that_was_dropped_is_compiled_ahead(
    compiler: ForgetfulCompiler, telemetry: RecordingTelemetry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(preparing, "PREPARED", 2)
    programs = [square_program(name) for name in "abc"]
    x = np.arange(3, dtype=np.uint32)
    backend = forgetful_backend(compiler)
    with vyre.open(catalog=catalog_of(backend), telemetry=telemetry, predict=EAGER) as session:
        running = Running(session)
        for turn in range(8):
            if turn == 6:
                learned = session.predictions()
            for program in programs:
                running.program = program
                np.testing.assert_array_equal(session.dispatch(program, [x])["y"], x * x)
                running.idle()
        report = session.predictions()
    assert report.missed == learned.missed
    assert report.used - learned.used == 6
    assert len(compiler.compiled) == 3 + report.missed + report.ahead


def test_the_foreground_joins_a_compilation_in_the_background(
    compiler: ForgetfulCompiler, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(preparing, "PREPARED", 1)
    begun, may_end = threading.Event(), threading.Event()
    armed = threading.Event()

    def step(what: str, nbytes: tuple[int, ...]) -> None:
        if what == "compile" and armed.is_set() and threading.current_thread().name == "vyre-background":
            begun.set()
            assert may_end.wait(LIMIT_S)

    compiler.step = step
    first, second = square_program("a"), square_program("b")
    x = np.arange(3, dtype=np.uint32)
    with vyre.open(catalog=catalog_of(forgetful_backend(compiler)), predict=EAGER) as session:
        running = Running(session)
        for _ in range(6):
            session.dispatch(first, [x])
            running.idle()
            session.dispatch(second, [x])
            running.idle()
        # ``first`` is at hand by now; what follows it is compiled in the background.
        armed.set()
        session.dispatch(first, [x])
        assert begun.wait(LIMIT_S)
        compiled = len(compiler.compiled)
        joined = threading.Thread(target=lambda: session.dispatch(second, [x]))
        joined.start()
        joined.join(0.05)
        assert joined.is_alive(), "it waits for the background"
        armed.clear()
        may_end.set()
        joined.join(LIMIT_S)
        assert not joined.is_alive()
        running.idle()
        assert compiler.compiled[compiled].name == "b"
        assert [program.name for program in compiler.compiled[compiled:]].count("b") == 1


def test_a_compilation_that_fails_in_the_background_fails_nobody(
    compiler: ForgetfulCompiler, telemetry: RecordingTelemetry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(preparing, "PREPARED", 1)
    begun, may_end = threading.Event(), threading.Event()

    def step(what: str, nbytes: tuple[int, ...]) -> None:
        if what == "compile" and threading.current_thread().name == "vyre-background":
            begun.set()
            assert may_end.wait(LIMIT_S)
            raise KernelCompileFailed(backend="fake", compiler_log="only in the background")

    compiler.step = step
    programs = square_program("a"), square_program("b")
    x = np.arange(3, dtype=np.uint32)
    with vyre.open(catalog=catalog_of(forgetful_backend(compiler)), telemetry=telemetry, predict=EAGER) as session:
        running = Running(session)
        turn = 0
        while not begun.is_set():
            session.dispatch(programs[turn % 2], [x])
            begun.wait(0.01)
            turn += 1
            assert turn < 100
        results: list[npt.NDArray[np.uint32]] = []
        joined = threading.Thread(target=lambda: results.append(session.dispatch(programs[turn % 2], [x])["y"]))
        joined.start()
        joined.join(0.05)
        may_end.set()
        joined.join(LIMIT_S)
        np.testing.assert_array_equal(results[0], x * x)
        running.idle()
        for _ in range(10):
            for program in programs:
                session.dispatch(program, [x])
                running.idle()
        assert 1 <= session.predictions().failed <= 2, "each shape is given up after its first failure"
    told = [event.name for event in telemetry.events].count("vyre.background.failed")
    assert told == session.predictions().failed


def test_what_a_dispatch_prepared_first_is_no_longer_wished(running: Running, compiler: ForgetfulCompiler) -> None:
    running.rounds(6)
    may_end = threading.Event()
    assert running.session._background.wish("busy", lambda: may_end.wait(LIMIT_S))
    x = [np.arange(length, dtype=np.uint32) for length in LENGTHS]
    ahead = running.session.predictions().ahead
    running.session.dispatch(running.program, [x[0]])
    running.session.dispatch(running.program, [x[1]])
    running.session.dispatch(running.program, [x[2]])
    may_end.set()
    running.idle()
    assert running.session.predictions().ahead - ahead <= 1, "only what comes after the last dispatch is prepared"


def test_asking_ends_when_it_is_of_no_use(compiler: ForgetfulCompiler) -> None:
    config = PredictionConfig(patience=5, jit=EAGER.jit)
    with vyre.open(catalog=catalog_of(forgetful_backend(compiler)), predict=config) as session:
        running = Running(session)
        running.rounds(2)
        assert session.predictions().asking
        running.rounds(10, [4])
        assert not session.predictions().asking


@pytest.mark.parametrize(
    ("hits", "confidence", "prepares", "why"),
    [
        (1_000_000, 0, False, "below the 1000000 of a hot kernel"),
        (0, 10_001, False, "is below 10001 bps"),
        (0, 0, True, "an expected stall of"),
    ],
)
def test_trace_jit_decides(compiler: ForgetfulCompiler, hits: int, confidence: int, prepares: bool, why: str) -> None:
    config = PredictionConfig(jit=TraceJitThresholds(hits, confidence))
    with vyre.open(catalog=catalog_of(forgetful_backend(compiler)), predict=config) as session:
        Running(session).rounds(6)
        report = session.predictions()
    last = report.decisions[-1]
    assert last.prepares is prepares is (report.ahead > 0)
    assert isinstance(last.verdict, Speculate if prepares else HoldSteady)
    assert why in str(last)
    assert str(last).startswith("square, inputs of ")
    assert str(last) in str(report).splitlines()[-1]
    assert str(OFF) == "prediction is off"


def test_memory_is_bounded(compiler: ForgetfulCompiler) -> None:
    config = PredictionConfig(shapes=3, log=4, decisions=2, jit=EAGER.jit)
    with vyre.open(catalog=catalog_of(forgetful_backend(compiler)), predict=config) as session:
        running = Running(session)
        running.rounds(5, range(1, 8))
        for number in range(8):
            session.dispatch(square_program(f"p{number}"), [np.arange(2, dtype=np.uint32)])
        report, observer = session.predictions(), session._observer
        assert observer is not None
        assert report.shapes == 3 and len(report.decisions) <= 2
        assert len(observer._kernels) == 3 and len(observer._log) <= 4


def test_submitted_dispatches_are_seen_once(running: Running) -> None:
    futures = [running.session.submit(running.program, [np.arange(n, dtype=np.uint32)]) for n in (5, 6)]
    assert [future.result(LIMIT_S)["y"][-1] for future in futures] == [16, 25]
    assert running.session.predictions().shapes == 2


def test_a_shape_that_cannot_be_prepared_raises_as_it_does_without(compiler: ForgetfulCompiler) -> None:
    def step(what: str, nbytes: tuple[int, ...]) -> None:
        if what == "prepare":
            raise KernelCompileFailed(backend="fake", compiler_log="no such shape")

    compiler.step = step
    for predict in (False, True):
        with (
            vyre.open(catalog=catalog_of(forgetful_backend(compiler)), predict=predict) as session,
            pytest.raises(KernelCompileFailed, match="no such shape"),
        ):
            session.dispatch(square_program(), [np.arange(2, dtype=np.uint32)])


def test_close_ends_the_background(running: Running, compiler: ForgetfulCompiler) -> None:
    running.rounds(4)
    running.session.close()
    assert not [thread for thread in threading.enumerate() if thread.name == "vyre-background"]
    report = running.session.predictions()
    assert report.enabled and report.ahead
    running.session.close()


def test_a_backend_that_prepares_nothing_by_shape_needs_no_more(telemetry: RecordingTelemetry) -> None:
    backend, log = recording(function_backend(square_kernel))
    with vyre.open(catalog=catalog_of(backend), telemetry=telemetry, predict=True) as session:
        Running(session).rounds(3)
        assert session.predictions().missed == 0
    assert set(log.names) == {"executor.execute"}


def test_wrappers_of_backends_pass_preparing_on(compiler: ForgetfulCompiler) -> None:
    backend, log = recording(forgetful_backend(compiler))
    with vyre.open(catalog=catalog_of(backend), predict=EAGER) as session:
        Running(session).rounds(6)
        assert session.predictions().used
    assert "pipeline.prepare" in log.names
