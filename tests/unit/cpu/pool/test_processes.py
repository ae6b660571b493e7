"""Forks, interrupts and exits while runs are under way, each in a process of its own, with stored code."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from support.cpu.pool import store_objects
from support.limits import LIMIT_S
from support.llvm import NEEDS_LLVM
from vyre.adapters.cpu.native.loading import OWN_LOADER

pytestmark = [
    NEEDS_LLVM,
    pytest.mark.skipif(not OWN_LOADER, reason="stored code needs the compiler on this system"),
]

TESTS = Path(__file__).parents[3]

COMMON = """
import os, signal, sys, threading
from pathlib import Path
sys.path.insert(0, {tests!r})
from support.cpu.pool import Frame, stored_pool, until
from support.limits import LIMIT_S
from vyre.adapters.cpu.pool.commands import CommandList, Kernel
from vyre.adapters.cpu.pool.job import Job
from vyre.adapters.cpu.pool.layout import Outcome, StopReason
from vyre.domain.errors import DispatchFailed

pool, code = stored_pool(Path({folder!r}), 2)

def made(kernel, groups, threads=2):
    frame = Frame(2)
    job = pool.job(CommandList([Kernel(code.addresses[kernel], frame.address, groups, 1, threads)]))
    job.keep = frame
    return job, frame

def adds():
    job, frame = made("spread", 100)
    assert pool.run(job) is Outcome.COMPLETED
    assert sum(frame.data) == 5050

def begun(threads=2):
    job, frame = made("endless", 4, threads)
    pool.submit(job)
    until(lambda: frame.data[0])
    return job
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("objects")
    store_objects(made)
    return made


def run(folder: Path, script: str) -> subprocess.CompletedProcess[str]:
    source = COMMON.format(tests=str(TESTS), folder=str(folder)) + script
    listening = partial(signal.signal, signal.SIGINT, signal.default_int_handler)  # jobs of a shell ignore interrupts
    return subprocess.run(
        [sys.executable, "-c", source],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        preexec_fn=listening,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )


def passes(folder: Path, script: str) -> None:
    done = run(folder, script)
    assert (done.stderr, done.stdout, done.returncode) == ("", "passed\n", 0)


def test_stored_code_runs_without_a_compiler(folder: Path) -> None:
    passes(folder, "adds(); assert 'llvmlite' not in sys.modules; print('passed')")


FORKS = """
import warnings
warnings.filterwarnings("ignore", "This process .* is multi-threaded", DeprecationWarning)  # from CPython 3.12 on
running = begun(1)
led, led_frame = made("endless", 2, 1)
thread = threading.Thread(target=pool.run, args=(led,), daemon=True)
thread.start()
until(lambda: led_frame.data[0])
group = pool.group()
{before}
child = os.fork()
if not child:
    for refused in (pool.run, pool.submit):
        try:
            refused(running)
        except DispatchFailed as error:
            assert "fork" in str(error), error
        else:
            os._exit(3)
    running.stop()
    running.halt()
    group.close()
    assert pool.counts["workers"] == 0, pool.counts
    adds()
    assert pool.counts["workers"] == 2
    other = begun()
    other.halt()
    grandchild = os.fork()
    if not grandchild:
        adds()
        os._exit(7)
    assert os.waitstatus_to_exitcode(os.waitpid(grandchild, 0)[1]) == 7
    assert pool.close()
    os._exit(5)
{after}
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 5
assert not running.done and not led.done
adds()
running.halt()
led.halt()
thread.join(LIMIT_S)
assert pool.close()
print("passed")
"""

HELD = """
from ctypes import c_int32
from vyre.adapters.cpu.pool import layout
from vyre.adapters.cpu.pool.worker_pool import _LOCK
pool._lock.acquire()
_LOCK.acquire()
mutex = c_int32.from_address(pool.block + layout.Pool.mutex)
mutex.value = 1
"""
FREED = """
mutex.value = 0
_LOCK.release()
pool._lock.release()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
@pytest.mark.parametrize(("before", "after"), [("", ""), (HELD, FREED)], ids=["free locks", "held locks"])
def test_a_fork_while_runs_are_under_way(folder: Path, before: str, after: str) -> None:
    passes(folder, FORKS.format(before=before, after=after))


INTERRUPTED = """
job, frame = made("endless", 4)
def interrupt():
    until(lambda: frame.data[0])
    os.kill(os.getpid(), signal.SIGINT)
thread = threading.Thread(target=interrupt)
thread.start()
try:
    pool.run(job)
except KeyboardInterrupt:
    assert job.done
    assert job.outcome is Outcome.STOPPED
    assert job.stop_reason is StopReason.INTERRUPTED
    adds()
    print("passed")
thread.join(LIMIT_S)
"""


def test_an_interrupt_ends_the_run(folder: Path) -> None:
    passes(folder, INTERRUPTED)


QUEUED = """
busy = [begun(1), begun(1)]
job, frame = made("spread", 4)
def interrupt():
    until(lambda: not job.done)
    os.kill(os.getpid(), signal.SIGINT)
thread = threading.Thread(target=interrupt)
thread.start()
try:
    pool.run(job)
except KeyboardInterrupt:
    assert job.done and not busy[0].done and not busy[1].done
    assert (job.outcome, job.executed, frame.data[0]) == (Outcome.STOPPED, 0, 0)
    print("passed")
thread.join(LIMIT_S)
"""


def test_an_interrupt_ends_the_waiting_for_busy_workers(folder: Path) -> None:
    passes(folder, QUEUED)


STORM = """
job, frame = made("endless", 4)
raised = over = False

def handler(number, where):
    # Every signal that arrives while the run is under way raises, as Python's own handler does at any time.
    if not job.done:
        raise KeyboardInterrupt

signal.signal(signal.SIGINT, handler)

def send():
    while not over:
        os.kill(os.getpid(), signal.SIGINT)

sender = threading.Thread(target=send, daemon=True)
sender.start()
for _ in range(60):
    raised = False
    try:
        pool.run(job)
    except KeyboardInterrupt:
        raised = True
    assert raised
    assert job.done
    assert job.stop_reason is StopReason.INTERRUPTED
over = True
sender.join(LIMIT_S)
adds()
print("passed")
"""


def test_a_storm_of_interrupts(folder: Path) -> None:
    passes(folder, STORM)


WAITED = """
job, frame = made("endless", 4)
pool.submit(job)
native, waiting = pool.entries.wait, threading.Event()
def wait(*arguments):
    waiting.set()
    return native(*arguments)
pool.entries.wait = wait
def interrupt():
    waiting.wait(LIMIT_S)
    os.kill(os.getpid(), signal.SIGINT)
thread = threading.Thread(target=interrupt)
thread.start()
try:
    pool.wait(job)
except KeyboardInterrupt:
    assert not job.done
    job.halt()
    print("passed")
thread.join(LIMIT_S)
"""


def test_an_interrupt_ends_a_wait_and_not_the_run(folder: Path) -> None:
    passes(folder, WAITED)


LED = """
def lead(kernel):
    job, frame = made(kernel, 4)
    threading.Thread(target=pool.run, args=(job,), daemon=True).start()
    until(lambda: frame.data[0])
"""
EXITS = {
    "submitted": ("begun(); print('passed')", 0),
    "queued": (
        "[begun(1) for _ in range(2)]; [pool.submit(made('spread', 9)[0]) for _ in range(9)]; print('passed')",
        0,
    ),
    "led by a daemon": (LED + "lead('endless'); print('passed')", 0),
    "with a callback": ("pool.call_when_done(begun(), lambda: None); print('passed')", 0),
    "with a deadline": (
        "j, f = made('endless', 2); j.set_timeout(3600); pool.submit(j); until(lambda: f.data[0]); print('passed')",
        0,
    ),
    "by sys.exit": ("begun(); print('passed'); sys.exit(4)", 4),
    "by an error": ("begun(); print('passed'); raise ValueError('the end')", 1),
    "at once": ("job = begun(); print('passed', flush=True); os._exit(6)", 6),
    "in a job that cannot be stopped": (
        "pool.close.__func__.__defaults__ = (0.1,)\n"
        "job = begun(); pool.entries.stop = pool.entries.shutdown = lambda *_: None; print('passed')",
        0,
    ),
}


@pytest.mark.parametrize(("script", "status"), EXITS.values(), ids=EXITS)
def test_an_exit_with_work_in_flight(folder: Path, script: str, status: int) -> None:
    done = run(folder, script)
    assert (done.returncode, done.stdout) == (status, "passed\n")
    raised = [line for line in done.stderr.splitlines() if "Error" in line and line[:1] != " "]  # " ": lines of source
    assert raised == (["ValueError: the end"] if status == 1 else [])
