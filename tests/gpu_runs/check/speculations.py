"""Speculation: both ways commit the same tiles, what a trap leaves, and how long each way takes at several rates."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import Any

import numpy as np

from gpu_runs.check.judging import judged, refused, same
from gpu_runs.context import Context
from gpu_runs.findings import Fact, Finding
from gpu_runs.workbench import backend_with, has_driver, session_on
from vyre import Session, SpeculationMode, TrapError
from vyre.adapters.cuda.runtime.device import CudaOptions
from vyre.testing.outcomes import Outcome, Verdict


def speculations(context: Context) -> Iterator[Finding]:
    if context.tests is None or not has_driver(context.backend):
        yield Outcome("speculation", Verdict.SKIPPED, f"no tests folder, or no CUDA driver below `{context.backend}`")
        return
    support = import_module("support.speculations")
    tiles = 24 if context.emulated else 100_000
    with session_on(backend_with(context.backend, CudaOptions(graph_after=None))) as session:
        for below in (0, 1, 8, 16):
            case = support.Case(tiles, 32, pass_modulus=16, pass_below=below, stray=1, reach=2)
            yield from _both_ways(session, support, case, f"{below} of 16 pass", 2 if context.emulated else 9)
        yield from _undone(session, support, tiles)


def _both_ways(session: Session, support: Any, case: Any, name: str, repeats: int) -> Iterator[Finding]:
    x, y = case.x(), np.arange(case.tiles * case.width, dtype=np.uint32).reshape(case.tiles, case.width)
    after, passed, committed = case.expected(x, y)
    times: dict[str, int | None] = {}
    for mode in (SpeculationMode.FORCE, SpeculationMode.DISABLE):
        held = support.bound(session, case, x, y, mode)
        result = held()
        way = result.way.value
        yield same(f"{name}, {way}: results", held.y.download().reshape(y.shape), after)
        counts = (result.passed, result.committed)
        yield judged(f"{name}, {way}: counts", counts == (passed.sum(), committed.sum()), str(counts))
        taken = sorted(held().timing.device_ns or 0 for _ in range(repeats))
        times[f"{way}_device_ns"] = taken[len(taken) // 2]
        held.run.close()
    yield Fact(name, {"tiles": case.tiles, "passed": int(passed.sum()), **times})


def _undone(session: Session, support: Any, tiles: int) -> Iterator[Finding]:
    """A commit that traps in its last tile, after others have written."""
    case = support.Case(tiles, 32, pass_modulus=1, confirm_modulus=1, trap="commit")
    x, y = case.x(), np.full((tiles, 32), 7, np.uint32)
    x[-1, 31] = support.BAD
    held = support.bound(session, case, x, y)
    yield refused("a commit that traps", lambda: held(), TrapError)
    yield same("a commit that traps is undone", held.y.download().reshape(y.shape), y)
    x[-1, 31] = 1
    held.x.upload(x)
    yield judged("the session works on", held().committed == tiles)
    yield same("the session works on: results", held.y.download().reshape(y.shape), case.expected(x, y)[0])
