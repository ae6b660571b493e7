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


def test_a_decision_costs_at_most_three_records(multiples: dict[str, dict[str, float]], rows: Any) -> None:
    assert rows.DECISION_MULTIPLES == 3.0
    assert {name: cost for name, cost in multiples["decision"].items() if cost > 3.0} == {}


def test_all_decisions_of_a_dispatch_cost_at_most_sixteen(multiples: dict[str, dict[str, float]], rows: Any) -> None:
    assert rows.BUNDLE_MULTIPLES == 16.0
    assert multiples["bundle"]["bundle"] <= 16.0


def test_a_plan_of_several_figures_costs_no_more_than_they(multiples: dict[str, dict[str, float]], rows: Any) -> None:
    assert {name: cost for name, cost in multiples["plan"].items() if cost > rows.PLAN_MULTIPLES} == {}


def test_the_cases_are_decisions_that_say_yes_and_decisions_that_say_no(rows: Any) -> None:
    cases = importlib.import_module("benchmarks.decision_cases")
    for name in ("persistent_kernel", "command_reuse", "param_inlining", "bindless", "trace_jit", "pipeline_fusion"):
        assert len({type(call()) for call in cases.SCALAR_DECISIONS[name]}) == 2, name
    assert all(len(call().audit_events) == 4 for call in cases.BUNDLE)
