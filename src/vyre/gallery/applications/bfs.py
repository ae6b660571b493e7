"""Breadth-first search over a graph in compressed sparse rows, one dispatch per level.

The step reads the old levels and lowers the new ones with an atomic minimum whose result is not used, so the answer
does not depend on the order of the lanes.
"""

from __future__ import annotations

from typing import Annotated

import numpy as np

import vyre
from vyre import In, InOut, Out, Program, u32
from vyre.gallery.applications.graphs import UNREACHED, Words, compressed_rows, plain_bfs, random_edges
from vyre.gallery.example import Case, Dispatcher, Example, Inputs, Outputs

NODES = 500


@vyre.kernel(workgroup=64)
def bfs_level(
    depth: u32,
    row_ptr: In[u32],
    col: In[u32],
    levels: In[u32],
    new_levels: InOut[u32],
    changed: Annotated[Out[u32], (1,)],
) -> None:
    """Each node at ``depth`` gives its unreached neighbours the level ``depth + 1``."""
    node = vyre.global_id()
    if node < len(levels) and levels[node] == depth:
        for edge in range(row_ptr[node], row_ptr[node + 1]):
            target = col[edge]
            if levels[target] == UNREACHED:
                new_levels.atomic_min(target, depth + 1)
                changed[0] = 1


def bfs(session: Dispatcher, program: Program, row_ptr: Words, col: Words, source: int) -> Words:
    """Returns the distance of every node from ``source``; UNREACHED where there is no path."""
    levels = np.full(row_ptr.size - 1, UNREACHED, np.uint32)
    levels[source] = 0
    for depth in range(levels.size):
        inputs: Inputs = {"depth": depth, "row_ptr": row_ptr, "col": col, "levels": levels, "new_levels": levels}
        result = session.dispatch(program, inputs)
        if not result["changed"][0]:
            break
        levels = result["new_levels"].copy()
    return levels


def case() -> Case:
    """Returns a random graph and a source, and the distances from a plain search."""
    edges = random_edges(34, NODES, 700)
    row_ptr, col = compressed_rows(NODES, edges)
    source = edges[0][0]
    return Case({"row_ptr": row_ptr, "col": col, "source": source}, {"levels": plain_bfs(NODES, edges, source)})


def run(session: Dispatcher, program: Program, case: Case) -> Outputs:
    """Runs the search and returns the levels."""
    row_ptr, col = np.asarray(case.inputs["row_ptr"]), np.asarray(case.inputs["col"])
    return {"levels": bfs(session, program, row_ptr, col, int(np.asarray(case.inputs["source"])))}


EXAMPLE = Example("bfs", "breadth-first search over CSR", bfs_level, case, "a plain BFS", run)
