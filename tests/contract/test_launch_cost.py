"""A prepared launch costs little more than the call of the binding, and leaves nothing behind.

The bounds here are loose, for a busy machine; ``python -m benchmarks --only 'launch_*'`` has the real ones.
"""

from __future__ import annotations

import json
import statistics
from typing import Any

import pytest

from support import cuda_stub

pytestmark = pytest.mark.skipif(not cuda_stub.can_build(), reason=cuda_stub.NO_COMPILER)


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = cuda_stub.build(tmp_path_factory.mktemp("cuda_stub"))
    figures: dict[str, Any] = json.loads(cuda_stub.run_module("benchmarks.launch_cost", folder, "5"))
    return figures


@pytest.mark.parametrize(("way", "at_most"), [("unchanged", 1.8), ("rewritten", 2.6), ("more_rewritten", 4.0)])
def test_prepared_launch_costs_little_more_than_the_bare_call(
    measured: dict[str, Any], way: str, at_most: float
) -> None:
    assert statistics.median(measured[way]) / statistics.median(measured["bare"]) < at_most


def test_warm_launches_keep_no_memory(measured: dict[str, Any]) -> None:
    assert measured["memory"]["growth"] == 0
    assert measured["memory"]["peak"] < 1024
