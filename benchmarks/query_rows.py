"""The rows compare queries over one resident graph with a bound launch for each, on the ``cpu`` backend.

Each side takes 64 rows of the host and returns 64 rows.  Both run in turn on one thread, and processor time counts.
"""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial
from typing import Final

import numpy as np
import numpy.typing as npt

from benchmarks.harness import Metric, Row, Samples, compare
from benchmarks.site import CPU_PROCESSOR, Site
from vyre import Program, ProgramBuilder, u32

_NODES: Final = 1000
_QUERIES: Final = 64
_MOST_EDGES: Final = 4
_WARM: Final = 50


def _one_edge() -> Program:
    """``reached = start or start[source]``: one edge into each node."""
    with ProgramBuilder("one_edge", workgroup=64) as p:
        sources, start = p.input("sources", u32), p.input("start", u32)
        reached = p.output("reached", u32, like="start")
        i = p.global_id()
        with p.if_(i < start.length):
            reached[i] = start[i] | start[sources[i]]
    return p.build()


def _all_edges() -> Program:
    """The same over the edges ``rows[i]`` to ``rows[i + 1]``."""
    with ProgramBuilder("all_edges", workgroup=64) as p:
        rows, sources, start = p.input("rows", u32), p.input("sources", u32), p.input("start", u32)
        reached = p.output("reached", u32, like="start")
        i = p.global_id()
        with p.if_(i < start.length):
            found = p.var(start[i])
            with p.for_(rows[i], rows[i + 1]) as edge:
                found.assign(found | start[sources[edge]])
            reached[i] = found
    return p.build()


def _graph(chance: np.random.Generator, nodes: int, *, several: bool) -> dict[str, npt.NDArray[np.uint32]]:
    if not several:
        return {"sources": chance.integers(0, nodes, nodes).astype(np.uint32)}
    counts = chance.integers(0, _MOST_EDGES + 1, nodes)
    rows = np.concatenate([[0], np.cumsum(counts)]).astype(np.uint32)
    return {"rows": rows, "sources": chance.integers(0, nodes, rows[-1]).astype(np.uint32)}


def measure_queries(
    site: Site, rounds: int, *, several: bool, count: int = _QUERIES, nodes: int = _NODES, warm: int = _WARM
) -> Samples:
    """Seconds of so many queries in one call, and of as many bound launches, each with its upload and its download."""
    chance = np.random.default_rng(7)
    program, graph = _all_edges() if several else _one_edge(), _graph(chance, nodes, several=several)
    starts = (chance.random((count, nodes)) < 0.05).astype(np.uint32)
    with ExitStack() as stack:
        session = stack.enter_context(site.open())
        shared = {name: stack.enter_context(session.resident(array)) for name, array in graph.items()}
        queries = stack.enter_context(session.queries(program, shared))
        own = [[stack.enter_context(session.resident(starts[0])) for _ in range(2)] for _ in range(count)]
        launches = [
            stack.enter_context(session.bind_resident(program, {**shared, "start": start, "reached": reached})).launch
            for start, reached in own
        ]

        def one_by_one() -> list[object]:
            found: list[object] = []
            for row, launch, (start, reached) in zip(starts, launches, own, strict=True):
                start.upload(row)
                launch()
                found.append(reached.download())
            return found

        def together() -> npt.NDArray[np.uint32]:
            return queries({"start": starts})["reached"]

        if not np.array_equal(np.array(one_by_one()), together()):
            raise AssertionError("the sides compute different bytes")
        if queries.plan({"start": starts}).launches != 1:
            raise AssertionError("the queries are no single launch")
        for _ in range(warm):
            together()
            one_by_one()
        return compare(together, one_by_one, rounds, site.clock)


_STATE: Final = "compiled and warm, the graph resident, processor time"
ROWS: Final = (
    Row(
        "64 queries of 1 000 lanes",
        Metric.SPEEDUP,
        "x of launches",
        3.0,
        None,
        partial(measure_queries, CPU_PROCESSOR, several=False),
        _STATE,
    ),
    Row(
        "64 queries of 1 000 lanes, 2 edges",
        Metric.SPEEDUP,
        "x of launches",
        None,
        None,
        partial(measure_queries, CPU_PROCESSOR, several=True),
        _STATE,
    ),
)
