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
from vyre.adapters.cpu.native.compilation import llvm_version

TESTS: Final = Path(__file__).parents[1]
SOAK: Final = os.environ.get("VYRE_SOAK") == "1"
CUDA, CPU = "cuda-machine", "cpu"
EXITS: Final = 200 if SOAK else 10

IMPORTS: Final = """
import atexit, gc, os, sys, threading, warnings
warnings.simplefilter("ignore", ResourceWarning)
sys.path.insert(0, {tests!r})
import numpy as np
import vyre
from support.cuda.scenarios import INPUTS, PROGRAM, X, Y
from support.limits import LIMIT_S
from vyre.ports.requests import DispatchRequest
REQUEST = DispatchRequest(PROGRAM, INPUTS)
NAMED = {{"k": 3, "x": X, "y": Y}}
"""
PRELUDES: Final = {
    CUDA: IMPORTS
    + """
from vyre.adapters.cuda.machine.fault_plan import Fault, FaultPlan, SlowKernel
from vyre.testing import cuda_machine
machine = cuda_machine()
session, backend = machine.open(), machine.backend
def opened(): return cuda_machine(seed=1).open()
def begin_endless():
    machine.driver.inject(FaultPlan(slow=(SlowKernel(seconds=1e9),)))
    return backend.async_executor.submit(REQUEST)
session.dispatch(PROGRAM, NAMED)
""",
    CPU: IMPORTS
    + """
from support.cpu.backends import ENDLESS
from support.cpu.pool import until
from vyre.domain.dispatch import DispatchConfig, OutputArena
from vyre.testing.execution import find_backend
session = vyre.open("cpu", threads=2)
backend = session._lease.backend
def opened(): return vyre.open("cpu", threads=1)
LONG = DispatchRequest(ENDLESS, (memoryview(bytes(64)),), DispatchConfig())
ZEROS = [np.zeros(16, np.uint32)]
def begin_endless(): return backend.async_executor.submit(LONG)
session.dispatch(PROGRAM, NAMED)
session.compile(ENDLESS)
TEXT = '''workgroup_size 64, 1, 1 buffer x @0 read_write u32[4096]
body { for k in 0u..20000u { x[gid.x] = x[gid.x] * 1664525u + SEEDu } }'''
""",
}

COMMON: Final = {
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
    "what owns memory, until the very end": """
warnings.simplefilter("error")
import builtins
array = session.resident(X); jobs = session.persistent(PROGRAM); ticket = jobs.submit(NAMED)
builtins.kept = [array, array[1:], session.bind_download([array]), jobs, ticket, session.submit(PROGRAM, NAMED)]
del array, jobs, ticket""",
    "a dispatch in flight": "future = session.submit(PROGRAM, NAMED)",
    "a dispatch in flight that nobody holds": "session.submit(PROGRAM, NAMED)",
    "a callback that never came": """
pending = backend.async_executor.submit(REQUEST)
pending.add_done_callback(lambda: None)""",
    "a callback that exits": "session.submit(PROGRAM, NAMED).add_done_callback(lambda f: sys.exit(3))",
    "a kernel that never ends": "pending = begin_endless()",
    "a kernel that never ends and that nobody holds": "begin_endless()",
    "a kernel that never ends, with a callback": "begin_endless().add_done_callback(lambda: None)",
    "a daemon thread that dispatches": """
def work():
    while True: session.dispatch(PROGRAM, NAMED)
threading.Thread(target=work, daemon=True).start(); threading.Event().wait(0.02)""",
    "a thread that outlives the main one": """
def work():
    for _ in range(20): session.dispatch(PROGRAM, NAMED)
threading.Thread(target=work).start()""",
    "replayed graphs": "[session.dispatch(PROGRAM, NAMED) for _ in range(5)]",
    "two sessions": "second = opened(); second.dispatch(PROGRAM, NAMED)",
    "a child process that uses what it inherited": """
child = os.fork()
if child == 0:
    try: session.dispatch(PROGRAM, NAMED)
    except Exception: pass
    session.close() if {seed} % 2 else None
    sys.exit(0)
assert os.waitpid(child, 0)[1] == 0""",
    "no collection": "gc.disable(); cycle = [session]; cycle.append(cycle)",
    "an unhandled interrupt": "session.resident(X); raise KeyboardInterrupt",
}
STATES: Final = {
    CUDA: COMMON
    | {
        "a lost device": """
machine.driver.inject(FaultPlan(calls=(Fault(code=700),)))
try: session.dispatch(PROGRAM, NAMED)
except Exception: pass""",
        "memory exported to another library": """
exporter = cuda_machine(export_fake=True); shared = exporter.open()
array = shared.resident(X); capsule = array.__dlpack__(); interface = array.__cuda_array_interface__""",
    },
    CPU: COMMON
    | {
        "futures of kernels that never end": "futures = [session.submit(ENDLESS, ZEROS) for _ in range(5)]",
        "kernels that never end, and a session that is closed at exit": """
atexit.register(session.close)
begin_endless(); backend.async_executor.submit(REQUEST)""",
        "a daemon thread in a kernel that never ends": """
def work():
    try: session.dispatch(ENDLESS, ZEROS)
    except Exception: pass
threading.Thread(target=work, daemon=True).start()
until(lambda: session.metrics()["worker_runs"])""",
        "a compilation in another process": """
hot = vyre.Program.from_text(TEXT.replace("SEED", "{seed}"))
[session.dispatch(hot, [np.zeros(4096, np.uint32)]) for _ in range(3)]""",
    },
}
# A callback of a future that is done already is called by the thread that adds it, here the main one.
EXPECTED: Final = {"an unhandled interrupt": (130, -2), "a callback that exits": (0, 3)}


@pytest.mark.parametrize("number", range(EXITS))
@pytest.mark.parametrize("backend", STATES)
def test_the_interpreter_ends_quietly(backend: str, number: int) -> None:
    if backend == CPU and llvm_version() is None:
        pytest.skip("llvmlite is not installed")
    states = STATES[backend]
    name = list(states)[number] if number < len(states) else random.Random(number).choice(list(states))
    script = (PRELUDES[backend] + states[name].replace("{seed}", str(number))).replace("{{", "{").replace("}}", "}")
    script = script.replace("{tests!r}", repr(str(TESTS)))
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=LIMIT_S)
    report = f"{name}: exit code {ran.returncode}\n{ran.stderr}"
    assert ran.returncode in EXPECTED.get(name, (0,)), report
    assert "Fatal Python error" not in ran.stderr, report
    if name != "an unhandled interrupt":
        assert "Traceback" not in ran.stderr and "Exception ignored" not in ran.stderr, report
