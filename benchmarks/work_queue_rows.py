"""The rows compare a work queue with one launch for each level, on the ``cpu`` backend.

The other side is the cheapest loop that Python allows: launches that are bound once for each number of items and whose
grid covers these items alone, and the number of pushed items read in place where that is possible.  Both sides run on
one thread, as programs that depend on the order of atomics do on ``cpu``, so processor time is what they take on a
machine that does nothing else.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from benchmarks.harness import Metric, Row, Samples
from benchmarks.site import CPU_PROCESSOR, Site, Word
from vyre import ResidentArray, Session
from vyre.gallery.applications.frontier_bfs import frontier_bfs
from vyre.gallery.applications.graphs import UNREACHED

_WARM: Final = 3
_LANES: Final = 64
_NODES: Final = 100_000
_EDGES: Final = 1_000_000
_Words = npt.NDArray[np.uint32]


class _Graph(NamedTuple):
    row_ptr: _Words
    col: _Words


def _graph(nodes: int, sources: npt.NDArray[np.int64], targets: npt.NDArray[np.int64]) -> _Graph:
    order = np.argsort(sources, kind="stable")
    row_ptr = np.searchsorted(sources[order], np.arange(nodes + 1)).astype(np.uint32)
    return _Graph(row_ptr, targets[order].astype(np.uint32))


def random_graph(nodes: int = _NODES, edges: int = _EDGES) -> _Graph:
    generator = np.random.default_rng(7)
    return _graph(nodes, generator.integers(0, nodes, edges), generator.integers(0, nodes, edges))


def path(nodes: int = _NODES) -> _Graph:
    return _graph(nodes, np.arange(nodes - 1), np.arange(1, nodes))


class _Levels:
    """A search with one launch a level: ``run`` returns the number of levels."""

    def __init__(self, session: Session, inputs: dict[str, Any], nodes: int) -> None:
        self._session, self._inputs = session, inputs
        self._sides = [session.resident(np.zeros(nodes, np.uint32)) for _ in range(2)]
        self._pushed = session.resident(np.zeros(1, np.uint32))
        self._count = Word(self._pushed)
        self._bound: dict[tuple[int, int], Callable[[], object]] = {}

    def run(self) -> int:
        self._sides[0].upload(np.zeros(1, np.uint32))
        waiting, side, levels = 1, 0, 0
        while waiting:
            self._count.clear()
            launch = self._bound.get((side, waiting)) or self._bind(side, waiting)
            launch()
            waiting, side, levels = self._count.read(), 1 - side, levels + 1
        return levels

    def _bind(self, side: int, waiting: int) -> Callable[[], object]:
        own = {"items": self._sides[side][:waiting], "pushed": self._sides[1 - side], "count": self._pushed}
        bound = self._session.bind_resident(frontier_bfs, {**self._inputs, **own}, grid=(-(-waiting // _LANES), 1, 1))
        launch: Callable[[], object] = bound.launch
        self._bound[side, waiting] = launch
        return launch


def measure_search(site: Site, make: Callable[[], _Graph], rounds: int, *, warm: int = _WARM) -> Samples:
    """Seconds of a search by a work queue, and level by level."""
    graph = make()
    nodes = len(graph.row_ptr) - 1
    start = np.full(nodes, UNREACHED, np.uint32)
    start[0] = 0
    first, clear = np.zeros(1, np.uint32), (start == 0).astype(np.uint32)
    with site.open() as session:
        arrays = {"row_ptr": graph.row_ptr, "col": graph.col, "reached": clear, "levels": start}
        inputs: dict[str, ResidentArray] = {name: session.resident(array) for name, array in arrays.items()}
        queue = session.work_queue(frontier_bfs, inputs, items="items", pushed="pushed", count="count", capacity=nodes)
        levels = _Levels(session, inputs, nodes)
        sides: tuple[Callable[[], int], ...] = (lambda: queue(first).phases, levels.run)
        found: tuple[list[float], list[float]] = ([], [])
        answers: set[tuple[int, bytes]] = set()
        for index in range(-warm, rounds):
            for place in (0, 1) if index % 2 == 0 else (1, 0):
                inputs["reached"].upload(clear)
                inputs["levels"].upload(start)
                begun = site.clock()
                steps = sides[place]()
                taken = site.clock() - begun
                answers.add((steps, inputs["levels"].download().tobytes()))
                if index >= 0:
                    found[place].append(taken)
        if len(answers) > 1:
            raise AssertionError("the sides give other levels")
        return Samples(*found)


_STATE: Final = "everything prepared; the graph is in memory"
ROWS: Final = (
    Row(
        "search of a random graph of 1 000 000 edges",
        Metric.RATIO,
        "x of a launch a level",
        1.3,
        1.0,
        partial(measure_search, CPU_PROCESSOR, random_graph),
        _STATE,
    ),
    Row(
        "search of a path of 100 000 nodes",
        Metric.SPEEDUP,
        "x of a launch a level",
        5.0,
        None,
        partial(measure_search, CPU_PROCESSOR, path),
        _STATE,
    ),
)
