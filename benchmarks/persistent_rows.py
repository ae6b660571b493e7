"""Jobs of a program that is kept running, against a dispatch and a bound launch for each: 10 000 jobs of 2 us."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from functools import cache, partial
from typing import Any, Final, TypeAlias

import numpy as np

import vyre
from benchmarks.harness import Metric, NotMeasured, Row, Samples, compare
from benchmarks.site import Site
from vyre import f32

Others: TypeAlias = Callable[[vyre.Session, vyre.Program, "list[dict[str, Any]]"], Callable[[], Any]]

JOBS: Final = 10_000
ELEMENTS: Final = 64
JOB_NS: Final = 2_000
IDLE_S: Final = 0.002
_PIECES: Final = 2_000
"""Jobs of a sample of latencies."""


def polynomial(rounds: int) -> vyre.Program:
    """Returns a program whose lanes each do so many dependent steps."""
    with vyre.ProgramBuilder(f"polynomial{rounds}", workgroup=ELEMENTS) as p:
        a = p.param("a", f32)
        x = p.input("x", f32)
        y = p.output("y", f32, like=x)
        i = p.global_id()
        with p.if_(i < x.length):
            value = p.var(x[i])
            with p.for_(0, rounds):
                value.assign(value * a + x[i])
            y[i] = value
    return p.build()


@cache
def job() -> vyre.Program:
    """Returns a program that takes 2 us on this machine, measured once."""
    rounds = 64
    with vyre.open("cpu") as session:
        for _ in range(6):
            with session.persistent(polynomial(rounds)) as jobs:
                batch = jobs.submit_many({"a": 0.5, "x": np.ones((500, ELEMENTS), np.float32)})
                batch.result()
                best = min(ticket.result().timing.device_ns or 1 for ticket in (batch[n] for n in range(500)))
            if 0.9 * JOB_NS <= best <= 1.1 * JOB_NS:
                break
            rounds = max(1, round(rounds * JOB_NS / best))
    return polynomial(rounds)


def _session() -> vyre.Session:
    try:
        return vyre.open("cpu")
    except vyre.BackendUnavailable as error:
        raise NotMeasured(str(error)) from None


CPU: Final = Site(_session, time.perf_counter)
"""All threads of the machine."""


def _inputs(count: int = JOBS) -> tuple[Any, list[dict[str, Any]]]:
    column = np.random.default_rng(7).random((count, ELEMENTS), np.float32)
    return column, [{"a": 0.5, "x": row} for row in column]


def measure_many(
    site: Site, program: Callable[[], vyre.Program], others: Others, rounds: int, *, count: int = JOBS
) -> Samples:
    """Seconds of so many jobs in a batch, and of the others with the same inputs."""
    with site.open() as session, session.persistent(program()) as jobs:
        column, inputs = _inputs(count)

        def ours() -> Any:
            return jobs.submit_many({"a": 0.5, "x": column}).result()["y"]

        theirs = others(session, program(), inputs)
        if ours()[-1].tobytes() != theirs().tobytes():
            raise AssertionError("the jobs and the launches give other results")
        return compare(ours, theirs, rounds, site.clock)


def dispatches(session: vyre.Session, program: vyre.Program, inputs: list[dict[str, Any]]) -> Callable[[], Any]:
    """Returns what dispatches each of the inputs."""

    def run() -> Any:
        for each in inputs:
            found = session.dispatch(program, each)
        return found["y"]

    return run


def bound_launches(session: vyre.Session, program: vyre.Program, inputs: list[dict[str, Any]]) -> Callable[[], Any]:
    """Returns what launches as often, on resident memory with the last of the inputs, and waits each time."""
    x, y = session.resident(inputs[-1]["x"]), session.resident(4 * ELEMENTS)
    launch = session.bind_resident(program, {"a": 0.5, "x": x, "y": y})

    def run() -> Any:
        for _ in inputs:
            launch()
        return y.download()

    return run


def _tickets(rounds: int) -> Samples:
    with _session() as session, session.persistent(job(), backpressure=True) as jobs:
        _, inputs = _inputs()

        def ours() -> Any:
            tickets = [jobs.submit(each) for each in inputs]
            return [ticket.result() for ticket in tickets][-1]["y"]

        theirs = dispatches(session, job(), inputs)
        if ours().tobytes() != theirs().tobytes():
            raise AssertionError("the jobs and the launches give other results")
        return compare(ours, theirs, rounds)


def _latencies(share: float, idle_s: float, pieces: int) -> Callable[[int], Samples]:
    """Returns a measurement of a share of the times of one job, from before ``submit`` until its result is there."""

    def measure(rounds: int) -> Samples:
        found = []
        with _session() as session, session.persistent(job()) as jobs:
            _, inputs = _inputs()
            for each in inputs[:_PIECES]:
                jobs.submit(each).result()
            for _ in range(rounds):
                times = []
                for each in inputs[:pieces]:
                    if idle_s:
                        time.sleep(idle_s)
                    started = time.perf_counter()
                    jobs.submit(each).result()
                    times.append(time.perf_counter() - started)
                found.append(sorted(times)[int(share * (len(times) - 1))])
        return Samples(found)

    return measure


def details() -> dict[str, object]:
    """Returns how the system schedules this process: with a real-time policy other work does not disturb it."""
    if not hasattr(os, "sched_getscheduler"):
        return {}
    names = {os.SCHED_OTHER: "other", os.SCHED_FIFO: "real-time, first in first out", os.SCHED_RR: "real-time, in turn"}
    return {"scheduling": names.get(os.sched_getscheduler(0), "another")}


_STATE: Final = "the engine is open, and has run jobs"
ROWS: Final = (
    Row(
        "persistent-many-dispatch",
        Metric.SPEEDUP,
        "dispatches/jobs",
        5.0,
        None,
        partial(measure_many, CPU, job, dispatches),
        _STATE,
    ),
    Row(
        "persistent-many-bound",
        Metric.SPEEDUP,
        "launches/jobs",
        1.5,
        None,
        partial(measure_many, CPU, job, bound_launches),
        _STATE,
    ),
    Row("persistent-submit-dispatch", Metric.SPEEDUP, "dispatches/jobs", 2.0, None, _tickets, _STATE),
    Row("persistent-job-median", Metric.COST, "us", None, None, _latencies(0.5, 0, _PIECES), _STATE, 1e6),
    Row("persistent-job-p99", Metric.COST, "us", 20.0, None, _latencies(0.99, 0, _PIECES), _STATE, 1e6),
    Row("persistent-idle-median", Metric.COST, "us", None, None, _latencies(0.5, IDLE_S, 100), _STATE, 1e6),
    Row("persistent-idle-p99", Metric.COST, "us", None, None, _latencies(0.99, IDLE_S, 100), _STATE, 1e6),
)
