"""Goals are met, missed, or not measured; nothing counts as measured that did not run on a GPU and pass."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpu_runs.bench import features, overlap
from gpu_runs.bench.goals import FASTER, GOALS, judge
from gpu_runs.command import goal_line
from gpu_runs.context import Context, find_group
from gpu_runs.findings import Finding


def groups(**facts: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"name": name.replace("_", "-"), "verdict": "passed", "facts": found} for name, found in facts.items()]


MEASURED = groups(
    bandwidth={"summary": {"saxpy": {"of_copy_rate": 0.95}, "reduction": {"of_copy_rate": 0.85}}},
    launch={"launch_us": {"arguments": 4, "scalars rewritten": {"median": 2.0}}},
    launch_cupy={"launch_us": {"arguments": 4, "version": "14", "call": {"median": 5.0}}},
    launch_cuda_core={"launch_us": {"arguments": 4, "launch": {"median": 1.5}}},
    resident={"summary": {"above_bare_us": 1.5, "p50_us": 9.0}},
    graphs={"summary": {"host_us": 4.0, "many_host_us": 4.9}},
    costs={"summary": {"within": 0.95, "agreed": 0.9}},
    tuning={"summary": {"worst_of_the_best": 1.03}},
    queries={"pairs": {"one edge": {"speedup": 3.0}}},
    waves={"pairs": {"waves, beside launches": {"speedup": 1.9}}},
    arrays={"pairs": {"shown by DLPack": {"ours_us": {"median": 5.0}}}},
)
JUDGED_BY_PAIRS = {
    "64 queries, beside launches": True,
    "200 waves, beside launches": False,
    "memory shown by DLPack": True,
}


def test_goals_are_judged_one_by_one() -> None:
    found = {goal["goal"]: goal["met"] for goal in judge(MEASURED, emulated=False)}
    replaced = {goal["goal"] for goal in judge(MEASURED, emulated=False) if goal["unit"] == "x"}
    assert {name: found.pop(name) for name in JUDGED_BY_PAIRS} == JUDGED_BY_PAIRS
    assert {found.pop(name) for name in replaced - JUDGED_BY_PAIRS.keys()} == {None}
    assert found == {
        "saxpy, of the copy rate": True,
        "reduction, of the copy rate": False,
        "elementwise, of the copy rate": None,
        "prepared launch, beside cuda.core": False,
        "prepared launch, beside CuPy": True,
        "prepared launch, beside numba-cuda": None,
        "prepared launch, beside Triton": None,
        "resident dispatch, p50 above bare bindings": True,
        "resident dispatch, p50": False,
        "graph replay, host time": False,
        "graph replay of 100 kernels, host time": True,
        "predicted batches within 15%": False,
        "planned mode was the fastest": True,
        "tuned size, of the best": True,
    }


@pytest.mark.parametrize("case", ["emulated", "failed", "nothing"])
def test_what_was_not_measured_is_not_claimed(case: str) -> None:
    measured = MEASURED if case == "emulated" else [{**g, "verdict": "failed"} for g in MEASURED]
    found = judge([] if case == "nothing" else measured, emulated=case == "emulated")
    assert [goal["met"] for goal in found] == [None] * len(GOALS)
    assert all(goal_line(goal).endswith("not measured") for goal in found)


def test_a_line_says_value_and_bound() -> None:
    (line,) = (goal_line(g) for g in judge(MEASURED, emulated=False) if g["goal"].startswith("reduction"))
    assert line.endswith("0.85, at least 0.9 ratio: MISSED")


def test_every_goal_of_a_pair_names_a_measurement(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The names of goals and of pairs are written down twice."""
    named: dict[str, set[str]] = {}
    for group in {group for _, group, _, _ in FASTER}:

        def noted(context: Context, pairs: dict[str, Any], rounds: int = 0, *, name: str = group) -> Iterator[Finding]:
            named[name] = set(pairs)
            yield from ()

        for module in (features, overlap):
            monkeypatch.setattr(module, "measured", noted)
        context = Context(backend="cuda", tests=None, seconds=60, folder=tmp_path)
        assert list(find_group("bench", group).load()(context)) == []
    assert {(group, pair) for _, group, pair, _ in FASTER if pair not in named[group]} == set()
