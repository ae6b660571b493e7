"""Frontiers and components of a large graph on the ``cpu`` backend, beside SciPy.

All sides run on one thread, so processor time is what they take on a machine that does nothing else.  A question is
asked of a graph that is there already: in the session's memory here, as a sparse matrix there.  The row of loading
says what that costs: both sides start from the same columns of NumPy, whose edges are in no order.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from benchmarks.harness import Metric, NotMeasured, Row, Samples
from benchmarks.site import CPU_PROCESSOR, Site
from vyre.graphs import UNREACHED, FactSession, fact_graph

_NODES: Final = 1_000_000
_EDGES: Final = 10_000_000
Column = npt.NDArray[np.uint32]


class Edges(NamedTuple):
    """Edges between the nodes 0 to ``nodes - 1``, in no order."""

    nodes: int
    sources: Column
    targets: Column


def random_edges(nodes: int, edges: int) -> Edges:
    """Returns edges whose ends are drawn evenly from all nodes; the same for the same numbers."""
    sources, targets = np.random.default_rng(7).integers(0, nodes, (2, edges), np.uint32)
    return Edges(nodes, sources, targets)


def measure_reach(site: Site, rounds: int, *, nodes: int = _NODES, edges: int = _EDGES) -> Samples:
    """Seconds of the distances from node 0, and of SciPy's breadth-first order, which finds predecessors instead."""
    given, rival = random_edges(nodes, edges), _csgraph()
    matrix = _matrix(given)
    with site.open() as session, FactSession(session, _graph(given)) as facts:
        samples, ours, (order, before) = _in_turn(
            site, rounds, lambda: facts.reach([0]).distances, lambda: rival.breadth_first_order(matrix, 0)
        )
    if not np.array_equal(ours, _distances(order, before)):
        raise AssertionError("the sides find other distances")
    return samples


def measure_components(site: Site, rounds: int, *, nodes: int = _NODES, edges: int = _EDGES) -> Samples:
    """Seconds of the weak components, here and by SciPy."""
    given, rival = random_edges(nodes, edges), _csgraph()
    matrix = _matrix(given)
    with site.open() as session, FactSession(session, _graph(given)) as facts:
        samples, ours, (_, theirs) = _in_turn(
            site,
            rounds,
            lambda: facts.components().labels,
            lambda: rival.connected_components(matrix, connection="weak"),
        )
    _, first, place = np.unique(theirs, return_index=True, return_inverse=True)
    if not np.array_equal(ours, first[place]):  # a label here is the least node of its component
        raise AssertionError("the sides find other components")
    return samples


def measure_loading(site: Site, rounds: int, *, nodes: int = _NODES, edges: int = _EDGES) -> Samples:
    """Seconds from columns to a resident graph, and to a sparse matrix of SciPy."""
    given = random_edges(nodes, edges)
    _csgraph()

    def load() -> int:
        with FactSession(session, _graph(given)) as facts:
            return len(facts.graph.rows.targets)

    with site.open() as session:
        samples, ours, theirs = _in_turn(site, rounds, load, lambda: _matrix(given).nnz)
    if ours != theirs:
        raise AssertionError("the sides hold other edges")
    return samples


def _in_turn(site: Site, rounds: int, ours: Callable[[], Any], theirs: Callable[[], Any]) -> tuple[Samples, Any, Any]:
    """Returns the seconds of both sides, the first in turn, after a round that warms; and what each returned last."""
    taken: tuple[list[float], list[float]] = ([], [])
    found: list[Any] = [None, None]
    for index in range(-1, rounds):
        for side in (0, 1) if index % 2 == 0 else (1, 0):
            begun = site.clock()
            found[side] = (ours, theirs)[side]()
            if index >= 0:
                taken[side].append(site.clock() - begun)
    return Samples(*taken), *found


@cache
def _csgraph() -> Any:
    try:
        from scipy.sparse import csgraph
    except ImportError:
        raise NotMeasured("SciPy is not installed") from None
    return csgraph


def _graph(edges: Edges) -> Any:
    return fact_graph(edges.nodes, edges.sources, edges.targets)


def _matrix(edges: Edges) -> Any:
    from scipy.sparse import csr_matrix

    ends = (edges.sources.astype(np.int32), edges.targets.astype(np.int32))
    return csr_matrix((np.ones(edges.sources.size), ends), (edges.nodes, edges.nodes))


def _distances(order: npt.NDArray[np.int32], before: npt.NDArray[np.int32]) -> Column:
    """Returns the distances of a breadth-first order with predecessors."""
    found = np.full(before.size, UNREACHED, np.uint32)
    found[order[0]] = 0
    waiting = order[1:]
    while waiting.size:
        known = found[before[waiting]] != UNREACHED
        if not known.any():
            raise AssertionError("a node has no way to its predecessor")
        reached = waiting[known]
        found[reached] = found[before[reached]] + 1
        waiting = waiting[~known]
    return found


_STATE: Final = "kernels compiled; the graph resident, and a sparse matrix; 1 thread a side"
ROWS: Final = (
    Row(
        "distances, 10^6 nodes, 10^7 edges",
        Metric.SPEEDUP,
        "x of SciPy",
        1.0,
        None,
        partial(measure_reach, CPU_PROCESSOR),
        _STATE,
    ),
    Row(
        "components, 10^6 nodes, 10^7 edges",
        Metric.SPEEDUP,
        "x of SciPy",
        2.0,
        None,
        partial(measure_components, CPU_PROCESSOR),
        _STATE,
    ),
    Row(
        "loading, 10^6 nodes, 10^7 edges",
        Metric.SPEEDUP,
        "x of SciPy",
        None,
        None,
        partial(measure_loading, CPU_PROCESSOR),
        "columns of NumPy, in no order; 1 thread a side",
    ),
)
