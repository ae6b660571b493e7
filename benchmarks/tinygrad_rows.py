"""tinygrad on vyre's ``cpu`` backend (``examples/tinygrad``) against tinygrad's own device for CPUs.

That device runs C, which clang compiled.  Both sides have as many threads, and neither contracts products and sums.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from benchmarks.harness import Metric, NotMeasured, Row, Samples

ROOT: Final = Path(__file__).parents[1]
CLANGS: Final = ("clang", *(f"clang-{version}" for version in range(21, 13, -1)))
_LIMIT_S: Final = 1800
_SIDE: Final = "x tinygrad's CPU"
_WARM: Final = "compiled and captured by TinyJit, memory resident, wall time, as many threads, contraction off"
_COLD: Final = "a fresh process that opened the device and compiled nothing, caches empty, wall time, 40 epochs"
_CHAIN: Final = "one more kernel in a chain of 100 over 16 elements, wall time; theirs is tinygrad's CPU"


def _ran(job: str, rounds: int) -> Samples:
    """Runs a job in a process with empty caches and with a clang that does not contract.

    Raises ``NotMeasured`` where tinygrad or clang is not installed, and ``AssertionError`` where the process fails.
    """
    clang = next(filter(None, map(shutil.which, CLANGS)), None)
    if find_spec("tinygrad") is None or clang is None:
        raise NotMeasured("tinygrad or clang is not installed")
    with tempfile.TemporaryDirectory(prefix="vyre-tinygrad-") as folder:
        without_contraction = Path(folder, "clang")
        without_contraction.write_text(f'#!/bin/sh\nexec {shlex.quote(clang)} -ffp-contract=off "$@"\n')
        without_contraction.chmod(0o755)
        threads = str(len(os.sched_getaffinity(0)))
        environment = os.environ | {
            "CC": str(without_contraction),
            "CPU_COUNT": threads,
            "VYRE_CPU_THREADS": threads,
            "VYRE_BACKEND": "cpu",
            "VYRE_CACHE_DIR": str(Path(folder, "vyre")),
            "CACHEDB": str(Path(folder, "tinygrad.db")),
        }
        command = [sys.executable, "-m", "benchmarks.tinygrad_jobs", job, str(rounds)]
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=_LIMIT_S)
    if done.returncode:
        raise AssertionError(f"the job {job} failed: {done.stderr.strip()[-1000:]}")
    found = json.loads(done.stdout.splitlines()[-1])
    return Samples(found["ours"], found["theirs"])


def _whole(rounds: int) -> Samples:
    """Measures whole trainings of both sides in turn, each in a process of its own."""
    seconds: dict[str, list[float]] = {"VYRE": [], "CPU": []}
    for number in range(rounds):
        for device in sorted(seconds, reverse=number % 2 == 0):
            seconds[device] += _ran(device, 1).ours
    return Samples(seconds["VYRE"], seconds["CPU"])


def _row(name: str, job: str, required: float, aim: float, *, cost: bool = False) -> Row:
    measure: Callable[[int], Samples] = partial(_ran, job)
    if cost:
        return Row(name, Metric.COST, "us a kernel", required, aim, measure, _CHAIN, scale=1e6)
    return Row(name, Metric.RATIO, _SIDE, required, aim, measure, _WARM)


ROWS: Final = (
    _row("matmul-1024", "product", 1.5, 1.0),
    _row("mlp-epoch", "epoch", 1.5, 1.0),
    Row("mlp-training-cold", Metric.RATIO, _SIDE, 1.5, 1.0, _whole, _COLD),
    _row("overhead-in-a-graph", "overhead-graph", 30, 10, cost=True),
    _row("overhead-by-itself", "overhead-each", 30, 10, cost=True),
)
