"""The rows compare work queues, in phases and as rings, with one launch for each level, on the ``cpu`` backend.

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

import vyre
from benchmarks.harness import Metric, Row, Samples
from benchmarks.site import CPU_PROCESSOR, Site, Word
from vyre import In, InOut, QueueDiscipline, ResidentArray, Session, u32
from vyre.gallery.applications.frontier_bfs import frontier_bfs
from vyre.gallery.applications.graphs import UNREACHED

_WARM: Final = 3
_LANES: Final = 64
_NODES: Final = 100_000
_EDGES: Final = 1_000_000
_Words = npt.NDArray[np.uint32]


@vyre.kernel(workgroup=_LANES)
def mark_reached(
    row_ptr: In[u32], col: In[u32], reached: InOut[u32], items: In[u32], pushed: InOut[u32], count: InOut[u32]
) -> None:
    """Pushes the neighbours of a node that nobody has reached; the order of the nodes means nothing."""
    lane = vyre.global_id()
    if lane < len(items):
        node = items[lane]
        for edge in range(row_ptr[node], row_ptr[node + 1]):
            target = col[edge]
            if reached.atomic_exchange(target, 1) == 0:
                pushed[count.atomic_add(0, 1)] = target


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

    def __init__(self, session: Session, program: Any, inputs: dict[str, Any], nodes: int) -> None:
        self._session, self._program, self._inputs = session, program, inputs
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
        bound = self._session.bind_resident(self._program, {**self._inputs, **own}, grid=(-(-waiting // _LANES), 1, 1))
        launch: Callable[[], object] = bound.launch
        self._bound[side, waiting] = launch
        return launch


def measure_search(
    site: Site, make: Callable[[], _Graph], rounds: int, *, ring: bool = False, warm: int = _WARM
) -> Samples:
    """Seconds of a search by a work queue, and level by level.

    A ring marks what is reached; a queue in phases, and its rival, find the levels, too.
    """
    graph = make()
    nodes = len(graph.row_ptr) - 1
    start = np.full(nodes, UNREACHED, np.uint32)
    start[0] = 0
    first, clear = np.zeros(1, np.uint32), (start == 0).astype(np.uint32)
    arrays = {"row_ptr": graph.row_ptr, "col": graph.col, "reached": clear}
    if not ring:
        arrays["levels"] = start
    names: dict[str, Any] = {"items": "items", "pushed": "pushed", "count": "count"}
    program: Any = mark_reached if ring else frontier_bfs
    capacity = 1 << max(nodes - 1, 1).bit_length() if ring else nodes
    with site.open() as session:
        inputs: dict[str, ResidentArray] = {name: session.resident(array) for name, array in arrays.items()}
        discipline = QueueDiscipline.RING if ring else QueueDiscipline.PHASED
        queue = session.work_queue(program, inputs, **names, capacity=capacity, discipline=discipline)
        levels = _Levels(session, program, inputs, nodes)
        sides: tuple[Callable[[], object], ...] = (lambda: queue(first), levels.run)
        found: tuple[list[float], list[float]] = ([], [])
        answers: set[bytes] = set()
        changed = [name for name in ("reached", "levels") if name in inputs]
        for index in range(-warm, rounds):
            for place in (0, 1) if index % 2 == 0 else (1, 0):
                for name in changed:
                    inputs[name].upload(arrays[name])
                begun = site.clock()
                sides[place]()
                taken = site.clock() - begun
                answers.add(inputs[changed[-1]].download().tobytes())
                if index >= 0:
                    found[place].append(taken)
        if len(answers) > 1:
            raise AssertionError("the sides give other results")
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
    Row(
        "random graph of 1 000 000 edges by a ring",
        Metric.RATIO,
        "x of a launch a level",
        1.3,
        1.0,
        partial(measure_search, CPU_PROCESSOR, random_graph, ring=True),
        _STATE,
    ),
    Row(
        "path of 100 000 nodes by a ring",
        Metric.SPEEDUP,
        "x of a launch a level",
        5.0,
        None,
        partial(measure_search, CPU_PROCESSOR, path, ring=True),
        _STATE,
    ),
)
