"""Every group of both commands passes, in small, on the emulated driver."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from gpu_runs.bench import costs, programs, rivals
from gpu_runs.bench.bandwidth import summarise
from gpu_runs.check.faults import TRAP_INSTRUCTION, WILD_STORE
from gpu_runs.context import COMMANDS, Context, find_group
from gpu_runs.findings import collect
from gpu_runs.supervisor import GroupVerdict, judge, worker_environment
from support.cuda.ptxas import joined
from support.fixed_points import keep_resident_arrays
from support.limits import LIMIT_S
from vyre.domain.binding import plan_bindings
from vyre.testing.execution import execute, open_backend
from vyre.testing.operator_programs import operator_cases
from vyre.testing.outcomes import Verdict

TESTS = Path(__file__).parents[2]
QUICK = {
    "check": (
        *("arrays", "queries", "packing", "work-queues", "speculation", "waves", "fixed-points", "sequences"),
        *("indirect-grids", "e-graphs", "asynchrony"),
    ),
    "bench": ("queries", "packing", "arrays", "waves", "barriers", "work-queues", "joined", "overlap"),
}
"""Groups that take little time and have no part that must be skipped."""
# What only a GPU or a package that is not installed here can do.
NEED_A_GPU = {
    "sanitizer",
    "libraries",
    "launch-bindings",
    "launch-cuda-core",
    "launch-cupy",
    "launch-numba",
    "launch-triton",
}


GROUPS = [
    pytest.param(
        command,
        group.name,
        id=f"{command}-{group.name}",
        marks=[] if group.name in QUICK[command] else [pytest.mark.slow],
    )
    for command, groups in COMMANDS.items()
    for group in groups
    if (command, group.name) not in (("bench", "probe"), ("bench", "costs"))  # the probe of checks; looked at below
]


@pytest.fixture(autouse=True)
def _kept(monkeypatch: pytest.MonkeyPatch) -> None:
    keep_resident_arrays(monkeypatch)


@pytest.mark.parametrize(("command", "name"), GROUPS)
def test_a_group_passes_on_the_machine(command: str, name: str, tmp_path: Path) -> None:
    """In this process: ``test_command`` and ``test_evidence`` run both commands, whose groups have one each."""
    context = Context(backend="cuda-machine", tests=TESTS, seconds=60, folder=tmp_path)
    tally = collect(find_group(command, name).load()(context), tmp_path / "findings.json")
    assert tally.listed[Verdict.FAILED] == []
    assert judge(tally.to_json(), 0) is (GroupVerdict.SKIPPED if name in NEED_A_GPU else GroupVerdict.PASSED)
    if name in QUICK[command]:
        assert tally.listed[Verdict.SKIPPED] == []
        assert tally.counts[Verdict.PASSED] > 5 if command == "check" else tally.facts


def test_every_group_can_be_loaded() -> None:
    for groups in COMMANDS.values():
        assert len({group.name for group in groups}) == len(groups)
        assert all(callable(group.load()) for group in groups)


def test_the_operator_matrix_is_the_same_on_both_reference_engines() -> None:
    vectorised, oracle = open_backend("reference"), open_backend("reference-scalar")
    cases = list(operator_cases())
    assert len({case.name for case in cases}) == len(cases) > 200
    for case in cases[::9]:
        assert execute(vectorised, case.program, case.inputs) == execute(oracle, case.program, case.inputs), case.name


def test_one_module_holds_many_entries() -> None:
    from vyre.adapters.cuda.machine.module import load_module
    from vyre.adapters.cuda.ptx.emit import emit

    emitted = [emit(case.program) for case in list(operator_cases())[:20]]
    module = load_module(joined(emitted))
    assert set(module.entries) == {kernel.entry for one in emitted for kernel in one.kernels}


@pytest.mark.parametrize("text", [WILD_STORE, TRAP_INSTRUCTION, rivals.PTX])
def test_hand_written_kernels_load(text: str) -> None:
    from vyre.adapters.cuda.machine.module import load_module

    assert len(load_module(text).entries) == 1


def test_a_probed_launch_has_four_arguments() -> None:
    assert len(plan_bindings(programs.launch_probe()).bindings) == 4
    assert rivals.PTX.count(".param .") == 4


def test_bandwidth_is_a_fraction_of_the_better_copy() -> None:
    rates = {
        "driver copy": {"median": 90.0},
        "copy, one": {"median": 100.0},
        "saxpy, one": {"median": 80.0},
        "saxpy, four apart": {"median": 95.0},
    }
    found = summarise(rates)
    assert (found["copy_gb_s"], found["copy_by"]) == (100.0, "copy, one")
    assert found["saxpy"] == {"gb_s": 95.0, "shape": "four apart", "of_copy_rate": 0.95}


def test_the_numba_side_counts_its_launches() -> None:
    pytest.importorskip("numba", reason="numba is in the bench group only")
    script = (
        "from gpu_runs.bench.rivals import numba\n"
        "sides = numba(256)\n"
        "[launch() for launch in sides.launches.values() for _ in range(3)]\n"
        "sides.synchronize()\n"
        "assert (sides.result() == 3).all()\n"
    )
    environment = {**worker_environment(), "NUMBA_ENABLE_CUDASIM": "1"}
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=False, timeout=LIMIT_S
    )
    assert done.returncode == 0, done.stderr


def test_predictions_are_rehearsed_on_a_small_grid_and_marked(tmp_path: Path) -> None:
    context = Context(backend="cuda-machine", tests=None, seconds=60, folder=tmp_path)
    tally = collect(costs.costs(context), tmp_path / "costs.json")
    assert tally.counts[Verdict.FAILED] == 0 and tally.counts[Verdict.PASSED] == 1 + len(costs.REHEARSAL.kernels_us)
    batches, summary = tally.facts["batches"], tally.facts["summary"]
    assert len(batches) == summary["batches"] == len(costs.REHEARSAL.kernels_us) * len(list(costs.REHEARSAL.shapes()))
    assert all(set(batch["modes"]) == {"plain", "graph"} for batch in batches)
    assert summary["provenance"] == "emulated"
    assert len(tally.facts["kernels"]) == len(costs.REHEARSAL.kernels_us)
