"""Outcomes of cases, and their printed form: ``FAIL`` and ``SKIP`` lines, then the counts."""

from __future__ import annotations

import json
from collections.abc import Iterable
from enum import Enum
from typing import NamedTuple

from vyre.adapters.terminal import put
from vyre.domain.printable import indented, one_line


class Verdict(Enum):
    """The verdict on a case."""

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"


class Outcome(NamedTuple):
    """The verdict on one case; ``reason`` says why it failed, or names the rule for which it was skipped."""

    name: str
    verdict: Verdict
    reason: str = ""


def print_outcomes(outcomes: Iterable[Outcome], *, as_json: bool = False) -> int:
    """Prints failed and skipped cases (with ``as_json`` every outcome, an object a line) and, last, the counts.

    Returns the exit code: 1 if something failed, else 0.
    """
    counts = dict.fromkeys(Verdict, 0)
    for outcome in outcomes:
        counts[outcome.verdict] += 1
        if as_json:
            put(json.dumps({"name": outcome.name, "verdict": outcome.verdict.value, "reason": outcome.reason}))
        elif outcome.verdict is Verdict.FAILED:
            put(f"FAIL {one_line(outcome.name)}: {indented(outcome.reason)}")
        elif outcome.verdict is Verdict.SKIPPED:
            put(f"SKIP {one_line(outcome.name)}: {indented(outcome.reason)}")
    put(", ".join(f"{counts[v]} {v.value}" for v in Verdict))
    return 1 if counts[Verdict.FAILED] else 0
