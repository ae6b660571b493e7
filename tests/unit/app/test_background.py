"""The background of a session: one thread, bounded wishes, errors that nobody is bothered with."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from functools import partial

import pytest

from support.limits import LIMIT_S
from vyre.app.background import BackgroundCompiler, BackgroundCounts
from vyre.domain.errors import KernelCompileFailed
from vyre.testing.recording_telemetry import RecordingTelemetry


@pytest.fixture
def telemetry() -> RecordingTelemetry:
    return RecordingTelemetry()


@pytest.fixture
def background(telemetry: RecordingTelemetry) -> Iterator[BackgroundCompiler]:
    made = BackgroundCompiler(telemetry, waiting=2)
    yield made
    made.close()


class Gate:
    """Work that says when it has begun, and ends when it may."""

    def __init__(self) -> None:
        self.begun, self.may_end = threading.Event(), threading.Event()

    def __call__(self) -> None:
        self.begun.set()
        assert self.may_end.wait(LIMIT_S)


@pytest.fixture
def gate(background: BackgroundCompiler) -> Iterator[Gate]:
    """What runs while the test makes further wishes."""
    made = Gate()
    assert background.wish("gate", made)
    assert made.begun.wait(LIMIT_S)
    yield made
    made.may_end.set()


def threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "vyre-background"]


def test_wishes_are_fulfilled_in_order_on_one_thread(background: BackgroundCompiler, gate: Gate) -> None:
    seen: list[tuple[int, int]] = []

    def note(number: int) -> None:
        seen.append((number, threading.get_ident()))

    for number in range(2):
        background.wish(number, partial(note, number))
    assert len(threads()) == 1 and not threads()[0].daemon
    gate.may_end.set()
    background.join()
    assert [number for number, _ in seen] == [0, 1]
    assert len({ident for _, ident in seen}) == 1 and seen[0][1] != threading.get_ident()
    assert background.counts() == BackgroundCounts(done=3)


def test_no_thread_is_left_when_there_is_nothing_to_do(background: BackgroundCompiler) -> None:
    assert not threads()
    for _ in range(2):
        background.wish("a", lambda: None)
        background.join()
        assert not threads()
    assert background.counts().done == 2


def test_a_full_queue_drops_the_oldest_wish(background: BackgroundCompiler, gate: Gate) -> None:
    done: list[str] = []
    for name in "abcd":
        assert background.wish(name, partial(done.append, name))
    assert background.load_bps == 10_000
    gate.may_end.set()
    background.join()
    assert done == ["c", "d"]
    assert background.counts() == BackgroundCounts(done=3, dropped=2)
    assert background.load_bps == 0


def test_what_waits_or_runs_is_not_wished_twice(background: BackgroundCompiler, gate: Gate) -> None:
    assert not background.wish("gate", pytest.fail)
    assert background.wish("a", lambda: None)
    assert not background.wish("a", pytest.fail)
    gate.may_end.set()
    background.join()
    assert background.wish("gate", lambda: None), "it is over, so it may be wished again"


def test_a_wish_is_taken_back(background: BackgroundCompiler, gate: Gate) -> None:
    background.wish("a", pytest.fail)
    background.forget("a")
    background.forget("never wished")
    gate.may_end.set()
    background.join()
    assert background.counts() == BackgroundCounts(done=1)


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (KernelCompileFailed(backend="fake", compiler_log="no"), "KernelCompileFailed: "),
        (ValueError(), "ValueError"),
        (SystemExit(3), "SystemExit: 3"),
    ],
)
def test_errors_are_telemetry(
    background: BackgroundCompiler, telemetry: RecordingTelemetry, error: BaseException, told: str
) -> None:
    def fail() -> None:
        raise error

    done: list[int] = []
    background.wish("a", fail)
    background.wish("b", lambda: done.append(1))
    background.join()
    assert done == [1], "one failure does not end the thread"
    (event,) = telemetry.events
    assert (event.name, event.level) == ("vyre.background.failed", "warning")
    assert str(event.fields["error"]).startswith(told)
    assert background.counts() == BackgroundCounts(done=1, failed=1)


def test_close_waits_for_what_runs_and_drops_the_rest(background: BackgroundCompiler, gate: Gate) -> None:
    background.wish("a", pytest.fail)
    closing = threading.Thread(target=background.close)
    closing.start()
    closing.join(0.05)
    assert closing.is_alive()
    gate.may_end.set()
    closing.join(LIMIT_S)
    assert not closing.is_alive() and not threads()
    assert background.counts() == BackgroundCounts(done=1, dropped=1)
    assert not background.wish("b", pytest.fail)
    background.close()


def test_work_may_close_the_background_it_runs_on(background: BackgroundCompiler) -> None:
    background.wish("a", background.close)
    background.wish("b", lambda: None)
    background.join()
    assert background.counts().failed == 0
    assert not background.wish("c", pytest.fail)


def test_without_a_thread_wishes_are_dropped(
    background: BackgroundCompiler, telemetry: RecordingTelemetry, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        assert not background.wish("a", pytest.fail)
    assert [event.name for event in telemetry.events] == ["vyre.background.no_thread"]
    assert background.counts().dropped == 1
    assert background.wish("a", lambda: None)


def test_many_threads_wish_at_once(background: BackgroundCompiler) -> None:
    done: list[int] = []

    def wisher(first: int) -> Callable[[], None]:
        def run() -> None:
            for number in range(first, first + 50):
                background.wish(number, partial(done.append, number))

        return run

    wishers = [threading.Thread(target=wisher(50 * each)) for each in range(4)]
    for thread in wishers:
        thread.start()
    for thread in wishers:
        thread.join()
    background.join()
    counts = background.counts()
    assert counts.done == len(done) and counts.done + counts.dropped == 200
