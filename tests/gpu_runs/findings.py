"""What a group reports, and the file in which its process leaves it."""

from __future__ import annotations

import json
import os
import time
import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

from gpu_runs.samples import Sampled, sampled
from vyre.domain.errors import BackendUnavailable
from vyre.testing.outcomes import Outcome, Verdict

MAX_LISTED: Final = 200
_REWRITE_AFTER_S: Final = 1.0
_RUN: Final = uuid.uuid4().hex
"""Names this process: only samples of one process are compared."""


class Fact(NamedTuple):
    """Something found out or measured; ``value`` is JSON."""

    name: str
    value: Any


Finding: TypeAlias = Outcome | Fact


def write_json(path: Path, value: object) -> None:
    """Replace the file as a whole: a reader sees the old text or the new one."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")
    temporary.replace(path)


@dataclass(slots=True)
class Tally:
    """Findings of one group so far.  Failures and skips are listed by name, the first ``MAX_LISTED`` of each.

    ``samples`` are those behind each fact, by its name."""

    counts: dict[Verdict, int] = field(default_factory=lambda: dict.fromkeys(Verdict, 0))
    listed: dict[Verdict, list[dict[str, str]]] = field(default_factory=lambda: {v: [] for v in Verdict})
    facts: dict[str, Any] = field(default_factory=dict)
    samples: dict[str, list[Sampled]] = field(default_factory=dict)
    finished: bool = False
    unavailable: str | None = None
    """Why the backend cannot run here at all."""

    def add(self, finding: Finding) -> None:
        if isinstance(finding, Fact):
            self.facts[finding.name] = finding.value
            self.samples[finding.name] = list(sampled(finding.name, finding.value))
            return
        self.counts[finding.verdict] += 1
        listed = self.listed[finding.verdict]
        if finding.verdict is not Verdict.PASSED and len(listed) < MAX_LISTED:
            listed.append({"name": finding.name, "reason": finding.reason})

    def to_json(self) -> dict[str, Any]:
        return {
            **{verdict.value: count for verdict, count in self.counts.items()},
            "failures": self.listed[Verdict.FAILED],
            "skips": self.listed[Verdict.SKIPPED],
            "facts": self.facts,
            "samples": [each._asdict() for found in self.samples.values() for each in found],
            "run": _RUN,
            "finished": self.finished,
            "unavailable": self.unavailable,
        }


def collect(findings: Iterable[Finding], path: Path, clock: Callable[[], float] = time.monotonic) -> Tally:
    """Consume findings, keeping the file at most a second behind, so that it outlives the process.

    An exception of the group is a failure of the group, recorded like the others.
    """
    tally, written = Tally(), clock()
    write_json(path, tally.to_json())
    try:
        for finding in findings:
            tally.add(finding)
            if clock() - written >= _REWRITE_AFTER_S:
                write_json(path, tally.to_json())
                written = clock()
    except BackendUnavailable as error:
        tally.unavailable = str(error)
        write_json(path, tally.to_json())
        return tally
    except Exception as error:
        tally.add(Outcome("the group itself", Verdict.FAILED, f"{type(error).__name__}: {error}"))
        write_json(path, tally.to_json())
        raise
    tally.finished = True
    write_json(path, tally.to_json())
    return tally
