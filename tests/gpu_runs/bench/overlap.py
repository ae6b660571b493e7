"""Copies beside kernels: how much of a copy is hidden behind a kernel that takes as long."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

import numpy as np
from benchmarks.harness import Samples, compare
from benchmarks.site import Site

from gpu_runs.bench.pairs import ROUNDS, measured, site_of
from gpu_runs.check.asynchrony import slow
from gpu_runs.check.features import mixed, mixing
from gpu_runs.context import Context
from gpu_runs.findings import Finding
from vyre import ResidentArray, Session
from vyre.adapters.cuda.runtime.device import CudaOptions

_LIMIT_S: Final = 30.0
_WORDS: Final = 32
_MOST_TRIPS: Final = 1 << 28
_OPTIONS: Final = CudaOptions(graph_after=None)


def overlap(context: Context) -> Iterator[Finding]:
    nbytes = 1 << 12 if context.emulated else 64 << 20
    site = site_of(context, _OPTIONS)
    pairs = {
        "an upload beside a kernel": partial(_copied, site, nbytes, back=False),
        "a download beside a kernel": partial(_copied, site, nbytes, back=True),
        "awaited dispatches": partial(_awaited, site, 10 if context.emulated else 500),
    }
    yield from measured(context, pairs, ROUNDS)


def _copied(site: Site, nbytes: int, rounds: int, *, back: bool) -> Samples:
    """A kernel and a copy of other memory at once, and one after the other."""
    data = np.arange(nbytes // 4, dtype=np.uint32)
    words = np.arange(_WORDS, dtype=np.uint32)
    with site.open() as session, session.resident(data) as other, session.resident(words) as x:

        def copy() -> None:
            if back:
                other.download()
            else:
                other.upload(data)

        inputs: dict[str, Any] = {"trips": _as_long_as(session, copy, x), "x": x}

        def together() -> None:
            running = session.submit(slow(), inputs)
            copy()
            running.result(_LIMIT_S)

        def one_after_the_other() -> None:
            session.dispatch(slow(), inputs)
            copy()

        samples = compare(together, one_after_the_other, rounds, site.clock)
        if not np.array_equal(other.download(), data):
            raise AssertionError("the copies are others")
        return samples


def _as_long_as(session: Session, copy: Callable[[], None], x: ResidentArray) -> int:
    """Trips with which the kernel takes at least as long as the copy."""
    copy()
    started = time.perf_counter()
    copy()
    wanted, trips = time.perf_counter() - started, 16
    session.dispatch(slow(), {"trips": trips, "x": x})
    while trips < _MOST_TRIPS:
        started = time.perf_counter()
        session.dispatch(slow(), {"trips": trips, "x": x})
        if time.perf_counter() - started >= wanted:
            break
        trips *= 2
    return trips


def _awaited(site: Site, count: int, rounds: int) -> Samples:
    """Many small dispatches under way at once, and one after the other."""
    x, zeros = np.arange(256, dtype=np.uint32), np.zeros(256, np.uint32)
    inputs: list[dict[str, Any]] = [{"key": key, "x": x, "y": zeros} for key in range(count)]
    program = mixing()
    with site.open() as session:

        async def work() -> list[Any]:
            return await asyncio.gather(*(session.dispatch_async(program, each) for each in inputs))

        def together() -> list[Any]:
            return asyncio.run(work())

        for each in (together(), [session.dispatch(program, one) for one in inputs]):
            if not np.array_equal(each[-1]["y"], mixed(x, count - 1)):
                raise AssertionError("a dispatch computes something else")
        return compare(together, lambda: [session.dispatch(program, each) for each in inputs], rounds, site.clock)
