"""Work that no signal handler interrupts, and waits that an interrupt ends."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from itertools import repeat
from types import FunctionType
from typing import Any

import pytest

from support.cpu.pool import until
from support.limits import LIMIT_S
from support.storms.interrupt_storm import Interrupt, Places, Tracer
from vyre.adapters import forks
from vyre.adapters.caching.single_flight import SingleFlight
from vyre.app.asynchrony.admission import Admission
from vyre.app.asynchrony.futures import Submitted
from vyre.app.asynchrony.order import MemoryOrder, Operation
from vyre.policies.concurrency.hazards import WHOLE, Access, AccessMode
from vyre.ports import interrupts
from vyre.ports.interrupts import is_disturbed, sealed, undisturbed


def interrupted_everywhere(
    action: Callable[[], object], check: Callable[[], object], places: Places = Places.LINES
) -> int:
    """Interrupts ``action`` at each place, calls ``check`` after each, and returns how many places there were."""
    number = 0
    while True:
        tracer = Tracer(places, number)
        try:
            with tracer.tracing():
                action()
        except Interrupt:
            pass
        assert tracer.raised is not None or tracer.count == number
        check()
        if tracer.raised is None:
            return number
        number += 1


@pytest.fixture
def interruptible() -> Iterator[None]:
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, handler)


# ---------------------------------------------------------------- threads without signals
def test_work_is_done_elsewhere_and_returns_or_raises_as_here() -> None:
    def fail(text: str) -> None:
        raise ValueError(text)

    assert is_disturbed() and undisturbed(is_disturbed) is False
    assert undisturbed(divmod, 7, 2) == (3, 1)
    with pytest.raises(ValueError, match="told"):
        undisturbed(fail, text="told")
    assert undisturbed(lambda: undisturbed(threading.get_ident)) != threading.get_ident()


def test_the_caller_is_interrupted_and_the_work_ends(interruptible: None) -> None:
    ended = threading.Event()

    def work() -> None:
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.05)
        ended.set()

    with pytest.raises(KeyboardInterrupt):
        undisturbed(work)
    assert ended.is_set()  # it was waited for, as it took a moment only


def test_work_without_an_end_does_not_keep_the_interrupt_from_the_caller(interruptible: None) -> None:
    go_on = threading.Event()

    def work() -> None:
        os.kill(os.getpid(), signal.SIGINT)
        go_on.wait(LIMIT_S)

    with pytest.raises(KeyboardInterrupt):
        undisturbed(work)
    assert undisturbed(lambda: 5) == 5  # by another thread
    go_on.set()


def test_work_on_memory_of_the_caller_never_begins_after_its_caller_has_left(
    interruptible: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other work does: it may give back what its caller no longer can."""
    queued: list[Any] = []

    def add(job: Any) -> bool:
        queued.append(job)
        return True

    monkeypatch.setattr(interrupts._HELPERS[0], "add", add)
    monkeypatch.setattr(interrupts, "PATIENCE_S", 0.01)
    done: list[str] = []
    for use in (interrupts.whole(lambda: done.append("whole")), lambda: undisturbed(done.append, "undisturbed")):
        threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
        with pytest.raises(KeyboardInterrupt):
            use()
    assert not done
    for job in queued:
        job.run()
    assert done == ["undisturbed"]


def test_no_place_of_an_interrupt_loses_a_helper() -> None:
    before = threading.active_count()
    assert interrupted_everywhere(lambda: undisturbed(int), lambda: undisturbed(int)) > 20
    until(lambda: threading.active_count() <= before + 2)


def test_code_that_vyre_calls_does_its_work_itself() -> None:
    flights: SingleFlight[str, bool] = SingleFlight()
    found, _ = flights.run("outer", lambda: undisturbed(is_disturbed))
    assert found is False
    # A finaliser inside vyre, whose thread may hold a lock that the work needs.
    called: list[int] = []
    names: dict[str, Any] = {"called": called, "work": undisturbed, "ident": threading.get_ident}
    exec(compile("def inside(call): call()\ndef entry(): return work(ident)", interrupts.__file__, "exec"), names)
    exec(compile("def finaliser(): called.append(entry())", "a finaliser", "exec"), names)
    names["inside"](names["finaliser"])
    assert called == [threading.get_ident()]


# ---------------------------------------------------------------- locks, places, builds
def test_a_lock_is_released_wherever_its_block_is_interrupted() -> None:
    lock = threading.Lock()
    done: list[int] = []

    def use(lock: threading.Lock, sealed: Any, done: list[int]) -> None:
        with lock, sealed:
            done.append(1)

    code = use.__code__.replace(co_filename=interrupts.__file__)
    places = interrupted_everywhere(
        lambda: FunctionType(code, {})(lock, sealed, done), lambda: pytest.fail("held") if lock.locked() else None
    )
    assert places >= 5


def test_admission_loses_no_place() -> None:
    admission = Admission(1)

    def take_and_leave() -> None:
        future: Submitted[int] = Submitted(admission.give_back)
        try:
            admission.take(future)
            future.run(lambda: 3)
        except BaseException:
            future.drop()
            raise

    def check() -> None:
        assert admission.taken == 0
        thread = threading.Thread(target=take_and_leave)
        thread.start()
        thread.join(LIMIT_S)
        assert not thread.is_alive() and admission.taken == 0

    assert interrupted_everywhere(take_and_leave, check) > 30


@pytest.mark.parametrize("what", ["result", "callback", "cancel"])
def test_an_interrupted_use_of_a_future_does_not_hold_what_completes_it(what: str) -> None:
    futures: list[Submitted[int]] = []

    def use() -> None:
        future: Submitted[int] = Submitted(lambda _: None)
        futures.append(future)
        if what == "result":
            with suppress(TimeoutError):
                future.result(0)
        elif what == "callback":
            future.add_done_callback(lambda _: None)
        else:
            future.cancel()

    def check() -> None:
        future = futures.pop() if futures else Submitted(lambda _: None)
        thread = threading.Thread(target=lambda: future.run(lambda: 1), daemon=True)
        thread.start()
        thread.join(LIMIT_S)
        assert not thread.is_alive()

    assert interrupted_everywhere(use, check, Places.SIGNALS) > 10  # the library's blocks are not sealed


def test_the_order_of_operations_forgets_what_was_interrupted() -> None:
    order = MemoryOrder()
    accesses = (Access(1, AccessMode.READ_WRITE, WHOLE),)

    def add_and_end() -> None:
        begun: list[int] = []
        first, second = Operation(accesses, lambda: begun.append(1)), Operation(accesses, lambda: begun.append(2))
        try:
            order.add(first)
            order.add(second)
        finally:
            order.end(first)
            order.end(second)
            order.end(first)

    def check() -> None:
        for operation in list(order.under_way):  # interrupted before its end was asked for
            order.end(operation)
        thread = threading.Thread(target=order.wait_for_all)
        thread.start()
        thread.join(LIMIT_S)
        assert not thread.is_alive() and not order.conflicts(accesses)

    assert interrupted_everywhere(add_and_end, check) > 30


def test_a_build_whose_requester_was_interrupted_serves_the_others(interruptible: None) -> None:
    flights: SingleFlight[str, int] = SingleFlight()
    waiting, found = threading.Event(), []

    def build() -> int:
        other = threading.Thread(target=lambda: found.append(flights.run("key", lambda: 9)))
        other.start()
        until(lambda: bool(flights._waiting))
        os.kill(os.getpid(), signal.SIGINT)
        waiting.wait(LIMIT_S)
        return 7

    with pytest.raises(KeyboardInterrupt):
        flights.run("key", build)
    waiting.set()
    until(lambda: bool(found))
    assert found == [(7, False)]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this platform has no fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_fork_leaves_no_lock_held_wherever_it_is_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    """CPython tells nobody of what is raised in what it calls around a fork, and goes on with the next one."""
    locks = [threading.RLock() for _ in range(3)]
    monkeypatch.setattr(forks, "_AWAITED", [(partial(next, repeat(lock)), list) for lock in locks])

    def is_free(lock: Any) -> bool:
        free: bool = lock.acquire(timeout=0)
        if free:
            lock.release()
        return free

    def fork() -> None:
        for called in (forks._before, forks._in_parent, forks._in_parent):
            with suppress(Interrupt):
                called()

    def check() -> None:
        assert not forks._TAKEN
        for lock in locks:
            assert undisturbed(is_free, lock)

    assert interrupted_everywhere(fork, check, Places.SIGNALS) > 20
    with locks[1]:
        fork()
    check()
    monkeypatch.setattr(forks, "WAIT_S", 0.01)
    held, done = threading.Event(), threading.Event()

    def hold() -> None:
        with locks[0]:
            held.set()
            done.wait(LIMIT_S)

    holder = threading.Thread(target=hold)
    holder.start()
    assert held.wait(LIMIT_S)
    fork()
    done.set()
    holder.join()
    check()


def test_a_fork_has_helpers_of_its_own() -> None:
    assert undisturbed(int) == 0
    child = os.fork()
    if child == 0:
        os._exit(undisturbed(lambda: 7))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
