"""Runs groups one after another, each in a process of its own, and keeps the record of what came of them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any, Final

from gpu_runs.context import Context, Group
from gpu_runs.findings import write_json

FORMAT: Final = 1
_LAST_WORDS: Final = 4000
_GRACE_S: Final = 2.0


class GroupVerdict(Enum):
    """FAILED: a case did.  TIMEOUT: stopped at its deadline.  CRASHED: its process ended before the group did.
    SKIPPED: nothing in it could run here.  UNAVAILABLE: the backend cannot run here.  NOT_RUN: out of budget, or an
    essential group had failed."""

    PASSED = "passed"
    FAILED = "failed"
    TIMEOUT = "timeout"
    CRASHED = "crashed"
    SKIPPED = "skipped"
    UNAVAILABLE = "unavailable"
    NOT_RUN = "not run"

    @property
    def is_good(self) -> bool:
        return self in (GroupVerdict.PASSED, GroupVerdict.SKIPPED)


@dataclass(slots=True)
class Record:
    """The JSON record of a run, rewritten whole after each group.  ``conclude``: what follows from the groups so far,
    as more entries of the record.  ``samples``: those of each group, which are too many for a record."""

    path: Path
    header: dict[str, Any]
    conclude: Callable[[list[dict[str, Any]]], dict[str, Any]] = lambda groups: {}
    groups: list[dict[str, Any]] = field(default_factory=list)
    samples: dict[str, dict[str, Any]] = field(default_factory=dict)

    @property
    def device(self) -> dict[str, Any] | None:
        """Returns the device as the groups describe it."""
        return next((g["facts"]["device"] for g in self.groups if "device" in g.get("facts", {})), None)

    def add(self, entry: dict[str, Any]) -> None:
        samples, run = entry.pop("samples", []), entry.pop("run", "")
        if samples:
            self.samples[entry["name"]] = {"samples": samples, "run": run}
        self.groups.append(entry)
        self.save()

    def save(self) -> None:
        device = self.device
        self.path.parent.mkdir(parents=True, exist_ok=True)
        head = {"format": FORMAT, **self.header, "device": device, **self.conclude(self.groups)}
        write_json(self.path, {**head, "groups": self.groups})


@dataclass(frozen=True, slots=True)
class Supervisor:
    """``command``: ``check`` or ``bench``.  ``worker``: how a group's process is started, up to its arguments."""

    command: str
    context: Context
    worker: Sequence[str] = (sys.executable, "-m", "gpu_runs.worker")
    clock: Callable[[], float] = time.monotonic
    say: Callable[[str], object] = print

    def run(self, groups: Sequence[Group], record: Record) -> list[GroupVerdict]:
        """Verdicts in the order of the groups.  ``context.seconds`` is the budget of all of them together."""
        started, verdicts, stopped = self.clock(), list[GroupVerdict](), ""
        record.save()
        for group in groups:
            left = self.context.seconds - (self.clock() - started)
            if not stopped and left <= 0:
                stopped = "the budget is used up"
            if stopped:
                entry = {"name": group.name, "verdict": GroupVerdict.NOT_RUN.value, "reason": stopped}
            else:
                entry = self._run_group(group, min(group.seconds, left))
            verdicts.append(GroupVerdict(entry["verdict"]))
            record.add(entry)
            self.say(summary_line(entry))
            if group.essential and not verdicts[-1].is_good:
                stopped = f"{group.name} did not pass"
        return verdicts

    def _run_group(self, group: Group, seconds: float) -> dict[str, Any]:
        folder = self.context.folder
        folder.mkdir(parents=True, exist_ok=True)
        findings, log = folder / f"{group.name}.json", folder / f"{group.name}.log"
        findings.unlink(missing_ok=True)
        arguments = [self.command, group.name, "--backend", self.context.backend, "--into", str(findings)]
        arguments += ["--seconds", f"{seconds:.1f}"]
        if self.context.tests is not None:
            arguments += ["--tests", str(self.context.tests)]
        started = self.clock()
        with log.open("wb") as sink:
            process = subprocess.Popen(
                [*self.worker, *arguments],
                env=worker_environment(),
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            try:
                code: int | None = process.wait(timeout=seconds)
            except subprocess.TimeoutExpired:
                code = None
            finally:
                _end(process)
        found = json.loads(findings.read_text(encoding="utf-8")) if findings.exists() else {}
        verdict = judge(found, code)
        entry = {
            "name": group.name,
            "verdict": verdict.value,
            "seconds": round(self.clock() - started, 3),
            "deadline_s": round(seconds, 1),
            **found,
        }
        if not verdict.is_good:
            entry |= {"exit_code": code, "log": log.read_text(encoding="utf-8", errors="replace")[-_LAST_WORDS:]}
        return entry


def judge(found: dict[str, Any], code: int | None) -> GroupVerdict:
    """``found``: what the group left; ``code``: of its process, None if it was stopped at its deadline."""
    if code is None:
        return GroupVerdict.TIMEOUT
    if found.get("unavailable") is not None:
        return GroupVerdict.UNAVAILABLE
    if found.get("failed"):
        return GroupVerdict.FAILED
    if code != 0 or not found.get("finished"):
        return GroupVerdict.CRASHED
    if found["skipped"] and not found["passed"]:
        return GroupVerdict.SKIPPED
    # A group that reports nothing at all has proven nothing.
    return GroupVerdict.PASSED if found["passed"] or found["facts"] else GroupVerdict.FAILED


def summary_line(entry: dict[str, Any]) -> str:
    counts = ", ".join(f"{entry[v]} {v}" for v in ("passed", "failed", "skipped") if entry.get(v))
    why = (
        entry.get("reason")
        or entry.get("unavailable")
        or next((f"{f['name']}: {f['reason']}" for f in (*entry.get("failures", ()), *entry.get("skips", ()))), "")
    )
    return f"{entry['name']:<18} {entry['verdict']:<12} {entry.get('seconds', 0):7.1f} s  {counts}" + (
        f"  [{why.splitlines()[0]}]" if why else ""
    )


def worker_environment() -> dict[str, str]:
    """The environment of a worker, which imports ``benchmarks`` and the packages of the tests as this process does."""
    tests = Path(__file__).resolve().parents[1]
    paths = (str(tests), str(tests.parent), os.environ.get("PYTHONPATH", ""))
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}


def _end(process: subprocess.Popen[bytes]) -> None:
    """Stop the group's process, if it still runs, and all that it started: first asked, then killed."""
    for number, patience in ((signal.SIGTERM, _GRACE_S), (signal.SIGKILL, None)):
        if process.poll() is not None:
            return
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with suppress(subprocess.TimeoutExpired):
            process.wait(timeout=patience)
