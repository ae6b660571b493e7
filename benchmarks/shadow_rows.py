"""The rows compare loops on two sessions of the CPU backend, with and without a shadow.

The demo's loop runs all jobs of the demo again and again, with everything compiled.  A sample alternates short parts of
it on both sessions, so that a busy machine slows both.  What the shadow still runs at the end of a part is waited for,
so that no work of one side lands in the time of the other, and the time that it computes meanwhile is added to its own
side.  The clock of its budget stands still while the other side runs.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any, Final

import numpy as np

import vyre
from benchmarks.harness import Metric, NotMeasured, Row, Samples, compare
from vyre.adapters.discovery import load_catalog
from vyre.app.demo.jobs import all_jobs
from vyre.app.selection import BackendSelector
from vyre.app.session import Session
from vyre.app.shadow.opening import with_shadow
from vyre.app.shadow.service import Clock
from vyre.domain.errors import VyreError
from vyre.ports.support import SILENT

PART_S: Final = 0.05
"""Seconds of a part."""
PARTS: Final = 100
"""Parts of each side in a sample: several runs of the shadow, which its budget spreads over the time."""
WAIT_S: Final = 60.0
_SMALL: Final = 2_000
"""Dispatches in a sample of small ones."""
USUAL: Final = vyre.Shadow(rate=0.01)
RARE: Final = vyre.Shadow(rate=1e-9)


class OwnTime:
    """A clock that passes only while its side runs."""

    def __init__(self) -> None:
        self._passed = 0
        self._since: int | None = None

    def ns(self) -> int:
        since = self._since
        return self._passed + (0 if since is None else time.perf_counter_ns() - since)

    @contextmanager
    def running(self) -> Iterator[None]:
        self._since = time.perf_counter_ns()
        try:
            yield
        finally:
            self._passed, self._since = self.ns(), None


@contextmanager
def _sessions(shadow: vyre.Shadow) -> Iterator[tuple[Session, Session, OwnTime]]:
    """Yields a session with the shadow and one without, and the clock of the first."""
    catalog, own = load_catalog(), OwnTime()
    try:
        selection = BackendSelector(catalog, SILENT).select("cpu")
        theirs = vyre.open("cpu")
    except VyreError as error:
        raise NotMeasured(f"backend `cpu` does not run here: {error.message}") from None
    with Session(with_shadow(selection, shadow, catalog, SILENT, Clock(passing=own.ns)), SILENT) as ours, theirs:
        yield ours, theirs, own


def _settled(session: Session) -> None:
    report = session.shadow(wait_s=WAIT_S)
    assert report is None or (report.pending == 0 and not report.quarantined and not report.dropped.get("a failure"))


def _spent_ns(session: Session) -> int:
    report = session.shadow()
    return 0 if report is None else report.spent_ns


def _demo_loop(rounds: int) -> Samples:
    """Seconds a pass over the jobs."""
    jobs = [(job, job.program()) for job in all_jobs()]

    def one_pass(session: Session) -> None:
        for job, program in jobs:
            job.run(session, program)

    with _sessions(USUAL) as (ours, theirs, own):
        for session in (ours, theirs):
            for job, program in jobs:
                assert np.array_equal(job.run(session, program), job.expected())
            _settled(session)
        began = time.perf_counter()
        one_pass(theirs)
        passes = max(1, round(PART_S / (time.perf_counter() - began)))

        def seconds(session: Session) -> float:
            started = time.perf_counter()
            for _ in range(passes):
                one_pass(session)
            took = time.perf_counter() - started
            before = _spent_ns(session)
            _settled(session)
            return took + (_spent_ns(session) - before) / 1e9

        found: tuple[list[float], list[float]] = ([], [])
        for _ in range(rounds):
            sums = [0.0, 0.0]
            for part in range(PARTS):
                for side in (0, 1) if part % 2 else (1, 0):
                    with own.running() if side == 0 else nullcontext():
                        sums[side] += seconds((ours, theirs)[side])
            for times, total in zip(found, sums, strict=True):
                times.append(total / (PARTS * passes))
        report = ours.shadow()
        assert report is not None and report.agreed > 0
    return Samples(*found)


def _small_dispatches(rounds: int) -> Samples:
    with vyre.ProgramBuilder("small", workgroup=64) as p:
        x = p.inout("x", vyre.f32)
        i = p.global_id()
        with p.if_(i < x.length):
            x[i] = x[i] * 0.5
    program, data = p.build(), np.ones(64, np.float32)
    with _sessions(RARE) as (ours, theirs, _):

        def loop(pipeline: Any) -> Callable[[], None]:
            def run() -> None:
                for _ in range(_SMALL):
                    pipeline({"x": data})

            return run

        sides = [loop(session.compile(program)) for session in (ours, theirs)]
        for side in sides:
            side()
        found = compare(sides[0], sides[1], rounds)
    return Samples(*([s / _SMALL for s in each] for each in (found.ours, found.theirs)))


ROWS: Final = (
    Row(
        "shadow-at-1-percent-demo-loop",
        Metric.RATIO,
        "x",
        1.02,
        None,
        _demo_loop,
        "all code compiled; samples run on the reference, within 2 % of a core",
    ),
    Row(
        "shadow-without-samples-small",
        Metric.RATIO,
        "x",
        None,
        None,
        _small_dispatches,
        "a dispatch of 64 elements; no sample is drawn",
    ),
)
