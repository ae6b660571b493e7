"""Callbacks that raise what ends threads, in odd places and numbers: the next one is called all the same."""

from __future__ import annotations

import asyncio
import os
import resource
import sys
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

import vyre
from support.limits import LIMIT_S
from support.storms.process_storms import X, step
from vyre.adapters.cpu.native.compilation import llvm_version

BACKENDS: Final = (
    pytest.param("cpu", marks=pytest.mark.skipif(llvm_version() is None, reason="needs llvmlite")),
    "cuda-machine",
)
WANT: Final = (X * 3 + 1).tobytes()
DESCRIPTORS: Final = Path("/proc/self/fd")


@pytest.fixture(params=BACKENDS)
def session(request: pytest.FixtureRequest) -> Iterator[vyre.Session]:
    with vyre.open(request.param, cache=False) as found:
        yield found


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[type[BaseException]]:
    found: list[type[BaseException]] = []
    monkeypatch.setattr(threading, "excepthook", lambda args: found.append(args.exc_type))
    return found


def open_descriptors() -> int:
    return len(list(DESCRIPTORS.iterdir())) if DESCRIPTORS.is_dir() else 0


def in_a_thread(call: Any) -> Any:
    """Calls a function where no signal handler runs, and returns what it returns or what it raised."""
    found: list[Any] = []

    def run() -> None:
        try:
            found.append(call())
        except BaseException as error:
            found.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(LIMIT_S)
    return found[0]


@pytest.mark.parametrize("kind", [SystemExit, asyncio.CancelledError, BaseException])
def test_a_callback_after_the_end_raises_for_nobody_but_the_hook(
    kind: type[BaseException], session: vyre.Session, told: list[type[BaseException]]
) -> None:
    def fail(_: object) -> None:
        raise kind

    future = session.submit(step, [X])
    future.result(LIMIT_S)
    assert in_a_thread(lambda: future.add_done_callback(fail)) is None
    with session.persistent(step) as jobs:
        ticket = jobs.submit([X])
        ticket.result(LIMIT_S)
        assert in_a_thread(lambda: ticket.add_done_callback(fail)) is None
    assert told == [kind, kind]


def test_the_main_thread_gets_what_may_be_an_interrupt_after_all_were_called(session: vyre.Session) -> None:
    called: list[str] = []
    future = session.submit(step, [X])
    future.result(LIMIT_S)

    def interrupt(_: object) -> None:
        called.append("first")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        future.add_done_callback(interrupt)
    future.add_done_callback(lambda _: called.append("second"))
    assert called == ["first", "second"]


def test_a_hook_that_raises_ends_nothing(session: vyre.Session, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: object) -> None:
        raise SystemExit

    monkeypatch.setattr(threading, "excepthook", fail)
    monkeypatch.setattr(sys, "__excepthook__", lambda *_: None)
    with session.persistent(step) as jobs:

        def submit() -> None:
            for _ in range(20):
                called = threading.Event()
                jobs.submit([X]).add_done_callback(fail)
                session.submit(step, [X]).add_done_callback(fail)
                jobs.submit([X]).add_done_callback(partial(_sets, called))
                assert called.wait(LIMIT_S)

        assert in_a_thread(submit) is None


def test_every_callback_is_called_though_results_are_collected(session: vyre.Session) -> None:
    called: list[Any] = []
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with session.persistent(step) as jobs:
            for _ in range(60):
                ticket = jobs.submit([X])
                ticket.add_done_callback(called.append)
                ticket.result(LIMIT_S)
    finally:
        sys.setswitchinterval(before)
    assert len(called) == 60


def test_callbacks_may_submit_wait_add_and_close(session: vyre.Session) -> None:
    done = threading.Event()
    with session.persistent(step) as jobs:
        other = session.persistent(step)

        def use_all(ticket: vyre.Ticket) -> None:
            assert jobs.submit([X]).result(LIMIT_S)["y"].tobytes() == WANT
            assert session.dispatch(step, [X])["y"].tobytes() == WANT
            ticket.add_done_callback(lambda _: other.close())
            jobs.submit([X]).add_done_callback(lambda _: done.set())

        jobs.submit([X]).add_done_callback(use_all)
        assert done.wait(LIMIT_S)
        assert other.closed


def test_tickets_are_awaited_in_any_number_of_loops(session: vyre.Session) -> None:
    async def get(jobs: Any) -> bytes:
        return bytes((await jobs.submit([X]))["y"].tobytes())

    before = open_descriptors()
    with session.persistent(step) as jobs:
        for _ in range(70):  # more than the engine has places for loops
            assert asyncio.run(get(jobs)) == WANT
        assert open_descriptors() < before + 16
        loops = [asyncio.new_event_loop() for _ in range(40)]  # all open at once
        assert [loop.run_until_complete(get(jobs)) for loop in loops] == [WANT] * len(loops)
        assert [in_a_thread(lambda: asyncio.run(get(jobs))) for _ in range(3)] == [WANT] * 3
        for loop in loops:
            loop.close()


def test_a_loop_that_is_closed_while_its_ticket_is_under_way_harms_nobody(session: vyre.Session) -> None:
    with session.persistent(step) as jobs:
        loop = asyncio.new_event_loop()
        tasks = [loop.create_task(_awaits(jobs)) for _ in range(5)]
        loop.run_until_complete(asyncio.sleep(0))
        for task in tasks:
            task.cancel()
        loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        loop.close()
        assert jobs.submit([X]).result(LIMIT_S)["y"].tobytes() == WANT


def _sets(event: threading.Event, _: object) -> None:
    event.set()


async def _awaits(jobs: Any) -> Any:
    return await jobs.submit([X])


@pytest.mark.skipif(not DESCRIPTORS.is_dir(), reason="needs a list of descriptors")
@pytest.mark.parametrize("backend", BACKENDS)
def test_without_a_descriptor_callbacks_are_called_and_loops_told(backend: str) -> None:
    with vyre.open(backend, cache=False) as session, session.persistent(step) as jobs:
        jobs.submit([X]).result(LIMIT_S)
        loop, called = asyncio.new_event_loop(), threading.Event()
        limits = resource.getrlimit(resource.RLIMIT_NOFILE)
        most = open_descriptors() + 8
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, limits[1]))
        held: list[int] = []
        try:
            while True:
                try:
                    held.append(os.dup(0))
                except OSError:
                    break
            jobs.submit([X]).add_done_callback(lambda _: called.set())
            assert called.wait(LIMIT_S)
            assert np.array_equal(loop.run_until_complete(_awaits(jobs))["y"], X * 3 + 1)
            with pytest.raises(vyre.DispatchFailed, match="needs a file descriptor") as refused:
                jobs.engines[0].subscribe()
            assert "ulimit -n" in refused.value.fix
        finally:
            for each in held:
                os.close(each)
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)
            loop.close()
        again = threading.Event()
        jobs.submit([X]).add_done_callback(lambda _: again.set())
        assert again.wait(LIMIT_S)
