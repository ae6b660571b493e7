"""Sequences: steps that are joined to one launch, and rounds that are replayed as one graph."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, Final

import numpy as np

from gpu_runs.check.judging import Array, counted, judged, refused, same, spent
from gpu_runs.context import Context
from gpu_runs.findings import Finding
from gpu_runs.workbench import backend_with, has_driver, session_on
from vyre import Program, ProgramBuilder, Session, Step, UnsupportedFeature, u32
from vyre.adapters.cuda.runtime.device import DEFAULT_OPTIONS, CudaOptions
from vyre.testing.outcomes import Outcome, Verdict

_MAPS: Final = 8
_SHIFT: Final = 1003
"""So far that the element is another workgroup's."""
_ROUNDS: Final = 5


def mapped(factor: int, *, traps: bool = False) -> Program:
    """``y = factor * x + 1``; where it ``traps``, it could."""
    with ProgramBuilder(f"map{factor}", workgroup=128) as p:
        x = p.input("x", u32)
        y = p.output("y", u32, like=x)
        i = p.global_id()
        with p.if_(i < x.length):
            if traps:
                with p.if_(x[i] == 0xFFFF_FFFF):
                    p.trap(i, "the largest number")
            y[i] = x[i] * factor + 1
    return p.build()


def shifted() -> Program:
    with ProgramBuilder("shifted", workgroup=128) as p:
        x = p.input("x", u32)
        y = p.output("y", u32, like=x)
        i = p.global_id()
        with p.if_(i + _SHIFT < x.length):
            y[i] = x[i + _SHIFT]
    return p.build()


def graphs(context: Context) -> Iterator[Finding]:
    if not has_driver(context.backend):
        yield Outcome("sequences", Verdict.SKIPPED, f"`{context.backend}` has no CUDA driver")
        return
    x = np.arange(2000 if context.emulated else 1 << 20, dtype=np.uint32)
    with session_on(backend_with(context.backend, DEFAULT_OPTIONS)) as session:
        yield from _joined(session, x)
        yield from _across_workgroups(session, x[: 1 << 16])
        yield from _replayed(session, x)
    with session_on(backend_with(context.backend, CudaOptions(graph_after=2))) as session:
        yield from _zeroed(session, x[: 1 << 16])


def sparse() -> Program:
    """``y = x`` where x is odd; the rest of the output is left as it is: zeros."""
    with ProgramBuilder("sparse", workgroup=128) as p:
        x = p.input("x", u32)
        y = p.output("y", u32, like=x)
        i = p.global_id()
        with p.if_(i < x.length), p.if_(x[i] % 2 == 1):
            y[i] = x[i]
    return p.build()


def _zeroed(session: Session, data: Array) -> Iterator[Finding]:
    """A replayed dispatch leaves nothing of the one before."""
    program, found = sparse(), list[Array]()

    def run(given: Array) -> None:
        found.append(session.dispatch(program, {"x": given})["y"])

    for shift in range(5):
        given = data + np.uint32(shift)
        work = spent(session, partial(run, given))
        yield same(f"elements that nobody writes, time {shift}", found[-1], np.where(given % 2 == 1, given, 0))
    yield counted("a repeated dispatch is a graph", work, graph_launches=1, kernel_launches=0)


def _chain(session: Session, programs: list[Program], x: Any, y: Any, count: int) -> list[Step]:
    """The programs one after the other, from x through temporary arrays to y."""
    memory = [x, *(session.temporary(u32, count) for _ in programs[1:]), y]
    return [Step(program, {"x": memory[at], "y": memory[at + 1]}) for at, program in enumerate(programs)]


def _joined(session: Session, data: Array) -> Iterator[Finding]:
    programs = [mapped(k) for k in range(2, 2 + _MAPS)]
    wanted = data
    for k in range(2, 2 + _MAPS):
        wanted = wanted * np.uint32(k) + np.uint32(1)
    with session.resident(data) as x, session.resident(np.zeros_like(data)) as y:
        between = (_MAPS - 1) * data.nbytes
        for fused, launches, unneeded in ((False, _MAPS, 0), (True, 1, between)):
            name = "joined maps" if fused else "maps apart"
            y.upload(np.zeros_like(data))
            steps = _chain(session, programs, x, y, data.size)
            with session.sequence(steps, modes={"fused": fused, "graph": False}) as sequence:
                first = sequence()
                work = spent(session, sequence)
            yield same(name, y.download(), wanted)
            yield counted(f"{name}: launches", work, kernel_launches=launches, sync_points=1, uploaded_bytes=0)
            memory = (first.plan.unallocated_bytes, first.allocated_bytes)
            yield judged(f"{name}: memory between", memory == (unneeded, between - unneeded), f"{memory}")
        trapping = [mapped(2, traps=True), mapped(3)]
        yield refused(
            "joining a step that may trap",
            lambda: session.sequence(_chain(session, trapping, x, y, data.size), modes={"fused": True}),
            UnsupportedFeature,
        )


def _across_workgroups(session: Session, data: Array) -> Iterator[Finding]:
    """Stages that read what other workgroups wrote are joined by a barrier of the grid, and need the memory between."""
    wanted = np.zeros_like(data)
    wanted[:-_SHIFT] = data[_SHIFT:] * np.uint32(2) + np.uint32(1)
    with session.resident(data) as x, session.resident(np.zeros_like(data)) as y:
        steps = _chain(session, [mapped(2), shifted()], x, y, data.size)
        with session.sequence(steps, modes={"fused": True, "graph": False}) as sequence:
            for _ in range(10):
                run = sequence()
        yield same("joined across workgroups", y.download(), wanted)
        plan = run.plan
        kept = plan.unallocated_bytes == 0 and "all workgroups wait" in plan.groups[0].why
        yield judged("a stage that reads neighbours is no map", run.kernels == 1 and kept, str(plan))


def _replayed(session: Session, data: Array) -> Iterator[Finding]:
    programs = [mapped(2), mapped(3)]
    with session.resident(data) as x, session.resident(np.zeros_like(data)) as y:
        steps = _chain(session, programs, x, y, data.size)
        with session.sequence(steps, modes={"graph": True, "fused": False}) as sequence:
            run = partial(sequence, _ROUNDS)
            run()
            work = spent(session, run)
            yield same("replayed", y.download(), 6 * data + 4)
            yield counted(
                "a round is one launch of a graph",
                work,
                graph_launches=_ROUNDS,
                kernel_launches=0,
                graph_recordings=0,
                uploaded_bytes=0,
                uploads=0,
                sync_points=1,
            )
            changed = data.copy()
            changed[data.size // 3] = 7
            x[data.size // 3 : data.size // 3 + 1].upload(np.full(1, 7, np.uint32))
            run()
            yield same("an input that changed in place is seen", y.download(), 6 * changed + 4)
        trapping = session.sequence(
            _chain(session, [mapped(2, traps=True), mapped(3)], x, y, data.size), modes={"graph": True}
        )
        yield refused("a graph of steps that may trap", trapping, UnsupportedFeature)
        trapping.close()
