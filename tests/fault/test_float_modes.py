"""Callers that round otherwise, or flush subnormal numbers: they get the reference's bytes, and keep their modes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from support.limits import LIMIT_S
from support.llvm import NEEDS_LLVM
from support.reference.float_modes import MODES, SETTABLE

pytestmark = [
    pytest.mark.skipif(not SETTABLE, reason="the modes of this platform's floats are not known"),
    NEEDS_LLVM,
]

TESTS: Final = Path(__file__).parents[1]

SCRIPT: Final = """
import sys, threading
sys.path.insert(0, sys.argv[1])
import numpy as np
import vyre
from support.reference.float_modes import control, float_mode
from support.limits import LIMIT_S

SOURCE = '''
workgroup_size 64, 1, 1
buffer n @0 read u32[1]
buffer x @1 read f32[runtime]
buffer y @2 read_write f32[runtime]
buffer z @3 read_write f64[runtime]
body {
  for k in 0u..ROUNDS {
    let v = x[gid.x]
    y[gid.x] = y[gid.x] / 3.0f + v * 1.1e-38f + 0.1f - sin(v) + exp(v * 0.1f) + sqrt(v) + 1.0e-45f + cast<f32>(z[gid.x])
    z[gid.x] = cast<f64>(v) * 0.1f64 / 7.0f64 + 4.9e-324f64 * cast<f64>(v) + z[gid.x] * 0.3f64
  }
}
'''
# Of proved length, which the caller's thread runs, and of unknown length, which others do.
PROGRAMS = [vyre.Program.from_text(SOURCE.replace("ROUNDS", rounds)) for rounds in ("2u", "n[0u]")]
COUNT = 5000
X = (np.arange(1, COUNT + 1, dtype=np.float32) * np.float32(0.37)) ** 1.5
X[::7] *= np.float32(1e-40)
NAMED = dict(n=np.array([2], np.uint32), x=X, y=X[::-1].copy(), z=X.astype(np.float64) * 1e-308)
OUT = "y", "z"

def answer(result):
    return [result[name].tobytes() for name in OUT]

with vyre.open("reference") as session:
    WANT = [answer(session.dispatch(program, NAMED)) for program in PROGRAMS]
assert WANT[0] == WANT[1] and len({*WANT[0]}) == 2

def check(session, mode, compiled):
    for program, want in zip(PROGRAMS, WANT):
        program = program if compiled else vyre.Program.from_text(program.to_text())
        with float_mode(mode) as ours:
            result = session.dispatch(program, NAMED)
            assert control() == ours, "dispatch"
            memory = NAMED | {name: session.resident(NAMED[name]) for name in OUT}
            launch = session.bind_resident(program, memory)
            launch()
            assert control() == ours, "bound launch"
            fresh = NAMED | {name: session.resident(NAMED[name]) for name in OUT}
            steps = session.sequence([vyre.Step(program, fresh)])
            steps(1)
            assert control() == ours, "sequence"
            host = session.bind(program, NAMED)()
            assert control() == ours, "bound launch on host memory"
            future = session.submit(program, NAMED).result(LIMIT_S)
            assert control() == ours, "submitted"
        assert answer(result) == want, "dispatch"
        assert [memory[name].download().tobytes() for name in OUT] == want, "bound launch"
        assert [fresh[name].download().tobytes() for name in OUT] == want, "sequence"
        assert answer(host) == want, "bound launch on host memory"
        assert answer(future) == want, "submitted"

mode = sys.argv[2]
def plain():
    return (X / np.float32(3) * np.float32(1e-38)).tobytes()
usual = plain()
with float_mode(mode):
    assert plain() != usual, "the mode has no effect"
def everything(when):
    if when == "opened before":
        with vyre.open("cpu", threads=2) as session:
            for program in PROGRAMS:
                session.compile(program)
                session.dispatch(program, NAMED)
            check(session, mode, True)
    else:
        with float_mode(mode) as ours:
            session = vyre.open("cpu", threads=2)
            assert control() == ours, "open"
        with session:
            check(session, mode, False)
    print("passed")

for when in ("compiled in it", "opened before"):  # in this order: the first of both finds nothing that is compiled
    everything(when)
    thread = threading.Thread(target=everything, args=[when])
    thread.start()
    thread.join(LIMIT_S)
"""


@pytest.mark.parametrize("mode", MODES)
def test_the_callers_mode_is_neither_trusted_nor_changed(mode: str, tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(TESTS), mode],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        env=os.environ | {"VYRE_CACHE_DIR": str(tmp_path)},  # nothing is compiled yet
    )
    assert (ran.stdout, ran.returncode) == ("passed\n" * 4, 0), ran.stderr
