"""Breadth-first search from a frontier: a queue on the device holds the nodes whose neighbours are not looked at yet.

Each node is visited once, in one launch for all levels.  Which of two nodes reaches a third one first is open, but both
are of one level, so the levels are the same in any order.
"""

from __future__ import annotations

import numpy as np

import vyre
from vyre import In, InOut, Program, u32
from vyre.gallery.applications.graphs import UNREACHED, compressed_rows, plain_bfs, random_edges
from vyre.gallery.applications.queues import drained
from vyre.gallery.example import Case, Dispatcher, Example, Outputs

NODES = 300


@vyre.kernel(workgroup=64)
def frontier_bfs(
    row_ptr: In[u32],
    col: In[u32],
    reached: InOut[u32],
    levels: InOut[u32],
    items: In[u32],
    pushed: InOut[u32],
    count: InOut[u32],
) -> None:
    """Each node of ``items`` pushes its neighbours that nobody has reached, and gives them the next level."""
    lane = vyre.global_id()
    if lane < len(items):
        node = items[lane]
        for edge in range(row_ptr[node], row_ptr[node + 1]):
            target = col[edge]
            if reached.atomic_exchange(target, 1) == 0:
                levels[target] = levels[node] + 1
                pushed[count.atomic_add(0, 1)] = target


def case() -> Case:
    """Returns a random graph and a source; the distances from a plain search, and the number of nodes visited."""
    edges = random_edges(36, NODES, 420)
    row_ptr, col = compressed_rows(NODES, edges)
    source = edges[0][0]
    wanted = plain_bfs(NODES, edges, source)
    visited = np.array([(wanted != UNREACHED).sum()], np.uint64)
    return Case({"row_ptr": row_ptr, "col": col, "source": source}, {"levels": wanted, "visited": visited})


def run(session: Dispatcher, program: Program, case: Case) -> Outputs:
    """Runs the search in one dispatch; returns the levels, and how many nodes were visited."""
    source = np.array([case.inputs["source"]], np.uint32)
    levels = np.full(NODES, UNREACHED, np.uint32)
    levels[source] = 0
    reached = (levels == 0).astype(np.uint32)
    inputs = {"row_ptr": case.inputs["row_ptr"], "col": case.inputs["col"], "reached": reached, "levels": levels}
    results = drained(session, program, inputs, source, capacity=NODES)
    return {"levels": results["levels"], "visited": results["processed"]}


EXAMPLE = Example("frontier-bfs", "breadth-first search with a work queue", frontier_bfs, case, "a plain BFS", run)
