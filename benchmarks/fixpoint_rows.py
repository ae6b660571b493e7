"""The rows compare fixed points and lists of steps with the same launches one by one, on the ``cpu`` backend.

The polled side is the cheapest loop that Python allows: a bound launch, and the flag read in place where that is
possible.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

import numpy as np

from benchmarks import kernels
from benchmarks.harness import Metric, Row, Samples, compare
from benchmarks.site import CPU_WALL, Site, Word
from vyre import FixpointExecutor, Program, ProgramBuilder, Step, u32

_ROUNDS: Final = 1000
_LIMIT: Final = 5000
_LISTED: Final = 100
_LANES: Final = 64
_AT_ONCE: Final = 50
"""The lists of a call of either side: a sample of single ones would be too short for a steady clock."""
_WARM: Final = 5
_SETTLED: Final = 2_000
"""The runs of a list after which the session hardly reviews its launch costs any more."""


def _count_down() -> Program:
    """Takes 1 from every element above 0, and sets the flag while there is one."""
    with ProgramBuilder("count_down", workgroup=64) as p:
        x = p.inout("x", u32)
        changed = p.inout("changed", u32, count=1)
        i = p.global_id()
        with p.if_(i < x.length):
            value = p.let(x[i])
            with p.if_(value > 0):
                x[i] = value - 1
                changed[0] = 1
    return p.build()


def measure_fixed_point(
    site: Site,
    lanes: int,
    rounds: int,
    *,
    length: int = _ROUNDS,
    limit: int = _LIMIT,
    warm: int = _WARM,
    executor: FixpointExecutor | None = None,
) -> Samples:
    """Seconds of a fixed point of ``length`` rounds by this executor, and of the same rounds polled."""
    program, start = _count_down(), np.full(lanes, length - 1, np.uint32)
    with (
        site.open() as session,
        session.resident(start) as x,
        session.resident(np.zeros(1, np.uint32)) as changed,
        session.bind_resident(program, {"x": x, "changed": changed}) as bound,
    ):
        run = session.fixpoint(
            [Step(program, {"x": x, "changed": changed})], changed=changed, limit=limit, executor=executor
        )
        flag = Word(changed)

        def polled() -> int:
            launch = bound.launch
            for done in range(1, limit + 1):
                flag.clear()
                launch()
                if not flag.read():
                    return done
            return limit

        sides: tuple[Callable[[], int], ...] = (lambda: run().iterations, polled)
        found: tuple[list[float], list[float]] = ([], [])
        for index in range(-warm, rounds):
            for place in (0, 1) if index % 2 == 0 else (1, 0):
                x.upload(start)
                begun = site.clock()
                done = sides[place]()
                taken = site.clock() - begun
                if done != length:
                    raise AssertionError("the sides run another number of rounds")
                if index >= 0:
                    found[place].append(taken)
        return Samples(*found)


def measure_list(site: Site, rounds: int, *, steps: int = _LISTED, settled: int = _SETTLED) -> Samples:
    """Seconds of ``_AT_ONCE`` runs of a list of tiny steps, and of as many bound launches."""
    with (
        site.open() as session,
        session.resident(np.arange(_LANES, dtype=np.uint32)) as x,
        session.resident(np.zeros(_LANES, np.uint32)) as y,
    ):
        program = kernels.one_store()
        ways = [{"x": x, "y": y}, {"x": y, "y": x}]
        sequence = session.sequence(
            [Step(program, way) for way in ways] * (steps // 2), modes={"graph": True, "fused": False}
        )
        before = x.download()
        sequence()
        if not np.array_equal(x.download(), before + np.uint32(steps)):
            raise AssertionError("a step of the sequence did not run")
        with session.bind_resident(program, ways[0]) as there, session.bind_resident(program, ways[1]) as back:
            launches = [there.launch, back.launch] * (steps // 2)

            def listed() -> None:
                for _ in range(_AT_ONCE):
                    sequence()

            def one_by_one() -> None:
                for _ in range(_AT_ONCE):
                    for launch in launches:
                        launch()

            for _ in range(settled // _AT_ONCE):
                listed()
            one_by_one()
            return compare(listed, one_by_one, rounds, site.clock)


_WARM_STATE: Final = "everything prepared; the arrays are in the cache"
ROWS: Final = (
    Row(
        "1 000 rounds of 256 lanes",
        Metric.SPEEDUP,
        "x of polling",
        5.0,
        None,
        partial(measure_fixed_point, CPU_WALL, 256),
        _WARM_STATE,
    ),
    Row(
        "1 000 rounds of 1 024 lanes",
        Metric.SPEEDUP,
        "x of polling",
        2.5,
        None,
        partial(measure_fixed_point, CPU_WALL, 1024),
        _WARM_STATE,
    ),
    Row(
        "1 000 rounds of 4 096 lanes",
        Metric.SPEEDUP,
        "x of polling",
        None,
        None,
        partial(measure_fixed_point, CPU_WALL, 4096),
        _WARM_STATE,
    ),
    Row(
        "100 tiny steps in a list",
        Metric.SPEEDUP,
        "x of launches",
        5.0,
        None,
        partial(measure_list, CPU_WALL),
        _WARM_STATE,
    ),
)
