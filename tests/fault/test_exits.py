"""Interpreters that end with the backend in an odd state: no crash, no hang, no noise."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from support.limits import LIMIT_S

TESTS: Final = Path(__file__).parents[1]
SOAK: Final = os.environ.get("VYRE_SOAK") == "1"
EXITS: Final = 200 if SOAK else 30

PRELUDE: Final = """
import atexit, gc, os, sys, threading, time, warnings
warnings.simplefilter("ignore", ResourceWarning)
sys.path.insert(0, {tests!r})
import numpy as np
from support.cuda_scenarios import INPUTS, PROGRAM, X, Y, SCENARIOS
from vyre.adapters.cuda.machine.fault_plan import Fault, FaultPlan, SlowKernel
from vyre.domain.dispatch import OutputArena
from vyre.ports.backend import DispatchRequest, ResidentStep
from vyre.testing import cuda_machine
REQUEST = DispatchRequest(PROGRAM, INPUTS)
NAMED = {{"k": 3, "x": X, "y": Y}}
machine = cuda_machine()
session = machine.open()
session.dispatch(PROGRAM, NAMED)
"""

STATES: Final = {
    "a session left open": "pass",
    "a session closed at exit": "atexit.register(session.close)",
    "a session closed in a finaliser": """
class Holder:
    def __del__(self): session.close()
holder = Holder()
sys.modules["holder"] = holder""",
    "a dispatch in a finaliser": """
class Late:
    def __del__(self):
        try: session.dispatch(PROGRAM, NAMED)
        except Exception: pass
late = Late(); late.self = late""",
    "resident memory": "kept = [session.resident(X) for _ in range(3)]",
    "a bound launch": "launch = session.bind_resident(PROGRAM, {**NAMED, 'y': session.resident(Y), "
    "'out': session.resident(X)}); launch()",
    "a dispatch in flight": "future = session.submit(PROGRAM, NAMED)",
    "a dispatch in flight that nobody holds": "session.submit(PROGRAM, NAMED)",
    "a callback that never came": """
pending = machine.backend.async_executor.submit(REQUEST)
pending.add_done_callback(lambda: None)""",
    "a callback that exits": "session.submit(PROGRAM, NAMED).add_done_callback(lambda f: sys.exit(3))",
    "a kernel that never ends": """
machine.driver.inject(FaultPlan(slow=(SlowKernel(seconds=1e9),)))
pending = machine.backend.async_executor.submit(REQUEST)""",
    "a lost device": """
machine.driver.inject(FaultPlan(calls=(Fault(code=700),)))
try: session.dispatch(PROGRAM, NAMED)
except Exception: pass""",
    "a daemon thread that dispatches": """
def work():
    while True: session.dispatch(PROGRAM, NAMED)
threading.Thread(target=work, daemon=True).start(); time.sleep(0.02)""",
    "a thread that outlives the main one": """
def work():
    for _ in range(20): session.dispatch(PROGRAM, NAMED)
threading.Thread(target=work).start()""",
    "replayed graphs": "[session.dispatch(PROGRAM, NAMED) for _ in range(5)]",
    "two sessions": "other = cuda_machine(seed=1); second = other.open(); second.dispatch(PROGRAM, NAMED)",
    "a child process that uses what it inherited": """
child = os.fork()
if child == 0:
    try: session.dispatch(PROGRAM, NAMED)
    except Exception: pass
    session.close() if {seed} % 2 else None
    sys.exit(0)
assert os.waitpid(child, 0)[1] == 0""",
    "memory exported to another library": """
exporter = cuda_machine(export_fake=True); shared = exporter.open()
array = shared.resident(X); capsule = array.__dlpack__(); interface = array.__cuda_array_interface__""",
    "no collection": "gc.disable(); cycle = [session]; cycle.append(cycle)",
    "an unhandled interrupt": "session.resident(X); raise KeyboardInterrupt",
}
EXPECTED: Final = {"an unhandled interrupt": (130, -2)}


@pytest.mark.parametrize("number", range(EXITS))
def test_the_interpreter_ends_quietly(number: int) -> None:
    name = list(STATES)[number] if number < len(STATES) else random.Random(number).choice(list(STATES))
    script = (PRELUDE + STATES[name].replace("{seed}", str(number))).replace("{{", "{").replace("}}", "}")
    script = script.replace("{tests!r}", repr(str(TESTS)))
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=LIMIT_S)
    report = f"{name}: exit code {ran.returncode}\n{ran.stderr}"
    assert ran.returncode in EXPECTED.get(name, (0,)), report
    assert "Fatal Python error" not in ran.stderr, report
    if name not in EXPECTED:
        assert "Traceback" not in ran.stderr and "Exception ignored" not in ran.stderr, report
