"""Launches that find their grids in memory: a step sizes the next one, and the host does not look between them."""

from __future__ import annotations

from collections.abc import Iterator
from time import perf_counter_ns
from typing import Final

import numpy as np

from gpu_runs.check.judging import Array, counted, judged, refused, same, spent
from gpu_runs.context import Context
from gpu_runs.findings import Fact, Finding
from gpu_runs.workbench import backend_with, has_driver, session_on
from vyre import GridOverflow, Indirect, Program, ProgramBuilder, Session, Step, u32
from vyre.adapters.cuda.runtime.device import DEFAULT_OPTIONS
from vyre.testing.outcomes import Outcome, Verdict

_LANES: Final = 128
_ROUNDS: Final = 3


def kept() -> Program:
    """Keeps every third element of ``x``, in any order, and counts them."""
    with ProgramBuilder("kept", workgroup=_LANES) as p:
        x, ys, n = p.input("x", u32), p.inout("ys", u32), p.inout("n", u32)
        i = p.global_id()
        with p.if_(i < x.length), p.if_(x[i] % 3 == 0):
            ys[n.atomic_add(0, 1)] = x[i]
    return p.build()


def sized() -> Program:
    """The workgroups for so many items, and the count for another time."""
    with ProgramBuilder("sized", workgroup=1) as p:
        n, items, grid = p.inout("n", u32), p.inout("items", u32), p.inout("grid", u32)
        items[0] = n[0]
        grid[0] = (n[0] + _LANES - 1) // _LANES
        grid[1] = 1
        grid[2] = 1
        n[0] = 0
    return p.build()


def doubled() -> Program:
    with ProgramBuilder("doubled", workgroup=_LANES) as p:
        items, ys = p.input("items", u32), p.inout("ys", u32)
        i = p.global_id()
        with p.if_(i < items[0]):
            ys[i] = ys[i] * 2 + p.num_groups()
    return p.build()


def placed() -> Program:
    """Each workgroup of a grid of three axes notes how many there are."""
    with ProgramBuilder("placed", workgroup=(4, 2, 2)) as p:
        y = p.inout("y", u32)
        x_size, y_size, z_size = p.num_groups(0), p.num_groups(1), p.num_groups(2)
        at = p.group_id(0) + x_size * (p.group_id(1) + y_size * p.group_id(2))
        with p.if_(p.local_id(0) + p.local_id(1) + p.local_id(2) == 0):
            y[at] = y[at] + x_size * 10_000 + y_size * 100 + z_size
    return p.build()


def indirect_grids(context: Context) -> Iterator[Finding]:
    if not has_driver(context.backend):
        yield Outcome("indirect grids", Verdict.SKIPPED, f"`{context.backend}` has no CUDA driver")
        return
    x = np.arange(3_000 if context.emulated else 1 << 20, dtype=np.uint32)
    with session_on(backend_with(context.backend, DEFAULT_OPTIONS)) as session:
        for graph in (False, True):
            yield from _sized(session, x, graph)
        yield from _axes(session, (4, 3, 5) if context.emulated else (64, 32, 16))
        yield from _surplus(session, 300 if context.emulated else 1 << 20)


def _sized(session: Session, data: Array, graph: bool) -> Iterator[Finding]:
    name = "a graph that sizes its grid" if graph else "launches that size a grid"
    most = -(-data.size // _LANES)
    wanted = data[data % 3 == 0]
    groups = -(-wanted.size // _LANES)
    x, ys, n = session.resident(data), session.resident(np.zeros_like(data)), session.resident(np.zeros(1, np.uint32))
    items, grid = session.resident(np.zeros(1, np.uint32)), session.resident(np.zeros(3, np.uint32))
    with x, ys, n, items, grid:
        steps = [
            Step(kept(), {"x": x, "ys": ys, "n": n}, grid=most),
            Step(sized(), {"n": n, "items": items, "grid": grid}, grid=1),
            Step(doubled(), {"items": items, "ys": ys}, grid=Indirect(grid, most)),
        ]
        with session.sequence(steps, modes={"graph": graph, "fused": False}) as sequence:
            sequence(_ROUNDS)
            work = spent(session, lambda: sequence(_ROUNDS))
        yield same(name, np.sort(ys.download()[: wanted.size]), 2 * wanted + np.uint32(groups))
        launches = {"graph_launches": _ROUNDS} if graph else {"kernel_launches": 3 * _ROUNDS}
        yield counted(
            f"{name}: one wait, and three words come back", work, sync_points=1, downloaded_bytes=12, **launches
        )
        ys.upload(np.zeros_like(data))
        short = Step(doubled(), {"items": items, "ys": ys}, grid=Indirect(grid, groups - 1))
        with session.sequence([short], modes={"graph": graph, "fused": False}) as sequence:
            yield refused(f"{name}: one workgroup too many", sequence, GridOverflow)
        yield judged(f"{name}: nothing is written by what is refused", not ys.download().any())


def _axes(session: Session, most: tuple[int, int, int]) -> Iterator[Finding]:
    size = most[0] * most[1] * most[2]
    for counts in (most, (most[0] - 1, 2, most[2] - 2), (1, most[1], 1), (most[0], 0, most[2])):
        groups = counts[0] * counts[1] * counts[2]
        wanted = np.zeros(size, np.uint32)
        wanted[:groups] = counts[0] * 10_000 + counts[1] * 100 + counts[2]
        with session.resident(np.array(counts, np.uint32)) as grid:
            found = session.dispatch(placed(), {"y": np.zeros(size, np.uint32)}, grid=Indirect(grid, most))
        yield same(f"{counts} of {most} workgroups", found["y"], wanted)


def _surplus(session: Session, most: int) -> Iterator[Finding]:
    """What surplus workgroups cost, as a fact."""
    took = {}
    y, items = session.resident(np.zeros(_LANES, np.uint32)), session.resident(np.array([_LANES], np.uint32))
    with y, items, session.resident(np.array([1, 1, 1], np.uint32)) as grid:
        for groups in (1, most):
            bound = session.bind_resident(doubled(), {"items": items, "ys": y}, grid=Indirect(grid, groups))
            with bound:
                bound()
                times = []
                for _ in range(9):
                    began = perf_counter_ns()
                    bound()
                    times.append(perf_counter_ns() - began)
            took[f"{groups - 1} surplus workgroups"] = min(times)
    yield Fact("least ns of a launch of one workgroup", took)
