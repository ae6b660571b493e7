"""How much of the package's public face has a type that every type checker sees alike?  ``make typecompleteness``.

basedpyright carries the checker and the Node.js that runs it in its own wheel, so nothing is fetched at run time; the
number is the same as pyright's.  It looks at the package that this interpreter imports.  Exit code 1 when the share is
below ``REQUIRED``, and when the checker cannot say.

    python -m benchmarks.type_completeness
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

REQUIRED: Final = 99.0
"""Least share of public symbols whose type is known, in percent."""
TOOL: Final = "basedpyright"
_SECONDS: Final = 300
_JUDGED: Final = (0, 1)
"""Exit codes of a checker that came to a verdict: all types are known, or some are not."""


class Unmeasured(Exception):
    """The checker did not start, ended early, or looked at nothing."""


class Completeness(NamedTuple):
    """``problems``: one line a finding, with the symbol that it was found at."""

    symbols: int
    known: int
    problems: tuple[str, ...]

    @property
    def percent(self) -> float:
        return 100.0 * self.known / self.symbols


def completeness(report: Mapping[str, object]) -> Completeness:
    """Reads what ``--verifytypes --outputjson`` prints; raises ``Unmeasured`` where no symbol was looked at."""
    match report:
        case {
            "typeCompleteness": {
                "exportedSymbolCounts": {
                    "withKnownType": int(known),
                    "withAmbiguousType": int(a),
                    "withUnknownType": int(u),
                },
                "symbols": list(symbols),
            }
        } if known + a + u:
            problems = tuple(
                f"{symbol['name']}: {diagnostic['message'].splitlines()[0]}"
                for symbol in symbols
                for diagnostic in symbol["diagnostics"]
                if symbol["isExported"] and diagnostic["severity"] == "error"
            )
            return Completeness(known + a + u, known, problems)
        case _:
            raise Unmeasured("the checker found no public symbol. Fix: install the package, with its py.typed.")


def measure(package: str, tool: str = TOOL) -> Completeness:
    """The types of an importable package; raises ``Unmeasured``."""
    beside = str(Path(sys.executable).parent)
    path = os.pathsep.join((beside, os.environ.get("PATH", os.defpath)))
    command = shutil.which(tool, path=path)
    if command is None:
        raise Unmeasured(f"{tool} is not installed. Fix: pip install --group lint")
    # The checker asks the `python` on the path where packages are.
    done = subprocess.run(
        [command, "--ignoreexternal", "--verifytypes", package, "--outputjson"],
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        timeout=_SECONDS,
    )
    try:
        report = json.loads(done.stdout) if done.returncode in _JUDGED else None
    except json.JSONDecodeError:
        report = None
    if not isinstance(report, dict):
        said = (done.stderr.strip() or done.stdout.strip() or "nothing")[-2000:]
        raise Unmeasured(f"{tool} ended with {done.returncode} and without a report; it said: {said}")
    return completeness(report)


def main() -> int:
    try:
        found = measure("vyre")
    except (Unmeasured, OSError, subprocess.TimeoutExpired) as error:
        print(f"type completeness was not measured: {error}", file=sys.stderr)
        return 1
    for problem in found.problems:
        print(problem)
    print(
        f"{found.known} of {found.symbols} public symbols have a known type: {found.percent:.2f} %, {REQUIRED} % asked"
    )
    return 0 if found.percent >= REQUIRED else 1


if __name__ == "__main__":
    sys.exit(main())
