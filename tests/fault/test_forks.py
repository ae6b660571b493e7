"""Sessions that a forked process inherits: they refuse in words, wait for nothing, and leave the parent's alone."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from support.limits import LIMIT_S
from vyre.adapters.cpu.native.compilation import llvm_version

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this platform does not fork")

TESTS = Path(__file__).parents[1]
BACKENDS = ("reference", "reference-scalar", "cpu", "cuda-machine")

PARENT: Final = f"""
import asyncio, os, signal, sys, threading
from pathlib import Path
sys.path.insert(0, {str(TESTS)!r})
import numpy as np
import vyre
from support.small_programs import saxpy_program, square_program
from vyre.domain.errors import DispatchFailed

BACKEND = sys.argv[1]
PROGRAM, OTHER = saxpy_program(), square_program()
X, Y = np.arange(8, dtype=np.float32), np.ones(8, dtype=np.float32)
NAMED = dict(a=2.0, x=X, y=Y)
WANT = (2 * X + Y).tobytes()

session = vyre.open(BACKEND, predict=True, journal=vyre.DecisionJournal())
assert session.submit(PROGRAM, NAMED).result({LIMIT_S})["y"].tobytes() == WANT
pipeline, launch, special = session.compile(PROGRAM), session.bind(PROGRAM, NAMED), session.specialize(PROGRAM)
special(NAMED)
x, y, out = session.resident(X), session.resident(Y), session.resident(X)
memory = {{**NAMED, "x": x, "y": y}}
resident, sequence = session.bind_resident(PROGRAM, memory), session.sequence([vyre.Step(PROGRAM, memory)])
mixed = session.sequence([vyre.HostStep(print, [x], [y]), vyre.Step(PROGRAM, memory)])
session.tuned(PROGRAM, NAMED)
session.launch_costs()
# What threads of the parent may hold at any moment, and nobody gives back in the child.
held = [session._lock, session._lease._lock, session._background._lock, session._work.threads._lock, session._closing,
        session._work.admission._lock, session._work.order._lock,
        session._pipelines._lock, session._pipelines._flights._lock, session._observer._lock, special._lock]
locked, go_on = threading.Event(), threading.Event()
def hold():
    for lock in held: lock.acquire()
    locked.set()
    assert go_on.wait({LIMIT_S})
    for lock in held: lock.release()
holder = threading.Thread(target=hold)
holder.start()
assert locked.wait({LIMIT_S})
"""
CALLS: Final = """
CALLS = {
    "submit": lambda: session.submit(PROGRAM, NAMED).result(20),
    "dispatch_async": lambda: asyncio.run(session.dispatch_async(PROGRAM, NAMED)),
    "dispatch": lambda: session.dispatch(PROGRAM, NAMED),
    "dispatch of what is new": lambda: session.dispatch(OTHER, [X]),
    "dispatch_many": lambda: session.dispatch_many(PROGRAM, [NAMED]),
    "pipeline": lambda: pipeline(NAMED),
    "bound launch": lambda: launch(),
    "specialized pipeline": lambda: special(NAMED),
    "bound resident launch": lambda: resident(),
    "sequence": lambda: sequence(2),
    "sequence with a host step": lambda: mixed(2),
    "dispatch on resident memory": lambda: session.dispatch(PROGRAM, memory),
    "new resident memory": lambda: session.resident(X),
    "bind": lambda: session.bind_resident(PROGRAM, memory),
    "specialize": lambda: session.specialize(OTHER),
    "tune": lambda: session.tune(PROGRAM, NAMED),
    "tuned": lambda: session.tuned(PROGRAM, NAMED),
    "dispatch as tuned": lambda: session.dispatch(PROGRAM, NAMED, tune=True),
    "calibrate": lambda: session.calibrate(),
    "launch_costs": lambda: session.launch_costs(),
    "explain": lambda: session.explain(),
    "explain a program": lambda: session.explain(PROGRAM),
    "predictions": lambda: session.predictions(),
    "metrics": lambda: session.metrics(),
    "write_journal": lambda: session.write_journal(Path(os.devnull)),
    "invalidate": lambda: session.invalidate(PROGRAM, dry_run=True),
    "flush": lambda: session.flush(),
    "recover": lambda: session.recover(),
    "with": lambda: session.__enter__(),
}
child = os.fork()
if child == 0:
    for name, call in CALLS.items():
        signal.alarm(30)  # ends the process, and says so, where a call waits for what is not there
        print(name, end=": ", flush=True)
        try:
            call()
        except DispatchFailed as error:
            print("refused" if "is used in its fork" in str(error) and "spawn" in error.fix else error, flush=True)
        except BaseException as error:
            print(repr(error), flush=True)
        else:
            print("done", flush=True)
    signal.alarm(30)
    assert session.closed
    session.close()
    with vyre.open(BACKEND) as own:  # what it opens itself works
        assert own.submit(PROGRAM, NAMED).result(20)["y"].tobytes() == WANT
    sys.exit(0)
code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
go_on.set()
holder.join(20)
assert session.submit(PROGRAM, NAMED).result(20)["y"].tobytes() == WANT
resident.close()
session.close()
sys.exit(code)
"""


def run(script: str, *arguments: str) -> str:
    ran = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", script, *arguments],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
    )
    assert ran.returncode == 0 and "Traceback" not in ran.stderr, f"{ran.returncode}\n{ran.stdout}\n{ran.stderr}"
    return ran.stdout


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_child_is_refused_in_words_whatever_it_calls(backend: str) -> None:
    told = dict(line.split(": ", 1) for line in run(PARENT + CALLS, backend).splitlines())
    assert len(told) == 29
    assert {name: what for name, what in told.items() if what != "refused"} == {}


COMPILES: Final = f"""
import multiprocessing, os, signal, sys, threading
sys.path.insert(0, {str(TESTS)!r})
import numpy as np
import vyre
from support.storms.process_storms import X, plus, step

BACKEND, HOW = sys.argv[1:]
stop = threading.Event()
def compiles():
    n = 0
    while not stop.is_set():
        n += 1
        plus(X, n)
        with vyre.open(BACKEND, cache=False) as own:
            own.dispatch(step, [X])
def child(turn):
    signal.alarm({LIMIT_S} // 4)
    assert plus(X, 10**6 + turn)[1] == 10**6 + turn + 1
    with vyre.open(BACKEND, cache=False) as own:
        assert own.dispatch(step, [X])["y"][1] == 4
plus(X, 10**6)
threads = [threading.Thread(target=compiles) for _ in range(2)]
for thread in threads: thread.start()
for turn in range(4):
    if HOW == "os":
        pid = os.fork()
        if not pid:
            child(turn)
            os._exit(0)
        assert os.waitpid(pid, 0)[1] == 0, turn
    else:
        process = multiprocessing.get_context("fork").Process(target=child, args=(turn,))
        process.start()
        process.join({LIMIT_S})
        assert process.exitcode == 0, turn
stop.set()
for thread in threads: thread.join({LIMIT_S})
"""
ALL_HELD: Final = f"""
import gc, os, signal, sys, threading
sys.path.insert(0, {str(TESTS)!r})
import numpy as np
import vyre
from support.storms.held_locks import Holder, locks_of
from support.storms.process_storms import X, plus, step
from vyre.adapters import forks

BACKEND = sys.argv[1]
forks.WAIT_S = 0.1  # what llvmlite's lock is waited for
plus(X, 3)
session = vyre.open(BACKEND, predict=True, resident_budget=1 << 20)
array = session.resident(X)
kept = [session, array, session.bind(step, [X]), session.bind_resident(step, [array]), session.submit(step, [X])]
kept.append(session.sequence([vyre.Step(step, [array])]))
kept[4].result(20), kept[5](2), session.dispatch(plus, dict(x=X, n=3))
if BACKEND != "reference":
    jobs = session.persistent(step)
    ticket = jobs.submit([X])
    ticket.result(20), ticket.add_done_callback(id)
    kept += [jobs, ticket, jobs.submit_many([np.ones((4, 64), np.uint32)])]
gc.collect()
holder = Holder(locks_of([*(module for name, module in sys.modules.items() if name.startswith("vyre")), *kept,
                          sys.modules.get("llvmlite.binding.ffi")]))
assert len(holder.held) > 50, len(holder.held)
child = os.fork()
if not child:
    signal.alarm({LIMIT_S} // 3)
    assert plus(X, 4)[1] == 5
    for other in ("cpu", "reference", "cuda-machine"):
        with vyre.open(other, cache=False) as own:
            assert own.dispatch(plus, dict(x=X, n=5))["y"][1] == 6
            assert own.submit(step, [X]).result(20)["y"][1] == 4
            with own.resident(X) as mine:
                own.sequence([vyre.Step(step, [mine])])(2)
    array.close()
    for use in (lambda: session.dispatch(step, [X]), kept[2], kept[3], kept[5]):
        try:
            use()
        except vyre.DispatchFailed as error:
            assert "fork" in str(error), error
        else:
            raise AssertionError("it is not refused")
    kept[4].result(20), kept[4].add_done_callback(id)
    if BACKEND != "reference":
        jobs.close()
    session.close()
    del session, array, kept[:], use
    gc.collect()
    os._exit(0)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
holder.release()
"""
PENDING: Final = f"""
import os, signal, sys
sys.path.insert(0, {str(TESTS)!r})
import numpy as np
import vyre
from support.storms.process_storms import X, spins

session = vyre.open(sys.argv[1], cache=False)
called = []
future = session.submit(spins, dict(y=X, n=int(sys.argv[2])))
future.add_done_callback(called.append)
work = [future]
if sys.argv[1] != "reference":
    jobs = session.persistent(spins)
    work.append(jobs.submit(dict(y=X, n=int(sys.argv[2]))))
child = os.fork()
if not child:
    signal.alarm({LIMIT_S} // 3)
    for each in work:
        try:
            each.result()
        except vyre.DispatchFailed as error:
            assert "fork" in str(error), error
        else:
            raise AssertionError("the child has a result that it cannot have")
    assert not called
    os._exit(0)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
if sys.argv[1] == "cuda-machine":
    os._exit(0)  # which would emulate these rounds for minutes
results = [each.result(120) for each in work]
assert called == [future]
"""
LOST: Final = f"""
import os, signal, sys, threading
sys.path.insert(0, {str(TESTS)!r})
import vyre
from support.storms.process_storms import X, plus
from vyre.adapters import forks
from vyre.adapters.cpu.native import compilation

forks.WAIT_S = 0.1
plus(X, 3)
compilation.prepare()
locked, go_on = threading.Event(), threading.Event()
def inside():
    with compilation._llvm_lock():
        locked.set()
        go_on.wait(60)
threading.Thread(target=inside).start()
locked.wait()
child = os.fork()
if not child:
    signal.alarm({LIMIT_S} // 3)
    assert plus(X, 4)[1] == 5  # compiled by another process
    try:
        compilation.assembly("", compilation.CpuFeatures("x86_64", (), 128), compilation.Effort.LIGHT)
    except vyre.BackendUnavailable as error:
        assert "during the fork" in str(error) and "spawn" in error.fix, error
    else:
        raise AssertionError("it is not refused")
    os._exit(0)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
go_on.set()
assert plus(X, 5)[1] == 6
"""
NEEDS_LLVM: Final = pytest.mark.skipif(llvm_version() is None, reason="needs llvmlite")


@NEEDS_LLVM
@pytest.mark.parametrize(("backend", "how"), [("cpu", "os"), ("cuda-machine", "os"), ("cpu", "multiprocessing")])
def test_a_child_that_is_forked_while_threads_compile_runs_kernels(backend: str, how: str) -> None:
    run(COMPILES, backend, how)


@NEEDS_LLVM
@pytest.mark.parametrize("backend", ["cpu", "reference", "cuda-machine"])
def test_a_child_needs_no_lock_that_a_thread_of_its_parent_held(backend: str) -> None:
    run(ALL_HELD, backend)


@pytest.mark.parametrize(
    ("backend", "rounds"),
    [pytest.param("cpu", 60_000_000, marks=NEEDS_LLVM), ("reference", 3000), ("cuda-machine", 100_000)],
)
def test_a_child_is_refused_what_is_under_way_and_the_parent_gets_it(backend: str, rounds: int) -> None:
    run(PENDING, backend, str(rounds))


@NEEDS_LLVM
def test_a_fork_that_catches_a_thread_inside_llvm_compiles_elsewhere() -> None:
    run(LOST)
