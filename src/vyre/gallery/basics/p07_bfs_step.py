"""One step of a breadth-first search over a graph in compressed sparse rows (CSR)."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

import vyre
from vyre import In, InOut, Out, u32
from vyre.gallery.example import Case, Example, random_u32

NODES = 64


@vyre.kernel(workgroup=64)
def bfs_step(
    row_ptr: In[u32, NODES + 1],
    col: In[u32],
    frontier: In[u32, NODES],
    visited: InOut[u32, NODES],
    next: Out[u32, NODES],
) -> None:
    """Each frontier node marks its unvisited neighbours as visited and as the next frontier."""
    node = vyre.global_id()
    if node < len(next):  # noqa: SIM102 - the recorded program has two branches
        if frontier[node] != 0:
            for e in range(row_ptr[node], row_ptr[node + 1]):
                t = col[e]
                was = visited.atomic_or(t, 1)
                if was == 0:  # true only in the lane that flips the flag
                    next[t] = 1


def case() -> Case:
    """Returns a random graph with a frontier of two nodes, and the answer from Python sets."""
    ends = ((random_u32(8, 256) >> 8) % NODES).tolist()
    edges = sorted(set(pairwise(ends)))
    row_ptr = np.searchsorted([a for a, _ in edges], np.arange(NODES + 1)).astype(np.uint32)
    frontier = {0, 5}
    reached = {b for a, b in edges if a in frontier}

    def flags(nodes: set[int]) -> np.ndarray[tuple[int], np.dtype[np.uint32]]:
        return np.array([n in nodes for n in range(NODES)], np.uint32)

    return Case(
        {
            "row_ptr": row_ptr,
            "col": np.array([b for _, b in edges], np.uint32),
            "frontier": flags(frontier),
            "visited": flags(frontier),
        },
        {"visited": flags(frontier | reached), "next": flags(reached - frontier)},
    )


EXAMPLE = Example("P07", "one breadth-first step over CSR", bfs_step, case, "Python sets")
