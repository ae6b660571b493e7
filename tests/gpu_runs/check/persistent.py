"""Kernels that stay: many jobs of one launch, jobs that are stopped, leaving and coming back, and other work beside.

What only hardware shows: that the words of a mailbox cross the bus in order, and that nothing waits for such a kernel
that should not.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from typing import Final

import numpy as np

from gpu_runs.check.features import mixed, mixing
from gpu_runs.context import Context
from gpu_runs.findings import Fact, Finding
from gpu_runs.workbench import backend_with, session_on
from vyre import DispatchConfig, DispatchFailed, DispatchTimeout, PersistentJobs, Program, ProgramBuilder, Session, u32
from vyre.adapters.cuda.runtime.device import DEFAULT_OPTIONS
from vyre.testing.outcomes import Outcome, Verdict

CAPACITY: Final = 64
_ELEMENTS: Final = 200
_LIMIT_S: Final = 20.0


def perhaps_endless() -> Program:
    """``y[i] = x[i] + 1``, or a loop without an end in lanes where x is 1."""
    with ProgramBuilder("perhaps_endless", workgroup=64) as p:
        x = p.inout("x", u32)
        i = p.global_id()
        with p.if_(x[i] == 1), p.for_(0, 0xFFFF_FFFF), p.for_(0, 0xFFFF_FFFF) as k:
            x[i] = x[i] * 3 + k
        x[i] = x[i] + 1
    return p.build()


def persistent(context: Context) -> Iterator[Finding]:
    backend = backend_with(context.backend, DEFAULT_OPTIONS)
    if backend.persistent is None:
        yield Outcome("persistent engines", Verdict.SKIPPED, f"`{context.backend}` has none")
        return
    with session_on(backend) as session:
        yield from _many(session, 300 if context.emulated else 100_000)
        yield from _idle(session)
        yield from _stopped(session, 1e-4 if context.emulated else 1e-3)


def _many(session: Session, count: int) -> Iterator[Finding]:
    """Jobs alone and in batches, collected in random order, with a dispatch now and then."""
    chance, program, wrong, made = random.Random(1), mixing(), 0, 0
    zeros = np.zeros(_ELEMENTS, np.uint32)
    with session.persistent(program, capacity=CAPACITY, backpressure=True) as jobs:
        held = []
        while made < count:
            x = np.arange(made, made + _ELEMENTS, dtype=np.uint32)
            if chance.random() < 0.02:
                rows = min(chance.randrange(1, 200), count - made)
                keys = np.arange(rows, dtype=np.uint32)
                found = jobs.submit_many({"key": keys, "x": x, "y": zeros}).result(_LIMIT_S)["y"]
                wrong += sum(not np.array_equal(row, mixed(x, int(key))) for key, row in zip(keys, found, strict=True))
                made += rows
                continue
            held.append((jobs.submit({"key": made, "x": x, "y": zeros}), x, made))
            made += 1
            while len(held) > 3 * CAPACITY or (held and chance.random() < 0.4):
                ticket, given, key = held.pop(chance.randrange(len(held)))
                wrong += not np.array_equal(ticket.result(_LIMIT_S)["y"], mixed(given, key))
            if chance.random() < 0.001:
                found = session.dispatch(program, {"key": 3, "x": x, "y": zeros})["y"]
                wrong += not np.array_equal(found, mixed(x, 3))
        for ticket, given, key in held:
            wrong += not np.array_equal(ticket.result(_LIMIT_S)["y"], mixed(given, key))
        counts = jobs.counters()
    yield Fact("persistent jobs", counts | {"wraps": counts["submissions"] // CAPACITY})
    fine = not wrong and counts["jobs"] == count
    yield Outcome("persistent jobs", Verdict.PASSED if fine else Verdict.FAILED, "" if fine else f"{wrong} wrong")


def _idle(session: Session) -> Iterator[Finding]:
    """A kernel without jobs does not hold up who waits for the whole device, and comes back."""
    with session.persistent(perhaps_endless(), capacity=8) as jobs:
        right = _one(jobs)
        began = time.monotonic()
        session.flush()
        yield Fact("flush beside an idle engine, s", round(time.monotonic() - began, 3))
        right = right and _one(jobs)
        launches = jobs.counters()["launches"]
    fine = right and launches == 2
    yield Outcome("leaving and coming back", Verdict.PASSED if fine else Verdict.FAILED, f"{launches} launches")


def _one(jobs: PersistentJobs) -> bool:
    return bool((jobs.submit([np.full(64, 5, np.uint32)]).result(_LIMIT_S)["x"] == 6).all())


def _stopped(session: Session, limit_s: float) -> Iterator[Finding]:
    """A late job ends alone; closing ends jobs that have no end; the session works on."""
    endless, program = np.ones(64, np.uint32), perhaps_endless()
    with session.persistent(program, config=DispatchConfig(timeout_s=limit_s), capacity=8) as jobs:
        late = jobs.submit([endless])
        right = _one(jobs)
        told = isinstance(late.exception(_LIMIT_S), DispatchTimeout)
    yield Outcome("a late job ends alone", Verdict.PASSED if right and told else Verdict.FAILED)
    jobs = session.persistent(program, capacity=8)
    stuck = [jobs.submit([endless]) for _ in range(4)]
    right = _one(jobs)
    began = time.monotonic()
    jobs.close()
    yield Fact("closing beside endless jobs, s", round(time.monotonic() - began, 3))
    told = all(isinstance(ticket.exception(_LIMIT_S), DispatchFailed) for ticket in stuck)
    dispatched = session.dispatch(program, [np.full(64, 5, np.uint32)])["x"]
    fine = right and told and bool((dispatched == 6).all())
    yield Outcome("closing stops endless jobs", Verdict.PASSED if fine else Verdict.FAILED)
