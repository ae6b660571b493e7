"""Plans against simulated machines: the limits in short, the record, and what the simulator does on worked examples."""

from __future__ import annotations

import importlib
import json
from itertools import product
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
RECORD: dict[str, Any] = json.loads((ROOT / "benchmarks" / "results" / "regret.json").read_text("utf-8"))


@pytest.fixture
def regret(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(ROOT)
    return importlib.import_module("benchmarks.regret")


@pytest.fixture
def simulator(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(ROOT)
    return importlib.import_module("benchmarks.launch_simulator")


# ---- regret
@pytest.mark.parametrize("joinable", [False, True], ids=["stages apart", "stages to join"])
@pytest.mark.parametrize("decider", ["ours", "ours at first"])
@pytest.mark.parametrize("percent", [2, 10, 30])
def test_the_limits_hold_in_short(percent: int, decider: str, joinable: bool, regret: Any) -> None:
    study, case = regret.study(regret.SHORT), regret.Case(percent, decider=decider, joinable=joinable)
    assert study.mean(case) <= 0.025
    assert study.p95(case) <= 0.10
    for rule in ("persistent_kernel", "command_reuse"):
        assert study.mean(case) <= 0.5 * study.mean(case._replace(decider=rule)), rule


def test_every_mode_is_best_somewhere(regret: Any) -> None:
    for count in regret.study(regret.SHORT).best.values():
        assert min(count[mode.value] for mode in regret.MODES) >= 10


def test_predicted_times_are_those_of_the_simulator(regret: Any) -> None:
    """But for the skew of noise: a mean of log-normal times is above their median."""
    missed = regret.study(regret.SHORT).missed
    assert max(missed[2]) <= 0.02
    assert regret.p95(missed[10]) <= 0.05


def test_the_record_holds_the_limits() -> None:
    rows = {row["name"]: row for row in RECORD["rows"]}
    assert len(rows) == 96
    assert {row["verdict"] for row in rows.values()} == {"required"}
    for first, part, noise, samples in product(("", "_at_first"), ("", "_to_join"), (2, 10, 30), (200, 15)):
        where = f"{first}{part}_at_noise_{noise}_of_{samples}"
        assert rows[f"mean{where}"]["required"] == 2.5
        assert rows[f"p95{where}"]["required"] == 10.0
        for rule in ("persistent_kernel", "command_reuse"):
            assert rows[f"over_{rule}{where}"]["required"] == 0.5
    assert RECORD["details"]["cells"]["stages apart"] >= 2_000
    assert RECORD["details"]["cells"]["stages to join"] >= 1_500


@pytest.mark.parametrize("scope", ["FULL", "SHORT"])
def test_stages_are_joined_in_every_way(scope: str, regret: Any) -> None:
    found = [cell.join for cell in regret.cells(getattr(regret, scope)) if cell.join is not None]
    assert {join.fused for join in found} == {0.5, None, 1.0, 1.5}
    assert {join.build for join in found} == {0, 1_000_000}
    assert {join.joined for join in found} >= {2, 16}


def test_the_record_is_of_this_code(regret: Any) -> None:
    """The short grid again; rerun `python -m benchmarks --suite regret` where it differs."""
    again = regret.study(regret.SHORT).as_json()
    known = RECORD["details"]["short"]
    assert known["cells"] == again["cells"]
    assert known["regret"].keys() == again["regret"].keys()
    for case, deciders in again["regret"].items():
        for decider, figures in deciders.items():
            assert known["regret"][case][decider] == pytest.approx(figures, abs=0.01), (case, decider)


# ---- the simulator, without noise
def exact(simulator: Any, mode: str, batch: tuple[float, ...], **machine: float) -> float:
    usual = {"launch": 3_000.0, "kernel": 2_000.0, "round_trip": 1_000.0, "launch_gap": 500.0}
    found: float = simulator.batch_ns(mode, simulator.Machine(**usual | machine), simulator.Batch(*batch), float)
    return found


@pytest.mark.parametrize(
    ("mode", "batch", "machine", "taken"),
    [
        # The kernel begins 300 ns after its submission, and the host goes on 700 ns after its end.
        ("plain", (1, 1), {}, 3_000 + 300 + 2_000 + 700),
        ("plain", (1, 4), {}, 4 * 3_000 + 2_000 + 1_000),
        ("plain", (2, 2), {}, 4 * 3_000 + 2_000 + 1_000),
        ("plain", (4, 1), {"kernel": 9_000.0}, 3_000 + 4 * 9_000 + 3 * 500 + 1_000),
        # Two kernels a launch: the device is slower now.
        ("fused", (3, 4, 0, 2), {}, 3_000 + 6 * 4_000 + 5 * 500 + 1_000),
        ("fused", (1, 5, 0, 3), {}, 3_000 + 6_000 + 500 + 4_000 + 1_000),
        ("fused", (1, 4, 0, 4, 0.5), {}, 3_000 + 4_000 + 1_000),
        ("graph", (1, 4), {"graph_replay": 100.0, "graph_replay_node": 10.0, "graph_gap": 50.0}, 140 + 8_150 + 1_000),
        (
            "graph",
            (3, 2, 2),
            {"graph_replay": 100.0, "graph_replay_node": 10.0, "graph_update": 5_000.0, "graph_update_node": 1_000.0},
            3 * 7_120 + 2 * 2_000 + 900 + 1_000,
        ),
        (
            "persistent",
            (2, 2),
            {"persistent_setup": 9_000.0, "persistent_poll": 100.0},
            9_000 + 150 + 4 * 2_100 + 1_000,
        ),
    ],
)
def test_a_batch_worked_by_hand(
    mode: str, batch: tuple[float, ...], machine: dict[str, float], taken: float, simulator: Any
) -> None:
    assert exact(simulator, mode, batch, **machine) == pytest.approx(taken)


def test_the_host_waits_where_the_queue_is_full(simulator: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """With room for nothing but what executes, the way to the device is no longer hidden."""

    def taken() -> float:
        return exact(simulator, "plain", (10, 1), kernel=9_000.0, round_trip=10_000.0)

    unbounded = taken()
    monkeypatch.setattr(simulator, "QUEUE_DEPTH", 2)
    assert taken() == unbounded
    monkeypatch.setattr(simulator, "QUEUE_DEPTH", 1)
    assert taken() == unbounded + 9 * (3_000 - 500)


def test_recording_costs_something_for_each_node(simulator: Any) -> None:
    machine = simulator.Machine(1.0, 1.0, graph_record=7.0, graph_record_node=2.0)
    assert simulator.record_ns(machine, simulator.Batch(9, 5), float) == 17.0


def test_noise_keeps_the_median(simulator: Any) -> None:
    draw = simulator.noise(0.3, "seed")
    drawn = sorted(draw(1_000.0) for _ in range(4_001))
    assert drawn[2_000] == pytest.approx(1_000.0, rel=0.02)
    assert sum(drawn) / len(drawn) == pytest.approx(1_046.0, rel=0.02)
    assert simulator.noise(0.3, "seed")(1.0) != simulator.noise(0.3, "other")(1.0)
