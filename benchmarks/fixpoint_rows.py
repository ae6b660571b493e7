"""The rows compare fixed points and lists of steps with the same launches one by one, on the ``cpu`` backend.

The polled side is the cheapest loop that Python allows: a bound launch, and the flag read in place.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import numpy as np

from benchmarks import kernels
from benchmarks.cpu_wall_rows import opened_session, two_words
from benchmarks.harness import Metric, Row, Samples, compare
from vyre import Program, ProgramBuilder, Step, u32

_ROUNDS: Final = 1000
_LIMIT: Final = 5000
_LISTED: Final = 100
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


def _seconds(work: Callable[[], int]) -> float:
    start = time.perf_counter()
    if work() != _ROUNDS:
        raise AssertionError("the sides run another number of rounds")
    return time.perf_counter() - start


def _fixed_point(lanes: int, rounds: int) -> Samples:
    """Seconds of a fixed point of 1 000 rounds, and of the same rounds polled."""
    program, start = _count_down(), np.full(lanes, _ROUNDS - 1, np.uint32)
    with (
        opened_session() as session,
        session.resident(start) as x,
        session.resident(np.zeros(1, np.uint32)) as changed,
        session.bind_resident(program, {"x": x, "changed": changed}) as bound,
    ):
        run = session.fixpoint([Step(program, {"x": x, "changed": changed})], changed=changed, limit=_LIMIT)
        flag: Any = np.from_dlpack(changed)

        def polled() -> int:
            launch = bound.launch
            for done in range(1, _LIMIT + 1):
                flag[0] = 0
                launch()
                if not flag[0]:
                    return done
            return _LIMIT

        sides: tuple[Callable[[], int], ...] = (lambda: run().iterations, polled)
        found: tuple[list[float], list[float]] = ([], [])
        for index in range(-_WARM, rounds):
            for place in (0, 1) if index % 2 == 0 else (1, 0):
                x.upload(start)
                taken = _seconds(sides[place])
                if index >= 0:
                    found[place].append(taken)
        return Samples(*found)


def _list(rounds: int) -> Samples:
    """Seconds of ``_AT_ONCE`` runs of a list of 100 tiny steps, and of as many bound launches."""
    with opened_session() as session, two_words(session) as (x, y):
        program = kernels.one_store()
        ways = [{"x": x, "y": y}, {"x": y, "y": x}]
        sequence = session.sequence(
            [Step(program, way) for way in ways] * (_LISTED // 2), modes={"graph": True, "fused": False}
        )
        before = x.download()
        sequence()
        if not np.array_equal(x.download(), before + np.uint32(_LISTED)):
            raise AssertionError("a step of the sequence did not run")
        with session.bind_resident(program, ways[0]) as there, session.bind_resident(program, ways[1]) as back:
            launches = [there.launch, back.launch] * (_LISTED // 2)

            def listed() -> None:
                for _ in range(_AT_ONCE):
                    sequence()

            def one_by_one() -> None:
                for _ in range(_AT_ONCE):
                    for launch in launches:
                        launch()

            for _ in range(_SETTLED // _AT_ONCE):
                listed()
            one_by_one()
            return compare(listed, one_by_one, rounds)


_WARM_STATE: Final = "everything prepared; the arrays are in the cache"
ROWS: Final = (
    Row(
        "1 000 rounds of 256 lanes",
        Metric.SPEEDUP,
        "x of polling",
        5.0,
        None,
        partial(_fixed_point, 256),
        _WARM_STATE,
    ),
    Row(
        "1 000 rounds of 1 024 lanes",
        Metric.SPEEDUP,
        "x of polling",
        2.5,
        None,
        partial(_fixed_point, 1024),
        _WARM_STATE,
    ),
    Row(
        "1 000 rounds of 4 096 lanes",
        Metric.SPEEDUP,
        "x of polling",
        None,
        None,
        partial(_fixed_point, 4096),
        _WARM_STATE,
    ),
    Row("100 tiny steps in a list", Metric.SPEEDUP, "x of launches", 5.0, None, _list, _WARM_STATE),
)
