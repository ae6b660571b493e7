"""Storms of forks, callbacks, finalisers, exits, threads and cancelled tasks:
``python -m support.storms.process_storms --seed 1 --seconds 60``.

Each case runs vyre where it is least convenient, and ends with right bytes, a typed error, or a refusal of the driver
to be entered twice.  A case that hangs is ended by a watchdog, which prints where each thread is.
"""

from __future__ import annotations

import argparse
import asyncio
import faulthandler
import gc
import os
import random
import select
import signal
import subprocess
import sys
import threading
import time
from asyncio import CancelledError
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import numpy as np

import vyre
from vyre import In, InOut, Out, Static, like, u32

HANGS_S: Final = 120.0
"""How long one case may take, on a machine that does much else."""
X: Final = np.arange(64, dtype=np.uint32)
BACKENDS: Final = ("cpu", "reference", "cuda-machine")
THREADS: Final = 16
RAISED: Final = (SystemExit, KeyboardInterrupt, CancelledError, GeneratorExit, BaseException, ValueError)
EXITS: Final = """
import sys, threading
import numpy as np
import vyre
from vyre import InOut, u32
from support.storms.process_storms import step, plus
backend, what = sys.argv[1:]
x = np.arange(64, dtype=np.uint32)
session = vyre.open(backend, cache=False, predict=True)
def endless(work):
    def run():
        n = 0
        while True:
            n += 1
            try:
                work(n)
            except vyre.QueueFull:
                threading.Event().wait(0.01)
    threading.Thread(target=run, daemon=True).start()
if what == "submit":
    endless(lambda n: session.submit(step, [x]))
elif what == "callbacks":
    endless(lambda n: session.submit(step, [x]).add_done_callback(lambda future: session.dispatch(step, [x])))
elif what == "compile":
    endless(lambda n: session.dispatch(plus, {"x": x, "n": n}))
elif what == "persistent" and backend != "reference":
    jobs = session.persistent(step)
    endless(lambda n: jobs.submit([x]).add_done_callback(lambda ticket: None) if n < 900 else None)
elif what == "tuning" and backend != "reference":
    endless(lambda n: session.tune(step, [x]))
threading.Event().wait(float(__import__("os").environ["STORM_S"]))
"""
ENDINGS: Final = ("submit", "callbacks", "compile", "persistent", "tuning")


@vyre.kernel
def step(y: InOut[u32]) -> None:
    i = vyre.global_id()
    if i < len(y):
        y[i] = y[i] * 3 + 1


@vyre.kernel
def plus(x: In[u32], n: Static[int], y: Out[u32, like("x")]) -> None:  # type: ignore[valid-type]
    i = vyre.global_id()
    if i < len(x):
        y[i] = x[i] + n


@vyre.kernel
def spins(y: InOut[u32], n: u32) -> None:
    i = vyre.global_id()
    if i < len(y):
        for _ in range(n):
            y[i] = y[i] * 1664525 + 1013904223


class Watchdog:
    """Ends the process if a case takes too long."""

    def __init__(self) -> None:
        self.case = ""
        self._began = time.monotonic()
        threading.Thread(target=self._watch, daemon=True).start()

    def begins(self, case: str) -> None:
        """Notes the case that begins."""
        self.case, self._began = case, time.monotonic()

    def _watch(self) -> None:
        while time.monotonic() - self._began < HANGS_S:
            time.sleep(0.5)
        print(f"{self.case} hangs", file=sys.stderr, flush=True)
        faulthandler.dump_traceback()
        os._exit(3)


class Operations:
    """Public operations of a session, each of which checks its result."""

    def __init__(self, backend: str) -> None:
        self.session = session = vyre.open(backend, cache=False)
        self._numbers = iter(range(1, 1 << 30))
        array = session.resident(X)
        self._bound, self._launch = session.bind(step, [X]), session.bind_resident(step, [array])
        self._sequence = session.sequence([vyre.Step(step, [array])])
        names = ["dispatch", "new", "submit", "many", "resident", "bound", "launch", "sequence", "explain"]
        if backend != "reference":
            self._jobs = session.persistent(step)
            names += ["job", "job_with_callback"]
        self.all: dict[str, Callable[[], object]] = {name: getattr(self, name) for name in names}

    def dispatch(self) -> None:
        _is(self.session.dispatch(step, [X])["y"], X * 3 + 1)

    def new(self) -> None:
        n = next(self._numbers)
        _is(self.session.dispatch(plus, {"x": X, "n": n})["y"], X + n)

    def submit(self) -> None:
        future = self.session.submit(step, [X])
        future.add_done_callback(lambda _: None)
        _is(future.result(HANGS_S)["y"], X * 3 + 1)

    def many(self) -> None:
        for each in self.session.dispatch_many(step, [[X]] * 3):
            _is(each["y"], X * 3 + 1)

    def resident(self) -> None:
        with self.session.resident(X) as array:
            self.session.dispatch(step, [array])
            _is(array.download(), X * 3 + 1)

    def bound(self) -> None:
        self._bound()

    def launch(self) -> None:
        self._launch()

    def sequence(self) -> None:
        self._sequence(2)

    def explain(self) -> None:
        str(self.session.explain())
        repr(self.session)

    def job(self) -> None:
        _is(self._jobs.submit([X]).result(HANGS_S)["y"], X * 3 + 1)

    def job_with_callback(self) -> None:
        ticket = self._jobs.submit([X])
        ticket.add_done_callback(lambda _: None)
        _is(ticket.result(HANGS_S)["y"], X * 3 + 1)


def _is(found: Any, wanted: Any) -> None:
    if not np.array_equal(found, wanted):
        raise AssertionError(f"{found[:4]} for {wanted[:4]}")


class _Late:
    """Garbage that only the collector finds, and whose finaliser calls a function."""

    def __init__(self, call: Callable[[], None]) -> None:
        self._call, self._me = call, self

    def __del__(self) -> None:
        self._call()


def finalisers(backend: str, source: random.Random, ends: Callable[[int], bool], watchdog: Watchdog) -> int:
    """Runs operations in finalisers inside operations; returns how many ran there."""
    operations, wrong = Operations(backend), []
    names = sorted(operations.all)
    for name in names:
        operations.all[name]()
    inside = [0, 0]  # how deep now, and how many so far

    def run_inside() -> None:
        if inside[0]:
            return
        inside[0] += 1
        try:
            operations.all[source.choice(names)]()
        except vyre.VyreError:
            pass  # a refusal: typed
        except BaseException as error:
            wrong.append(error)
        finally:
            inside[0] -= 1
            inside[1] += 1

    gc.collect()
    gc.freeze()
    before = gc.get_threshold()
    try:
        while not ends(inside[1]):
            name = source.choice(names)
            watchdog.begins(f"a finaliser inside {name} of {backend}")
            for _ in range(3):
                _Late(run_inside)
            gc.set_threshold(source.choice((5, 17, 60, 200, 700)), 2, 2)
            operations.all[name]()
            gc.set_threshold(*before)
            if wrong:
                raise wrong[0]
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()
    operations.session.close()
    return inside[1]


def callbacks(backend: str, source: random.Random, ends: Callable[[int], bool], watchdog: Watchdog) -> int:
    """Raises all kinds of things in callbacks; each is told of, and the next callback is called."""
    told: list[type[BaseException]] = []
    before, threading.excepthook = threading.excepthook, lambda args: told.append(args.exc_type)
    count = 0
    try:
        with vyre.open(backend, cache=False) as session:
            jobs = None if backend == "reference" else session.persistent(step)
            session.dispatch(step, [X])
            while not ends(count):
                kind = source.choice(RAISED)
                submits: list[Callable[[], Any]] = [lambda: session.submit(step, [X])]
                if jobs is not None:
                    submits.append(lambda: jobs.submit([X]))
                submit = source.choice(submits)
                watchdog.begins(f"{kind.__name__} in a callback of {backend}")
                called = threading.Event()

                def fail(_: object, kind: type[BaseException] = kind) -> None:
                    raise kind

                del told[:]
                try:
                    work = submit()
                    work.add_done_callback(fail)
                    last = submit()
                    last.add_done_callback(lambda _, called=called: called.set())
                    _is(work.result(HANGS_S)["y"], X * 3 + 1)
                    assert called.wait(HANGS_S), "the next callback was not called"
                    while not told:
                        time.sleep(0.001)
                except kind:  # it was done already: the main thread called back, and has it
                    assert not issubclass(kind, Exception)
                else:
                    assert told == [kind], told
                count += 1
            if jobs is not None:
                jobs.close()
    finally:
        threading.excepthook = before
    return count


def forks(backend: str, source: random.Random, ends: Callable[[int], bool], watchdog: Watchdog) -> int:
    """Forks while threads compile, dispatch, submit and call back; each child works, and is refused the parent's."""
    operations, stop = Operations(backend), threading.Event()

    def work(name: str) -> None:
        while not stop.wait(0.002):
            operations.all[name]()

    busy = ["new", "submit", "sequence", "job_with_callback" if backend != "reference" else "dispatch"]
    threads = [threading.Thread(target=work, args=(name,), daemon=True) for name in busy]
    for thread in threads:
        thread.start()
    count = 0
    while not ends(count):
        watchdog.begins(f"a fork of {backend}")
        time.sleep(source.random() * 0.02)
        future = operations.session.submit(step, [X])
        reading, writing = os.pipe()
        child = os.fork()
        if not child:
            os._exit(_in_child(operations.session, future, writing, source.choice(BACKENDS)))
        os.close(writing)
        answers = select.select([reading], [], [], HANGS_S)[0] and os.read(reading, 100)
        os.close(reading)
        if not answers:
            os.kill(child, signal.SIGKILL)
        assert os.waitpid(child, 0)[1] == 0 and answers == b"right", f"child {count} of {backend}: {answers!r}"
        _is(future.result(HANGS_S)["y"], X * 3 + 1)
        count += 1
    stop.set()
    for thread in threads:
        thread.join(HANGS_S)
    operations.session.close()
    return count


def _in_child(session: vyre.Session, future: Any, writing: int, backend: str) -> int:
    try:
        with vyre.open(backend, cache=False) as own:
            _is(own.dispatch(plus, {"x": X, "n": os.getpid()})["y"], X + os.getpid())
            _is(own.submit(step, [X]).result(HANGS_S)["y"], X * 3 + 1)
        _is(plus(X, 7), X + 7)
        try:
            _is(future.result(HANGS_S)["y"], X * 3 + 1)  # it was done, or is refused
        except vyre.DispatchFailed as error:
            assert "fork" in str(error), error
        try:
            session.dispatch(step, [X])
        except vyre.DispatchFailed:
            session.close()
            os.write(writing, b"right")
            return 0
    except BaseException as error:
        os.write(writing, repr(error).encode()[:100])
    return 1


def exits(backend: str, source: random.Random, ends: Callable[[int], bool], watchdog: Watchdog) -> int:
    """Ends interpreters whose threads are at work: at once, and without a word."""
    count = 0
    while not ends(count):
        what = source.choice(ENDINGS)
        watchdog.begins(f"an exit of {backend} during {what}")
        ended = subprocess.run(
            [sys.executable, "-c", EXITS, backend, what],
            capture_output=True,
            text=True,
            timeout=HANGS_S,
            env={**os.environ, "STORM_S": str(source.random() * 0.3), "PYTHONWARNINGS": "ignore"},
            check=False,
        )
        assert ended.returncode == 0 and not ended.stderr, f"{backend}, {what}: {ended.returncode} {ended.stderr}"
        count += 1
    return count


def threads(backend: str, source: random.Random, ends: Callable[[int], bool], watchdog: Watchdog) -> int:
    """Uses one session from sixteen threads at once; returns how many results were right."""
    operations, wrong = Operations(backend), []
    names, right = ("dispatch", "new", "submit", "many", "resident"), [0] * THREADS
    over = threading.Event()

    def work(number: int, chance: random.Random) -> None:
        try:
            while not over.is_set():
                operations.all[chance.choice(names)]()
                right[number] += 1
        except BaseException as error:
            wrong.append(error)

    all_threads = [
        threading.Thread(target=work, args=(number, random.Random(source.random())), daemon=True)
        for number in range(THREADS)
    ]
    for thread in all_threads:
        thread.start()
    while not ends(min(right)) and not wrong:
        watchdog.begins(f"{THREADS} threads of {backend}")
        time.sleep(0.01)
    over.set()
    for thread in all_threads:
        thread.join(HANGS_S)
    if wrong:
        raise wrong[0]
    operations.session.close()
    return sum(right)


def cancels(backend: str, source: random.Random, ends: Callable[[int], bool], watchdog: Watchdog) -> int:
    """Cancels tasks that await dispatches, at random moments; returns how many were cancelled."""
    with vyre.open(backend, cache=False, max_in_flight=4) as session:
        session.dispatch(step, [X])

        async def some() -> int:
            tasks = [asyncio.ensure_future(session.dispatch_async(step, [X])) for _ in range(8)]
            await asyncio.sleep(source.choice((0, 1e-4, 1e-3, 1e-2)) * source.random())
            for task in source.sample(tasks, source.randrange(1, len(tasks) + 1)):
                task.cancel()
            outcomes = await asyncio.gather(*tasks, return_exceptions=True)
            for outcome in outcomes:
                if not isinstance(outcome, CancelledError):
                    assert not isinstance(outcome, BaseException), outcome
                    _is(outcome["y"], X * 3 + 1)
            return sum(isinstance(outcome, CancelledError) for outcome in outcomes)

        count = 0
        while not ends(count):
            watchdog.begins(f"cancelled tasks of {backend}")
            count += asyncio.run(some())
            _is(session.dispatch(step, [X])["y"], X * 3 + 1)
        while session._work.admission.taken:  # what a device could not stop runs to its end
            time.sleep(0.001)
    return count


STORMS: Final = {each.__name__: each for each in (finalisers, callbacks, forks, exits, threads, cancels)}


def _is_over(end: float, count: int) -> bool:
    return bool(count) and time.monotonic() >= end


def main() -> int:
    """Runs every storm on every backend for its share of the time, and prints how many cases there were."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--storms", nargs="*", choices=STORMS, default=list(STORMS))
    parser.add_argument("--backends", nargs="*", choices=BACKENDS, default=BACKENDS)
    options = parser.parse_args()
    source, watchdog, total = random.Random(options.seed), Watchdog(), 0
    for name in options.storms:
        for backend in options.backends:
            end = time.monotonic() + options.seconds / (len(options.storms) * len(options.backends))
            cases = STORMS[name](backend, source, partial(_is_over, end), watchdog)
            print(f"{name} of {backend}: {cases}", flush=True)
            total += cases
    print(f"{total} cases")
    return 0


if __name__ == "__main__":
    sys.exit(main())
