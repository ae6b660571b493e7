"""Graphs with kinds of edges for tests, and what plain Python says about them."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Iterator
from random import Random
from typing import Final, NamedTuple

FAR: Final = 0xFFFF_FFFF


class Edges(NamedTuple):
    """The number of nodes, and (source, target, kind) for each edge."""

    nodes: int
    edges: list[tuple[int, int, int]]

    @property
    def columns(self) -> tuple[int, list[int], list[int], list[int]]:
        """What ``fact_graph`` takes."""
        return (self.nodes, *([edge[place] for edge in self.edges] for place in range(3)))  # type: ignore[return-value]


def random_graph(seed: int, nodes: int, edges: int, kinds: int = 3) -> Edges:
    chance = Random(seed)
    return Edges(
        nodes, [(chance.randrange(nodes), chance.randrange(nodes), chance.randrange(kinds)) for _ in range(edges)]
    )


def shapes() -> Iterator[tuple[str, Edges]]:
    """Graphs of every form, small enough for any backend."""
    yield "one node", Edges(1, [])
    yield "no edges", Edges(70, [])
    yield "a loop", Edges(3, [(1, 1, 0)])
    yield "equal edges", Edges(4, [(0, 1, 2), (0, 1, 2), (0, 1, 1), (1, 3, 1), (1, 3, 1)])
    yield "a path", Edges(90, [(node, node + 1, node % 2) for node in range(89)])
    yield "a path back", Edges(90, [(node + 1, node, 0) for node in range(89)])
    yield "a star", Edges(80, [(0, node, node % 3) for node in range(1, 80)])
    yield "a star inwards", Edges(80, [(node, 0, 0) for node in range(1, 80)])
    yield "a ring", Edges(64, [(node, (node + 1) % 64, 0) for node in range(64)])
    yield "two blocks", Edges(2100, [(node, (node * 7 + 3) % 2100, node % 3) for node in range(0, 2100, 5)])
    for seed, (nodes, edges) in enumerate(((10, 12), (65, 100), (200, 180), (200, 1000))):
        yield f"random {nodes}/{edges}", random_graph(seed, nodes, edges)


SHAPES: Final = dict(shapes())


def distances(graph: Edges, sources: Iterable[int], kinds: Collection[int] | None = None, most: int = FAR) -> list[int]:
    """The least number of edges to each node, by a queue."""
    leads: list[list[int]] = [[] for _ in range(graph.nodes)]
    for source, target, kind in graph.edges:
        if kinds is None or kind in kinds:
            leads[source].append(target)
    found = [FAR] * graph.nodes
    waiting = deque(sources)
    for source in waiting:
        found[source] = 0
    while waiting:
        node = waiting.popleft()
        if found[node] < most:
            for target in leads[node]:
                if found[target] == FAR:
                    found[target] = found[node] + 1
                    waiting.append(target)
    return found


def components(graph: Edges, kinds: Collection[int] | None = None) -> list[int]:
    """The least node of each node's component, by a search from every node."""
    near: list[list[int]] = [[] for _ in range(graph.nodes)]
    for source, target, kind in graph.edges:
        if kinds is None or kind in kinds:
            near[source].append(target)
            near[target].append(source)
    found = [FAR] * graph.nodes
    for start in range(graph.nodes):
        waiting = [start] if found[start] == FAR else []
        while waiting:
            node = waiting.pop()
            if found[node] == FAR:
                found[node] = start
                waiting += near[node]
    return found
