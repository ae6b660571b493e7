"""Runs tinygrad's own tests with vyre as the device, and on tinygrad's own CPU device, and compares.

    python run_tests.py CHECKOUT [--devices CPU cpu reference cuda-machine] [--files ...] [--every N] [--record FILE]

CHECKOUT is a checkout of tinygrad at the tag of the installed release.  ``CPU`` is tinygrad's device, which needs clang
(``CC`` names another one); the other names are backends of vyre.  ``--every N`` runs each N-th test alone; on
``cuda-machine``, which emulates a GPU, N is 5 if nothing is said.  A file that needs torch is counted as not run where
torch is not installed.  A test that takes longer than ten minutes has failed.

``--outcomes FILE`` keeps the outcome of every test, so that devices and files can run one after the other: a run adds
to it, and one with ``--devices`` and no name runs nothing.  The last lines compare all that is kept, ``--record FILE``
writes that; the exit status is 1 if a test failed on vyre that does not fail on tinygrad's device, or if less than 97 %
of the tests that pass there pass on a backend that is not sampled.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

FILES = (
    "test_uops",
    "test_dtype",
    "test_dtype_alu",
    "test_ops",
    "test_jit",
    "test_assign",
    "test_linearizer",
    "test_nn",
)
HERE = Path(__file__).resolve().parent
THEIRS = "CPU"
NOT_RUN = "not run: it needs torch"
REQUIRED = 0.97
SAMPLED = {"cuda-machine": 5}
"""The backends of which each N-th test runs alone, with N."""
TEST_SECONDS = 600
FILE_SECONDS = 7200

Found = dict[str, tuple[str, str]]
"""The outcome of each test, and why it is not ``passed``."""


class Outcomes:
    """A plugin of pytest that writes the outcome of every test as soon as it is known."""

    def __init__(self, path: str, every: int) -> None:
        self.path, self.every = Path(path), every

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        items[:] = items[:: self.every]

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: Any) -> Any:
        def end(*_: object) -> None:
            raise TimeoutError(f"longer than {TEST_SECONDS} s")

        signal.signal(signal.SIGALRM, end)
        signal.alarm(TEST_SECONDS)
        try:
            return (yield)
        finally:
            signal.alarm(0)

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.when == "call" or report.outcome != "passed":
            outcome = "xfailed" if hasattr(report, "wasxfail") and report.skipped else report.outcome
            why = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr or "")[-600:]
            with self.path.open("a") as file:
                print(json.dumps([report.nodeid, outcome, why]), file=file)


def run_file(checkout: Path, file: str, device: str, every: int) -> Found:
    """Returns the outcomes of the tests of a file, which runs in a process of its own."""
    with tempfile.TemporaryDirectory() as scratch:
        known = {"DEV": THEIRS} if device == THEIRS else {"DEV": "VYRE", "VYRE_BACKEND": device}
        environment = os.environ | known | {"CACHEDB": f"{scratch}/cache.db", "RUN_SLOW": "1"}
        out = Path(scratch, "outcomes")
        out.touch()
        command = [sys.executable, __file__, "--inside", str(out), "--every", str(every), f"test/{file}.py"]
        try:
            subprocess.run(command, cwd=checkout, env=environment, timeout=FILE_SECONDS, check=False)
        except subprocess.TimeoutExpired:
            print(f"{file} on {device}: stopped after {FILE_SECONDS} s", file=sys.stderr)
        rows = [json.loads(line) for line in out.read_text().splitlines()]
    return {test: (outcome, why) for test, outcome, why in rows}


def inside(outcomes: str, every: int, file: str) -> int:
    """Runs a file in this process, whose directory is the checkout."""
    sys.path[:0] = [str(Path.cwd()), str(HERE)]
    import vyre_device

    vyre_device.register()
    return int(pytest.main(["-q", "-rN", "-p", "no:cacheprovider", "--tb=short", file], [Outcomes(outcomes, every)]))


def compared(kept: dict[str, dict[str, Found]], device: str) -> dict[str, Any]:
    """Returns how a backend of vyre does beside tinygrad's device, over the tests that ran on both.

    ``share`` is the part of the tests passing there that pass here too (None if there are none), ``others`` are the
    rest of them with outcome and reason; ``failed`` are all tests that fail here and not there.
    """
    ours = {test: each for found in kept[device].values() for test, each in found.items()}
    theirs = {test: outcome for found in kept.get(THEIRS, {}).values() for test, (outcome, _) in found.items()}
    both = [test for test in ours if theirs.get(test) == "passed"]
    others = {test: ours[test] for test in both if ours[test][0] != "passed"}
    failed = sorted(test for test, (outcome, _) in ours.items() if outcome == "failed" and theirs.get(test) != "failed")
    share = 1 - len(others) / len(both) if both else None
    return {"passing_there": len(both), "passing_here": len(both) - len(others), "share": share} | {
        "others": {test: ": ".join(each) for test, each in sorted(others.items())},
        "failed": failed,
    }


def summary(kept: dict[str, dict[str, Found]]) -> dict[str, Any]:
    """Returns the counts of each file on each device, and each backend of vyre beside tinygrad's device."""
    return {
        "tinygrad": version("tinygrad"),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}",
        "outcomes": {
            device: {
                file: dict(sorted(Counter(outcome for outcome, _ in found.values()).items())) if found else NOT_RUN
                for file, found in files.items()
            }
            for device, files in kept.items()
        },
        "beside_CPU": {device: compared(kept, device) for device in kept if device != THEIRS},
    }


def table(recorded: dict[str, Any]) -> str:
    """Returns the counts of a record as a table in Markdown."""
    outcomes = recorded["outcomes"]
    devices = [THEIRS, *(device for device in outcomes if device != THEIRS)]
    names = ["tinygrad's CPU", *(f"`{device}`" for device in devices[1:])]
    rows = [["file", *names], ["---"] * (len(devices) + 1)]
    for file in FILES:
        row = [f"`{file}`"]
        for device in devices:
            counts = outcomes.get(device, {}).get(file, "not run")
            row.append(counts if isinstance(counts, str) else ", ".join(f"{n} {each}" for each, n in counts.items()))
        rows.append(row)
    beside = [recorded["beside_CPU"][device] for device in devices[1:]]
    rows.append(["pass there and here", "", *(f"{each['passing_here']} of {each['passing_there']}" for each in beside)])
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("path")
    parser.add_argument("--devices", nargs="*", default=[THEIRS, "cpu", "reference", "cuda-machine"])
    parser.add_argument("--files", nargs="+", default=FILES)
    parser.add_argument("--every", type=int)
    parser.add_argument("--outcomes", type=Path)
    parser.add_argument("--record", type=Path)
    parser.add_argument("--inside")
    chosen = parser.parse_args()
    if chosen.inside:
        return inside(chosen.inside, chosen.every, chosen.path)
    checkout, outcomes = Path(chosen.path), chosen.outcomes
    if not (checkout / "test" / "test_ops.py").is_file():
        parser.error(f"{checkout} is no checkout of tinygrad. Fix: clone it, with the tag v{version('tinygrad')}")
    kept: dict[str, dict[str, Found]] = json.loads(outcomes.read_text()) if outcomes and outcomes.exists() else {}
    for device in chosen.devices:
        for file in chosen.files:
            if find_spec("torch") is None and "import torch" in (checkout / "test" / f"{file}.py").read_text():
                found: Found = {}
            else:
                found = run_file(checkout, file, device, chosen.every or SAMPLED.get(device, 1))
            kept.setdefault(device, {})[file] = found
            counts = dict(Counter(outcome for outcome, _ in found.values())) or NOT_RUN
            print(f"{device:14} {file:18} {counts}", flush=True)
            if outcomes:
                outcomes.write_text(json.dumps(kept, indent=0))
    result = summary(kept)
    if chosen.record:
        chosen.record.write_text(json.dumps(result, indent=1) + "\n")
    print(table(result))
    missed = False
    for device, each in result["beside_CPU"].items():
        if each["share"] is None:
            print(f"{device}: no test ran that passes on {THEIRS}, so only failures are judged.")
        else:
            print(f"{device}: {each['passing_here']} of {each['passing_there']} tests pass that pass on {THEIRS}.")
        for test, why in each["others"].items():
            print(f"  {test} {why}")
        for test in each["failed"]:
            print(f"  {test} failed")
        too_few = each["share"] is not None and each["share"] < REQUIRED and device not in SAMPLED
        missed |= bool(each["failed"]) or too_few
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
