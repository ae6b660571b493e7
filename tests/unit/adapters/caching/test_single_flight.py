"""One build for all who ask at once; what happens when it fails, is cancelled, takes too long or waits for itself."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest

from support.limits import LIMIT_S
from vyre.adapters.caching.single_flight import SingleFlight, _Flight
from vyre.domain.errors import DispatchTimeout, ErrorCode, KernelCompileFailed, UnfinishedBuild

THREADS = 8
PATIENCE_S = 30.0


class Crowd:
    """Threads that ask for a key while its build, in another thread, is held up."""

    def __init__(self, flights: SingleFlight[str, Any], build: Callable[[], Any]) -> None:
        self.flights = flights
        self.started, self.go_on = threading.Event(), threading.Event()
        self.pool = ThreadPoolExecutor(THREADS + 1)

        def held_up() -> Any:
            self.started.set()
            assert self.go_on.wait(PATIENCE_S)
            return build()

        self.owner: Future[Any] = self.pool.submit(flights.run, "k", held_up)
        assert self.started.wait(PATIENCE_S)
        self.others = [self.pool.submit(flights.run, "k", self.never) for _ in range(THREADS)]
        while len(flights._waiting) < THREADS:
            pass

    @staticmethod
    def never() -> Any:
        raise AssertionError("a second build")

    def release(self) -> None:
        self.go_on.set()
        self.pool.shutdown(wait=True)


def test_many_threads_make_one_build() -> None:
    value = object()
    crowd = Crowd(SingleFlight(), lambda: value)
    crowd.release()
    assert crowd.owner.result(LIMIT_S) == (value, True)
    assert [other.result(LIMIT_S) for other in crowd.others] == [(value, False)] * THREADS
    assert not crowd.flights._flights and not crowd.flights._waiting


def failing(error: BaseException) -> Callable[[], Any]:
    def build() -> Any:
        raise error

    return build


def test_an_error_of_ours_reaches_everybody_as_it_is() -> None:
    error = KernelCompileFailed(backend="b", compiler_log="no such instruction")
    error.add_note("program saxpy")
    crowd = Crowd(SingleFlight(), failing(error))
    crowd.release()
    assert crowd.owner.exception(LIMIT_S) is error
    found = [other.exception(LIMIT_S) for other in crowd.others]
    for one in found:
        assert isinstance(one, KernelCompileFailed)
        assert (str(one), one.compiler_log, one.__notes__) == (str(error), "no such instruction", ["program saxpy"])
    assert len({id(one) for one in (error, *found)}) == THREADS + 1, "each thread raises one of its own"
    assert len({id(one.__notes__) for one in (error, *found) if one is not None}) == THREADS + 1


@pytest.mark.parametrize(
    ("error", "how"),
    [
        (ValueError("odd"), "failed (ValueError: odd)"),
        (ValueError(), "failed (ValueError)"),
        (KeyboardInterrupt(), "was cancelled (KeyboardInterrupt)"),
        (SystemExit(3), "was cancelled (SystemExit: 3)"),
    ],
    ids=repr,
)
def test_any_other_error_releases_those_who_wait_with_one_of_ours(error: BaseException, how: str) -> None:
    crowd = Crowd(SingleFlight(), failing(error))
    crowd.release()
    assert crowd.owner.exception(LIMIT_S) is error
    for other in crowd.others:
        found = other.exception(LIMIT_S)
        assert isinstance(found, UnfinishedBuild) and found.code is ErrorCode.UNFINISHED_BUILD
        assert found.message == f"the build of 'k' in another thread {how}"
    assert crowd.flights.run("k", lambda: 1) == (1, True), "the next one builds"


def test_a_wait_ends_at_its_deadline_and_the_build_goes_on() -> None:
    flights: SingleFlight[str, int] = SingleFlight()
    crowd = Crowd(flights, lambda: 5)
    with pytest.raises(DispatchTimeout, match=r"waited 0\.01 s for another thread to build 'k'"):
        flights.run("k", crowd.never, 0.01)
    assert threading.get_ident() not in flights._waiting
    crowd.release()
    assert crowd.owner.result(LIMIT_S) == (5, True)


def test_the_deadline_does_not_cut_off_a_build_of_ones_own() -> None:
    assert SingleFlight[str, int]().run("k", lambda: 5, 0.0) == (5, True)


def test_a_build_may_ask_for_others() -> None:
    flights: SingleFlight[str, int] = SingleFlight()

    def outer() -> int:
        return flights.run("inner", lambda: 20)[0] + 1

    assert flights.run("outer", outer) == (21, True)


def test_a_build_that_asks_for_its_own_key_is_an_error() -> None:
    flights: SingleFlight[str, int] = SingleFlight()

    def outer() -> int:
        return flights.run("middle", lambda: flights.run("outer", lambda: 1)[0])[0]

    with pytest.raises(UnfinishedBuild, match="the build of 'outer' waits for itself"):
        flights.run("outer", outer)
    assert flights.run("outer", lambda: 3) == (3, True)


def test_builds_that_wait_for_each_other_across_threads_are_an_error() -> None:
    """Thread 1 builds `a` and needs `b`; thread 2 builds `b` and needs `a`.  Whoever comes second is told."""
    flights: SingleFlight[str, str] = SingleFlight()
    both = threading.Barrier(2)

    def needing(other: str) -> Callable[[], str]:
        def build() -> str:
            both.wait(PATIENCE_S)
            return flights.run(other, lambda: other)[0]

        return build

    with ThreadPoolExecutor(2) as pool:
        runs = [pool.submit(flights.run, key, needing(other)) for key, other in ("ab", "ba")]
        errors = [run.exception(PATIENCE_S) for run in runs]
    assert all(isinstance(error, UnfinishedBuild) for error in errors)
    assert not flights._flights and not flights._waiting


def test_a_chain_of_waits_is_no_circle() -> None:
    """Thread 1 builds `a` and needs `b`, which thread 2 builds and needs `c`, which thread 3 builds."""
    flights: SingleFlight[str, str] = SingleFlight()
    ready, go_on = [threading.Event() for _ in "abc"], threading.Event()

    def build(place: int) -> str:
        ready[place].set()
        if place == 2:
            assert go_on.wait(PATIENCE_S)
            return "c"
        assert ready[place + 1].wait(PATIENCE_S)
        return "abc"[place] + flights.run("abc"[place + 1], Crowd.never)[0]

    with ThreadPoolExecutor(3) as pool:
        runs = []
        for place in (2, 1, 0):
            runs.append(pool.submit(flights.run, "abc"[place], partial(build, place)))
            assert ready[place].wait(PATIENCE_S)
        while len(flights._waiting) < 2:
            pass
        go_on.set()
        assert [run.result(PATIENCE_S)[0] for run in runs] == ["c", "bc", "abc"]


def test_who_asks_after_forget_does_not_get_the_earlier_build() -> None:
    crowd = Crowd(SingleFlight(), lambda: "old")
    crowd.flights.forget("other")
    crowd.flights.forget("k")
    assert crowd.flights.run("k", lambda: "new") == ("new", True)
    crowd.release()
    assert crowd.owner.result(LIMIT_S) == ("old", True)
    assert {other.result(LIMIT_S) for other in crowd.others} == {("old", False)}


def test_who_comes_when_a_build_has_just_landed_does_not_wait() -> None:
    """The builder may look for a gate before the other thread has made one."""
    flight: _Flight[int] = _Flight(0)
    flight.landed = True
    flight.close_gate()
    assert flight.wait(None) and flight.gate is not None and flight.gate.locked()


def test_a_failure_keeps_nothing_of_the_build_alive() -> None:
    class Large:
        pass

    seen: list[weakref.ref[Large]] = []

    def build() -> Any:
        large = Large()
        seen.append(weakref.ref(large))
        raise ValueError("odd")

    flights: SingleFlight[str, Any] = SingleFlight()
    gc.disable()
    try:
        with pytest.raises(ValueError, match="odd") as caught:
            flights.run("k", build)
        del caught
        assert seen[0]() is None, "freed without a collection"
    finally:
        gc.enable()
