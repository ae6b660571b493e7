"""Awaited dispatches and copies: what may run at once does, and what conflicts does not.

What only hardware shows: that a copy ends while a kernel still runs.  On an emulated device a kernel is over as soon as
somebody looks, so there the orders alone are checked.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine, Iterator
from typing import Any, Final

import numpy as np

from gpu_runs.check.features import mixed, mixing
from gpu_runs.check.judging import Array, counted, judged, refused, same, spent
from gpu_runs.context import Context
from gpu_runs.findings import Fact, Finding
from gpu_runs.workbench import backend_with, has_driver, session_on
from vyre import DispatchTimeout, Program, ProgramBuilder, Session, u32
from vyre.adapters.cuda.runtime.device import CudaOptions
from vyre.testing.outcomes import Outcome, Verdict

_LIMIT_S: Final = 30.0
_LONG_S: Final = 0.5
"""What the long kernel takes at least on a GPU."""
_MOST_TRIPS: Final = 1 << 31
_LANES: Final = 32


def slow() -> Program:
    """Lanes hash their element over and over, ``trips`` times: no compiler can shorten that."""
    with ProgramBuilder("slow", workgroup=_LANES) as p:
        trips = p.param("trips", u32)
        x = p.inout("x", u32)
        i = p.global_id()
        with p.if_(i < x.length):
            h = p.var(x[i])
            with p.for_(0, trips) as k:
                h.assign((h ^ k) * 0x0100_0193)
            x[i] = h
    return p.build()


def hashed(x: Array, trips: int) -> Array:
    h = x.copy()
    for k in range(trips):
        h = (h ^ np.uint32(k)) * np.uint32(0x0100_0193)
    return h


def asynchrony(context: Context) -> Iterator[Finding]:
    if not has_driver(context.backend):
        yield Outcome("asynchrony", Verdict.SKIPPED, f"`{context.backend}` has no CUDA driver")
        return
    with session_on(backend_with(context.backend, CudaOptions(graph_after=None, close_timeout_s=30.0))) as session:
        yield from _awaited(session, 20 if context.emulated else 2_000)
        trips, took = _calibrated(session, 0.0 if context.emulated else _LONG_S)
        yield Fact("long kernel", {"trips": trips, "seconds": round(took, 3)})
        yield from _copies(session, trips, took, context)
        if not context.emulated:  # nothing takes any time there
            yield from _late(session, trips, took)


def _run(work: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(asyncio.wait_for(work, _LIMIT_S))


def _awaited(session: Session, count: int) -> Iterator[Finding]:
    x, zeros = np.arange(500, dtype=np.uint32), np.zeros(500, np.uint32)
    program, found = mixing(), list[Any]()

    async def work() -> None:
        runs = (session.dispatch_async(program, {"key": k, "x": x, "y": zeros}) for k in range(count))
        found.extend(await asyncio.gather(*runs))

    session.dispatch(program, {"key": 1, "x": x, "y": zeros})
    spending = spent(session, lambda: _run(work()))
    wrong = sum(not np.array_equal(each["y"], mixed(x, k)) for k, each in enumerate(found))
    yield judged(f"{count} awaited dispatches", not wrong, f"{wrong} are wrong")
    yield counted("each awaited dispatch is one launch", spending, kernel_launches=count)


def _calibrated(session: Session, seconds: float) -> tuple[int, float]:
    """Trips with which ``slow`` takes at least ``seconds``, and what it took."""
    trips = 64
    with session.resident(np.arange(_LANES, dtype=np.uint32)) as x:
        session.dispatch(slow(), {"trips": trips, "x": x})
        while True:
            started = time.perf_counter()
            session.dispatch(slow(), {"trips": trips, "x": x})
            took = time.perf_counter() - started
            if took >= seconds or trips >= _MOST_TRIPS:
                return trips, took
            trips *= 2 if took > seconds / 8 else 8


def _copies(session: Session, trips: int, took: float, context: Context) -> Iterator[Finding]:
    """While a kernel runs, what it does not use is copied both ways; what it writes is read behind it."""
    data = np.arange(_LANES, dtype=np.uint32)
    with session.resident(data) as x, session.resident(data) as other, session.resident(data) as target:
        once = x.download()
        session.dispatch(slow(), {"trips": trips, "x": x})
        wanted = x.download()
        if trips <= 1 << 12:
            yield same("the long kernel", wanted, hashed(data, trips))
        x.upload(data)
        seen: dict[str, Any] = {}

        async def work() -> None:
            running = session.submit(slow(), {"trips": trips, "x": x})
            started = time.perf_counter()
            seen["other"] = await other.download_async()
            await target.upload_async(data + 1)
            seen["copied after"] = time.perf_counter() - started
            seen["beside"] = not running.done()
            seen["x"] = await x.download_async()
            seen["read after"] = time.perf_counter() - started
            running.result(_LIMIT_S)

        _run(work())
        yield same("a copy of what no kernel uses", seen["other"], data)
        yield same("an upload to what no kernel uses", target.download(), data + 1)
        yield same("a copy of what a kernel writes", seen["x"], wanted)
        yield judged("the content changed", not np.array_equal(once, wanted))
        yield Fact("copies beside a kernel, s", {k: round(seen[k], 4) for k in ("copied after", "read after")})
        if not context.emulated:
            early = seen["beside"] and seen["copied after"] < took / 2 < seen["read after"]
            yield judged("copies run beside the kernel and not beside what they need", early, str(seen))


def _late(session: Session, trips: int, took: float) -> Iterator[Finding]:
    """Who awaits is told in time, and the session works on."""
    with session.resident(np.arange(_LANES, dtype=np.uint32)) as x:
        started = time.perf_counter()
        late = session.dispatch_async(slow(), {"trips": trips, "x": x}, timeout=took / 8)
        yield refused("an awaited dispatch that is late", lambda: _run(late), DispatchTimeout)
        told = time.perf_counter() - started
        yield Fact("told after, s", round(told, 4))
        yield judged("a late dispatch is told in time", told < took / 2, f"{told:.3f} s of {took:.3f} s")
        session.flush()
    zeros = np.zeros(_LANES, np.uint32)
    found = session.dispatch(mixing(), {"key": 3, "x": zeros, "y": zeros})["y"]
    yield same("the session works on", found, mixed(zeros, 3))
