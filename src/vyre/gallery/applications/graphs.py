"""Graphs for the examples: edge lists, compressed sparse rows, and plain Python answers."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable

import numpy as np
import numpy.typing as npt

from vyre.gallery.example import Answers, random_u32

Words = npt.NDArray[np.uint32]
UNREACHED = 0xFFFF_FFFF


def random_edges(seed: int, nodes: int, count: int) -> list[tuple[int, int]]:
    """Returns ``count`` pairs of node numbers, sorted, without repetitions (so possibly fewer)."""
    ends = ((random_u32(seed, 2 * count) >> 8) % nodes).tolist()
    return sorted(set(zip(ends[::2], ends[1::2], strict=True)))


def compressed_rows(nodes: int, edges: Iterable[tuple[int, int]]) -> tuple[Words, Words]:
    """Returns (row_ptr, col): the targets of node n are ``col[row_ptr[n] : row_ptr[n + 1]]``."""
    ordered = np.array(sorted(edges), np.uint32).reshape(-1, 2)
    row_ptr = np.searchsorted(ordered[:, 0], np.arange(nodes + 1)).astype(np.uint32)
    return row_ptr, ordered[:, 1].copy()


def bit_rows(nodes: int, members: Iterable[Iterable[int]]) -> Words:
    """Returns sets of node numbers as rows of bits: bit n % 32 of word n // 32 stands for node n."""
    rows = [sum(1 << number for number in numbers) for numbers in members]
    words = -(-nodes // 32)
    return np.frombuffer(b"".join([row.to_bytes(4 * words, "little") for row in rows]), "<u4").reshape(-1, words)


def repeated(step: Callable[[Words], Answers], state: Words, updated: str, most: int) -> Words:
    """Returns what a step leaves as it is, at most so many steps after ``state``.

    ``step`` dispatches once on a state.  It answers the new state under the name ``updated``, and ``changed``, one
    u32 that is 0 if both are the same.
    """
    for _ in range(most):
        result = step(state)
        if not result["changed"][0]:
            break
        state = result[updated]
    return state


def target_lists(nodes: int, edges: Iterable[tuple[int, int]]) -> list[list[int]]:
    """Returns the targets of every node's edges, in the order of the edges."""
    targets: list[list[int]] = [[] for _ in range(nodes)]
    for a, b in edges:
        targets[a].append(b)
    return targets


def plain_search(targets: list[list[int]], starts: Iterable[int], seen: Iterable[int] = ()) -> set[int]:
    """Returns the nodes in ``seen``, and those that can be reached from ``starts`` without passing them."""
    visited = set(seen)
    stack = list(starts)
    while stack:
        node = stack.pop()
        if node not in visited:
            visited.add(node)
            stack += targets[node]
    return visited


def plain_bfs(nodes: int, edges: Iterable[tuple[int, int]], source: int) -> Words:
    """Returns the distance of every node from ``source``, found with a queue; UNREACHED where there is no path."""
    targets = target_lists(nodes, edges)
    levels = np.full(nodes, UNREACHED, np.uint32)
    levels[source] = 0
    queue = deque([source])
    while queue:
        node = queue.popleft()
        for target in targets[node]:
            if levels[target] == UNREACHED:
                levels[target] = levels[node] + 1
                queue.append(target)
    return levels


def plain_components(nodes: int, edges: Iterable[tuple[int, int]]) -> Words:
    """Returns the least node number of every node's component, found by union-find."""
    parent = list(range(nodes))

    def root(node: int) -> int:
        while parent[node] != node:
            parent[node] = parent[parent[node]]
            node = parent[node]
        return node

    for a, b in edges:
        low, high = sorted((root(a), root(b)))
        parent[high] = low
    return np.array([root(node) for node in range(nodes)], np.uint32)
