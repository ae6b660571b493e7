"""Groups in processes of their own: deadlines, crashes, partial findings, the budget."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpu_runs.context import Context, Group
from gpu_runs.findings import MAX_LISTED, Fact, Finding, collect
from gpu_runs.supervisor import GroupVerdict, Record, Supervisor, judge, summary_line
from vyre.domain.errors import BackendUnavailable
from vyre.testing.outcomes import Outcome, Verdict

# Stands for the worker: leaves what the group's name asks for in the file after `--into`.
WORKER = """
import json, os, pathlib, subprocess, sys, time
group, into = sys.argv[2], pathlib.Path(sys.argv[sys.argv.index("--into") + 1])
found = {"passed": 1, "failed": 0, "skipped": 0, "failures": [], "skips": [], "facts": {}, "finished": True,
         "unavailable": None}
if group == "device": found["facts"]["device"] = {"name": "none"}
if group == "failing": found |= {"failed": 1, "failures": [{"name": "case", "reason": "wrong"}]}
if group in ("hanging", "crashing"): found["finished"] = False
into.write_text(json.dumps(found))
if group == "hanging":
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"])
    into.with_suffix(".pid").write_text(str(child.pid))
    print("last words", flush=True)
    said = into.with_suffix(".said")
    if said.exists(): said.write_text("all")
    time.sleep(3600)
if group == "crashing": os.abort()
"""


def run(tmp_path: Path, groups: list[Group], budget: float = 60.0) -> tuple[list[GroupVerdict], dict[str, Any]]:
    context = Context(backend="fake", tests=None, seconds=budget, folder=tmp_path / "work")
    record = Record(tmp_path / "record.json", {"emulated": True})
    supervisor = Supervisor("check", context, worker=(sys.executable, "-c", WORKER), say=lambda line: None)
    verdicts = supervisor.run(groups, record)
    return verdicts, json.loads(record.path.read_text())


def group(name: str, seconds: float = 30.0, *, essential: bool = False) -> Group:
    return Group(name, "nowhere:nothing", seconds, essential)


def test_a_hanging_group_costs_its_deadline_and_ends_with_its_children(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = tmp_path / "work" / "hanging.said"
    said.parent.mkdir()
    os.mkfifo(said)

    class Patient(subprocess.Popen[bytes]):
        """Its first deadline, of the group that hangs, passes once that has said its last words."""

        def wait(self, timeout: float | None = None) -> int:
            if timeout == 7.0:
                said.read_text()
                timeout = 0.0
            return super().wait(timeout)

    monkeypatch.setattr(subprocess, "Popen", Patient)
    verdicts, record = run(tmp_path, [group("hanging", 7.0), group("fine")])
    assert verdicts == [GroupVerdict.TIMEOUT, GroupVerdict.PASSED]
    first = record["groups"][0]
    assert first["passed"] == 1 and "last words" in first["log"]
    child = int((tmp_path / "work" / "hanging.pid").read_text())
    assert not is_running(child)


def is_running(pid: int) -> bool:
    """A zombie, which waits for its parent to look, no longer runs."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def test_a_crash_and_a_failure_stop_nobody_else(tmp_path: Path) -> None:
    verdicts, record = run(tmp_path, [group("crashing"), group("failing"), group("device")])
    assert verdicts == [GroupVerdict.CRASHED, GroupVerdict.FAILED, GroupVerdict.PASSED]
    assert record["groups"][0]["exit_code"] < 0
    assert record["device"] == {"name": "none"}


def test_an_essential_failure_ends_the_run(tmp_path: Path) -> None:
    verdicts, record = run(tmp_path, [group("failing", essential=True), group("fine")])
    assert verdicts == [GroupVerdict.FAILED, GroupVerdict.NOT_RUN]
    assert record["groups"][1]["reason"] == "failing did not pass"


def test_what_the_budget_leaves_out_is_recorded(tmp_path: Path) -> None:
    verdicts, record = run(tmp_path, [group("hanging"), group("fine")], budget=1.0)
    assert verdicts == [GroupVerdict.TIMEOUT, GroupVerdict.NOT_RUN]
    assert record["groups"][1]["reason"] == "the budget is used up"


@pytest.mark.parametrize(
    ("found", "code", "verdict"),
    [
        ({"passed": 1, "failed": 0, "skipped": 0, "facts": {}, "finished": True}, 0, GroupVerdict.PASSED),
        ({"passed": 0, "failed": 0, "skipped": 0, "facts": {"rate": 1}, "finished": True}, 0, GroupVerdict.PASSED),
        ({"passed": 0, "failed": 0, "skipped": 0, "facts": {}, "finished": True}, 0, GroupVerdict.FAILED),
        ({"passed": 0, "failed": 0, "skipped": 2, "facts": {}, "finished": True}, 0, GroupVerdict.SKIPPED),
        ({"passed": 9, "failed": 1, "skipped": 0, "facts": {}, "finished": True}, 0, GroupVerdict.FAILED),
        ({"passed": 9, "failed": 0, "skipped": 0, "facts": {}, "finished": False}, 0, GroupVerdict.CRASHED),
        ({"passed": 9, "failed": 0, "skipped": 0, "facts": {}, "finished": True}, 1, GroupVerdict.CRASHED),
        ({"unavailable": "no driver"}, 3, GroupVerdict.UNAVAILABLE),
        ({}, -11, GroupVerdict.CRASHED),
        ({}, None, GroupVerdict.TIMEOUT),
    ],
)
def test_verdicts(found: dict[str, Any], code: int | None, verdict: GroupVerdict) -> None:
    assert judge(found, code) is verdict


def findings(*items: Finding | Exception) -> Iterator[Finding]:
    for item in items:
        if isinstance(item, Exception):
            raise item
        yield item


def test_findings_outlive_the_process_that_makes_them(tmp_path: Path) -> None:
    path = tmp_path / "findings.json"
    seen: list[int] = []
    ticks = iter(range(0, 1000, 2))

    def watched() -> Iterator[Finding]:
        for index in range(3):
            seen.append(json.loads(path.read_text())["passed"])
            yield Outcome(f"case {index}", Verdict.PASSED)

    collect(watched(), path, clock=lambda: float(next(ticks)))
    assert seen == [0, 1, 2]
    assert json.loads(path.read_text())["finished"] is True
    assert [p.name for p in tmp_path.iterdir()] == ["findings.json"]


def test_an_exception_of_the_group_is_its_failure(tmp_path: Path) -> None:
    path = tmp_path / "findings.json"
    with pytest.raises(ZeroDivisionError):
        collect(findings(Fact("a", 1), ZeroDivisionError("oops")), path)
    left = json.loads(path.read_text())
    assert left["failed"] == 1 and "oops" in left["failures"][0]["reason"] and left["facts"] == {"a": 1}
    assert left["finished"] is False


def test_an_unavailable_backend_is_no_failure_of_the_group(tmp_path: Path) -> None:
    tally = collect(findings(BackendUnavailable("no driver", fix="install one.")), tmp_path / "findings.json")
    assert tally.unavailable is not None and tally.counts[Verdict.FAILED] == 0


def test_long_lists_are_cut_but_counted(tmp_path: Path) -> None:
    cases = [Outcome(str(i), Verdict.FAILED, "wrong") for i in range(MAX_LISTED + 5)]
    tally = collect(findings(*cases), tmp_path / "findings.json")
    assert tally.counts[Verdict.FAILED] == MAX_LISTED + 5
    assert len(tally.to_json()["failures"]) == MAX_LISTED


def test_a_line_names_the_first_reason() -> None:
    entry = {
        "name": "g",
        "verdict": "failed",
        "seconds": 1.5,
        "failed": 1,
        "failures": [{"name": "c", "reason": "x\ny"}],
    }
    assert summary_line(entry).endswith("1 failed  [c: x]")
