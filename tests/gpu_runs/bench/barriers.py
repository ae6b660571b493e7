"""What a barrier of the grid costs by the number of workgroups, in one kernel and between launches.

The cost is a slope: what more barriers of the same kernel take longer, by the device's own clock.
"""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median
from typing import Any, Final, NamedTuple

import numpy as np

from gpu_runs.context import Context
from gpu_runs.findings import Fact, Finding
from gpu_runs.workbench import backend_with, has_driver, session_on
from vyre import Program, ProgramBuilder, Session, u32
from vyre.adapters.cuda.runtime.device import CudaOptions
from vyre.policies.launching.grid_sync_mode import GridSyncMode
from vyre.testing.outcomes import Outcome, Verdict

WORKGROUP: Final = 256
PER_UNIT: Final = 4
"""Workgroups of a multiprocessor in the largest grid."""


class _Scale(NamedTuple):
    few: int
    many: int
    repeats: int


_FULL: Final = _Scale(2, 64, 40)
_REHEARSAL: Final = _Scale(1, 3, 2)


def counting(barriers: int) -> Program:
    """Every lane adds 1 to its element before each barrier, and once behind the last."""
    with ProgramBuilder(f"counting{barriers}", workgroup=WORKGROUP) as p:
        y = p.inout("y", u32)
        i = p.global_id()
        for _ in range(barriers):
            with p.if_(i < y.length):
                y[i] = y[i] + 1
            p.grid_sync()
        with p.if_(i < y.length):
            y[i] = y[i] + 1
    return p.build()


def sizes(units: int) -> list[int]:
    """Numbers of workgroups, in powers of two and in multiples of the multiprocessors."""
    most = PER_UNIT * units
    return sorted({1, most, units, 2 * units, *(1 << k for k in range(1, 16) if 1 << k < most)})


def barriers(context: Context) -> Iterator[Finding]:
    if not has_driver(context.backend):
        yield Outcome("barriers of the grid", Verdict.SKIPPED, f"`{context.backend}` has no CUDA driver")
        return
    scale = _REHEARSAL if context.emulated else _FULL
    found: dict[str, dict[str, float]] = {}
    for mode in GridSyncMode:
        backend = backend_with(context.backend, CudaOptions(graph_after=None, grid_sync=mode))
        groups = [1, 3] if context.emulated else sizes(backend.profile.compute_units or 1)
        with session_on(backend) as session:
            for count in groups:
                times = {number: _device_ns(session, number, count, scale) for number in (scale.few, scale.many)}
                if None in times.values():
                    yield Outcome(f"{mode.value}, {count} workgroups", Verdict.FAILED, "wrong counts, or no times")
                    continue
                yield Outcome(f"{mode.value}, {count} workgroups", Verdict.PASSED)
                few, many = (float(times[number] or 0) for number in (scale.few, scale.many))
                found.setdefault(mode.value, {})[str(count)] = (many - few) / (scale.many - scale.few)
                yield Fact("barrier_ns", {name: dict(each) for name, each in found.items()})
    native, split = (found.get(mode.value, {}) for mode in (GridSyncMode.NATIVE, GridSyncMode.SPLIT))
    shared = [count for count in native if count in split]
    if shared:
        summary: dict[str, Any] = {"native_ns": native[shared[-1]], "split_ns": split[shared[-1]], "groups": shared[-1]}
        yield Fact("summary", summary)


def _device_ns(session: Session, barriers: int, groups: int, scale: _Scale) -> float | None:
    """The median time of the kernel, or None where it counted wrong or nobody measured."""
    program = counting(barriers)
    with session.resident(np.zeros(groups * WORKGROUP, np.uint32)) as y:
        times = [session.dispatch(program, {"y": y}).timing.device_ns for _ in range(scale.repeats + 1)]
        wanted = (barriers + 1) * len(times)
        if not (y.download() == wanted).all():
            return None
    known = [each for each in times[1:] if each is not None]
    return median(known) if known else None
