"""Errors, ties and shares of predictions that are held against made-up measurements."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest

from gpu_runs.bench.costs import FULL
from gpu_runs.bench.predictions import WANTED_AGREED, WANTED_WITHIN, Comparison, Shape, compare, summarise
from support.launch_costs import launch_costs, measured
from vyre.domain.launch_costs import LaunchCosts, Measured, Provenance, of_samples
from vyre.policies.launching.execution_prices import ExecutionMode

PLAIN, GRAPH = ExecutionMode.PLAIN, ExecutionMode.GRAPH
COSTS = launch_costs()
ONE = Shape(1, 1, 0, recorded=True)
KERNEL = 2_000
LAUNCHED, REPLAYED = 3_000 + KERNEL, 2_510 + KERNEL


def against(
    plain: int, graph: int, *, errors: tuple[int, int] = (0, 0), shape: Shape = ONE, costs: LaunchCosts = COSTS
) -> Comparison:
    """What a batch of this shape took in either mode, with the standard errors of both medians."""
    observed = {PLAIN: measured(plain, errors[0]), GRAPH: measured(graph, errors[1])}
    return compare(costs, measured(KERNEL), shape, observed)


@pytest.mark.parametrize(
    ("shape", "plain", "graph"),
    [
        (ONE, LAUNCHED, REPLAYED),
        (Shape(16, 1, 0, recorded=True), 16 * 3_000 + KERNEL, 2_500 + 160 + 16 * KERNEL + 15 * 600),
        (Shape(16, 1, 16, recorded=True), 16 * 3_000 + KERNEL, 2_660 + 500 + 16_000 + 16 * KERNEL + 15 * 600),
        (Shape(4, 1, 0, recorded=False), 4 * 3_000 + KERNEL, 36_000 + 2_540 + 4 * KERNEL + 3 * 600),
        (Shape(1, 4, 0, recorded=True), 4 * 3_000 + KERNEL, 2_510 + 4 * (KERNEL + 1_000) - 1_000),
    ],
)
def test_a_batch_is_predicted_with_all_that_its_shape_costs(shape: Shape, plain: int, graph: int) -> None:
    found = against(plain, graph, shape=shape)
    assert {mode: each.price.total_ns for mode, each in found.modes.items()} == {PLAIN: plain, GRAPH: graph}
    assert [each.error for each in found.modes.values()] == [0, 0]
    assert found.planned is min((plain, PLAIN), (graph, GRAPH), key=lambda each: each[0])[1]


@pytest.mark.parametrize("taken", [4 * LAUNCHED // 5, 4 * LAUNCHED])
def test_an_error_is_a_part_of_what_was_observed(taken: int) -> None:
    error = against(taken, REPLAYED).modes[PLAIN].error
    assert error == pytest.approx(abs(LAUNCHED - taken) / taken)


@pytest.mark.parametrize(
    ("graph", "errors", "fastest"),
    [
        (4_999, (0, 0), {GRAPH}),
        (5_000, (0, 0), {PLAIN, GRAPH}),
        (5_001, (0, 0), {PLAIN}),
        (5_010, (3, 4), {PLAIN, GRAPH}),  # two errors of the difference, which is 5
        (5_011, (3, 4), {PLAIN}),
        (4_990, (3, 4), {PLAIN, GRAPH}),
        (4_989, (3, 4), {GRAPH}),
    ],
)
def test_modes_tie_within_two_standard_errors_of_the_difference(
    graph: int, errors: tuple[int, int], fastest: set[ExecutionMode]
) -> None:
    found = against(5_000, graph, errors=errors)
    assert found.fastest == fastest
    assert found.planned is GRAPH
    assert found.agreed is (GRAPH in fastest)


def test_the_regret_is_what_the_chosen_mode_takes_longer() -> None:
    assert against(5_000, 4_000).regret == 0
    assert against(4_000, 5_000).regret == 0.25
    assert against(5_000, 5_005, errors=(50, 50)).regret == pytest.approx(0.001)  # also where it counts as fastest


def test_a_summary_counts_predictions_and_batches() -> None:
    found = summarise(
        [
            against(LAUNCHED, REPLAYED),
            against(2 * LAUNCHED, REPLAYED),  # half of what it took
            against(LAUNCHED, 2 * REPLAYED),  # the same, and the chosen mode is the slower one
            against(LAUNCHED, LAUNCHED + 10, errors=(30, 40)),
        ]
    )
    assert (found["batches"], found["predictions"]) == (4, 8)
    assert (found["within"], found["within_by_mode"]) == (0.75, {"plain": 0.75, "graph": 0.75})
    assert (found["agreed"], found["tied"]) == (0.75, 0.25)
    assert (found["median_error"], found["worst_error"]) == (0, 0.5)
    assert found["worst_regret"] == pytest.approx(2 * REPLAYED / LAUNCHED - 1)
    assert found["provenance"] == "measured"


def test_the_limit_itself_is_close_enough() -> None:
    costs = launch_costs(launch=115, graph_replay=116, graph_replay_node=0)
    found = summarise([compare(costs, measured(0), ONE, {PLAIN: measured(100), GRAPH: measured(100)})])
    assert found["within_by_mode"] == {"plain": 1.0, "graph": 0.0}


@pytest.mark.parametrize("emulated", ["a cost", "the kernel", "an observation"])
def test_one_emulated_time_makes_the_whole_emulated(emulated: str) -> None:
    def time(name: str, ns: int) -> Measured:
        return measured(ns, provenance=Provenance.EMULATED if name == emulated else Provenance.MEASURED)

    costs = launch_costs(launch=time("a cost", 3_000))
    observed = {PLAIN: measured(5_000), GRAPH: time("an observation", 4_500)}
    found = summarise([against(1, 1), compare(costs, time("the kernel", KERNEL), ONE, observed)])
    assert found["provenance"] == "emulated"


def test_a_record_says_what_was_predicted_and_observed() -> None:
    found = against(LAUNCHED, 2 * REPLAYED, errors=(3, 4)).to_json()
    assert found == {
        "kernel_ns": KERNEL,
        "nodes": 1,
        "runs": 1,
        "changed": 0,
        "recorded": True,
        "modes": {
            "plain": {
                "predicted_ns": LAUNCHED,
                "observed_ns": LAUNCHED,
                "spread_ns": 0,
                "standard_error_ns": 3,
                "samples": 9,
                "error": 0.0,
            },
            "graph": {
                "predicted_ns": REPLAYED,
                "observed_ns": 2 * REPLAYED,
                "spread_ns": 0,
                "standard_error_ns": 4,
                "samples": 9,
                "error": 0.5,
            },
        },
        "planned": "graph",
        "fastest": ["plain"],
        "agreed": False,
        "regret": 2 * REPLAYED / LAUNCHED - 1,
    }


# ---- on a host and a stream that behave as the prices say, and share no code with them
TRUE_NS = {"round_trip": 3_000, "launch": 3_000, "launch_gap": 1_300, "graph_gap": 900, "graph_replay_node": 20}
"""Other costs are those of ``launch_costs`` too."""


@pytest.fixture
def simulator(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(Path(__file__).parents[3])
    return importlib.import_module("benchmarks.launch_simulator")


def simulated(simulator: Any, costs: LaunchCosts) -> dict[str, Any]:
    """A summary of the smaller batches of the grid with such costs in truth, each duration with a noise of 5 %."""
    true, found = launch_costs(**TRUE_NS).known(), []
    for kernel_us in (1, 10, 100):
        machine = simulator.Machine(
            kernel=1e3 * kernel_us, **{name: float(cost.median_ns) for name, cost in true.items()}
        )
        for shape in [shape for shape in FULL.shapes() if shape.launches <= 64]:
            batch, observed = simulator.Batch(shape.runs, shape.nodes, shape.changed), {}
            for mode in (PLAIN, GRAPH):
                draw, taken = simulator.noise(0.05, (kernel_us, shape, mode)), []
                for _ in range(9):
                    once = simulator.record_ns(machine, batch, draw) if mode is GRAPH and not shape.recorded else 0
                    taken.append(round(once + simulator.batch_ns(mode.value, machine, batch, draw)))
                observed[mode] = of_samples(taken, Provenance.MEASURED)
            found.append(compare(costs, measured(1_000 * kernel_us), shape, observed))
    return summarise(found)


def test_true_costs_meet_both_goals_on_the_grid(simulator: Any) -> None:
    found = simulated(simulator, launch_costs(**TRUE_NS))
    assert found["within"] == WANTED_WITHIN
    assert found["agreed"] >= WANTED_AGREED


@pytest.mark.parametrize(
    "wrong", [{"launch": 6_000}, {"launch_gap": 20_000}, {"round_trip": 12_000}, {"graph_record_node": 16_000}]
)
def test_a_wrong_cost_misses_a_goal_on_the_grid(simulator: Any, wrong: dict[str, int]) -> None:
    assert simulated(simulator, launch_costs(**TRUE_NS | wrong))["within"] < 0.95
