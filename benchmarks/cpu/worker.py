"""``python -m benchmarks.cpu.worker CONTENDER``: one contender in a process of its own.

It reads a command as JSON from each line of its input and answers with a line of JSON: ``{"job": NAME, "size": "full"
or "tiny"}`` prepares a job and checks its answer; ``{"sample": REPEAT}`` runs it, once uncounted and then that many
times, and gives the seconds of one run in processor time of the whole process and in wall time.  The first line tells
the version, or why the contender is missing.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import time
from typing import Any, TextIO

from benchmarks.cpu.contenders import JOBS, SOLUTIONS, load
from benchmarks.cpu.job import Job, Side, check

_SAMPLE_S = 0.01
_MOST_REPEATS = 10_000
_WARM_S = dict.fromkeys(SOLUTIONS, 2.0)
"""Seconds of runs before the first sample: code that proves hot is compiled again in the meantime."""


def main(contender: str) -> None:
    answers = _own_output()
    try:
        version, sides = load(contender)
    except Exception as error:  # whatever it is, the suite tells it and goes on
        _answer(answers, missing=f"{type(error).__name__}: {error}")
        return
    _answer(answers, version=version)
    side: Side | None = None
    for line in sys.stdin:
        command = json.loads(line)
        if "sample" in command:
            assert side is not None
            _answer(answers, **_sample(side, command["sample"]))
            continue
        job = JOBS[command["job"]]
        if side is not None:
            side.close()
            side = None
        make = sides.get(job.name) or (
            sides.get(job.same_task) if contender not in SOLUTIONS and job.same_task else None
        )
        if make is None:
            _answer(answers, missing=f"{contender} has no kernel of its own for this job")
            continue
        try:
            side = _prepared(job, contender, make(data := job.data(**getattr(job, command["size"]))), data)
        except Exception as error:
            _answer(answers, missing=f"{type(error).__name__}: {error}")
        else:
            if command["size"] == "full":
                _warm(side, _WARM_S.get(contender, 0.1))
            _answer(answers, repeat=_repeats(side))


def _own_output() -> TextIO:
    """Returns the standard output, and sends what libraries print to the standard error instead."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return answers


def _answer(answers: TextIO, **found: Any) -> None:
    answers.write(json.dumps(found) + "\n")
    answers.flush()


def _prepared(job: Job, contender: str, side: Side, data: Any) -> Side:
    """Runs the solution twice and checks the answer of the second run, which finds the memory as the first left it."""
    side.run()
    side.run()
    check(job, contender, side.answer(), job.expected(data))
    return side


def _warm(side: Side, seconds: float) -> None:
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        side.run()


def _repeats(side: Side) -> int:
    """Returns how many runs a sample needs so that the clock resolves it."""
    took = min(_timed(side, 1)[0] for _ in range(3))
    return min(max(1, round(_SAMPLE_S / max(took, 1e-9))), _MOST_REPEATS)


def _timed(side: Side, repeat: int) -> tuple[float, float]:
    run = side.run
    wall, processor = time.perf_counter_ns(), time.process_time_ns()
    for _ in range(repeat):
        run()
    processor, wall = time.process_time_ns() - processor, time.perf_counter_ns() - wall
    return processor / repeat / 1e9, wall / repeat / 1e9


def _sample(side: Side, repeat: int) -> dict[str, float]:
    gc.collect()
    gc.disable()
    try:
        side.run()  # the run of another process has emptied the caches
        processor, wall = _timed(side, repeat)
    finally:
        gc.enable()
    return {"processor_s": processor, "wall_s": wall}


if __name__ == "__main__":
    main(sys.argv[1])
