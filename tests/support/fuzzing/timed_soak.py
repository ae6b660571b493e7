"""A soak for as long as it is given: ``PYTHONPATH=tests python -m support.fuzzing.timed_soak --seconds 600``.

Every campaign of random cases gets an equal share of the time, and draws seeds that are new in each soak.  A line for
each says how many cases it ran; a failure is printed with what reproduces it, and makes the exit code 1.
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
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

SLACK_S: Final = 600.0
"""The seconds that a run may take beyond its time before it is ended: it finishes the case that it is at."""
TESTS: Final = Path(__file__).parents[2]
Arguments = Callable[[int, float], Sequence[str]]


@dataclass(frozen=True, slots=True)
class Kind:
    """A campaign: the arguments of Python for a run of it with a seed and at most so many seconds.

    ``cases``: how many cases a run has, where it knows no end by time and is repeated; None: its output says so.
    """

    name: str
    arguments: Arguments
    cases: int | None = None


def _until(module: str) -> Arguments:
    return lambda seed, seconds: ("-m", module, "--seed", str(seed), "--seconds", f"{seconds:.0f}")


def _conform(backend: str) -> Arguments:
    return lambda seed, seconds: (
        "-m", "vyre", "conform", "--backend", backend, "--seed", str(seed), "--budget", f"{max(1.0, seconds):.0f}",
    )  # fmt: skip


KINDS: Final = (
    Kind("engines of the reference", _until("support.fuzzing.programs")),
    Kind("emulated device", _until("support.machine.fuzzing")),
    Kind("code for the CPU", _until("support.cpu.fuzzing")),
    Kind("optimizer", _until("support.optimizer.fuzzing")),
    Kind("forks, callbacks, finalisers and exits", _until("support.storms.process_storms")),
    Kind("conformance of cpu", _conform("cpu")),
    Kind("conformance of cuda-machine", _conform("cuda-machine")),
    Kind(
        "kernels in Python",
        lambda seed, seconds: ("-m", "support.fuzzing.python_kernels", "--kernels", "100", "--seed", str(seed)),
        100,
    ),
    Kind(
        "captured things",
        lambda seed, seconds: ("-m", "support.fuzzing.captured", "--calls", "1000", "--seed", str(seed)),
    ),
    Kind(
        "sequences",
        lambda seed, seconds: ("-m", "support.fuzzing.sequences", "--graphs", "50", "--seed", str(seed)),
        50,
    ),
    Kind("readers", _until("support.fuzzing.readers")),
)
_COUNT: Final = re.compile(r"(\d+) (?:programs|cases)\b")


@dataclass(slots=True)
class Soaked:
    """The outcome of a campaign: its runs, the cases of them all, and what failing runs printed."""

    name: str
    seeds: list[int]
    cases: int
    seconds: float
    failures: list[str]


Run = Callable[[Sequence[str], float], tuple[int, str]]


def run_process(arguments: Sequence[str], seconds: float) -> tuple[int, str]:
    """Runs Python with these arguments; returns its exit code and output, -1 if it had to be ended."""
    command = [sys.executable, *arguments]
    paths = [str(TESTS), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths)}
    limit = seconds + SLACK_S
    try:
        ended = subprocess.run(command, capture_output=True, text=True, timeout=limit, check=False, env=environment)
    except subprocess.TimeoutExpired:
        return -1, f"{' '.join(arguments)} did not end {SLACK_S:.0f} s after its time"
    return ended.returncode, ended.stdout + ended.stderr


def soak(
    kind: Kind, seconds: float, source: random.Random, run: Run, clock: Callable[[], float] = time.monotonic
) -> Soaked:
    """Runs a campaign until its time is over or a run of it fails."""
    done, start = Soaked(kind.name, [], 0, 0.0, []), clock()
    while True:
        left = seconds - (clock() - start)
        if done.seeds and (left <= 0 or kind.cases is None or done.failures):
            break
        seed = source.randrange(1 << 31)
        done.seeds.append(seed)
        code, text = run(kind.arguments(seed, max(left, 1.0)), max(left, 1.0))
        found = _COUNT.findall(text)
        done.cases += kind.cases or int(found[-1] if found else 0)
        if code != 0:
            done.failures.append(f"seed {seed}, exit code {code}:\n{text}")
    done.seconds = round(clock() - start, 1)
    return done


def main() -> int:
    """Runs all campaigns, prints their counts and writes the record."""
    parser = argparse.ArgumentParser(description="random cases of all kinds for a given time")
    parser.add_argument("--seconds", type=float, default=600.0, help="for all campaigns together")
    parser.add_argument("--seed", type=int, help="what the seeds are drawn from; default: new in each soak")
    parser.add_argument("--out", type=Path, help="write the record here")
    options = parser.parse_args()
    seed = random.SystemRandom().randrange(1 << 31) if options.seed is None else options.seed
    source = random.Random(seed)
    results: list[Soaked] = []
    for kind in KINDS:
        results.append(soak(kind, options.seconds / len(KINDS), source, run_process))
        last = results[-1]
        print(f"{last.name}: {last.cases} cases in {last.seconds} s, {len(last.failures)} failures", flush=True)
        print("".join(f"{text}\n" for text in last.failures), end="")
    if options.out is not None:
        record = {"python": platform.python_version(), "machine": platform.machine(), "seed": seed}
        options.out.write_text(json.dumps(record | {"campaigns": [asdict(each) for each in results]}, indent=1) + "\n")
    cases, failures = sum(each.cases for each in results), sum(len(each.failures) for each in results)
    print(f"{cases} cases, {failures} failures")
    return int(bool(failures))


if __name__ == "__main__":
    sys.exit(main())
