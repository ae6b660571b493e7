"""How often the next shape is predicted: the gate, the record of it, and the rivals on worked examples."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
RECORD = {
    row["name"]: row
    for row in json.loads((ROOT / "benchmarks" / "results" / "prediction.json").read_text("utf-8"))["rows"]
}
REQUIRED = {
    "period_3": 99,
    "cycle_20": 95,
    "cycle_20_of_few": 95,
    "gallery_shapes": 98,
    "gallery_shapes_10_laps": 98,
    "gallery_values": 98,
    "gallery_values_10_laps": 98,
    "gallery_confident": 60,
}


@pytest.fixture
def benchmarks(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(ROOT)
    return lambda name: importlib.import_module(f"benchmarks.{name}")


@pytest.mark.parametrize("name", REQUIRED)
def test_the_numbers_hold_and_are_those_of_the_record(benchmarks: Any, name: str) -> None:
    (row,) = (row for row in benchmarks("prediction_rows").ROWS if row.name == name)
    found = row.measure(1)
    assert found.ours[0] >= REQUIRED[name]
    assert found.ours[0] == pytest.approx(RECORD[name]["ours_median"])
    assert found.theirs[0] == pytest.approx(RECORD[name]["theirs_median"])


def test_the_cost_is_recorded_and_reached() -> None:
    assert RECORD.keys() == {*REQUIRED, "record_and_predict"}
    assert RECORD["record_and_predict"]["verdict"] != "MISSED"


def test_the_trace_is_what_the_gallery_dispatches(benchmarks: Any) -> None:
    """Record it again with `python -m benchmarks.gallery_trace` where it differs."""
    trace = benchmarks("gallery_trace")
    assert trace.load() == trace.record()


@pytest.mark.parametrize(
    ("order", "newest", "shorter", "trace", "right"),
    [
        (0, False, False, "aabaa", 60),  # a, then a twice more
        (0, True, False, "aabaa", 40),  # repetition
        (1, False, False, "ababab", 50),
        (1, False, True, "ababab", 200 / 3),  # order 0 knows a only when b comes
        (1, True, False, "abacac", 100 / 6),  # what followed the last a, first wrongly, then rightly
        (2, False, False, "abcabcab", 37.5),
        (2, False, True, "abcabcab", 62.5),  # the second a as the first of all, the second b as what followed a
    ],
)
def test_rivals_of_fixed_order(
    benchmarks: Any, order: int, newest: bool, shorter: bool, trace: str, right: float
) -> None:
    module = benchmarks("prediction_rows")
    rival = module.FixedOrder(order, newest=newest, shorter=shorter)
    assert module.percent_right(rival, trace) == pytest.approx(right)
