"""The groups of resident work notice what is wrong, and claim nothing without a device."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
from benchmarks.harness import Samples

from gpu_runs.bench.barriers import sizes
from gpu_runs.bench.pairs import measured
from gpu_runs.check import asynchrony
from gpu_runs.check.asynchrony import hashed
from gpu_runs.check.cooperative import reversed_by_numpy
from gpu_runs.check.judging import counted, refused, same
from gpu_runs.check.libraries import Library, exchanged
from gpu_runs.context import Context, find_group
from gpu_runs.findings import Tally, collect
from gpu_runs.supervisor import worker_environment
from support.fixed_points import keep_resident_arrays
from support.limits import LIMIT_S
from vyre import Session
from vyre.adapters.cuda.machine.fault_plan import FaultPlan, SlowKernel
from vyre.adapters.cuda.runtime.device import CudaOptions
from vyre.app.evidence.bundle import read_evidence
from vyre.domain.errors import InvalidInput
from vyre.testing import cuda_machine
from vyre.testing.outcomes import Outcome, Verdict

TESTS: Final = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def _kept(monkeypatch: pytest.MonkeyPatch) -> None:
    keep_resident_arrays(monkeypatch)


def run(command: str, name: str, folder: Path, *, backend: str = "cuda-machine") -> Tally:
    context = Context(backend=backend, tests=TESTS, seconds=60, folder=folder)
    return collect(find_group(command, name).load()(context), folder / "findings.json")


@pytest.mark.parametrize(("command", "name"), [("check", "arrays"), ("check", "waves"), ("bench", "joined")])
def test_without_a_driver_nothing_is_claimed(command: str, name: str, tmp_path: Path) -> None:
    tally = run(command, name, tmp_path, backend="reference")
    assert not tally.counts[Verdict.PASSED] and tally.counts[Verdict.SKIPPED] and not tally.facts


# ---------------------------------------------------------------- what is wrong is noticed
def test_waves_without_barriers_fail_their_group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from vyre.domain.fusion import waves

    monkeypatch.setattr(waves, "_with_barriers", lambda parts: tuple(s for p in parts for b in p for s in b))
    with pytest.raises(Exception, match="race"):
        run("check", "waves", tmp_path)


def test_results_of_another_order_fail_their_group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from vyre.app.transfers import reading

    parts = reading._rows
    monkeypatch.setattr(reading, "_rows", lambda *given: parts(*given)[::-1])
    tally = run("check", "packing", tmp_path)
    assert tally.counts[Verdict.FAILED] and "results, packed" in tally.listed[Verdict.FAILED][0]["name"]


def test_more_launches_than_planned_fail_their_group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    queries = Session.queries

    def divided(session: Session, *given: Any, budget: int = 2_500, **options: Any) -> Any:
        return queries(session, *given, budget=budget, **options)

    monkeypatch.setattr(Session, "queries", divided)
    failures = run("check", "queries", tmp_path).listed[Verdict.FAILED]
    assert [each["name"] for each in failures] == ["queries are one launch and one wait"]
    assert "kernel_launches" in failures[0]["reason"]


@pytest.mark.parametrize(
    ("found", "wanted", "reason"),
    [
        (np.arange(4.0), np.arange(4.0), ""),
        (
            np.array([1, 2, 9], np.uint32),
            np.array([1, 2, 3], np.uint32),
            "1 of 3 elements are wrong, first [2]: 0x9, not 0x3",
        ),
        (np.zeros(2, np.float32), -np.zeros(2, np.float32), "first [0]: 0x0, not 0x80000000"),
        (np.full(2, np.nan), np.full(2, np.nan), ""),
        (np.zeros(2, np.uint32), np.zeros(3, np.uint32), "uint32(2,), not uint32(3,)"),
    ],
)
def test_bytes_are_compared_and_the_first_difference_is_named(found: Any, wanted: Any, reason: str) -> None:
    outcome = same("case", found, wanted)
    assert (outcome.verdict is Verdict.PASSED) == (not reason)
    assert reason in outcome.reason


def test_counters_that_differ_are_named() -> None:
    found = {"kernel_launches": 2, "sync_points": 1}
    assert counted("case", found, sync_points=1).verdict is Verdict.PASSED
    assert (
        counted("case", found, kernel_launches=1, sync_points=1).reason
        == "{'kernel_launches': 2}, not {'kernel_launches': 1}"
    )


def test_what_is_not_refused_fails_and_other_errors_are_not_taken_for_it() -> None:
    def wrong() -> None:
        raise InvalidInput("no", fix="do not.")

    assert refused("case", wrong, InvalidInput).verdict is Verdict.PASSED
    assert refused("case", lambda: None, InvalidInput).verdict is Verdict.FAILED
    with pytest.raises(InvalidInput):
        refused("case", wrong, KeyError)


def test_a_pair_that_is_wrong_costs_no_other_pair(tmp_path: Path) -> None:
    def wrong(rounds: int) -> Samples:
        raise AssertionError("the sides compute different bytes")

    pairs: dict[str, Callable[[int], Samples]] = {
        "wrong": wrong,
        "right": lambda rounds: Samples([1e-6] * rounds, [3e-6] * rounds),
        "alone": lambda rounds: Samples([2e-6] * rounds),
    }
    context = Context(backend="cuda-machine", tests=None, seconds=60, folder=tmp_path)
    tally = collect(measured(context, pairs), tmp_path / "findings.json")
    assert [each["name"] for each in tally.listed[Verdict.FAILED]] == ["wrong"]
    assert "different bytes" in tally.listed[Verdict.FAILED][0]["reason"]
    found = tally.facts["pairs"]
    assert found["right"]["speedup"] == pytest.approx(3) and "speedup" not in found["alone"]
    assert found["alone"]["ours_us"]["median"] == pytest.approx(2)


def test_answers_by_numpy() -> None:
    x = np.arange(3, dtype=np.float32)
    one, other = reversed_by_numpy(x, 2)
    assert (other.tolist(), one.tolist()) == ([2, 1.5, 1], [1.5, 1.75, 2])
    assert hashed(np.array([5], np.uint32), 1).tolist() == [5 * 0x0100_0193]


def test_grids_go_from_one_workgroup_to_all_that_are_measured() -> None:
    assert sizes(132) == [1, 2, 4, 8, 16, 32, 64, 128, 132, 256, 264, 512, 528]
    assert sizes(1) == [1, 2, 4]


# ---------------------------------------------------------------- what a GPU alone runs
def test_kernels_that_take_their_time_are_copied_beside_and_told_late() -> None:
    """What is not rehearsed otherwise.  How early and how late is for a GPU to show: this machine may be busy."""
    slow = tuple(SlowKernel(nth=nth, seconds=0.2) for nth in range(2, 8))
    machine = cuda_machine(CudaOptions(graph_after=None, close_timeout_s=30.0), faults=FaultPlan(slow=slow))
    context = Context(backend="cuda", tests=None, seconds=60, folder=TESTS)
    with machine.open() as session:
        found = [*asynchrony._copies(session, 64, 0.2, context), *asynchrony._late(session, 64, 0.2)]
    outcomes = {each.name: each.verdict for each in found if isinstance(each, Outcome)}
    timed = {"copies run beside the kernel and not beside what they need", "a late dispatch is told in time"}
    assert timed < outcomes.keys()
    assert {outcomes[name] for name in outcomes.keys() - timed} == {Verdict.PASSED}


def test_memory_is_exchanged_with_another_library() -> None:
    """A double that has no memory of its own stands for the library."""
    machine = cuda_machine(export_fake=True)
    with machine.open() as session:

        def double(array: Any) -> None:
            array.upload(2 * array.download())

        made = session.resident
        library = Library(lambda ours: ours.view(), made, double, lambda array: array.download())
        found = [*exchanged(session, "a double", library, 100)]
        assert len(found) == 5 and {each.verdict for each in found if isinstance(each, Outcome)} == {Verdict.PASSED}
        stale = library._replace(take=lambda ours: made(ours.download()))  # a library that copies is found out
        verdicts = [each.verdict for each in exchanged(session, "a copy", stale, 100) if isinstance(each, Outcome)]
        assert verdicts[1:3] == [Verdict.FAILED, Verdict.FAILED]


NOT_THERE = """
import importlib.abc
import sys


class NotThere(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name.partition(".")[0] in {"pytest", "hypothesis", "llvmlite", "numba", "mpmath", "pandas", "typer", "rich"}:
            raise ModuleNotFoundError(name)


sys.meta_path.insert(0, NotThere())
from gpu_runs.context import COMMANDS

for groups in COMMANDS.values():
    for group in groups:
        group.load()
import gpu_runs.command
import support.fixed_points
import support.work_queues
from gpu_runs.evidence import write_evidence
from pathlib import Path

found = {"samples": [{"name": "pairs, p", "unit": "us", "sides": {"ours": [1.0], "theirs": [2.0]}}], "run": "r"}
write_evidence(Path(sys.argv[1]), {"g": found}, (), device="d", emulated=False, revision="1" * 12)
"""


def test_groups_and_their_evidence_need_no_package_that_the_kit_lacks(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", NOT_THERE, str(tmp_path / "e.zip")],
        env=worker_environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=LIMIT_S,
    )
    assert done.returncode == 0, done.stderr
    assert read_evidence(tmp_path / "e.zip").evidence.measurements[0].name == "g: pairs, p"
