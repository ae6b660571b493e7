"""Prepared launches over the driver stub, against the bare binding call; see ``launch_cost``.

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
from support import cuda_stub
print(cuda_stub.run_module("benchmarks.launch_cost", cuda_stub.build(Path(sys.argv[1])), sys.argv[2]))
"""


@cache
def _figures(rounds: int) -> dict[str, Any]:
    path = os.pathsep.join(str(ROOT / folder) for folder in ("src", "tests", "."))
    with tempfile.TemporaryDirectory(prefix="vyre-stub-") as folder:
        command = [sys.executable, "-c", _RUN, folder, str(rounds)]
        done = subprocess.run(
            command, cwd=ROOT, env={**os.environ, "PYTHONPATH": path}, check=True, capture_output=True, text=True
        )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


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
    Row("launch_growth", Metric.COST, "bytes", 0.0, None, _memory("growth"), _WARM),
    Row("launch_peak", Metric.COST, "bytes", 1024.0, None, _memory("peak"), _WARM),
)
