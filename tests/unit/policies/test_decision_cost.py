"""A decision costs a few times what building a small record costs, on every machine.

``python -m benchmarks --suite decisions`` has the microseconds, and the planners of long sequences.
"""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def multiples() -> dict[str, dict[str, float]]:
    command = [sys.executable, "-m", "benchmarks.decision_cost"]
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    found: dict[str, dict[str, float]] = json.loads(done.stdout)
    return found


@pytest.fixture
def rows(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(ROOT)
    return importlib.import_module("benchmarks.decision_rows")


@pytest.mark.parametrize(
    ("kind", "most", "count"),
    [
        pytest.param("decision", 3.0, 28, id="a choice between verdicts"),
        pytest.param("plan", 12.0, 11, id="a record of several figures"),
        pytest.param("composed", 16.0, 3, id="all decisions of a dispatch, and others that rest on several"),
    ],
)
def test_a_decision_costs_a_few_records(
    kind: str, most: float, count: int, multiples: dict[str, dict[str, float]], rows: Any
) -> None:
    assert getattr(rows, f"{kind.upper()}_MULTIPLES") == most
    assert len(multiples[kind]) >= count
    assert {name: cost for name, cost in multiples[kind].items() if cost > most} == {}


def test_the_cases_are_decisions_that_say_yes_and_decisions_that_say_no(rows: Any) -> None:
    cases = importlib.import_module("benchmarks.decision_cases")
    for name in ("persistent_kernel", "command_reuse", "param_inlining", "bindless", "trace_jit", "pipeline_fusion"):
        assert len({type(call()) for call in cases.SCALAR_DECISIONS[name]}) == 2, name
    assert all(len(call().audit_events) == 4 for call in cases.COMPOSED["dispatch_policy"])
