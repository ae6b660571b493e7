"""Sessions on the CPU under interrupts, forks, closing and timeouts while kernels run, and many threads for long."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Final

import pytest

from support.limits import LIMIT_S
from support.llvm import NEEDS_LLVM
from support.profiles import SOAK

pytestmark = NEEDS_LLVM

TESTS: Final = Path(__file__).parents[1]
DISPATCHES: Final = 100_000 if SOAK else 4_000
STORMS: Final = 500 if SOAK else 4
GROWTH: Final = 8 << 20
"""Bytes by which the resident memory of a process may differ between two moments without a leak."""

OBJECTS: Final = 10_000 if SOAK else DISPATCHES // 2
"""By how many the objects of Python may differ: the journal of decisions and unused lanes are limited in number."""

COMMON: Final = """
import json, os, signal, sys, threading
sys.path.insert(0, sys.argv[1])
import numpy as np
import vyre
from support.cpu.backends import ENDLESS
from support.cpu.pool import until
from support.limits import LIMIT_S
from support.small_programs import saxpy_program
from vyre.domain.errors import DispatchFailed, DispatchTimeout, InvalidResource, VyreError

SAXPY = saxpy_program()
X, Y = np.arange(300, dtype=np.float32), np.ones(300, np.float32)
NAMED = dict(a=2.0, x=X, y=Y)
WANT = (2 * X + Y).tobytes()
ZEROS = [np.zeros(16, np.uint32)]

def works(session):
    assert session.dispatch(SAXPY, NAMED)["y"].tobytes() == WANT
    assert session.submit(SAXPY, NAMED).result(LIMIT_S)["y"].tobytes() == WANT
    for run in (session.bind_resident, lambda *step: session.sequence([vyre.Step(*step)])):
        y = session.resident(Y)
        made = run(SAXPY, dict(NAMED, y=y))
        made()
        assert y.download().tobytes() == WANT
        y.close()

def endless_ways(session, config=None):
    # How a kernel that never ends is run.
    array = session.resident(np.zeros(16, np.uint32))
    return {
        "dispatch": lambda: session.dispatch(ENDLESS, ZEROS, config),
        "bound launch on host memory": session.bind(ENDLESS, ZEROS, config),
        "bound launch": session.bind_resident(ENDLESS, [array], config),
        "sequence": session.sequence([vyre.Step(ENDLESS, [array], config)]),
        "future": lambda: session.submit(ENDLESS, ZEROS, config).result(LIMIT_S),
    }
"""


def run(script: str, *arguments: str, cache: Path) -> str:
    ran = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", COMMON + script, str(TESTS), *arguments],
        capture_output=True,
        text=True,
        timeout=LIMIT_S * (6 if SOAK else 1),
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.default_int_handler),  # a shell's jobs ignore it
        env=os.environ | {"VYRE_CACHE_DIR": str(cache)},
    )
    assert (ran.stderr, ran.returncode) == ("", 0), f"{ran.returncode}\n{ran.stdout}\n{ran.stderr}"
    return ran.stdout


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


STORM: Final = """
STORMS = int(sys.argv[2])
session = vyre.open("cpu", threads=2)
works(session)
ways = endless_ways(session)
storming = over = False
def handler(number, where):
    # Interrupts are raised anywhere in the library, also while it handles the one before, and not in this script.
    if storming and where.f_code.co_filename != __file__:
        raise KeyboardInterrupt
__file__ = (lambda: 0).__code__.co_filename
signal.signal(signal.SIGINT, handler)
def send():
    pause = threading.Event()
    while not over:
        if storming:
            os.kill(os.getpid(), signal.SIGINT)
        else:
            pause.wait(0.001)
sender = threading.Thread(target=send, daemon=True)
sender.start()
interrupted = {}
for name, way in ways.items():
    if name == "future":
        continue  # it goes on when the wait for it is interrupted
    for _ in range(STORMS):
        storming = True
        try:
            way()
        except KeyboardInterrupt:
            interrupted[name] = interrupted.get(name, 0) + 1
        storming = False
    works(session)
assert session.metrics()["interrupts"] > 0
assert set(interrupted.values()) == {STORMS}, interrupted
works(session)
# The wait for a future is interrupted, and closing ends the kernel.
future = session.submit(ENDLESS, ZEROS)
storming = True
try:
    os.kill(os.getpid(), signal.SIGINT)
    future.result(LIMIT_S)
except KeyboardInterrupt:
    pass
storming, over = False, True
sender.join(LIMIT_S)
assert not future.done()
session.close()
assert isinstance(future.exception(LIMIT_S), VyreError)
print("passed")
"""


def test_storms_of_interrupts_while_kernels_never_end(cache: Path) -> None:
    assert run(STORM, str(STORMS), cache=cache) == "passed\n"


CLOSED: Final = """
session = vyre.open("cpu", threads=2)
works(session)
way = endless_ways(session)[sys.argv[2]]
found = []
def work():
    try:
        way()
    except BaseException as error:
        found.append(error)
before = session.metrics()
thread = threading.Thread(target=work)
thread.start()
until(lambda: session.metrics() != before)
session.close()
thread.join(LIMIT_S)
assert not thread.is_alive()
(error,) = found
assert isinstance(error, (DispatchFailed, InvalidResource)) and "closed" in str(error), repr(error)
with vyre.open("cpu", threads=2) as other:
    works(other)
print("passed")
"""
WAYS: Final = ("dispatch", "bound launch on host memory", "bound launch", "sequence", "future")


@pytest.mark.parametrize("way", WAYS)
def test_closing_ends_what_another_thread_runs(way: str, cache: Path) -> None:
    assert run(CLOSED, way, cache=cache) == "passed\n"


TIMEOUTS: Final = """
from vyre.domain.dispatch import DispatchConfig
session = vyre.open("cpu", threads=2)
works(session)
for name, way in endless_ways(session, DispatchConfig(timeout_s=0.05)).items():
    for _ in range(3):
        try:
            way()
        except DispatchTimeout as error:
            assert "0.05 s" in str(error), error
        else:
            raise AssertionError(name)
    works(session)
assert session.metrics()["timeouts"] == 15, session.metrics()
session.close()
print("passed")
"""


def test_timeouts_end_kernels_and_nothing_else(cache: Path) -> None:
    assert run(TIMEOUTS, cache=cache) == "passed\n"


FORKED: Final = """
session = vyre.open("cpu", threads=2)
works(session)
before = session.metrics()
running = session.submit(ENDLESS, ZEROS)
led = []
def lead():
    try:
        session.dispatch(ENDLESS, ZEROS)
    except VyreError as error:
        led.append(error)
thread = threading.Thread(target=lead)
thread.start()
until(lambda: session.metrics()["worker_runs"] > before["worker_runs"])
for depth in range(3):
    child = os.fork()
    if not child:
        signal.alarm(LIMIT_S)
        try:
            session.dispatch(SAXPY, NAMED)
        except DispatchFailed as error:
            assert "fork" in str(error)
        else:
            os._exit(3)
        session.close()
        with vyre.open("cpu", threads=2) as own:
            works(own)
            if depth == 2:
                own.submit(ENDLESS, ZEROS)
                sys.exit(5)
        os._exit(5)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 5
assert not running.done() and not led
works(session)
session.close()
thread.join(LIMIT_S)
assert len(led) == 1 and isinstance(running.exception(LIMIT_S), VyreError)
print("passed")
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this platform does not fork")
def test_forks_while_kernels_run_leave_the_parent_unharmed(cache: Path) -> None:
    assert run(FORKED, cache=cache) == "passed\n"


MANY: Final = """
import gc
from pathlib import Path
THREADS, EACH = 16, int(sys.argv[2]) // 16 // 2
session = vyre.open("cpu", threads=2)
pool = session._lease.backend.lifecycle._device.pool
TALL = vyre.Program.from_text('''workgroup_size 32, 1, 1
buffer n @0 read u32[1] buffer x @1 read_write u32[runtime]
buffer s @- workgroup u32[2048]
body { for k in 0u..n[0u] { s[lid.x] = x[gid.x] + k barrier(seq_cst) x[gid.x] = s[31u - lid.x] } }''')
N, COUNT = np.array([3], np.uint32), np.arange(1024, dtype=np.uint32)
TALL_WANT = session.dispatch(TALL, [N, COUNT])["x"].tobytes()
with vyre.open("reference") as reference:
    assert reference.dispatch(TALL, [N, COUNT])["x"].tobytes() == TALL_WANT
problems = []
def work(number):
    try:
        for step in range(EACH):
            match (number + step) % 4:
                case 0: assert session.dispatch(SAXPY, NAMED)["y"].tobytes() == WANT
                case 1: assert session.dispatch(TALL, [N, COUNT])["x"].tobytes() == TALL_WANT
                case 2: assert session.submit(SAXPY, NAMED).result(LIMIT_S)["y"].tobytes() == WANT
                case 3:
                    with session.resident(Y) as y:
                        session.bind_resident(SAXPY, dict(NAMED, y=y))()
                        assert y.download().tobytes() == WANT
    except BaseException as error:
        problems.append(repr(error))
def measure():
    gc.collect()
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return {
        "memory": int(status["VmRSS"].split()[0]) * 1024,
        "threads": len(os.listdir("/proc/self/task")),
        "files": len(os.listdir("/proc/self/fd")),
        "maps": len(Path("/proc/self/maps").read_text().splitlines()),
        "objects": len(gc.get_objects()),
        "scratch": pool.scratch_bytes,
        **pool.counts,
    }
told = []
for part in range(2):
    threads = [threading.Thread(target=work, args=(number,)) for number in range(THREADS)]
    for thread in threads: thread.start()
    for thread in threads: thread.join(LIMIT_S * 2)
    assert not any(thread.is_alive() for thread in threads)
    assert not problems, problems[0]
    session.flush()
    told.append(measure())
print(json.dumps([*told, {"dispatches": 2 * THREADS * EACH}]))
session.close()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the figures of the process are read from /proc")
def test_many_dispatches_of_many_threads_leave_nothing_behind(cache: Path) -> None:
    half, whole, done = json.loads(run(MANY, str(DISPATCHES), cache=cache))
    told = f"{done} {half} -> {whole}"
    assert done["dispatches"] == DISPATCHES
    assert whole["memory"] - half["memory"] < GROWTH, told
    assert whole["objects"] - half["objects"] < OBJECTS, told
    assert whole["maps"] - half["maps"] < 64, told
    assert whole["in_flight"] <= 256, told
    assert whole["records"] <= half["records"] + 64, told
    assert whole["scratch"] < 1 << 20, told
    for name in ("threads", "files", "workers"):
        assert whole[name] <= half[name] + 8, told
