"""Sessions that threads use while another one closes them: who loses is told so, or its work is done."""

from __future__ import annotations

import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np
import pytest

import vyre
from support.limits import LIMIT_S
from support.small_programs import catalog_of, saxpy_kernel, saxpy_program
from vyre.adapters.cuda.runtime.waiting import Waiter
from vyre.app.lease import BackendLease
from vyre.app.pipeline import Argument
from vyre.domain.errors import DispatchFailed, InvalidResource, VyreError
from vyre.testing.fakes import function_backend

X = np.arange(8, dtype=np.float32)
Y = np.ones(8, dtype=np.float32)
PROGRAM = saxpy_program()
NAMED: Mapping[str, Argument] = {"a": 2.0, "x": X, "y": Y}
WANT = (2 * X + Y).tobytes()
ROUNDS, THREADS = 25, 8
BACKENDS = ("reference", "cuda-machine")


@pytest.fixture(params=BACKENDS)
def opened(request: pytest.FixtureRequest) -> Callable[[], vyre.Session]:
    return lambda: vyre.open(request.param)


class Meanwhile(Mapping[str, Argument]):
    """Inputs; ``happens`` is called while they are read."""

    def __init__(self, happens: Callable[[], object]) -> None:
        self.happens = happens

    def __getitem__(self, name: str) -> Argument:
        self.happens()
        return NAMED[name]

    def __iter__(self) -> Iterator[str]:
        return iter(NAMED)

    def __len__(self) -> int:
        return len(NAMED)


def submit_threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("vyre-submit")]


def on_resident_memory(session: vyre.Session) -> bytes:
    with session.resident(X) as x, session.resident(Y) as y:
        session.dispatch(PROGRAM, {"a": 2.0, "x": x, "y": y})
        return y.download().tobytes()


def bound(session: vyre.Session) -> bytes:
    with session.resident(Y) as y, session.bind_resident(PROGRAM, {"a": 2.0, "x": X, "y": y}) as launch:
        launch()
        return y.download().tobytes()


def in_a_sequence(session: vyre.Session) -> bytes:
    with session.resident(Y) as y:
        session.sequence([vyre.Step(PROGRAM, {"a": 2.0, "x": X, "y": y})])()
        return y.download().tobytes()


WORK: Mapping[str, Callable[[vyre.Session], bytes]] = {
    "submit": lambda session: session.submit(PROGRAM, NAMED).result(LIMIT_S)["y"].tobytes(),
    "dispatch": lambda session: session.dispatch(PROGRAM, NAMED)["y"].tobytes(),
    "another shape": lambda session: session.dispatch(PROGRAM, [2.0, X[:4], Y])["y"].tobytes()[:16] + WANT[16:],
    "another program": lambda session: session.dispatch(saxpy_program("other"), NAMED)["y"].tobytes(),
    "on resident memory": on_resident_memory,
    "bound": bound,
    "in a sequence": in_a_sequence,
}


@pytest.mark.parametrize("work", WORK)
def test_work_that_races_a_close_is_done_or_told_that_something_is_closed(
    work: str, opened: Callable[[], vyre.Session]
) -> None:
    def outcome(session: vyre.Session, together: threading.Barrier) -> str:
        together.wait(LIMIT_S)
        try:
            return "done" if WORK[work](session) == WANT else "wrong bytes"
        except (InvalidResource, DispatchFailed) as error:
            return "refused" if "closed" in error.message else repr(error)

    told: Counter[str] = Counter()
    with ThreadPoolExecutor(THREADS) as pool:
        for _ in range(ROUNDS):
            session, together = opened(), threading.Barrier(THREADS + 1)
            session.dispatch(PROGRAM, NAMED)
            outcomes = [pool.submit(outcome, session, together) for _ in range(THREADS)]
            together.wait(LIMIT_S)
            session.close()
            told.update(future.result(LIMIT_S) for future in outcomes)
    assert {**told, "done": 0, "refused": 0} == {"done": 0, "refused": 0}
    assert submit_threads() == []


def test_a_close_waits_for_no_stream_that_another_thread_has_destroyed(monkeypatch: pytest.MonkeyPatch) -> None:
    session, waited = vyre.open("cuda-machine", cache=False), Waiter.stream
    jobs = session.persistent(PROGRAM)
    jobs.submit(NAMED).result(LIMIT_S)
    ending = threading.Thread(target=jobs.close)

    def stream(waiter: Waiter, stream: int, deadline_ns: int | None) -> bool:
        if ending.ident is None:  # the first wait of the close, which knows all streams by now
            ending.start()
            ending.join(LIMIT_S)
        return waited(waiter, stream, deadline_ns)

    monkeypatch.setattr(Waiter, "stream", stream)
    session.close()
    assert ending.ident is not None and not ending.is_alive()


@pytest.mark.parametrize("backend", ["cpu", "cuda-machine"])
def test_engines_that_threads_open_and_end_meanwhile_are_closed(backend: str) -> None:
    def use(session: vyre.Session) -> None:
        with pytest.raises((InvalidResource, DispatchFailed), match="closed"):
            while True:
                with session.persistent(PROGRAM) as jobs:
                    assert jobs.submit(NAMED).result(LIMIT_S)["y"].tobytes() == WANT
                session.flush()

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        with ThreadPoolExecutor(THREADS) as pool:
            for _ in range(4):
                session = vyre.open(backend, cache=False)
                session.dispatch(PROGRAM, NAMED)
                users = [pool.submit(use, session) for _ in range(THREADS)]
                time.sleep(0.05)
                session.close()
                for user in users:
                    user.result(LIMIT_S)
    finally:
        sys.setswitchinterval(interval)


def test_a_session_that_closes_while_inputs_are_read_refuses_them_and_starts_no_thread() -> None:
    session = vyre.open("reference")
    with pytest.raises(InvalidResource, match="the session is closed"):
        session.submit(PROGRAM, Meanwhile(session.close))
    assert submit_threads() == []


class Watched:
    """A lock that tells of every thread that comes for it."""

    def __init__(self) -> None:
        self.came, self.lock = threading.Semaphore(0), threading.RLock()

    def __enter__(self) -> None:
        self.came.release()
        self.lock.acquire()

    def __exit__(self, *raised: object) -> None:
        self.lock.release()


def test_every_thread_that_closes_waits_for_what_was_submitted() -> None:
    begun, go_on, closing = threading.Event(), threading.Event(), Watched()

    def slow(inputs: dict[str, bytes]) -> dict[str, bytes]:
        begun.set()
        assert go_on.wait(LIMIT_S)
        return saxpy_kernel(inputs)

    def close() -> bool:
        session.close()
        return future.done()

    session = vyre.open(catalog=catalog_of(function_backend(slow)))  # type: ignore[arg-type]
    session._closing = closing  # type: ignore[assignment]
    future = session.submit(PROGRAM, NAMED)
    assert begun.wait(LIMIT_S)
    with ThreadPoolExecutor(3) as pool:
        closers = [pool.submit(close) for _ in range(3)]
        assert all(closing.came.acquire(timeout=LIMIT_S) for _ in closers)
        with pytest.raises(InvalidResource, match="the session is closed"):
            session.submit(PROGRAM, NAMED)
        assert not any(closer.done() for closer in closers)
        go_on.set()
        assert [closer.result(LIMIT_S) for closer in closers] == [True] * 3
    assert future.result(LIMIT_S)["y"].tobytes() == WANT


def test_a_callback_of_a_submitted_dispatch_may_close_the_session(
    opened: Callable[[], vyre.Session], caplog: pytest.LogCaptureFixture
) -> None:
    session, called = opened(), threading.Event()

    def close(_: Future[vyre.Result]) -> None:
        session.close()
        called.set()

    futures = [session.submit(PROGRAM, NAMED) for _ in range(12)]
    for future in futures:
        future.add_done_callback(close)
    assert called.wait(LIMIT_S)
    session.close()
    assert session.closed and submit_threads() == []
    for future in futures:
        outcome = future.exception(LIMIT_S)
        assert outcome is None or isinstance(outcome, VyreError)
    # What a callback raises is only logged; vyre itself tells of dispatches that the closing session has refused.
    assert [record for record in caplog.records if record.name != "vyre"] == []


def test_resident_memory_made_while_a_session_closes_is_freed() -> None:
    session = vyre.open("reference")
    made = session.resident(X)
    lease: BackendLease = session._lease
    other = vyre.open("reference")
    foreign = other.resident(X)
    session.close()
    with pytest.raises(InvalidResource, match="the session is closed"):
        lease.adopt(foreign)  # as ``resident`` does after its allocation
    assert made.closed and foreign.closed
    other.close()


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_system_without_threads_still_gives_a_result_or_a_typed_error(
    backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with vyre.open(backend) as session:
        monkeypatch.setattr(threading.Thread, "start", refuse)
        try:
            outcome = session.submit(PROGRAM, NAMED).result(LIMIT_S)["y"].tobytes()
        except DispatchFailed as error:
            assert "can't start new thread" in str(error)
            outcome = WANT
        assert outcome == WANT
        monkeypatch.undo()
