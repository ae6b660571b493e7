"""The rows compare a sequence whose steps are joined with the same sequence step by step, on the ``cpu`` backend."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

import numpy as np

from benchmarks.harness import Metric, Row, Samples, compare
from benchmarks.site import CPU_WALL, Site
from vyre import Program, ProgramBuilder, ResidentArray, Step, f32

_ELEMENTS: Final = 10**7
_MAPS: Final = 8


def _map() -> Program:
    """``to = source * 1.0001 + 0.5``."""
    with ProgramBuilder("affine", workgroup=256) as p:
        source = p.input("source", f32)
        to = p.output("to", f32, like="source")
        i = p.global_id()
        with p.if_(i < source.length):
            to[i] = source[i] * 1.0001 + 0.5
    return p.build()


def measure_chain(site: Site, rounds: int, *, elements: int = _ELEMENTS) -> Samples:
    """Seconds of a chain of maps over temporary arrays in one launch, and of a launch for each map."""
    program = _map()
    values = np.linspace(-1.0, 1.0, elements, dtype=np.float32)
    with (
        site.open() as session,
        session.resident(values) as x,
        session.resident(np.zeros_like(values)) as joined_y,
        session.resident(np.zeros_like(values)) as apart_y,
    ):

        def steps(y: ResidentArray) -> list[Step]:
            between = [session.temporary(np.float32, elements) for _ in range(_MAPS - 1)]
            places: list[Any] = [x, *between, y]
            return [Step(program, {"source": places[k], "to": places[k + 1]}) for k in range(_MAPS)]

        with (
            session.sequence(steps(joined_y), modes={"fused": True}) as joined,
            session.sequence(steps(apart_y), modes={"fused": False}) as apart,
        ):
            if joined().kernels != 1 or apart().kernels != _MAPS:
                raise AssertionError("the maps were not joined to one launch, or not run apart")
            if joined_y.download().tobytes() != apart_y.download().tobytes():
                raise AssertionError("the sides compute different bytes")
            return compare(joined, apart, rounds, site.clock)


ROWS: Final = (
    Row(
        "8 maps over 10^7 f32, joined",
        Metric.SPEEDUP,
        "x of apart",
        6.0,
        8.0,
        partial(measure_chain, CPU_WALL),
        "everything compiled; the arrays do not fit the cache",
    ),
)
