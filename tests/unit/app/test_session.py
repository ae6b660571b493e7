"""The session on a backend that is a Python function: everything around the execution."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
import weakref
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest

import vyre
from support.limits import LIMIT_S
from support.small_programs import catalog_of, saxpy_catalog, saxpy_kernel, saxpy_program, square_kernel, square_program
from vyre.adapters.discovery import load_catalog
from vyre.domain.dispatch import DispatchConfig
from vyre.domain.errors import (
    DispatchFailed,
    DispatchTimeout,
    InvalidConfig,
    InvalidInput,
    InvalidResource,
    KernelCompileFailed,
    UnfinishedBuild,
    UnsupportedFeature,
)
from vyre.domain.ir.program import OpId
from vyre.domain.program_report import InvalidProgram
from vyre.ports.backend import Backend, require
from vyre.ports.execution import CacheCounters, CompileResult, PipelineCompiler
from vyre.ports.requests import DispatchRequest, OutputStorage
from vyre.testing.fakes import FunctionExecutor, failing, function_backend, recording
from vyre.testing.recording_telemetry import RecordingTelemetry

Floats = npt.NDArray[np.float32]
X: Floats = np.arange(8, dtype=np.float32)
Y: Floats = np.ones(8, dtype=np.float32)
WANT = 2.0 * X + Y


def reference_backend() -> Backend:
    registration = load_catalog().get("reference")
    assert registration is not None
    return registration.make()


@pytest.fixture
def session() -> Iterator[vyre.Session]:
    with vyre.open(catalog=saxpy_catalog()) as opened:
        yield opened


@pytest.fixture(scope="module")
def saxpy() -> vyre.Program:
    return saxpy_program()


def test_a_result_is_read_by_name_position_and_iteration(session: vyre.Session, saxpy: vyre.Program) -> None:
    result = session.dispatch(saxpy, {"a": 2.0, "x": X, "y": Y})
    assert result.keys() == ("y",)
    assert len(result) == 1
    (only,) = result
    assert only is result["y"] is result[0] is result[-1]
    assert dict(result)["y"] is only
    assert result.items() == (("y", only),)
    np.testing.assert_array_equal(only, WANT)
    assert only.dtype == np.float32
    assert only.flags.owndata
    assert only.flags.writeable
    assert (result.backend, result.timing.wall_ns) == ("fake", 0)
    with pytest.raises(KeyError, match="`y`"):
        result["z"]
    with pytest.raises(IndexError):
        result[1]


def test_a_sequence_is_in_binding_order(session: vyre.Session, saxpy: vyre.Program) -> None:
    by_name = session.dispatch(saxpy, {"y": Y, "a": 2.0, "x": X})
    np.testing.assert_array_equal(session.dispatch(saxpy, [2.0, X, Y])["y"], by_name["y"])
    np.testing.assert_array_equal(session.dispatch(saxpy, (2.0, X, Y))["y"], by_name["y"])


@pytest.mark.parametrize("x", [X.reshape(2, 4), X.tobytes(), bytearray(X.tobytes()), memoryview(X.tobytes()), X[:]])
def test_shapes_and_untyped_memory(session: vyre.Session, saxpy: vyre.Program, x: Floats | bytes) -> None:
    np.testing.assert_array_equal(session.dispatch(saxpy, [2.0, x, Y])["y"], WANT)


@pytest.mark.parametrize("a", [2, 2.0, np.float32(2), np.float64(2), np.int8(2), np.array(2.0), b"\0\0\0@"])
def test_scalar_parameters(session: vyre.Session, saxpy: vyre.Program, a: float) -> None:
    np.testing.assert_array_equal(session.dispatch(saxpy, [a, X, Y])["y"], WANT)


def test_a_backend_may_assign_to_an_output_without_elements(session: vyre.Session, saxpy: vyre.Program) -> None:
    assert session.dispatch(saxpy, [2.0, X[:0], Y[:0]])["y"].size == 0


def test_inputs_are_not_written(session: vyre.Session, saxpy: vyre.Program) -> None:
    x, y = X.copy(), Y.copy()
    session.dispatch(saxpy, [2.0, x, y])
    np.testing.assert_array_equal(x, X)
    np.testing.assert_array_equal(y, Y)
    frozen = Y.copy()
    frozen.flags.writeable = False
    np.testing.assert_array_equal(session.dispatch(saxpy, [2.0, X, frozen])["y"], WANT)


def test_out_arrays_receive_the_result(session: vyre.Session, saxpy: vyre.Program) -> None:
    out = np.full((2, 4), -1, np.float32)
    result = session.dispatch(saxpy, [2.0, X, Y], out={"y": out})
    assert result["y"] is out
    np.testing.assert_array_equal(out, WANT.reshape(2, 4))


def test_an_arena_is_reused(session: vyre.Session, saxpy: vyre.Program) -> None:
    arena = vyre.OutputArena()
    first = session.dispatch(saxpy, [2.0, X, Y], outputs=arena)
    np.testing.assert_array_equal(first["y"], WANT)
    assert not first["y"].flags.writeable
    session.dispatch(saxpy, [0.0, X, Y], outputs=arena)
    np.testing.assert_array_equal(first["y"], Y)  # a view, as documented
    assert arena.generation == 2


def test_pipeline_bound_launch_and_submit_agree_with_dispatch(session: vyre.Session, saxpy: vyre.Program) -> None:
    pipeline = session.compile(saxpy)
    y = Y.copy()
    launch = session.bind(saxpy, [2.0, X, y])
    future = session.submit(saxpy, [2.0, X, y])
    assert pipeline([2.0, X, Y])["y"].tobytes() == WANT.tobytes() == launch()["y"].tobytes()
    assert future.result(timeout=LIMIT_S)["y"].tobytes() == WANT.tobytes()
    y[:] = 0
    np.testing.assert_array_equal(launch()["y"], 2 * X)  # bound by reference


def test_submit_copies_its_inputs_before_it_returns(saxpy: vyre.Program) -> None:
    gate = threading.Event()

    def slow(inputs: dict[str, bytes]) -> dict[str, bytes]:
        assert gate.wait(LIMIT_S)
        return saxpy_kernel(inputs)

    with vyre.open(catalog=catalog_of(function_backend(slow))) as session:  # type: ignore[arg-type]
        x = X.copy()
        future = session.submit(saxpy, [2.0, x, Y])
        x[:] = 99
        gate.set()
        np.testing.assert_array_equal(future.result(LIMIT_S)["y"], WANT)


def test_a_submitted_dispatch_can_be_awaited(session: vyre.Session, saxpy: vyre.Program) -> None:
    async def run() -> vyre.Result:
        return await asyncio.wrap_future(session.submit(saxpy, [2.0, X, Y]))

    np.testing.assert_array_equal(asyncio.run(run())["y"], WANT)


def test_submit_checks_what_it_can_at_once(session: vyre.Session, saxpy: vyre.Program) -> None:
    with pytest.raises(InvalidInput):
        session.submit(saxpy, [2.0, X])


def test_a_program_is_prepared_once_and_config_matters(saxpy: vyre.Program) -> None:
    telemetry = RecordingTelemetry()
    with vyre.open(catalog=saxpy_catalog(), telemetry=telemetry) as session:
        config = vyre.DispatchConfig(grid=(1, 1, 1))
        assert session.compile(saxpy) is session.compile(saxpy)
        assert session.compile(saxpy, config) is session.compile(saxpy, config)
        assert session.compile(saxpy, grid=1) is session.compile(saxpy, grid=1)
        assert session.compile(saxpy).config.grid is None
        for pipeline in (
            session.compile(saxpy, config),
            session.compile(saxpy, grid=1),
            session.compile(saxpy, grid=(1, 1)),
        ):
            assert pipeline.config.grid == (1, 1, 1)
        for _ in range(5):
            session.dispatch(saxpy, [2.0, X, Y])
    assert sum(n for (name, _), n in telemetry.counts.items() if name == "vyre.pipeline.prepared") == 4
    assert {event.level for event in telemetry.events} == {"debug"}


def test_what_is_explained_is_counted_as_what_is_decided_and_noted_once() -> None:
    telemetry, journal = RecordingTelemetry(), vyre.DecisionJournal()
    with vyre.open(catalog=saxpy_catalog(), telemetry=telemetry, journal=journal) as session:
        session.explain(saxpy_program(), costs="assumed")
    counted = {dict(labels)["policy"]: n for (name, labels), n in telemetry.counts.items() if name == "vyre.decision"}
    assert counted["plan_execution"] == 1
    assert counted == Counter(decision.name for decision in journal.decisions)


def test_prepare_launches_nothing(saxpy: vyre.Program) -> None:
    backend = function_backend(saxpy_kernel)
    assert isinstance(backend.executor, FunctionExecutor)
    with vyre.open(catalog=catalog_of(backend)) as session:
        session.prepare(saxpy)
        assert backend.executor.requests == []
        session.dispatch(saxpy, [2.0, X, Y])
        assert len(backend.executor.requests) == 1


def test_old_preparations_are_forgotten() -> None:
    with vyre.open(catalog=catalog_of(function_backend(square_kernel))) as session:
        program = square_program()
        first = weakref.ref(session.compile(program, output_counts={"y": 0}))
        for count in range(1, 1025):
            session.compile(program, output_counts={"y": count})
        gc.collect()
        assert first() is None


@pytest.mark.parametrize(
    "keywords",
    [
        {"grid": 0},
        {"grid": [1]},
        {"grid": (1, 1, 1, 1)},
        {"grid": ()},
        {"grid": 1, "extent": 1},
        {"grid": 1.5},
        {"spec": {"unknown": 1}},
        {"output_counts": {"y": -1}},
        {"config": vyre.DispatchConfig(grid=(1, 1, 1)), "grid": 1},
        {"config": vyre.DispatchConfig(output_counts={"y": 1}), "output_counts": {"y": 1}},
        {"config": {"grid": 1}},
    ],
)
def test_bad_launch_settings(session: vyre.Session, saxpy: vyre.Program, keywords: dict[str, object]) -> None:
    with pytest.raises(InvalidConfig, match="Fix:"):
        session.dispatch(saxpy, [2.0, X, Y], **keywords)  # type: ignore[arg-type]


def test_what_is_no_program_is_refused(session: vyre.Session) -> None:
    with pytest.raises(InvalidInput, match="build"):
        session.dispatch(vyre.ProgramBuilder("p", workgroup=1), [])  # type: ignore[arg-type]


def test_an_invalid_program_carries_its_report(session: vyre.Session) -> None:
    with vyre.ProgramBuilder("twice", workgroup=1) as p:
        p.output("y", vyre.u32, 1)
    program = replace(p.build(check=False), workgroup_size=(0, 1, 1))
    with pytest.raises(InvalidProgram, match="Fix:") as caught:
        session.dispatch(program, [])
    assert caught.value.report is not None
    assert not caught.value.report.ok
    assert not session.validate(program).ok


def test_missing_operations_are_named(saxpy: vyre.Program) -> None:
    backend = function_backend(saxpy_kernel)
    poor = replace(backend, supported_ops=backend.supported_ops - {OpId("vyre.bin_op")})
    with (
        vyre.open(catalog=catalog_of(poor)) as session,
        pytest.raises(UnsupportedFeature, match=r"fake.*vyre\.bin_op.*Fix:"),
    ):
        session.dispatch(saxpy, [2.0, X, Y])


def test_a_backend_without_memory_says_so(session: vyre.Session) -> None:
    with pytest.raises(UnsupportedFeature, match="resident"):
        session.resident(16)


def test_a_failure_names_backend_and_program_in_a_note(saxpy: vyre.Program) -> None:
    with vyre.open(catalog=catalog_of(failing(function_backend(saxpy_kernel), 1))) as session:
        out = np.full(8, 7, np.float32)
        with pytest.raises(DispatchFailed, match="injected") as caught:
            session.dispatch(saxpy, [2.0, X, Y], vyre.DispatchConfig(label="step 3"), out={"y": out})
        assert caught.value.__notes__ == ["backend=fake program=saxpy label=step 3"]
        assert (out == 7).all()
        np.testing.assert_array_equal(session.dispatch(saxpy, [2.0, X, Y])["y"], WANT)


def test_a_closed_session_refuses(saxpy: vyre.Program) -> None:
    session = vyre.open(catalog=saxpy_catalog())
    pipeline, launch = session.compile(saxpy), session.bind(saxpy, [2.0, X, Y])
    session.close()
    session.close()
    assert session.closed
    for use in (
        lambda: session.dispatch(saxpy, [2.0, X, Y]),
        lambda: session.compile(square_program()),
        lambda: pipeline([2.0, X, Y]),
        launch,
        lambda: session.submit(saxpy, [2.0, X, Y]),
        lambda: session.resident(4),
        session.flush,
        session.__enter__,
    ):
        with pytest.raises(InvalidResource, match=r"closed.*Fix:"):
            use()


def test_lifecycle_order() -> None:
    events: list[str] = []

    class Lifecycle:
        epoch = 0

        def prepare(self) -> None:
            events.append("prepare")

        def flush(self) -> None:
            events.append("flush")

        def close(self) -> None:
            events.append("close")

        def device_lost(self) -> bool:
            return False

        def recover(self) -> None:
            events.append("recover")

    backend = replace(function_backend(saxpy_kernel), lifecycle=Lifecycle())
    with vyre.open(catalog=catalog_of(backend)):
        assert events == ["prepare"]
    assert events == ["prepare", "flush", "close"]
    events.clear()
    with pytest.raises(ZeroDivisionError), vyre.open(catalog=catalog_of(backend)):
        raise ZeroDivisionError
    assert events == ["prepare", "close"]  # nothing to wait for after a failure


@pytest.mark.parametrize("make", [lambda: function_backend(saxpy_kernel), reference_backend], ids=["fake", "reference"])
def test_sixteen_threads_share_a_session_and_a_pipeline(make: Callable[[], Backend]) -> None:
    backend, log = recording(make())
    programs = [saxpy_program(f"saxpy{i}") for i in range(4)]
    barrier = threading.Barrier(16)
    with vyre.open(catalog=catalog_of(backend)) as session:
        shared = session.compile(programs[0])

        def work(thread: int) -> int:
            barrier.wait(LIMIT_S)
            wrong = 0
            for step in range(50):
                a = float(thread * 50 + step)
                want = (np.float32(a) * X + Y).tobytes()
                program = programs[step % 4]
                wrong += session.dispatch(program, {"a": a, "x": X, "y": Y})["y"].tobytes() != want
                wrong += shared([a, X, Y])["y"].tobytes() != want
            return wrong

        with ThreadPoolExecutor(16) as pool:
            assert sum(pool.map(work, range(16))) == 0
    assert sum(call.name in ("executor.execute", "pipeline.dispatch") for call in log.calls) == 16 * 50 * 2


class SlowCompiler:
    """Compiles once it may; ``failures`` are raised first."""

    def __init__(self, inner: PipelineCompiler, failures: list[BaseException]) -> None:
        self.inner, self.failures = inner, failures
        self.entered, self.release = threading.Event(), threading.Event()
        self.calls = 0

    def compile(self, program: vyre.Program, config: DispatchConfig, /) -> CompileResult:
        self.calls += 1
        self.entered.set()
        assert self.release.wait(LIMIT_S)
        if self.failures:
            raise self.failures.pop()
        return self.inner.compile(program, config)

    def cache_counters(self) -> CacheCounters:
        return self.inner.cache_counters()

    def forget(self, programs: Collection[bytes] | None, /) -> int:
        return self.inner.forget(programs)


def slow_backend(*failures: BaseException) -> tuple[Backend, SlowCompiler]:
    backend = reference_backend()
    compiler = SlowCompiler(require(backend.compiler, feature="compiler", backend=backend.id), list(failures))
    return replace(backend, compiler=compiler), compiler


def ask_together(session: vyre.Session, compiler: SlowCompiler, config: DispatchConfig | None = None) -> list[object]:
    """What eight threads get, or what they are told, that ask for one pipeline while it is compiled."""
    program = saxpy_program("shared")

    def work(_: int) -> object:
        try:
            return session.compile(program, config)
        except BaseException as error:
            return error

    with ThreadPoolExecutor(8) as pool:
        futures = [pool.submit(work, 0)]
        assert compiler.entered.wait(LIMIT_S)
        futures += [pool.submit(work, number) for number in range(1, 8)]
        while len(session._pipelines._flights._waiting) < 7:
            time.sleep(0.001)
        compiler.release.set()
        return [future.result(LIMIT_S) for future in futures]


def test_threads_share_one_compilation() -> None:
    backend, compiler = slow_backend()
    with vyre.open(catalog=catalog_of(backend)) as session:
        assert len(set(map(id, ask_together(session, compiler)))) == compiler.calls == 1


def test_a_failed_compilation_releases_every_thread_and_is_forgotten() -> None:
    backend, compiler = slow_backend(KernelCompileFailed(backend="reference", compiler_log="no"))
    with vyre.open(catalog=catalog_of(backend)) as session:
        told = ask_together(session, compiler)
        assert {type(error) for error in told} == {KernelCompileFailed}
        assert len(set(map(str, told))) == compiler.calls == 1
        assert session.compile(saxpy_program("again"), None).phases


def test_a_cancelled_compilation_releases_the_other_threads() -> None:
    backend, compiler = slow_backend(KeyboardInterrupt())
    with vyre.open(catalog=catalog_of(backend)) as session:
        first, *others = ask_together(session, compiler)
        assert isinstance(first, KeyboardInterrupt)
        assert {type(error) for error in others} == {UnfinishedBuild}
        assert "the same program" in str(others[0])


def test_waiting_for_a_compilation_has_a_deadline() -> None:
    backend, compiler = slow_backend()
    program, config = saxpy_program("slow"), DispatchConfig(timeout_s=0.05)
    with vyre.open(catalog=catalog_of(backend)) as session, ThreadPoolExecutor(1) as pool:
        first = pool.submit(session.compile, program, config)
        assert compiler.entered.wait(LIMIT_S)
        with pytest.raises(DispatchTimeout, match="another thread"):
            session.compile(program, config)
        compiler.release.set()
        assert first.result(LIMIT_S).program is program


def test_compiling_one_program_does_not_keep_others_waiting() -> None:
    backend, compiler = slow_backend()
    with vyre.open(catalog=catalog_of(backend)) as session, ThreadPoolExecutor(2) as pool:
        futures = [pool.submit(session.compile, saxpy_program(name)) for name in ("one", "two")]
        while compiler.calls < 2:
            time.sleep(0.001)
        compiler.release.set()
        assert futures[0].result(LIMIT_S) is not futures[1].result(LIMIT_S)


def test_a_pipeline_tells_what_its_preparation_took(saxpy: vyre.Program) -> None:
    with vyre.open("reference") as session:
        phases = session.compile(saxpy, DispatchConfig(max_output_bytes=12345)).phases
    assert [name for name, _ in phases] == ["validate", "compile"]
    assert all(nanoseconds >= 0 for _, nanoseconds in phases)


# ---------------------------------------------------------------- a backend with an async executor
class Pending:
    """A dispatch that a test completes."""

    def __init__(self, request: DispatchRequest) -> None:
        self.request = request
        self.error: Exception | None = None
        self._callbacks: list[Callable[[], object]] = []

    def done(self) -> bool:
        return False

    def add_done_callback(self, callback: Callable[[], object], /) -> None:
        self._callbacks.append(callback)

    def wait(self, outputs: OutputStorage, /, *, timeout: float | None = None) -> vyre.DispatchTiming:
        if self.error is not None:
            raise self.error
        data = saxpy_kernel({n: bytes(v) for n, v in zip(("a", "x", "y"), self.request.inputs, strict=True)})["y"]
        (view,) = outputs.begin((len(data),))
        view[:] = data
        return vyre.DispatchTiming(5, device_ns=3)

    def cancel(self) -> bool:
        return False

    def complete(self, error: Exception | None = None) -> None:
        self.error = error
        for callback in self._callbacks:
            callback()


class Asynchronous:
    def __init__(self) -> None:
        self.pending: list[Pending] = []

    def submit(self, request: DispatchRequest, /) -> Pending:
        self.pending.append(Pending(request))
        return self.pending[-1]


def test_an_async_executor_completes_in_any_order_without_threads_of_ours(saxpy: vyre.Program) -> None:
    device = Asynchronous()
    backend = replace(function_backend(saxpy_kernel), async_executor=device)
    with vyre.open(catalog=catalog_of(backend)) as session:
        threads = threading.active_count()
        futures = [session.submit(saxpy, [a, X, Y]) for a in (1.0, 2.0, 3.0)]
        assert threading.active_count() == threads
        assert not any(f.done() for f in futures)
        device.pending[2].complete()
        device.pending[0].complete(DispatchFailed("lost"))
        device.pending[1].complete()
        np.testing.assert_array_equal(futures[1].result(0)["y"], 2 * X + Y)
        np.testing.assert_array_equal(futures[2].result(0)["y"], 3 * X + Y)
        assert futures[1].result(0).timing.device_ns == 3
        with pytest.raises(DispatchFailed, match="lost"):
            futures[0].result(0)
