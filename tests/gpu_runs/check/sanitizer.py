"""A part of the checks under ``compute-sanitizer``, where it is installed."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from typing import Final

from gpu_runs.context import Context
from gpu_runs.findings import Finding
from vyre.testing.outcomes import Outcome, Verdict

PROGRAM: Final = "compute-sanitizer"
_TOOLS: Final = ("memcheck", "racecheck", "initcheck", "synccheck")
_GROUP: Final = "gallery"
_FOUND: Final = 77


def sanitizer(context: Context) -> Iterator[Finding]:
    program = shutil.which(PROGRAM)
    if context.emulated or program is None:
        why = f"{PROGRAM} looks at GPUs only" if context.emulated else f"{PROGRAM} is not on PATH"
        yield Outcome(f"{_GROUP} under {PROGRAM}", Verdict.SKIPPED, why)
        return
    for tool in _TOOLS:
        into = context.folder / f"{_GROUP}-{tool}.json"
        command = [program, "--tool", tool, "--error-exitcode", str(_FOUND), sys.executable, "-m"]
        command += ["gpu_runs.worker", "check", _GROUP, "--backend", context.backend]
        command += ["--seconds", f"{context.seconds / len(_TOOLS):.1f}", "--into", str(into)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        failed = json.loads(into.read_text(encoding="utf-8"))["failed"] if into.exists() else None
        name, tail = f"{_GROUP} under {tool}", (done.stdout + done.stderr)[-2000:]
        if done.returncode == 0 and failed == 0:
            yield Outcome(name, Verdict.PASSED)
        elif into.exists() or done.returncode == _FOUND:
            yield Outcome(name, Verdict.FAILED, f"exit code {done.returncode}: {tail}")
        else:  # it refuses some virtual machines and drivers, which says nothing about us
            yield Outcome(name, Verdict.SKIPPED, f"{PROGRAM} does not run here: {tail}")
