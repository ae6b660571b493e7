"""``contest`` measures all contenders of a job, each in a process of its own, in turns.

A contender is vyre or one of its peers; ``contenders.py`` lists them.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

from benchmarks.cpu.contenders import JOBS, OURS, OURS_NARROW, PEERS

_ROOT: Final = Path(__file__).resolve().parents[2]
_LIMIT_S: Final = 300.0
_PEERS_OF_VARIANTS: Final = ("C", "numba")
"""The peers of a job that only vyre solves in another way."""
_LIBRARIES: Final = ("OMP", "OPENBLAS", "MKL", "NUMBA")
_ONE_THREAD: Final = dict.fromkeys((f"{library}_NUM_THREADS" for library in _LIBRARIES), "1")


class Times(NamedTuple):
    """Seconds of one run, a number for each round: processor time of the whole process, and wall time."""

    processor: list[float]
    wall: list[float]


class Missing(Exception):
    """A contender is not installed, does not solve the job, or failed; the text says which."""


class Process:
    """A contender in a process of its own."""

    def __init__(self, contender: str, environment: dict[str, str] | None = None) -> None:
        self._name = contender
        self._process: subprocess.Popen[bytes] | None = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-m", "benchmarks.cpu.worker", contender],
            cwd=_ROOT,
            env={**os.environ, **_ONE_THREAD, **(environment or {})},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        self.version = ""
        self.missing = ""
        try:
            self.version = self.answer()["version"]
        except Missing as missing:
            self.missing = str(missing)
            self.close()

    def ask(self, **command: object) -> None:
        """Sends a command to ``worker.py``, without waiting.  Raises ``Missing`` if the process has ended."""
        if self._process is None:
            raise Missing(self.missing)
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(command).encode() + b"\n")
            self._process.stdin.flush()
        except OSError as error:
            raise self._ended(f"its process ended: {error}") from None

    def answer(self) -> dict[str, Any]:
        """Returns the answer to the last command.  Raises ``Missing`` if that failed, or if no answer comes in time."""
        if self._process is None:
            raise Missing(self.missing)
        assert self._process.stdout is not None
        ready, _, _ = select.select([self._process.stdout], [], [], _LIMIT_S)
        line = self._process.stdout.readline() if ready else b""
        if not line:
            code = self._process.poll()
            raise self._ended(f"no answer in {_LIMIT_S:g} s" if not ready else f"its process ended with code {code}")
        found: dict[str, Any] = json.loads(line)
        if "missing" in found:
            raise Missing(found["missing"])
        return found

    def _ended(self, why: str) -> Missing:
        self.missing = f"{self._name}: {why}"
        self.close()
        return Missing(self.missing)

    def close(self) -> None:
        """Ends the process."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.communicate()


_WIDE: Final = frozenset(("avx512f", "avx512bw", "avx512dq", "avx512vl"))


@cache
def has_wide_vectors() -> bool:
    """Tells whether the processor has vectors of 512 bits, by the flags that Linux lists."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="ascii", errors="replace")
    except OSError:
        return False
    flags = next((line for line in text.splitlines() if line.startswith("flags")), "")
    return set(flags.split()) >= _WIDE


def _solutions() -> tuple[str, ...]:
    """Returns the ways in which vyre takes part: with all vectors of the processor, and without its widest."""
    return (OURS, OURS_NARROW) if has_wide_vectors() else (OURS,)


@cache
def _process(contender: str) -> Process:
    return Process(contender)


def versions() -> dict[str, str]:
    """Returns the version of every contender by its name, or why it is missing."""
    found = {}
    for contender in (*_solutions(), *PEERS):
        process = _process(contender)
        found[contender] = process.version or f"not measured: {process.missing}"
    return found


@cache
def contest(name: str, rounds: int, size: str = "full") -> dict[str, Times | str]:
    """Returns the times of every contender of job ``name``, or a text that says why there are none.

    Contenders take turns: each runs once in a round, in an order that is reversed from round to round.
    """
    job = JOBS[name]
    found: dict[str, Times | str] = {}
    repeats: dict[str, int] = {}
    contenders = (*_solutions(), *(PEERS if not job.same_task else _PEERS_OF_VARIANTS))
    for contender in contenders:
        try:
            process = _process(contender)
            process.ask(job=job.name, size=size)
            repeats[contender] = process.answer()["repeat"]
            found[contender] = Times([], [])
        except Missing as missing:
            found[contender] = str(missing)
            if contender == OURS:  # then there is nothing to compare
                return dict.fromkeys(contenders, str(missing))
    for index in range(rounds):
        order = list(repeats) if index % 2 == 0 else list(reversed(repeats))
        for contender in order:
            times = found[contender]
            if isinstance(times, str):
                continue
            try:
                process = _process(contender)
                process.ask(sample=repeats[contender])
                sample = process.answer()
            except Missing as missing:
                found[contender] = str(missing)
                continue
            times.processor.append(sample["processor_s"])
            times.wall.append(sample["wall_s"])
    return found
