"""The closure of e-graphs on the ``cpu`` backend, beside egglog and the e-graph of the optimizer.

All sides run on one thread, so processor time is what they take on a machine that does nothing else.  Loading counts
on every side: columns of NumPy are there at the start, and the class of every term is there at the end.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import numpy as np

from benchmarks.egraph_rivals import Egglog, Sizes, optimizer_classes
from benchmarks.egraph_shapes import chain, random_terms
from benchmarks.harness import Metric, Row, Samples
from benchmarks.site import CPU_PROCESSOR, Site
from vyre import Session
from vyre.egraph import ClosedEGraph, EGraph

_TERMS: Final = 1_000_000
_FEW_TERMS: Final = 10_000
_CHAIN: Final = 10_000
_WARM: Final = 1


def of_terms(count: int) -> EGraph:
    """Returns random terms: a tenth of them leaves, 20 operators of up to 3 children, an equality for every 20."""
    return random_terms(np.random.default_rng(1), count, count // 10, 20, count // 20, 3)


def _closed_from_columns(graph: EGraph, session: Session) -> ClosedEGraph:
    made = EGraph.from_columns(graph.operators, graph.offsets, graph.children, graph.equalities)
    return made.close(session, rows=False)


def measure_beside_egglog(site: Site, rounds: int, *, count: int = _TERMS, warm: int = _WARM) -> Samples:
    """Seconds of a closure here, and by egglog, which reads the rows from files that are written first."""
    graph = of_terms(count)
    ours, theirs = list[float](), list[float]()
    with site.open() as session, TemporaryDirectory() as folder:
        for index in range(-warm, rounds):
            rival = Egglog(Path(folder))
            sides: list[tuple[list[float], Callable[[], object]]] = [
                (ours, partial(_closed_from_columns, graph, session)),
                (theirs, partial(rival.close, graph)),
            ]
            for samples, work in sides if index % 2 == 0 else sides[::-1]:
                begun = site.clock()
                work()
                if index >= 0:
                    samples.append(site.clock() - begun)
        closed = graph.close(session)
        if rival.sizes() != Sizes(closed.class_count, len(closed.rows.terms)):
            raise AssertionError("the sides find other classes")
    return Samples(ours, theirs)


def measure_beside_the_host(site: Site, rounds: int, *, count: int = _FEW_TERMS) -> Samples:
    """Seconds of a closure here, and by the e-graph of the optimizer."""
    graph = of_terms(count)
    ours, theirs = list[float](), list[float]()
    with site.open() as session:
        answers = set[bytes]()
        for index in range(-1, rounds):
            begun = site.clock()
            answers.add(_closed_from_columns(graph, session).classes.tobytes())
            between = site.clock()
            answers.add(optimizer_classes(graph).tobytes())
            if index >= 0:
                ours.append(between - begun)
                theirs.append(site.clock() - between)
        if len(answers) != 1:
            raise AssertionError("the sides find other classes")
    return Samples(ours, theirs)


def measure_chain(site: Site, rounds: int, *, length: int = _CHAIN) -> Samples:
    """Seconds of a closure in which every merge waits for the one before."""
    graph = chain(length)
    taken = list[float]()
    with site.open() as session:
        for index in range(-1, rounds):
            begun = site.clock()
            closed = _closed_from_columns(graph, session)
            if index >= 0:
                taken.append(site.clock() - begun)
            if closed.class_count != length + 1:
                raise AssertionError("the chain is not closed")
    return Samples(taken)


_STATE: Final = "kernels compiled; columns in memory; loading included"
ROWS: Final = (
    Row(
        "closure of 1 000 000 terms",
        Metric.RATIO,
        "x of egglog",
        3.0,
        1.0,
        partial(measure_beside_egglog, CPU_PROCESSOR),
        _STATE,
    ),
    Row(
        "closure of 10 000 terms",
        Metric.SPEEDUP,
        "x of the optimizer's e-graph",
        None,
        None,
        partial(measure_beside_the_host, CPU_PROCESSOR),
        _STATE,
    ),
    Row(
        "chain of 10 000 merges that wait for each other",
        Metric.COST,
        "s",
        10.0,
        None,
        partial(measure_chain, CPU_PROCESSOR),
        _STATE,
    ),
)
