"""The rows compare loops on two sessions of the CPU backend with one thread, with and without a shadow.

The demo's loop runs all jobs of the demo again and again, with everything compiled.  A round alternates parts of it on
both sessions, so that a busy machine slows both.  What the shadow still runs at the end of a part is waited for, so
that no work of one side lands in the time of the other, and the time that it computes meanwhile is added to its own
side, as if nothing had run beside it.  The clock of its budget stands still while the other side runs.

A run of a large sample uses up the budget of many rounds, so that most rounds hold less than the shadow takes over all
of them, and a median of rounds would leave that out.  The row of the time that passes therefore counts in every round
the mean that the shadow spent in all of them, in the place of what it spent in this one.

On a busy machine that row is as unsteady as its spread says.  Two rows do not depend on what other processes take: the
time that the calling thread computes, which holds sampling and copies, and the share of a core that the shadow takes in
all.

The cyclic collector of Python is paused in a round: what it traverses are the words and numbers of the demo's jobs, for
up to 30 ms in a pass of 5, on the side that happens to be running.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import cache, partial
from typing import Any, Final, NamedTuple

import numpy as np

import vyre
from benchmarks.harness import Metric, NotMeasured, Row, Samples, compare
from vyre.adapters.discovery import load_catalog
from vyre.adapters.system import ProcessEnvironment
from vyre.app.demo.jobs import Job, all_jobs
from vyre.app.selection import BackendSelector
from vyre.app.services import Place, artifact_store
from vyre.app.session import Session
from vyre.app.shadow.opening import with_shadow
from vyre.app.shadow.service import Clock
from vyre.domain.errors import VyreError
from vyre.domain.host_options import HostOptions
from vyre.domain.ir.collector import collector_paused
from vyre.domain.ir.program import Program
from vyre.ports.backend import BackendServices
from vyre.ports.support import SILENT

PARTS: Final = 100
"""Parts of each side in a round."""
PASSES: Final = 2
"""Passes of the loop in a part."""
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

    def skip(self) -> None:
        """Lets so much time pass that nothing is owed any more; nothing is saved up either."""
        self._passed += 10**13

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
        services = BackendServices(
            artifacts=cache(partial(artifact_store, Place(None, ProcessEnvironment()))), host=HostOptions(threads=1)
        )
        selection = BackendSelector(catalog, SILENT, services=services).select("cpu")
        theirs = Session(BackendSelector(catalog, SILENT, services=services).select("cpu"), SILENT)
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


class Loops(NamedTuple):
    """The times of a pass of the demo's loop, passing and computing, and the share of them for which the shadow ran."""

    passing: Samples
    computing: Samples
    share: Samples


@cache
@collector_paused()
def _loops(rounds: int) -> Loops:
    jobs = [(job, job.program()) for job in all_jobs()]
    passing, computing = np.zeros((2, rounds)), np.zeros((2, rounds))
    spent, passed = np.zeros(rounds), np.zeros(rounds)
    with _sessions(USUAL) as (*sessions, own):
        ours = sessions[0]
        for session in sessions:
            for job, program in jobs:
                assert np.array_equal(job.run(session, program), job.expected())
            _settled(session)
        own.skip()
        for number in range(rounds):
            gc.collect()
            spent_ns, own_ns = _spent_ns(ours), own.ns()
            for part in range(PARTS):
                for side in (0, 1) if part % 2 else (1, 0):
                    took, computed = _part(sessions[side], jobs, own if side == 0 else None)
                    passing[side, number] += took
                    computing[side, number] += computed
            spent[number], passed[number] = (_spent_ns(ours) - spent_ns) / 1e9, (own.ns() - own_ns) / 1e9
        report = ours.shadow()
        assert report is not None and report.agreed > 0
    passing[0] += spent.mean() - spent
    passing, computing = passing / (PARTS * PASSES), computing / (PARTS * PASSES)
    return Loops(
        Samples(*passing.tolist()), Samples(*computing.tolist()), Samples([float(spent.sum() / passed.sum())] * rounds)
    )


def _part(session: Session, jobs: Sequence[tuple[Job, Program]], own: OwnTime | None) -> tuple[float, float]:
    """Returns the seconds that passed, and those that this thread computed, in some passes."""
    with nullcontext() if own is None else own.running():
        started, computed = time.perf_counter(), time.thread_time()
        for _ in range(PASSES):
            for job, program in jobs:
                job.run(session, program)
        computing, passing = time.thread_time() - computed, time.perf_counter() - started
    before = _spent_ns(session)
    _settled(session)
    return passing + (_spent_ns(session) - before) / 1e9, computing


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


_STATE: Final = "all code compiled, one thread; samples run on the reference within 2 % of a core"
ROWS: Final = (
    Row(
        "shadow-at-1-percent-demo-loop",
        Metric.RATIO,
        "x",
        1.02,
        None,
        lambda rounds: _loops(rounds).passing,
        f"{_STATE}; time that passes",
    ),
    Row(
        "shadow-at-1-percent-caller",
        Metric.RATIO,
        "x",
        1.02,
        None,
        lambda rounds: _loops(rounds).computing,
        f"{_STATE}; time that the calling thread computes",
    ),
    Row(
        "shadow-at-1-percent-share",
        Metric.COST,
        "% of a core",
        None,
        None,
        lambda rounds: _loops(rounds).share,
        f"{_STATE}; of all rounds together",
        100.0,
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
