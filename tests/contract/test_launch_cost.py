"""A prepared launch costs little more than the call of the binding, and leaves nothing behind.

The bounds here are loose, for a busy machine; ``python -m benchmarks --only 'launch_*'`` has the real ones.
"""

from __future__ import annotations

import json
import statistics
from pathlib import Path
from typing import Any

import pytest

from support import cuda_stub

pytestmark = pytest.mark.skipif(not cuda_stub.can_build(), reason=cuda_stub.NO_COMPILER)


BOTH = """
import statistics
import numpy as np
import vyre
from support.cuda_stub import StubControl
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
    print(statistics.median([timing.launch_ns for timing in twice]), launch.median_ns)
"""


@pytest.fixture(scope="module")
def stub(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return cuda_stub.build(tmp_path_factory.mktemp("cuda_stub"))


@pytest.fixture(scope="module")
def measured(stub: Path) -> dict[str, Any]:
    figures: dict[str, Any] = json.loads(cuda_stub.run_module("benchmarks.launch_cost", stub, "5"))
    return figures


@pytest.mark.parametrize(("way", "at_most"), [("unchanged", 1.8), ("rewritten", 2.6), ("more_rewritten", 4.0)])
def test_prepared_launch_costs_little_more_than_the_bare_call(
    measured: dict[str, Any], way: str, at_most: float
) -> None:
    assert statistics.median(measured[way]) / statistics.median(measured["bare"]) < at_most


def test_warm_launches_keep_no_memory(measured: dict[str, Any]) -> None:
    assert measured["memory"]["growth"] == 0
    assert measured["memory"]["peak"] < 1024


def test_dispatches_and_calibration_mean_the_same_by_a_launch(stub: Path) -> None:
    """On a quiet machine they differ by 10 % at most, less than what a cost is corrected for."""
    dispatched, calibrated = map(float, cuda_stub.run(BOTH, stub).split())
    assert 0.6 < dispatched / calibrated < 1.6
