"""Interrupts anywhere in the CUDA adapter, on the emulated device: a part of the storm, and what lost most."""

from __future__ import annotations

import os
import random
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from types import FrameType
from typing import Any, Final

import numpy as np
import pytest

import vyre
from support.cpu.pool import until, until_collected
from support.limits import LIMIT_S
from support.profiles import SOAK
from support.storms.interrupt_storm import Places, storm
from support.storms.interrupted_operations import WANT, X, add, operations, works
from support.storms.interrupts import interrupted_everywhere
from vyre import DeviceLost, InOut, u32
from vyre.adapters.cuda.drivers import machine_driver
from vyre.adapters.cuda.machine import execution
from vyre.adapters.cuda.machine.driver import MachineDriver
from vyre.adapters.cuda.machine.faults import FaultKind
from vyre.adapters.cuda.machine.options import RunOptions
from vyre.adapters.cuda.runtime.device import CudaOptions
from vyre.adapters.cuda.runtime.waiting import SYSTEM_CLOCK, WaitingClock
from vyre.app.asynchrony import work
from vyre.domain.cost_limits import SETTLING_SAMPLES
from vyre.ports import interrupts
from vyre.ports.interrupts import PATIENCE_S, given_up, whole
from vyre.testing import cuda_machine

PARTS: Final = {
    "dispatch": 993,
    "submit": 1203,
    "bound launch": 291,
    "bound resident launch": 37,
    "bind_resident": 993,
    "resident array": 993,
    "sequence": 183,
    "open persistent engine": 1203,
    "close jobs": 1203,
    "bundle": 3603,
    "dispatch beside another thread": 1203,
    "cold dispatch": 183,
}
"""One of so many places of each operation is tried, but in a soak: all places of all operations."""
STORMED: Final = [each for each in operations("cuda-machine") if SOAK or each.name in PARTS]


@pytest.fixture
def drivers(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[MachineDriver]]:
    """The emulated drivers that sessions make; in the end each has got everything back, and was never misused."""
    made: list[MachineDriver] = []

    def recorded() -> MachineDriver:
        made.append(machine_driver())
        return made[-1]

    monkeypatch.setattr("vyre.adapters.cuda.drivers.machine_driver", recorded)
    yield made
    assert made
    for driver in made:  # the device of what was interrupted before somebody had it is closed by another thread
        until_collected(lambda driver=driver: not any(driver.live().values()))  # type: ignore[misc]
        assert list(driver.violations) == []


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # arrays of a bench are dropped, open
@pytest.mark.parametrize("operation", STORMED, ids=lambda each: each.name)
def test_an_interrupt_anywhere_loses_nothing_of_the_device(operation: Any, drivers: list[MachineDriver]) -> None:
    every = PARTS.get(operation.name, 1)
    for places in Places if SOAK else (Places.SIGNALS,):
        found = storm(operation, places, part=(0, 1) if SOAK else (every // 2, every))
        assert found.interrupts > 0 and not found.failures, str(found)


@contextmanager
def interrupted_at(event: str, function: str) -> Iterator[list[str]]:
    """Sends a signal once, as the main thread calls or leaves a function of vyre; the list then has its name."""
    hit: list[str] = []

    def look(frame: FrameType, what: str, _: Any) -> None:
        if what == event and frame.f_code.co_name == function and not hit:
            hit.append(function)
            signal.raise_signal(signal.SIGINT)

    handler = signal.signal(signal.SIGINT, signal.default_int_handler)

    sys.setprofile(look)
    try:
        yield hit
    finally:
        sys.setprofile(None)
        signal.signal(signal.SIGINT, handler)


OF_SUBMIT: Final = [
    ("call", "watch"),
    ("return", "done"),
    ("call", "begin"),
    ("return", "begin"),
    ("return", "_slot"),
    ("call", "start"),
    ("return", "start"),
]


@pytest.mark.parametrize(("event", "function"), OF_SUBMIT)
def test_a_submit_after_an_interrupted_one_completes(event: str, function: str, drivers: list[MachineDriver]) -> None:
    with vyre.open("cuda-machine", cache=False) as session:
        works(session)
        with pytest.raises(KeyboardInterrupt), interrupted_at(event, function) as hit:
            session.submit(add, [X])
        assert hit
        works(session)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("operation", [each for each in STORMED if not each.cold], ids=lambda each: each.name)
def test_the_main_thread_holds_no_lock_that_is_written_in_python(operation: Any) -> None:
    bench, called = operation.opened(), list[str]()

    def look(frame: FrameType, what: str, _: Any) -> None:
        if what == "call" and frame.f_code.co_filename == threading.__file__ and frame.f_code.co_name == "__enter__":
            called.append("".join(traceback.format_stack(frame)))

    for _ in range(SETTLING_SAMPLES):  # then the costs of launches are reviewed, which starts a thread
        sys.setprofile(look)
        try:
            bench.action()
        finally:
            sys.setprofile(None)
    bench.shut()
    assert not called, called[0]


@pytest.mark.parametrize(("event", "function"), [("call", "finish"), ("return", "finish"), ("call", "took")])
def test_a_dispatch_after_an_interrupted_one_is_right(event: str, function: str, drivers: list[MachineDriver]) -> None:
    with vyre.open("cuda-machine", cache=False) as session:
        works(session)
        with pytest.raises(KeyboardInterrupt), interrupted_at(event, function) as hit:
            session.dispatch(add, [X])
        assert hit
        works(session)


@contextmanager
def alarms(count: int) -> Iterator[Callable[[], object]]:
    """Sends real signals at random moments while the block runs."""
    chance, ended = random.Random(11), threading.Event()

    def send() -> None:
        for _ in range(count):
            time.sleep(chance.uniform(0.0005, 0.006))
            if ended.is_set():
                return
            os.kill(os.getpid(), signal.SIGUSR1)

    def raised(*_: object) -> None:
        raise Alarm

    handler = signal.signal(signal.SIGUSR1, raised)
    sender = threading.Thread(target=send, daemon=True)
    try:
        with suppress(Alarm):
            sender.start()
        yield sender.is_alive
    finally:
        while True:
            with suppress(Alarm):
                ended.set()
                sender.join()
                signal.signal(signal.SIGUSR1, signal.SIG_IGN)
                break
        signal.signal(signal.SIGUSR1, handler)


class Alarm(Exception):
    """What the handler of a signal raises: it need not be Ctrl-C."""


def test_real_signals_in_a_loop_of_submits_never_lose_the_device(drivers: list[MachineDriver]) -> None:
    caught = right = 0
    with vyre.open("cuda-machine", cache=False) as session:
        works(session)
        with alarms(3000 if SOAK else 80) as going:
            is_going = True
            while is_going:
                try:
                    assert session.submit(add, [X]).result(LIMIT_S)["x"].tobytes() == WANT
                    right += 1
                    is_going = bool(going())
                except Alarm:
                    caught += 1
        works(session)
    assert caught > 0 and right > 0


# ---------------------------------------------------------------- work that must not be interrupted
def test_an_interrupt_comes_when_work_on_memory_of_the_caller_has_ended() -> None:
    ended: list[str] = []

    @whole
    def work() -> None:
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(2 * PATIENCE_S)
        ended.append("given up" if given_up() else "not given up")

    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            work()
    finally:
        signal.signal(signal.SIGINT, handler)
    assert ended == ["given up"]


def test_an_interrupt_at_any_line_of_the_wait_for_such_work_comes() -> None:
    ended: list[bool] = []
    work = whole(lambda: ended.append(True))
    lines = interrupted_everywhere((interrupts,), work, lambda: None)
    assert lines > 10 and ended


def test_a_second_interrupt_comes_at_once() -> None:
    go, ended = threading.Lock(), threading.Event()

    @whole
    def work() -> None:
        for _ in range(2):
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(PATIENCE_S)
        with go:
            ended.set()

    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    go.acquire()
    try:
        with pytest.raises(KeyboardInterrupt):
            work()
    finally:
        signal.signal(signal.SIGINT, handler)
    assert not ended.is_set()
    go.release()
    assert ended.wait(LIMIT_S)


# ---------------------------------------------------------------- kernels that do not end
@vyre.kernel(workgroup=64)
def endless(x: InOut[u32]) -> None:
    """Flips a bit for ever."""
    i = vyre.global_id()
    while x[i] < 10:
        x[i] = x[i] ^ 1


def on_resident_memory(session: vyre.Session, run: Callable[[vyre.ResidentArray], object]) -> None:
    with session.resident(np.zeros(64, np.uint32)) as array:
        run(array)


WAITING: Final[dict[str, Callable[[vyre.Session], object]]] = {
    "dispatch": lambda session: session.dispatch(endless, [np.zeros(64, np.uint32)]),
    "with a timeout": lambda session: session.dispatch(
        endless, [np.zeros(64, np.uint32)], vyre.DispatchConfig(timeout_s=LIMIT_S)
    ),
    "bound": lambda session: session.bind(endless, [np.zeros(64, np.uint32)])(),
    "resident": lambda session: on_resident_memory(session, lambda array: session.dispatch(endless, [array])),
    "bound resident": lambda session: on_resident_memory(
        session, lambda array: session.bind_resident(endless, [array])()
    ),
}


@pytest.mark.parametrize("way", WAITING)
def test_an_interrupt_ends_an_endless_kernel_and_leaves_the_device(way: str) -> None:
    machine = cuda_machine()
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)

    def interrupt() -> None:
        started = machine.driver.calls["launch"]
        while machine.driver.calls["launch"] == started:
            time.sleep(0.001)
        time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGINT)

    sender = threading.Thread(target=interrupt, daemon=True)
    with machine.open() as session:
        works(session)
        try:
            with pytest.raises(KeyboardInterrupt):
                sender.start()
                WAITING[way](session)
        finally:
            signal.signal(signal.SIGINT, handler)
        works(session)
    assert [fault.kind for fault in machine.driver.kernel_faults] == [FaultKind.GIVEN_UP]


@pytest.mark.parametrize("looks", [0, 1])
@pytest.mark.parametrize("way", ["dispatch", "with a timeout", "bound"])
def test_an_interrupt_between_two_looks_at_the_device_ends_an_endless_kernel(way: str, looks: int) -> None:
    left: list[int] = []

    def now_ns() -> int:
        if left and threading.current_thread() is threading.main_thread() and machine.driver.calls["launch"] > left[0]:
            left.pop()
            if len(left) == 1:
                left.clear()
                signal.raise_signal(signal.SIGINT)
        return SYSTEM_CLOCK.now_ns()

    machine = cuda_machine(clock=WaitingClock(now_ns))
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with machine.open() as session:
            works(session)
            with pytest.raises(KeyboardInterrupt):
                left[:] = [machine.driver.calls["launch"]] * (looks + 2)
                WAITING[way](session)
            works(session)
    finally:
        signal.signal(signal.SIGINT, handler)
    assert [fault.kind for fault in machine.driver.kernel_faults] == [FaultKind.GIVEN_UP]


def test_a_kernel_that_takes_long_lets_others_run_in_between(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(execution, "_SLICE", 64)
    session = cuda_machine(CudaOptions(close_timeout_s=0.0)).open()
    running = session.submit(endless, [np.zeros(64, np.uint32)])
    assert session.dispatch(add, [X])["x"].tobytes() == WANT
    assert not running.done()
    with pytest.warns(RuntimeWarning, match="work still running"):
        session.close()


def replayed(session: vyre.Session, array: vyre.ResidentArray) -> Callable[[], object]:
    """Returns a sequence of which a graph is recorded, and which ends no more."""
    sequence = session.sequence([vyre.Step(endless, {"x": array})] * 2)
    array.upload(np.full(64, 10, np.uint32))
    for _ in range(4):
        sequence()
    array.upload(np.zeros(64, np.uint32))
    return sequence


CLOSING: Final[dict[str, Callable[[vyre.Session, vyre.ResidentArray], Callable[[], object]]]] = {
    "submit": lambda session, array: partial(session.submit, endless, [np.zeros(64, np.uint32)]),
    "submit on resident memory": lambda session, array: partial(session.submit, endless, [array]),
    "dispatch on resident memory": lambda session, array: partial(session.dispatch, endless, [array]),
    "bound resident launch": lambda session, array: session.bind_resident(endless, [array]),
    "sequence": lambda session, array: session.sequence([vyre.Step(endless, {"x": array})]),
    "replayed sequence": replayed,
    "download": lambda session, array: lambda: (session.submit(endless, [array]), array.download()),
}


@pytest.mark.parametrize("way", CLOSING)
def test_close_ends_beside_a_kernel_that_never_ends_and_ends_it(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(execution, "_SLICE", 64)
    monkeypatch.setattr(work, "LIMIT_S", 2 * LIMIT_S)  # after which the session would leave it to itself
    machine = cuda_machine(CudaOptions(close_timeout_s=0.1, graph_after=1))
    session, calls = machine.open(), machine.driver.calls
    array = session.resident(np.zeros(64, np.uint32))
    begin = CLOSING[way](session, array)
    graphs, launches = calls["graph_launch"], calls["launch"]

    def run() -> None:
        with suppress(vyre.VyreError):  # the session is closed
            begin()

    beside = threading.Thread(target=run, daemon=True)
    closing = threading.Thread(target=session.close, daemon=True)
    beside.start()
    until(lambda: calls["launch"] > launches or calls["graph_launch"] > graphs)
    with pytest.warns(RuntimeWarning, match="work still running"):
        closing.start()
        closing.join(LIMIT_S)
    beside.join(LIMIT_S)
    assert not closing.is_alive() and not beside.is_alive()
    assert (calls["graph_launch"] > graphs) == (way == "replayed sequence")
    array.close()


def test_the_driver_answers_beside_a_graph_that_never_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """A node of a graph pauses as a launch does, so that no call of another thread waits for its end."""
    monkeypatch.setattr(execution, "_SLICE", 64)
    machine = cuda_machine(CudaOptions(close_timeout_s=0.1, graph_after=1))
    session, driver = machine.open(), machine.driver
    array = session.resident(np.zeros(64, np.uint32))
    begin = replayed(session, array)
    graphs = driver.calls["graph_launch"]

    def run() -> None:
        with suppress(vyre.VyreError):  # the session is closed
            begin()

    beside = threading.Thread(target=run, daemon=True)
    beside.start()
    until(lambda: driver.calls["graph_launch"] > graphs)
    answers: list[object] = []

    def ask() -> None:
        context = driver.primary_retain(0)
        driver.set_current(context)
        answers.append(driver.memory_info())
        stream, event = driver.stream_create(), driver.event_create()
        driver.event_record(event, stream)
        until(lambda: driver.event_ready(event))
        driver.event_destroy(event)
        driver.stream_destroy(stream)
        driver.primary_release(0)

    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    asking.join(LIMIT_S)
    assert answers and not asking.is_alive()
    assert session.dispatch(add, [X])["x"].tobytes() == WANT
    assert beside.is_alive()
    with pytest.warns(RuntimeWarning, match="work still running"):
        session.close()
    beside.join(LIMIT_S)
    assert not beside.is_alive()
    array.close()
    assert not driver.violations


# ---------------------------------------------------------------- lanes that wait for lanes
@vyre.kernel(workgroup=64)
def spins(x: InOut[u32]) -> None:
    """Lane 0 waits for a lane that waits for it at the barrier."""
    flag = vyre.workgroup_array(u32, 4)
    i = vyre.local_id()
    if i == 0:
        while flag.atomic_add(2, 0) == 0:
            pass
    vyre.barrier()
    if i == 1:
        flag.atomic_add(2, 1)


@vyre.kernel(workgroup=64)
def spins_and_counts(x: InOut[u32]) -> None:
    """The same, with a loop that writes."""
    flag = vyre.workgroup_array(u32, 4)
    i = vyre.local_id()
    if i == 0:
        while flag.atomic_add(2, 0) == 0:
            x[0] = x[0] + 1
    vyre.barrier()
    if i == 1:
        flag.atomic_add(2, 1)


@vyre.kernel(workgroup=64)
def spins_on_an_array(x: InOut[u32]) -> None:
    """The same, in memory of the device."""
    i = vyre.local_id()
    if i == 0:
        while x.atomic_add(2, 0) == 0:
            x.atomic_add(3, 1)
    vyre.barrier()
    if i == 1:
        x.atomic_add(2, 1)


@pytest.mark.parametrize("schedule", ["lockstep", "reverse", "shuffled"])
@pytest.mark.parametrize(
    ("kernel", "awaited"), [(spins, "flag[2]"), (spins_and_counts, "flag[2]"), (spins_on_an_array, "x[2]")]
)
def test_a_lane_that_spins_for_another_ends_by_the_step_limit(schedule: Any, kernel: Any, awaited: str) -> None:
    machine = cuda_machine(kernels=RunOptions(schedule=schedule, seed=3, check_races=False, step_limit=20_000))
    session = machine.open()
    with pytest.raises(DeviceLost) as caught:
        session.dispatch(kernel, [np.zeros(4, np.uint32)], grid=1)
    assert f"atomic of {awaited} waits for a change; lane 0 (" in str(caught.value)
    session.recover()
    assert session.dispatch(add, [X])["x"].tobytes() == WANT
    session.close()
