"""Persistent jobs beside dispatches of the same inputs, in one process and in turn."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from gpu_runs.bench import programs
from gpu_runs.bench.timing import batches_us, each_call_us, spread
from gpu_runs.context import Context
from gpu_runs.findings import Fact, Finding
from gpu_runs.workbench import backend_with, session_on
from vyre.adapters.cuda.runtime.device import DEFAULT_OPTIONS
from vyre.testing.outcomes import Outcome, Verdict


def jobs(context: Context) -> Iterator[Finding]:
    """Host time of a job back to back, of one among many, and of one in a batch; a dispatch for comparison."""
    calls, batch = (5, 20) if context.emulated else (2_000, 10_000)
    x, y = np.ones(programs.WORKGROUP, np.float32), np.zeros(programs.WORKGROUP, np.float32)
    inputs: dict[str, Any] = {"a": 1.0, "n": programs.WORKGROUP, "x": x, "y": y}
    program = programs.launch_probe()
    with session_on(backend_with(context.backend, DEFAULT_OPTIONS)) as session:
        with session.persistent(program, inputs, capacity=1024) as kept:

            def alone() -> None:
                kept.submit(inputs).result()

            def dispatched() -> None:
                session.dispatch(program, inputs)

            def among_many() -> None:
                for ticket in [kept.submit(inputs) for _ in range(20)]:
                    ticket.result()

            def in_a_batch() -> None:
                kept.submit_many(inputs, jobs=batch).result()

            for side in (alone, dispatched, among_many, in_a_batch):
                side()
            found = {"job": spread(each_call_us(alone, calls)), "dispatch": spread(each_call_us(dispatched, calls))}
            many = batches_us(among_many, kept.flush, calls=2, batches=5)
            whole = batches_us(in_a_batch, kept.flush, calls=1, batches=5)
            found |= {"one of 20 jobs": spread(many, 1 / 20), f"one of a batch of {batch}": spread(whole, 1 / batch)}
            counts = kept.counters()
        yield Fact("jobs_us", found)
        yield Fact("jobs", counts)
        yield Outcome("jobs", Verdict.PASSED if counts["launches"] < 20 else Verdict.FAILED)
