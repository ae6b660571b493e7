"""Processes that end, fork or are interrupted while jobs of persistent engines are under way."""

from __future__ import annotations

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
COMMON: Final = """
import os, signal, sys, threading
sys.path.insert(0, sys.argv[1])
import numpy as np
import vyre
from support.cpu.backends import ENDLESS
from support.limits import LIMIT_S
from support.small_programs import square_program

SQUARE = square_program()
ZEROS = [np.zeros(16, np.uint32)]
THREE = [np.full(4, 3, np.uint32)]
session = vyre.open("cpu", threads=2)
endless = session.persistent(ENDLESS, capacity=4)
quick = session.persistent(SQUARE, capacity=64)
stuck = endless.submit(ZEROS)

def works(jobs=quick):
    assert jobs.submit(THREE).result(LIMIT_S)["y"].tolist() == [9] * 4
    assert (jobs.submit_many([np.full((5, 4), 3, np.uint32)]).result(LIMIT_S)["y"] == 9).all()

works()
"""


def run(script: str, cache: Path, *, code: int = 0) -> str:
    ran = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", COMMON + script, str(TESTS)],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.default_int_handler),  # a shell's jobs ignore it
        env=os.environ | {"VYRE_CACHE_DIR": str(cache)},
    )
    assert ran.returncode == code, f"{ran.returncode}\n{ran.stdout}\n{ran.stderr}"
    return ran.stdout


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


ENDS: Final = {
    "falls off the end": "print('end')",
    "exits": "print('end'); sys.exit(0)",
    "exits in a block": "with quick: print('end'); sys.exit(0)",
    "threads wait": """
threading.Thread(target=stuck.exception, daemon=True).start()
threading.Thread(target=endless.flush, daemon=True).start()
print('end')
""",
    "workers run a graph": """
y = session.resident(ZEROS[0])
graph = session.sequence([vyre.Step(ENDLESS, [y])], modes={"persistent": True})
before = session.metrics()["persistent_launches"]
threading.Thread(target=graph, daemon=True).start()
while session.metrics()["persistent_launches"] <= before:
    pass
print('end')
""",
    "an engine is kept": """
import vyre.app.persistent.many
vyre.app.persistent.many.pays = lambda *_, **__: True
session.dispatch_many(SQUARE, [THREE] * 20)
assert session.metrics()["persistent_launches"] == 3
print('end')
""",
    "callbacks wait": "stuck.add_done_callback(print); print('end')",
    "tickets are kept by the interpreter": """
import builtins
builtins.kept = [stuck, endless, quick.submit(THREE), quick.submit_many([np.zeros((9, 4), np.uint32)])]
print('end')
""",
}


AT_ONCE: Final = (
    "an engine is kept",
    "threads wait",
    "workers run a graph",
    "tickets are kept by the interpreter",
    "callbacks wait",
    "falls off the end",
)
"""A program that falls off its end with all kinds of work under way at once."""


@pytest.mark.parametrize("how", [*ENDS] if SOAK else ["exits in a block"])
def test_processes_end_while_jobs_run(how: str, cache: Path) -> None:
    assert run(ENDS[how], cache).splitlines()[0] == "end"


def test_a_process_ends_while_everything_runs_at_once(cache: Path) -> None:
    told = run("\n".join(ENDS[how] for how in AT_ONCE), cache).splitlines()
    assert told[: len(AT_ONCE)] == ["end"] * len(AT_ONCE)


INTERRUPTED: Final = """
for wait in (stuck.result, lambda: list(endless.as_completed([stuck])), endless.flush,
             lambda: endless.submit_many([np.zeros((2, 16), np.uint32)]).result()):
    timer = threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    try:
        wait()
    except KeyboardInterrupt:
        print("interrupted")
    timer.join()
    assert not stuck.done()
    works()
full = [endless.try_submit(ZEROS) for _ in range(4)]  # so that the next one waits for room
timer = threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT))
timer.start()
try:
    endless.submit_many([np.zeros((200000, 16), np.uint32)])
except KeyboardInterrupt:
    print("interrupted")
timer.join()
works()
endless.close()
assert isinstance(stuck.exception(LIMIT_S), vyre.DispatchFailed)
session.close()
"""


def test_ctrl_c_ends_every_way_to_wait_and_no_job(cache: Path) -> None:
    assert run(INTERRUPTED, cache).splitlines() == ["interrupted"] * 5


FORKED: Final = """
tickets = [quick.submit(THREE) for _ in range(20)]
for depth in range(2):
    child = os.fork()
    if not child:
        signal.alarm(LIMIT_S)
        for use in (lambda: quick.submit(THREE), lambda: quick.submit_many([np.zeros((2, 4), np.uint32)]), stuck.result,
                    lambda: session.persistent(SQUARE)):
            try:
                use()
            except vyre.VyreError as error:
                assert "fork" in str(error), error
            else:
                os._exit(3)
        quick.close(); endless.close(); session.close()
        with vyre.open("cpu", threads=2) as own, own.persistent(SQUARE) as jobs:
            works(jobs)
            if depth:
                own.persistent(ENDLESS).submit(ZEROS)
                sys.stdout.flush()
                os._exit(5)
        os._exit(5)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 5
assert all(ticket.result(LIMIT_S)["y"].tolist() == [9] * 4 for ticket in tickets)
works()
assert not stuck.done()
session.close()
assert isinstance(stuck.exception(LIMIT_S), vyre.DispatchFailed)
print("passed")
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this platform does not fork")
def test_forks_while_jobs_run_leave_the_parent_unharmed(cache: Path) -> None:
    assert run(FORKED, cache) == "passed\n"


CLOSED_BY_CALLBACK: Final = """
done = threading.Event()
def close(ticket):
    quick.close()
    done.set()
quick.submit(THREE).add_done_callback(close)
assert done.wait(LIMIT_S) and quick.closed
def close_session():
    session.close()
thread = threading.Thread(target=close_session)
thread.start()
assert isinstance(stuck.exception(LIMIT_S), vyre.DispatchFailed)
thread.join(LIMIT_S)
assert not thread.is_alive()
print("passed")
"""


def test_callbacks_and_other_threads_may_close(cache: Path) -> None:
    assert run(CLOSED_BY_CALLBACK, cache) == "passed\n"
