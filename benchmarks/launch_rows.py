"""Prepared launches over the driver stub, against the bare binding call; see ``launch_cost``.

``launch_dispatched`` compares what dispatches say that a launch took with what calibration says.  On a quiet machine
they differ by 10 % at most, less than what a cost is corrected for.

``theirs`` is ``cuLaunchKernelEx`` of the bindings with everything made before.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import cache
from typing import Any, Final

from benchmarks.harness import Metric, Row, Samples
from benchmarks.process_rows import ROOT

_FURTHER: Final = 16
_RUN: Final = """
import sys
from pathlib import Path
from support.cuda import stub as cuda_stub
print(cuda_stub.run_module("benchmarks.launch_cost", cuda_stub.build(Path(sys.argv[1])), sys.argv[2]))
"""
_RUN_BOTH: Final = """
import sys
from pathlib import Path
from support.cuda import stub as cuda_stub
print(cuda_stub.run(sys.argv[2], cuda_stub.build(Path(sys.argv[1]))))
"""
_BOTH: Final = """
import json, statistics
import numpy as np
import vyre
from support.cuda.stub import StubControl
from vyre import ProgramBuilder, u32

with ProgramBuilder("double", workgroup=32) as p:
    x = p.inout("x", u32)
    x[p.global_id()] = x[p.global_id()] * 2
DOUBLE = p.build()

StubControl().record(False)
with vyre.open("cuda", cache=False) as session:
    config = vyre.DispatchConfig(fixpoint_iterations=64)
    memory = [session.resident(np.ones(64, np.uint32)) for _ in range(30)]
    twice = [session.dispatch(DOUBLE, {"x": x}, config).timing for x in memory * 2]  # a third is a replay
    launch = session.calibrate(rounds=31).costs.launch
    dispatched, calibrated = statistics.median([timing.launch_ns for timing in twice]), launch.median_ns
    print(json.dumps({"ratio": max(dispatched / calibrated, calibrated / dispatched)}))
"""


def _ran(script: str, argument: str) -> dict[str, Any]:
    """Runs ``script`` with a folder for the stub and ``argument``; returns the JSON object that it prints."""
    path = os.pathsep.join(str(ROOT / folder) for folder in ("src", "tests", "."))
    with tempfile.TemporaryDirectory(prefix="vyre-stub-") as folder:
        command = [sys.executable, "-c", script, folder, argument]
        done = subprocess.run(
            command, cwd=ROOT, env={**os.environ, "PYTHONPATH": path}, check=True, capture_output=True, text=True
        )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@cache
def _figures(rounds: int) -> dict[str, Any]:
    return _ran(_RUN, str(rounds))


def _dispatched(rounds: int) -> Samples:
    return Samples([_ran(_RUN_BOTH, _BOTH)["ratio"] for _ in range(rounds)])


def _launch(way: str) -> Callable[[int], Samples]:
    return lambda rounds: Samples(_figures(rounds)[way], _figures(rounds)["bare"])


def _further(rounds: int) -> Samples:
    found = _figures(rounds)
    steps = [(b - a) / _FURTHER for a, b in zip(found["rewritten"], found["more_rewritten"], strict=True)]
    return Samples(steps, found["bare"])


def _memory(kind: str) -> Callable[[int], Samples]:
    return lambda rounds: Samples([float(_figures(rounds)["memory"][kind])] * rounds)


_STATE: Final = "everything prepared, 10th percentile of single calls in turn"
_WARM: Final = "10 000 warm calls that rewrite six arguments"
ROWS: Final = (
    Row("launch_unchanged", Metric.RATIO, "x bare call", 1.4, None, _launch("unchanged"), _STATE),
    Row("launch_6_rewritten", Metric.RATIO, "x bare call", 1.8, None, _launch("rewritten"), _STATE),
    Row("launch_each_further", Metric.RATIO, "x bare call", 0.06, None, _further, _STATE),
    Row("launch_dispatched", Metric.COST, "x calibrated", 1.6, None, _dispatched, "the larger over the smaller"),
    Row("launch_growth", Metric.COST, "bytes", 0.0, None, _memory("growth"), _WARM),
    Row("launch_peak", Metric.COST, "bytes", 1024.0, None, _memory("peak"), _WARM),
)
