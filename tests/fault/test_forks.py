"""Sessions that a forked process inherits: they refuse in words, wait for nothing, and leave the parent's alone."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from support.limits import LIMIT_S

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
session.tuned(PROGRAM, NAMED)
session.launch_costs()
# What threads of the parent may hold at any moment, and nobody gives back in the child.
held = [session._lock, session._lease._lock, session._background._lock, session._work.threads._lock, session._closing,
        session._work.admission._lock, session._work.order._changed,
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
BUNDLE: Final = f"""
import os, signal, sys, threading
sys.path.insert(0, {str(TESTS)!r})
import numpy as np
import vyre
from support.bundles import TEXT_ONLY
from support.small_programs import saxpy_program
from vyre.domain.errors import DispatchFailed

INPUTS = [2.0, np.arange(8, dtype=np.float32), np.ones(8, dtype=np.float32)]
built = vyre.build_bundle(saxpy_program(), sys.argv[1], emitters=TEXT_ONLY)
bundle = vyre.load_bundle(built.path, backend="cuda-machine")
want = bundle(INPUTS)["y"].tobytes()
locked, go_on = threading.Event(), threading.Event()
def hold():
    with bundle._lock, bundle._runner._lock, bundle._runner.device._lock:
        locked.set()
        assert go_on.wait({LIMIT_S})
holder = threading.Thread(target=hold)
holder.start()
assert locked.wait({LIMIT_S})
child = os.fork()
if child == 0:
    for call in (lambda: bundle(INPUTS), lambda: bundle(INPUTS, grid=2), bundle.recover):
        signal.alarm(30)
        try:
            call()
        except DispatchFailed as error:
            print("refused" if "is used in its fork" in str(error) else error, flush=True)
    bundle.close()
    sys.exit(0)
code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
go_on.set()
holder.join(20)
assert bundle(INPUTS)["y"].tobytes() == want
bundle.close()
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
    assert len(told) == 28
    assert {name: what for name, what in told.items() if what != "refused"} == {}


def test_a_child_is_refused_a_bundle(tmp_path: Path) -> None:
    assert run(BUNDLE, str(tmp_path / "kernel.vyrz")).split() == ["refused"] * 3
