"""A soak of storms, with counts:
``PYTHONPATH=src:tests python -m support.storms.storm_soak --seconds 1800 --out benchmarks/results/storms.json``.

Interrupts at places of each public operation that are drawn at random; forks, callbacks, finalisers, exits, threads
and cancelled tasks; and the faults of caches: writers that are killed, damaged entries, and disks that are full or
vanish, as the tests that are named there count them.  Each part runs in a process of its own, so that a storm that
ends the process is a failure of this part.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import re
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final
from xml.etree import ElementTree

from support.storms.process_storms import BACKENDS, STORMS

TESTS: Final = Path(__file__).parents[2]
LONG_S: Final = 1800.0
"""The seconds of a soak from which on the tests of faults run in their long form."""
SLACK_S: Final = 900.0
"""The seconds that a part may take beyond its share before it counts as hanging."""
EACH: Final = {"cpu": 40, "reference": 40, "cuda-machine": 120}
"""One of so many places of an operation is interrupted before the next operation is drawn."""
FAULTS: Final = (
    "fault/test_disk_faults.py::test_processes_that_are_killed_leave_a_readable_cache",
    "fault/test_cpu_store_faults.py::test_sessions_that_are_killed_while_they_store_leave_a_good_store",
    "fault/test_cpu_store_faults.py::test_damaged_objects_are_compiled_again",
    "fault/test_cpu_store_faults.py::test_a_damaged_runtime_of_the_workers_is_compiled_again",
    "fault/test_disk_faults.py::test_a_put_that_fails_at_any_operation_leaves_a_readable_cache",
    "fault/test_disk_faults.py::test_work_goes_on_without_the_cache_and_one_diagnostic_says_why",
    "fault/test_disk_faults.py::test_a_directory_that_vanishes_again_and_again",
    "fault/test_disk_faults.py::test_threads_share_a_store",
    "fault/test_disk_faults.py::test_processes_share_a_directory",
)
"""Tests that say by ``record_property`` how many cases they tried."""
_INTERRUPTED: Final = re.compile(r"^[\w ]+: (\d+) interrupts at \d+ places, (\d+) failures$", re.MULTILINE)
_FAILED: Final = re.compile(r"^    (.+)$", re.MULTILINE)
_CASES: Final = re.compile(r"^(\w+) of ([\w-]+): (\d+)$", re.MULTILINE)
_TAIL: Final = 2000


def _run(arguments: list[str], seconds: float, **variables: str) -> tuple[str, list[str]]:
    """Runs Python; returns what it printed, and a failure if it did not end as it should."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(TESTS.parent / "src"), str(TESTS)])} | variables
    command = [sys.executable, "-W", "ignore", *arguments]
    try:
        ran = subprocess.run(
            command, capture_output=True, text=True, timeout=seconds + SLACK_S, env=environment, cwd=TESTS.parent
        )
    except subprocess.TimeoutExpired:
        return "", [f"it hangs: {' '.join(arguments)}"]
    return ran.stdout, [f"exit code {ran.returncode}: {ran.stdout[-_TAIL:]}{ran.stderr[-_TAIL:]}"] * bool(
        ran.returncode
    )


def _until(seed: int, seconds: float) -> tuple[str, ...]:
    return "--seed", str(seed), "--seconds", f"{seconds:.0f}"


def run_interrupts(backend: str, seed: int, seconds: float) -> dict[str, Any]:
    """Interrupts operations of a backend for so long."""
    arguments = ("support.storms.interrupted_operations", backend, "--each", str(EACH[backend]))
    told, failures = _run(["-m", *arguments, *_until(seed, seconds)], seconds)
    storms = [tuple(map(int, each.groups())) for each in _INTERRUPTED.finditer(told)]
    failures += _FAILED.findall(told) if failures else []  # the tail may lack some
    return {"storms": len(storms), "interrupts": sum(each[0] for each in storms), "failures": failures}


def run_cases(storm: str, backend: str, seed: int, seconds: float) -> dict[str, Any]:
    """Runs a storm on a backend for so long."""
    arguments = ("support.storms.process_storms", "--storms", storm, "--backends", backend)
    told, failures = _run(["-m", *arguments, *_until(seed, seconds)], seconds)
    return {"cases": sum(int(each[3]) for each in _CASES.finditer(told)), "failures": failures}


def run_faults(seconds: float, is_long: bool) -> dict[str, Any]:
    """Runs the tests of faults in their long or short form; returns what each property that they record sums to."""
    counts: Counter[str] = Counter()
    with TemporaryDirectory() as folder:
        record = Path(folder, "record.xml")
        nodes = [f"tests/{each}" for each in FAULTS]
        _, failures = _run(
            ["-m", "pytest", "-q", "-n", "0", "-o", "junit_family=xunit1", f"--junitxml={record}", *nodes],
            seconds,
            VYRE_SOAK=str(int(is_long)),
        )
        for told in ElementTree.parse(record).iter("property") if record.exists() else ():
            counts[told.attrib["name"]] += int(told.attrib["value"])
    return {**counts, "failures": failures}


def run_all(seed: int, seconds: float) -> dict[str, Any]:
    """Runs all parts, with an equal share of the time for each of a backend; returns what was counted."""
    share = seconds / (len(BACKENDS) * (1 + len(STORMS)) + 1)
    found: dict[str, Any] = {"interrupts": {each: run_interrupts(each, seed, share) for each in BACKENDS}}
    for storm in STORMS:
        print(json.dumps(found), flush=True)
        found[storm] = {each: run_cases(storm, each, seed, share) for each in BACKENDS}
    return found | {"faults": run_faults(share, seconds >= LONG_S)}


def failures_of(record: Any) -> list[str]:
    """Returns all failures of a record."""
    if not isinstance(record, dict):
        return []
    return [*record.get("failures", ()), *(each for part in record.values() for each in failures_of(part))]


def main() -> int:
    """Runs the soak and writes the record; 1 if something was wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=1800.0)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 31))
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    began = time.monotonic()
    found = run_all(options.seed, options.seconds)
    took = {"seconds": round(time.monotonic() - began), "seed": options.seed}
    record = {"python": platform.python_version(), "machine": platform.machine()} | took | found
    text = json.dumps(record, indent=1) + "\n"
    print(text)
    if options.out is not None:
        options.out.write_text(text, encoding="utf-8")
    return int(bool(failures_of(record)))


if __name__ == "__main__":
    sys.exit(main())
