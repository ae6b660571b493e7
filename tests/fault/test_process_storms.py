"""A part of the storms of ``make soak``: finalisers, callbacks, forks, exits, threads and cancelled tasks."""

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

TESTS: Final = Path(__file__).parents[1]
CASES: Final = {"finalisers": 8, "callbacks": 8, "threads": 1, "cancels": 10, "forks": 1, "exits": 1}
STORMS: Final = {
    "cpu": tuple(CASES),
    "reference": ("finalisers", "callbacks", "exits"),
    "cuda-machine": ("finalisers", "callbacks", "exits"),
}
RUN: Final = f"""
import random, sys
sys.path.insert(0, {str(TESTS)!r})
from support.storms import process_storms
backend, seed, watchdog = sys.argv[1], int(sys.argv[2]), process_storms.Watchdog()
for told in sys.argv[3:]:
    storm, cases = told.split("=")
    print(process_storms.STORMS[storm](backend, random.Random(seed), lambda n: n >= int(cases), watchdog), flush=True)
"""


@pytest.mark.parametrize("backend", STORMS)
def test_short_storms(backend: str) -> None:
    if backend == "cpu" and llvm_version() is None:
        pytest.skip("needs llvmlite")
    storms = STORMS[backend]
    ran = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", RUN, backend, "35", *(f"{storm}={CASES[storm]}" for storm in storms)],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        env={**os.environ, "PYTHONPATH": str(TESTS)},
    )
    assert ran.returncode == 0 and not ran.stderr, f"{ran.returncode}\n{ran.stdout}\n{ran.stderr}"
    counts = dict(zip(storms, map(int, ran.stdout.split()), strict=True))
    assert all(counts[storm] >= CASES[storm] for storm in storms), counts
