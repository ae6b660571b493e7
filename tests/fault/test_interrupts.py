"""Interrupts anywhere: a part of the storm for each operation, and real signals where something has several steps."""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from types import FrameType, FunctionType
from typing import Any, Final

import numpy as np
import pytest

import vyre
from support.cpu.pool import until
from support.limits import LIMIT_S
from support.llvm import NEEDS_LLVM
from support.profiles import SOAK
from support.storms.interrupt_storm import Interrupt, Places, Tracer, held_locks, short, storm
from support.storms.interrupted_operations import WANT, X, add, operations, renew_workers, works
from vyre.app.asynchrony.futures import Submitted
from vyre.app.shadow.settings import Shadow

TESTS: Final = Path(__file__).parents[1]
WARM: Final = 2
COLD: Final = 1
"""So many places of each kind are tried of an operation, but in a soak all."""
CASES: Final = [(backend, operation) for backend in ("reference", "cpu") for operation in operations(backend)]


@pytest.mark.parametrize(
    ("backend", "operation"),
    [
        pytest.param(backend, each, marks=NEEDS_LLVM if backend == "cpu" else (), id=f"{backend}-{each.name}")
        for backend, each in CASES
        if SOAK or each.name in ("dispatch", "submit", "sequence") or backend == "cpu"
    ],
)
@pytest.mark.filterwarnings(
    "ignore::ResourceWarning"
)  # an interrupt before a ``with`` block leaves it to the collector
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_interrupt_anywhere_loses_nothing(backend: str, operation: Any) -> None:
    most = None if SOAK else COLD if operation.cold else WARM
    for places in (Places.SIGNALS,) if operation.cold and not SOAK else Places:
        found = storm(operation, places, most=most)
        if not found.interrupts and most is not None:  # a place that the first run alone reaches
            found = storm(operation, places, most=4 * most)
        assert found.interrupts > 0 and not found.failures, str(found)


LOOKS: Final[dict[str, Callable[[Submitted[int]], object]]] = {
    "done": lambda future: future.done(),
    "cancelled": lambda future: future.cancelled(),
    "cancel": lambda future: future.cancel(),
    "result": lambda future: future.result(0),
    "exception": lambda future: future.exception(0),
    "add_done_callback": lambda future: future.add_done_callback(lambda _: None),
}


@pytest.mark.parametrize("look", LOOKS)
@pytest.mark.parametrize("ends", [False, True])
def test_an_interrupt_of_a_look_at_a_future_leaves_its_lock_to_other_threads(look: str, ends: bool) -> None:
    places = 0
    while True:
        future: Submitted[int] = Submitted(lambda _: None)
        assert future.set_running_or_notify_cancel()
        if ends:
            future.set_result(1)
        tracer = Tracer(Places.LINES, places)
        with suppress(Interrupt, TimeoutError), tracer.tracing():
            LOOKS[look](future)
        if tracer.raised is None:
            break
        other = threading.Thread(target=future.done if ends else partial(future.set_result, 1), daemon=True)
        other.start()
        assert future.result(LIMIT_S) == 1
        other.join(LIMIT_S)
        assert not held_locks(future, with_modules=False), tracer.where
        places += 1
    assert places > 1 and not held_locks(future)


OF_PYTHON: Final = {
    each.__code__: each.__qualname__
    for kind in (threading.Condition, threading.Event, threading.Semaphore, threading.Barrier, threading.Thread)
    for each in vars(kind).values()
    if isinstance(each, FunctionType) and each.__name__ in ("__enter__", "acquire", "set", "wait", "notify", "start")
}
"""Functions of Python that take a lock or start a thread: an interrupt in one leaves the lock held, or the thread."""


@contextmanager
def entered_by_vyre() -> Iterator[set[str]]:
    """Yields a set that gets what of ``OF_PYTHON`` vyre calls on this thread, and where."""
    entered: set[str] = set()

    def look(frame: FrameType, what: str, _: Any) -> None:
        back = frame.f_back
        if what == "call" and frame.f_code in OF_PYTHON and back and f"vyre{os.sep}" in back.f_code.co_filename:
            entered.add(f"{OF_PYTHON[frame.f_code]} in {short(back.f_code.co_filename)}:{back.f_lineno}")

    sys.setprofile(look)
    try:
        yield entered
    finally:
        sys.setprofile(None)


@pytest.mark.parametrize("backend", ["reference", "cuda-machine", pytest.param("cpu", marks=NEEDS_LLVM)])
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # arrays of benches that were not closed
def test_no_operation_enters_what_an_interrupt_leaves_locked(backend: str) -> None:
    with entered_by_vyre() as entered:
        for operation in operations(backend):
            bench = operation.opened()
            bench.action()
            bench.shut()
    assert not entered


@NEEDS_LLVM
def test_no_wait_for_a_shadow_enters_what_an_interrupt_leaves_locked() -> None:
    with entered_by_vyre() as entered, vyre.open("cpu", cache=False, shadow=Shadow(1.0, None)) as session:
        for _ in range(3):
            assert session.dispatch(add, [X]).shadow.wait(LIMIT_S)
    assert not entered


@contextmanager
def interrupted_at(event: str, function: str) -> Iterator[list[str]]:
    """Sends a signal once, when the main thread first calls or leaves a function; yields a list with its name then."""
    hit: list[str] = []

    def look(frame: FrameType, what: str, _: Any) -> None:
        if what == event and frame.f_code.co_name == function and not hit:
            hit.append(function)
            sys.setprofile(None)
            signal.raise_signal(signal.SIGINT)

    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.setprofile(look)
    try:
        yield hit
    finally:
        sys.setprofile(None)
        signal.signal(signal.SIGINT, handler)


@NEEDS_LLVM
def test_workers_that_start_during_an_interrupt_share_no_place(monkeypatch: pytest.MonkeyPatch) -> None:
    start = threading.Thread.start
    hit: list[int] = []

    def interrupted(self: threading.Thread) -> None:
        start(self)
        if self.name == "vyre-cpu-0" and not hit:
            hit.append(1)
            signal.raise_signal(signal.SIGINT)

    renew_workers()
    monkeypatch.setattr(threading.Thread, "start", interrupted)
    with vyre.open("cpu", threads=2, cache=False) as session:
        for _ in range(2):
            try:
                works(session)
            except KeyboardInterrupt:
                continue
        names = [thread.name for thread in threading.enumerate() if thread.name.startswith("vyre-cpu-")]
        for _ in range(30):
            works(session)
    assert hit
    assert len({*names}) == len([name for name in names if name[-1].isdigit()]) + sum(
        not n[-1].isdigit() for n in names
    )


@NEEDS_LLVM
@pytest.mark.parametrize(("event", "function"), [("call", "_collect"), ("call", "_complete"), ("return", "begin")])
def test_an_interrupt_of_submit_is_no_outcome_of_the_run(event: str, function: str) -> None:
    with vyre.open("cpu", cache=False) as session:
        works(session)
        with interrupted_at(event, function) as hit:
            try:
                for _ in range(2000):  # until a run has ended before its callback is registered
                    session.submit(add, [X])
                    if hit:
                        break
            except KeyboardInterrupt:
                hit.append("raised")
        assert len(hit) in (0, 2), hit  # it may not have come to that, but where it has, the caller gets it
        works(session)
        until(lambda: session._work.admission.taken == 0)


REAL: Final = """
import os, random, signal, sys, threading, time
sys.path.insert(0, sys.argv[1])
import vyre
from support.storms.interrupted_operations import WANT, X, add, renew_workers, works
signal.signal(signal.SIGINT, signal.default_int_handler)
backend, count, chance, caught = sys.argv[2], int(sys.argv[3]), random.Random(int(sys.argv[4])), 0
for _ in range(count):
    if backend == "cpu":
        renew_workers()
    with vyre.open(backend, cache=False) as session:
        timer = threading.Timer(chance.uniform(0, 0.06), os.kill, (os.getpid(), signal.SIGINT))
        try:
            try:
                timer.start()
                session.dispatch(add, [X])
                works(session)
            finally:
                timer.join()
                time.sleep(0.01)  # the signal that is under way comes here
        except KeyboardInterrupt:
            caught += 1
        works(session)
assert caught == count, (caught, count)
print("right")
"""


@pytest.mark.parametrize("backend", [pytest.param("cpu", marks=NEEDS_LLVM), "reference"])
def test_real_signals_while_a_session_is_cold_break_nothing(backend: str) -> None:
    count, seed = (400, random.SystemRandom().randrange(1 << 31)) if SOAK else (4, 7)
    ran = subprocess.run(
        [sys.executable, "-c", REAL, str(TESTS), backend, str(count), str(seed)],
        capture_output=True,
        text=True,
        timeout=LIMIT_S * (6 if SOAK else 1),
        check=False,
    )
    assert (ran.stdout, ran.returncode) == ("right\n", 0), f"seed {seed}: {ran.returncode}\n{ran.stdout}\n{ran.stderr}"


# ---------------------------------------------------------------- sessions of generators
def reading(session: vyre.Session) -> Generator[str, None, None]:
    with session:
        for _ in range(2):
            yield backend_of_a_call()


def backend_of_a_call() -> str:
    from vyre.app.kernels.current_session import current_session

    add(X.copy())
    return str(id(current_session()))


def test_the_session_of_a_suspended_generator_is_not_that_of_its_caller() -> None:
    with vyre.open("reference", cache=False) as outer:
        inner = vyre.open("reference", cache=False)
        reader = reading(inner)
        for found in (next(reader), next(reader)):
            assert (found, backend_of_a_call()) == (str(id(inner)), str(id(outer)))
        assert next(reader, None) is None and inner.closed
        assert backend_of_a_call() == str(id(outer))


def test_a_generator_that_is_dropped_leaves_its_session() -> None:
    with vyre.open("reference", cache=False) as outer:
        inner = vyre.open("reference", cache=False)
        reader = reading(inner)
        next(reader)
        reader.close()
        assert inner.closed and backend_of_a_call() == str(id(outer))


def test_a_context_manager_that_is_a_generator_enters_for_its_caller() -> None:
    @contextmanager
    def using(session: vyre.Session) -> Iterator[None]:
        with session:
            yield

    with vyre.open("reference", cache=False) as outer:
        inner = vyre.open("reference", cache=False)
        with using(inner):
            assert backend_of_a_call() == str(id(inner))
        assert backend_of_a_call() == str(id(outer))


# ---------------------------------------------------------------- lanes that wait for lanes
@vyre.kernel(workgroup=2)
def spinning(x: vyre.InOut[vyre.u32]) -> None:
    """Lane 0 waits for lane 1, which sets the flag only later."""
    flag = vyre.workgroup_array(vyre.u32, 1)
    if vyre.local_id() == 0:
        while flag.atomic_add(0, 0) == 0:
            x[0] = x[0] + 1
    else:
        flag.atomic_add(0, 1)


@vyre.kernel(workgroup=2)
def spinning_globally(x: vyre.InOut[vyre.u32], flags: vyre.InOut[vyre.u32]) -> None:
    """The same in an array, by a loop with another form."""
    if vyre.local_id() == 0:
        for k in range(1 << 30):
            x[0] = x[0] + k
            if flags.atomic_or(1, 0) != 0:
                break
    else:
        flags.atomic_or(1, 1)


@pytest.mark.parametrize("backend", ["reference", "reference-scalar", pytest.param("cpu", marks=NEEDS_LLVM)])
@pytest.mark.parametrize(("kernel", "awaited"), [(spinning, "flag"), (spinning_globally, "flags")])
@pytest.mark.parametrize("how", ["dispatch", "submit"])
def test_a_lane_that_spins_for_another_ends_by_its_budget(backend: str, kernel: Any, awaited: str, how: str) -> None:
    run: dict[str, Callable[[vyre.Session], object]] = {
        "dispatch": lambda session: session.dispatch(kernel, inputs, config),
        "submit": lambda session: session.submit(kernel, inputs, config).result(LIMIT_S),
    }
    config = vyre.DispatchConfig(step_budget=50)
    inputs = [np.zeros(4, np.uint32) for _ in kernel.program.abi_buffers]
    with vyre.open(backend, cache=False) as session:
        with pytest.raises(vyre.StepBudgetExceeded) as caught:
            run[how](session)
        assert session.dispatch(add, [X])["x"].tobytes() == WANT
    told = "\n".join(caught.value.__notes__)
    assert re.search(rf"test_interrupts.py:\d+ waits until `{awaited}` changes", told), told
