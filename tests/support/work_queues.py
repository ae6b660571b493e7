"""Step programs for work queues, and their answers by plain Python."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

import vyre
from support.fixed_points import FAR, Graph
from vyre import In, InOut, Session, u32

Words: TypeAlias = "npt.NDArray[np.uint32]"
ROLES: Final[dict[str, Any]] = {"items": "items", "pushed": "pushed", "count": "count"}


@vyre.kernel(workgroup=32)
def handle_task(
    first: In[u32], children: In[u32], hits: InOut[u32], items: In[u32], pushed: InOut[u32], count: InOut[u32]
) -> None:
    """Counts a task, and pushes its children, for which it reserves places together."""
    lane = vyre.global_id()
    if lane >= len(items):
        return
    task = items[lane]
    hits.atomic_add(task, 1)
    start, end = first[task], first[task + 1]
    if start < end:
        place = count.atomic_add(0, end - start)
        for k in range(start, end):
            pushed[place + (k - start)] = children[k]


@vyre.kernel(workgroup=32)
def visit_node(
    first: In[u32],
    other: In[u32],
    reached: InOut[u32],
    levels: InOut[u32],
    hits: InOut[u32],
    items: In[u32],
    pushed: InOut[u32],
    count: InOut[u32],
) -> None:
    """Gives the neighbours of a node that nobody has reached the next level, and pushes them one by one."""
    lane = vyre.global_id()
    if lane < len(items):
        node = items[lane]
        hits.atomic_add(node, 1)
        for edge in range(first[node], first[node + 1]):
            target = other[edge]
            if reached.atomic_exchange(target, 1) == 0:
                levels[target] = levels[node] + 1
                pushed[count.atomic_add(0, 1)] = target


@vyre.kernel(workgroup=32)
def reach_node(
    first: In[u32],
    other: In[u32],
    reached: InOut[u32],
    hits: InOut[u32],
    items: In[u32],
    pushed: InOut[u32],
    count: InOut[u32],
) -> None:
    """Pushes the neighbours of a node that nobody has reached, in any order."""
    lane = vyre.global_id()
    if lane < len(items):
        node = items[lane]
        hits.atomic_add(node, 1)
        for edge in range(first[node], first[node + 1]):
            target = other[edge]
            if reached.atomic_exchange(target, 1) == 0:
                pushed[count.atomic_add(0, 1)] = target


class Tree(NamedTuple):
    """Tasks that lead to others: the children of task t are ``children[first[t] : first[t + 1]]``."""

    tasks: int
    first: Words
    children: Words

    @classmethod
    def of(cls, parents: Sequence[int]) -> Tree:
        """Returns the tree in which task k + 1 is a child of ``parents[k]``, and task 0 the root."""
        rows: list[list[int]] = [[] for _ in range(len(parents) + 1)]
        for child, parent in enumerate(parents, start=1):
            rows[parent].append(child)
        first = np.cumsum([0, *map(len, rows)]).astype(np.uint32)
        return cls(len(rows), first, np.array([each for row in rows for each in row] or [0], np.uint32))

    @property
    def widths(self) -> list[int]:
        """Returns the number of tasks of each generation."""
        found, now = [], [0]
        while now:
            found.append(len(now))
            now = [int(child) for task in now for child in self.children[self.first[task] : self.first[task + 1]]]
        return found

    @property
    def need(self) -> int:
        """Returns the least capacity: the most tasks of two generations, one of which is processed."""
        widths = [*self.widths, 0]
        return max(a + b for a, b in pairwise(widths))


BUSHY: Final = Tree.of([k // 3 for k in range(199)])
"""200 tasks of three children each."""
WIDE: Final = Tree.of([0] * 90)
DEEP: Final = Tree.of(range(60))


def web(nodes: int = 120) -> Graph:
    """Returns a graph of several levels; some nodes are out of reach."""
    return Graph.of(nodes, [(k, (7 * k + 3) % (nodes - 1)) for k in range(nodes - 1)])


class Drained(NamedTuple):
    """A queue in a session with the arrays that it fills; ``held`` keeps the others open."""

    queue: Any
    hits: Any
    levels: Any
    start: Words
    held: object = None


def tree_queue(session: Session, tree: Tree, capacity: int, *, step: Any = handle_task, **options: Any) -> Drained:
    """Returns a queue for the tasks of a tree; call it with the root."""
    hits = session.resident(np.zeros(tree.tasks, np.uint32))
    inputs = {"first": tree.first, "children": tree.children, "hits": hits}
    queue = session.work_queue(step, inputs, **ROLES, capacity=capacity, **options)
    return Drained(queue, hits, hits, np.zeros(1, np.uint32))


def search_queue(session: Session, graph: Graph, capacity: int, **options: Any) -> Drained:
    """Returns a queue for a breadth-first search from node 0."""
    start = np.full(graph.nodes, FAR, np.uint32)
    start[0] = 0
    hits, levels = session.resident(np.zeros(graph.nodes, np.uint32)), session.resident(start)
    reached = session.resident((start == 0).astype(np.uint32))
    inputs = {"first": graph.first, "other": graph.other, "reached": reached, "levels": levels, "hits": hits}
    queue = session.work_queue(visit_node, inputs, **ROLES, capacity=capacity, **options)
    return Drained(queue, hits, levels, np.zeros(1, np.uint32), reached)


def reach_queue(session: Session, graph: Graph, capacity: int, **options: Any) -> Drained:
    """Returns a queue that counts the nodes that can be reached from node 0."""
    hits = session.resident(np.zeros(graph.nodes, np.uint32))
    reached = session.resident((np.arange(graph.nodes) == 0).astype(np.uint32))
    inputs = {"first": graph.first, "other": graph.other, "reached": reached, "hits": hits}
    queue = session.work_queue(reach_node, inputs, **ROLES, capacity=capacity, **options)
    return Drained(queue, hits, hits, np.zeros(1, np.uint32), reached)


def distances(graph: Graph) -> Words:
    """Returns the distance of each node from node 0; FAR where there is no path."""
    found, now, level = [FAR] * graph.nodes, [0], 0
    found[0] = 0
    while now:
        level += 1
        ends = {int(b) for a in now for b in graph.other[graph.first[a] : graph.first[a + 1]]}
        now = [node for node in ends if found[node] == FAR]
        for node in now:
            found[node] = level
    return np.array(found, np.uint32)
