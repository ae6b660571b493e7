"""Batches of a kernel that spins: each runs what it says in either mode, and what did not run is found out."""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np
import pytest

import vyre
from gpu_runs.bench import programs
from gpu_runs.bench.costs import FULL, REHEARSAL
from gpu_runs.bench.predictions import Shape
from gpu_runs.bench.spinning import Batches, Spinning
from gpu_runs.bench.timing import Rounds, in_turn_ns
from gpu_runs.workbench import Workbench
from vyre.adapters.cuda import ids
from vyre.policies.launching.execution_prices import ExecutionMode


@pytest.fixture
def kernel() -> Iterator[Spinning]:
    with Workbench(ids.MACHINE) as bench, bench.module(programs.spin()) as module:
        yield Spinning(bench, module, 2)


@pytest.mark.parametrize("loops", [0, 1, 5])
def test_a_kernel_spins_as_often_as_it_is_told(loops: int) -> None:
    before = np.arange(programs.SPIN_LANES, dtype=np.uint32) * 1_000
    with vyre.open("reference", cache=False) as session:
        after = session.dispatch(programs.spin(), {"loops": loops, "salt": 7, "sums": before})["sums"]
    np.testing.assert_array_equal(after, before + programs.spun(loops, 7))


@pytest.mark.parametrize("mode", [ExecutionMode.PLAIN, ExecutionMode.GRAPH])
@pytest.mark.parametrize("recorded", [True, False])
@pytest.mark.parametrize(("nodes", "runs", "changed"), [(1, 1, 0), (3, 2, 0), (1, 1, 1), (2, 3, 2), (1, 4, 1)])
def test_a_batch_runs_every_launch_with_its_parameters(
    kernel: Spinning, mode: ExecutionMode, nodes: int, runs: int, changed: int, recorded: bool
) -> None:
    batches = Batches(kernel, Shape(nodes, runs, changed, recorded))
    for _ in range(2):
        batches.ways[mode]()
        assert not kernel.is_right()  # it has run, and was not counted
        batches.settle()
        assert kernel.is_right()
    batches.release()


@pytest.mark.parametrize("recorded", [True, False])
def test_a_graph_is_recorded_once_or_by_every_batch(kernel: Spinning, recorded: bool) -> None:
    batches, graphs = Batches(kernel, Shape(2, 1, 0, recorded)), []
    for _ in range(3):
        batches.replayed()
        graphs.append(batches.graph)
        batches.settle()
    batches.release()
    assert len({id(graph) for graph in graphs}) == (1 if recorded else 3)
    assert batches.graph is None


def test_what_did_not_run_is_not_right(kernel: Spinning) -> None:
    assert kernel.is_right()
    kernel.ran(Shape(1, 1, 0, recorded=True))
    assert not kernel.is_right()


def test_chains_of_launches_are_counted(kernel: Spinning) -> None:
    busy = Spinning(kernel.bench, kernel.launch.module, 9)
    assert kernel.chained_ns(busy.launch) >= 0
    assert kernel.device_ns(3) >= 0
    assert kernel.is_right()


# ---- rounds
@pytest.mark.parametrize(("rounds", "taken"), [(Rounds(3, 9, 0), 3), (Rounds(0, 4, 60), 4)])
def test_ways_take_turns_and_every_other_round_runs_backwards(rounds: Rounds, taken: int) -> None:
    ran: list[str] = []
    found = in_turn_ns({"a": lambda: ran.append("a"), "b": lambda: ran.append("b")}, lambda: ran.append("-"), rounds)
    assert "".join(ran) == "".join("a-b-" if number % 2 == 0 else "b-a-" for number in range(1 + taken))
    assert {way: len(times) for way, times in found.items()} == {"a": taken, "b": taken}


def test_settling_is_not_timed_and_the_first_round_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    now_ns, taken = [0], iter([5_000, 20, 30])

    def pass_ns(nanoseconds: int) -> None:
        now_ns[0] += nanoseconds

    monkeypatch.setattr(time, "perf_counter_ns", lambda: now_ns[0])
    found = in_turn_ns({"a": lambda: pass_ns(next(taken))}, lambda: pass_ns(100_000), Rounds(2, 2, 0))
    assert found == {"a": [20, 30]}


# ---- grids
def test_the_grid_covers_what_prices_depend_on() -> None:
    shapes = list(FULL.shapes())
    assert len(set(shapes)) == len(shapes) == 52
    assert {shape.nodes for shape in shapes} == {1, 4, 16, 64, 100}
    assert {shape.runs for shape in shapes} == {1, 4, 16}
    assert {(shape.changed == shape.nodes, shape.recorded) for shape in shapes} == {
        (changed, recorded) for changed in (False, True) for recorded in (False, True)
    }
    assert {shape.changed for shape in shapes} == {0, 1, 4, 16, 64, 100}
    assert max(shape.launches for shape in shapes) == FULL.launches


def test_the_grid_takes_no_more_than_three_minutes() -> None:
    """On a device whose launches and kernels take a tenth longer than asked for, each with a gap of 2 us."""
    spent = 0.0
    for kernel_us in FULL.kernels_us:
        for shape in FULL.shapes():
            each = 2 * 1e-6 * shape.launches * (max(5, 1.1 * kernel_us) + 2)  # two modes
            spent += min(FULL.rounds.most * each, FULL.rounds.seconds + (FULL.rounds.least + 1) * each)
    assert spent < 120
    assert len(list(REHEARSAL.shapes())) < 20
