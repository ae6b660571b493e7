"""Steps of the host in sequences: order, memory of every type, errors, no lock held, runs inside of runs, doubles."""

from __future__ import annotations

import gc
import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pytest

import vyre
from support.limits import LIMIT_S
from support.small_programs import catalog_of
from vyre import Batch, HostStep, HostStepFailed, Indirect, ProgramBuilder, Repeat, Step, u32
from vyre.adapters.discovery import load_catalog
from vyre.app.resident import ResidentArray
from vyre.domain.errors import GridOverflow, InvalidConfig, InvalidInput, InvalidResource, UnsupportedFeature
from vyre.ports.backend import Backend
from vyre.testing import cuda_machine
from vyre.testing.fakes import failing, recording
from vyre.testing.recording_telemetry import RecordingTelemetry

N: Final = 24
X: Final = np.arange(N, dtype=np.uint32)
BACKENDS: Final = ["reference", "reference-scalar", "cpu", "cuda-machine"]
MODES: Final = [{}, {"plain": True}, {"graph": True}, {"persistent": True}, {"fused": True}, {"megakernel": True}]


def added() -> vyre.Program:
    """``y = y + x``."""
    with ProgramBuilder("added", workgroup=8) as p:
        x, y = p.input("x", u32), p.inout("y", u32)
        i = p.global_id()
        with p.if_(i < x.length):
            y[i] = y[i] + x[i]
    return p.build()


ADDED: Final = added()


def changed(array: Any, change: Callable[[npt.NDArray[Any]], npt.NDArray[Any]]) -> None:
    """Changes what a host step may write, in memory of the host or elsewhere."""
    if isinstance(array, np.ndarray):
        array[...] = change(array.copy())
    else:
        array.upload(change(array.download()))


KEPT: Final[list[ResidentArray]] = []


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    yield
    while KEPT:
        KEPT.pop().close()


def kept(session: vyre.Session, data: npt.NDArray[Any]) -> ResidentArray:
    """Returns a resident array that is closed when the test ends."""
    KEPT.append(session.resident(data))
    return KEPT[-1]


@pytest.fixture(params=BACKENDS)
def session(request: pytest.FixtureRequest) -> Iterator[vyre.Session]:
    with vyre.open(request.param, cache=False) as opened:
        yield opened


@pytest.fixture
def cpu() -> Iterator[vyre.Session]:
    with vyre.open("cpu", cache=False) as opened:
        yield opened


@pytest.mark.parametrize("modes", MODES, ids=str)
def test_it_runs_between_the_launches_in_every_mode(session: vyre.Session, modes: dict[str, bool]) -> None:
    x, y = kept(session, X), kept(session, np.zeros(N, np.uint32))
    seen: list[npt.NDArray[np.uint32]] = []

    def doubled(one: Any, other: Any) -> None:
        seen.append(np.array(one))
        changed(other, lambda words: words * 2)

    step = Step(ADDED, {"x": x, "y": y})
    try:
        graph = session.sequence([step, step, HostStep(doubled, [x], [y]), step, step], modes=modes)
    except UnsupportedFeature:
        assert str(session.backend) != "cpu"  # which has all modes
        return
    for _ in range(2):
        y.upload(np.zeros(N, np.uint32))
        run = graph(rounds=2)
        np.testing.assert_array_equal(y.download(), ((0 + 2) * 2 + 2 + 2) * 2 * X + 2 * X)
        assert run.host_ns > 0 and run.wall_ns >= run.host_ns
        assert run.kernels == (4 if {"fused", "megakernel"} & set(modes) else 8)
    assert len(seen) == 4 and all(np.array_equal(each, X) for each in seen)
    assert [group.is_host for group in run.plan.groups].count(True) == 1
    assert "1 calls of the host" in str(run.plan) and "doubled" in repr(graph)
    assert "a function of the host" in str(graph.explain(2, costs="assumed"))


DTYPES: Final = [np.uint8, np.int8, np.uint16, np.int16, np.uint32, np.int32, np.uint64, np.int64, np.float16,
                 np.float32, np.float64]  # fmt: skip


@pytest.mark.parametrize("shape", [(6,), (2, 3), (1, 2, 3), (0,), ()], ids=str)
def test_memory_of_every_type_and_shape(session: vyre.Session, shape: tuple[int, ...]) -> None:
    for dtype in DTYPES:
        data = np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(dtype)
        with session.resident(data) as x, session.resident(np.zeros_like(data)) as y:

            def check(one: Any, other: Any, data: npt.NDArray[Any] = data) -> None:
                assert (one.dtype, one.shape) == (other.dtype, other.shape) == (data.dtype, data.shape)
                np.testing.assert_array_equal(np.asarray(one), data)
                changed(other, lambda zeros: zeros + np.asarray(one))

            session.sequence([HostStep(check, [x], [y])])(3)
            np.testing.assert_array_equal(y.download(), (3 * data.astype(np.int64)).astype(dtype))


def test_truth_values_are_words_and_parts_are_parts(session: vyre.Session) -> None:
    truths, whole = kept(session, np.array([True, False])), session.resident(X)

    def check(words: Any, part: Any) -> None:
        assert np.asarray(words).tolist() == [1, 0]
        changed(part, lambda seen: seen + 100)

    session.sequence([HostStep(check, [truths], [whole[4:6]])])()
    np.testing.assert_array_equal(whole.download(), np.where((X == 4) | (X == 5), X + 100, X))


def test_temporary_arrays_begin_as_zeros_and_last_for_a_run(session: vyre.Session) -> None:
    x, y, between = kept(session, X), kept(session, np.zeros(N, np.uint32)), session.temporary(u32, N)
    fill = HostStep(lambda seen, out: changed(out, lambda words: words + np.asarray(seen)), [x], [between])
    graph = session.sequence([fill, Step(ADDED, {"x": between, "y": y})])
    for number in range(1, 4):
        run = graph()
        assert run.allocations == (number == 1)
        np.testing.assert_array_equal(y.download(), number * X)
    graph.close()
    assert graph().allocations == 1


def test_what_is_only_read_cannot_be_written(session: vyre.Session) -> None:
    x = kept(session, X)

    def write(one: Any) -> None:
        if isinstance(one, np.ndarray):
            with pytest.raises(ValueError, match="WRITEABLE"):
                one.flags.writeable = True
            one[0] = 9
        else:
            session.dispatch(ADDED, {"x": X, "y": one})

    def upload(one: Any) -> None:
        one.fill(0) if isinstance(one, np.ndarray) else one[0:4].upload(np.zeros(4, np.uint32))

    for function in (write, upload):
        with pytest.raises(HostStepFailed, match=r"steps\[0\]") as caught:
            session.sequence([HostStep(function, [x])])()
        assert "read-only" in str(caught.value.__cause__)
    np.testing.assert_array_equal(x.download(), X)


def test_other_libraries_get_the_memory_of_a_device() -> None:
    with cuda_machine(export_fake=True).open() as session:
        x, y = kept(session, X), kept(session, np.zeros(N, np.uint32))

        def adopt(one: Any, other: Any) -> None:
            for array, readonly in ((one, True), (other, False)):
                interface = array.__cuda_array_interface__
                assert (interface["data"][1], interface["stream"], interface["shape"]) == (readonly, None, (N,))
            with pytest.raises(BufferError, match="read-only"):
                one.__dlpack__()
            with session.adopt(one) as read, session.adopt(other) as written:
                session.dispatch(ADDED, {"x": read, "y": written})
                with pytest.raises(InvalidResource, match="read-only"):
                    session.dispatch(ADDED, {"x": written, "y": read})

        session.sequence([HostStep(adopt, [x], [y])])(2)
        np.testing.assert_array_equal(y.download(), 2 * X)


def test_a_function_that_raises_ends_the_run_at_its_place(session: vyre.Session) -> None:
    x, y = kept(session, X), kept(session, np.zeros(N, np.uint32))
    calls: list[int] = []

    def refuse(_: Any) -> None:
        calls.append(len(calls))
        if len(calls) == 2:
            raise LookupError("twice")

    add = Step(ADDED, {"x": x, "y": y})
    graph = session.sequence([Repeat([add, HostStep(refuse, writes=[y], name="gate"), add], 3)])
    with pytest.raises(
        HostStepFailed, match=r"`gate` \(steps\[0\].steps\[1\]\) raised LookupError\('twice'\)"
    ) as caught:
        graph()
    error = caught.value
    assert isinstance(error.__cause__, LookupError) and (error.step, error.place) == ("gate", "steps[0].steps[1]")
    assert any("sequence=" in note for note in error.__notes__) and error.fix
    assert session.recent()[-1].fields["error"] == "HostStepFailed"
    np.testing.assert_array_equal(y.download(), 3 * X)
    graph()
    np.testing.assert_array_equal(y.download(), 9 * X)


def test_interrupts_come_as_they_are(cpu: vyre.Session) -> None:
    x, armed = kept(cpu, X), [True]

    def interrupt(_: object) -> None:
        if armed:
            armed.clear()
            signal.raise_signal(signal.SIGINT)

    graph = cpu.sequence([HostStep(interrupt, [x])])
    with pytest.raises(KeyboardInterrupt):
        graph()
    assert graph().host_ns > 0


@pytest.mark.parametrize("temporary", [False, True])
def test_a_function_may_use_everything_and_no_lock_is_held(session: vyre.Session, temporary: bool) -> None:
    """It runs the same sequence again, other sequences and dispatches, here and on another thread."""
    x, y = kept(session, X), kept(session, np.zeros(N, np.uint32))
    between = session.temporary(u32, N) if temporary else kept(session, np.zeros(N, np.uint32))
    depth, results = [0], []

    def use() -> None:
        out = session.dispatch(ADDED, {"x": X, "y": X})["y"]
        with session.resident(X) as own:
            session.sequence([Step(ADDED, {"x": x, "y": own}), HostStep(lambda _: None, [own])])()
            results.append(np.array_equal(out, 2 * X) and np.array_equal(own.download(), 2 * X))
        graph.plan(), graph.explain(1, costs="assumed")

    def again(one: Any) -> None:
        depth[0] += 1
        if depth[0] < 3:
            use()
            graph()
            thread = threading.Thread(target=use)
            thread.start()
            thread.join(LIMIT_S)
            assert not thread.is_alive()

    add = Step(ADDED, {"x": x, "y": y})
    graph = session.sequence([Step(ADDED, {"x": x, "y": between}), HostStep(again, [between]), add])
    graph()
    assert results == [True] * 4
    np.testing.assert_array_equal(y.download(), 3 * X)
    depth[0] = 3
    assert graph().allocations == 0


def test_no_lock_of_the_process_is_held_while_it_runs(cpu: vyre.Session, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another thread takes and gives back every lock that vyre has."""
    x, between = kept(cpu, X), cpu.temporary(u32, N)
    taken: list[int] = []

    def take() -> None:
        locks = [lock for lock in locks_of_vyre() if lock.acquire(timeout=LIMIT_S)]
        taken.append(len(locks))
        for lock in locks:
            lock.release()

    def check(*_: Any) -> None:
        wanted = len(locks_of_vyre())
        thread = threading.Thread(target=take)
        thread.start()
        thread.join(LIMIT_S)
        assert taken.pop() == wanted > 4

    graph = cpu.sequence(
        [Step(ADDED, {"x": x, "y": between}), HostStep(check, [between]), Step(ADDED, {"x": x, "y": between})],
        modes={"plain": True},
    )
    graph(3)


def locks_of_vyre() -> list[Any]:
    """Returns the locks of sessions, sequences and adapters that are alive."""
    kinds = (type(threading.Lock()), type(threading.RLock()))
    owners = (each for each in gc.get_objects() if str(type(each).__module__).startswith("vyre."))
    names = ("_lock", "_turn", "turn", "making", "calls", "lock")
    found = {id(lock): lock for each in owners for name in names if isinstance(lock := lock_of(each, name), kinds)}
    return list(found.values())


def lock_of(owner: object, name: str) -> object:
    try:
        return object.__getattribute__(owner, name)
    except Exception:
        return None


def test_closing_inside_of_a_run(cpu: vyre.Session) -> None:
    x, between = kept(cpu, X), cpu.temporary(u32, N)
    closing: list[Callable[[], None]] = []
    fill = Step(ADDED, {"x": x, "y": between})
    graph = cpu.sequence([fill, HostStep(lambda _: closing.pop()() if closing else None, [between]), fill])
    closing.append(lambda: graph.close())
    graph()
    assert not graph._temporaries.memory and graph._ready is None
    assert graph().allocations == 1
    closing.append(x.close)
    with pytest.raises(InvalidResource):
        graph()
    closing.append(cpu.close)
    with pytest.raises(InvalidResource):
        cpu.sequence([HostStep(lambda _: closing.pop()(), [between]), HostStep(print, [between])])()


def test_a_grid_that_overflows_stops_before_the_function(session: vyre.Session) -> None:
    x, y = kept(session, X), kept(session, np.zeros(N, np.uint32))
    counts = kept(session, np.array([9, 1, 1], np.uint32))
    called: list[object] = []
    graph = session.sequence(
        [Step(ADDED, {"x": x, "y": y}, grid=Indirect(counts, most=3)), HostStep(called.append, [y])]
    )
    with pytest.raises(GridOverflow):
        graph()
    assert not called
    counts.upload(np.array([3, 1, 1], np.uint32))
    graph(2)
    assert len(called) == 2
    np.testing.assert_array_equal(y.download(), 2 * X)


def test_stated_order_and_what_runs_once(session: vyre.Session) -> None:
    x, y = kept(session, X), kept(session, np.zeros(N, np.uint32))
    order: list[str] = []
    last = HostStep(lambda: order.append("a"), name="a")
    early = HostStep(lambda: order.append("b"), name="b")
    after = HostStep(lambda: order.append("c"), name="c", after=[last])
    add = Step(ADDED, {"x": x, "y": y}, after=[after])
    graph = session.sequence([add, after, last], first=[early, Batch(ADDED, [{"x": x, "y": y}] * 2)])
    graph(2)
    assert order == ["b", "a", "c", "a", "c"]
    np.testing.assert_array_equal(y.download(), 4 * X)
    assert graph(0).kernels == 2 and order[-1] == "b"


REFUSED: Final[dict[str, tuple[Callable[[ResidentArray], HostStep], type[vyre.VyreError], str]]] = {
    "no function": (lambda x: HostStep(x, [x]), InvalidInput, "calls"),  # type: ignore[arg-type]
    "a coroutine": (lambda x: HostStep(waiting, [x]), InvalidInput, "no coroutine"),
    "a name that is none": (lambda x: HostStep(print, [x], name=3), InvalidConfig, "name=3"),  # type: ignore[arg-type]
    "an array of the host": (lambda x: HostStep(print, [X]), InvalidInput, "reads="),  # type: ignore[list-item]
    "one array": (lambda x: HostStep(print, x), InvalidInput, "reads"),  # type: ignore[arg-type]
    "read and written": (lambda x: HostStep(print, [x], [x[2:3]]), InvalidResource, "same memory"),
}


async def waiting(_: object) -> None:
    """Is never called."""


@pytest.mark.parametrize(("make", "error", "message"), REFUSED.values(), ids=REFUSED)
def test_refused(
    cpu: vyre.Session, make: Callable[[ResidentArray], HostStep], error: type[vyre.VyreError], message: str
) -> None:
    x = kept(cpu, X)
    with pytest.raises(error, match=message) as caught:
        cpu.sequence([make(x)])
    assert caught.value.fix and "steps[0]" in "".join(caught.value.__notes__)


def test_refused_elsewhere(cpu: vyre.Session, tmp_path: Any) -> None:
    x, flag, other = kept(cpu, X), kept(cpu, np.zeros(1, np.uint32)), kept(cpu, np.zeros(1, np.uint32))
    step = HostStep(print, [x])
    with pytest.raises(InvalidInput, match=r"steps\[0\] is a host step"):
        cpu.fixpoint([step], changed=flag, limit=3)
    with pytest.raises(InvalidInput, match="prefilter"):
        cpu.speculate(step, step, step, passed=flag, confirmed=other)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="evidence of a sequence with a host step"):
        cpu.sequence([step]).write_evidence(tmp_path / "evidence")
    with vyre.open("reference") as reference_session, pytest.raises(InvalidResource):
        reference_session.sequence([step])
    readonly = np.arange(4)
    readonly.flags.writeable = False
    with cpu.adopt(readonly) as adopted, pytest.raises(InvalidResource, match="read-only"):
        cpu.sequence([HostStep(print, writes=[adopted])])
    x.close()
    with pytest.raises(InvalidResource):
        cpu.sequence([step])


def test_doubles_see_the_pieces() -> None:
    for nth, calls in ((1, 0), (2, 1)):
        called: list[object] = []
        with opened(failing(reference(), nth, prefix="resident_executor.run")) as session:
            x, y = kept(session, X), kept(session, np.zeros(N, np.uint32))
            add = Step(ADDED, {"x": x, "y": y})
            with pytest.raises(vyre.BackendError) as caught:
                session.sequence([add, HostStep(called.append, [y]), add])()
            assert not isinstance(caught.value, HostStepFailed) and len(called) == calls
    backend, log = recording(reference())
    with opened(backend) as session:
        x, y = kept(session, X), kept(session, np.zeros(N, np.uint32))
        add = Step(ADDED, {"x": x, "y": y})
        session.sequence([add, HostStep(lambda _: None, [y]), add, add])()
        assert log.names.count("resident_executor.run") == 2


def reference() -> Backend:
    registration = load_catalog().get("reference")
    assert registration is not None
    return registration.make()


def opened(backend: Backend) -> vyre.Session:
    return vyre.open("auto", catalog=catalog_of(backend), cache=False)


def test_telemetry_and_the_journal_are_told() -> None:
    telemetry, journal = RecordingTelemetry(), vyre.DecisionJournal()
    with vyre.open("cpu", telemetry=telemetry, journal=journal) as session:
        x = kept(session, X)
        session.sequence([HostStep(lambda _: None, [x], name="look")])(2)
    labels = (("backend", "cpu"), ("step", "look"))
    assert len(telemetry.observed["vyre.host_step.seconds", labels]) == 1
    assert any("hazard_graph" in str(decision) for decision in journal.decisions)
