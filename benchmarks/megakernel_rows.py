"""The rows compare 200 dependent waves as one kernel with the same waves as launches, on the ``cpu`` backend."""

from __future__ import annotations

from functools import partial
from typing import Final

import numpy as np

from benchmarks.harness import Metric, Row, Samples, compare
from benchmarks.site import CPU_WALL, Site
from vyre import Program, ProgramBuilder, Repeat, ResidentArray, Step, f32

_WAVES: Final = 200
_ITEMS: Final = 2_000
_AT_ONCE: Final = 20
"""The runs of a call of either side: a sample of a single one would be too short for a steady clock."""


def reversal() -> Program:
    """``y = x[::-1] / 2 + 1``: every element comes from another workgroup, except in the middle."""
    with ProgramBuilder("reversal", workgroup=256) as p:
        x, y = p.input("x", f32), p.inout("y", f32)
        i = p.global_id()
        with p.if_(i < x.length):
            y[i] = x[x.length - 1 - i] * 0.5 + 1.0
    return p.build()


def measure_waves(
    site: Site,
    modes: dict[str, bool],
    rounds: int,
    *,
    waves: int = _WAVES,
    items: int = _ITEMS,
    at_once: int = _AT_ONCE,
) -> Samples:
    """Seconds of ``at_once`` runs of so many dependent waves as one kernel, and in these modes."""
    program = reversal()
    start = np.arange(items, dtype=np.float32)
    with (
        site.open() as session,
        session.resident(start) as one,
        session.resident(start) as other,
        session.resident(start) as apart_one,
        session.resident(start) as apart_other,
    ):

        def there_and_back(a: ResidentArray, b: ResidentArray) -> list[Repeat]:
            steps = [Step(program, {"x": a, "y": b}), Step(program, {"x": b, "y": a})]
            return [Repeat(steps, waves // 2)]

        with (
            session.sequence(there_and_back(one, other), modes={"megakernel": True, "graph": True}) as joined,
            session.sequence(there_and_back(apart_one, apart_other), modes=modes) as apart,
        ):
            if joined().kernels != 1 or apart().kernels != waves:
                raise AssertionError("the waves were not one kernel, or not launches")
            if one.download().tobytes() != apart_one.download().tobytes():
                raise AssertionError("the sides compute different bytes")

            def in_one_kernel() -> None:
                for _ in range(at_once):
                    joined()

            def as_launches() -> None:
                for _ in range(at_once):
                    apart()

            return compare(in_one_kernel, as_launches, rounds, site.clock)


_WARM_STATE: Final = "everything compiled; the arrays are in the cache"
ROWS: Final = (
    Row(
        "200 waves of 2 000 items in one kernel",
        Metric.SPEEDUP,
        "x of launches one by one",
        2.0,
        None,
        partial(measure_waves, CPU_WALL, {"plain": True}),
        _WARM_STATE,
    ),
    Row(
        "200 waves of 2 000 items in one kernel, and as a list",
        Metric.SPEEDUP,
        "x of the list",
        1 / 1.2,
        None,
        partial(measure_waves, CPU_WALL, {"graph": True, "fused": False}),
        _WARM_STATE,
    ),
)
