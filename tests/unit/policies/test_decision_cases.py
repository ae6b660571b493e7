"""What ``python -m benchmarks --suite decisions`` measures: every decision, at bounds that stay what they are."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]


@pytest.fixture
def rows(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(ROOT)
    return importlib.import_module("benchmarks.decision_rows")


@pytest.mark.parametrize(
    ("kind", "most", "count"),
    [
        pytest.param("decision", 3.0, 17, id="a choice between verdicts"),
        pytest.param("plan", 12.0, 8, id="a record of several figures"),
    ],
)
def test_every_decision_has_a_row_with_the_bound_of_its_kind(kind: str, most: float, count: int, rows: Any) -> None:
    found = [row for row in rows.ROWS if row.name.startswith(f"{kind}:")]
    assert len(found) >= count
    assert {row.required for row in found} == {most}


def test_the_cases_are_decisions_that_say_yes_and_decisions_that_say_no(rows: Any) -> None:
    cases = importlib.import_module("benchmarks.decision_cases")
    for name in ("persistent_kernel", "command_reuse", "param_inlining", "trace_jit"):
        assert len({type(call()) for call in cases.SCALAR_DECISIONS[name]}) == 2, name
