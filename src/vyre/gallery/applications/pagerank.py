"""PageRank in exact integers: each node gives equal shares of its rank to the nodes that it points to."""

from __future__ import annotations

import numpy as np

import vyre
from vyre import In, Out, Program, like, u32, u64
from vyre.gallery.applications.graphs import Words, compressed_rows, random_edges
from vyre.gallery.example import Array, Case, Dispatcher, Example, Inputs, answered_by

NODES = 300
ROUNDS = 60
"""The rounds of an example: the first ranks weigh 0.85 to this power after them, below 10^-4."""
ONE = 1 << 40
"""The rank of all nodes together, so that shares are integers and every machine rounds them alike."""


@vyre.kernel(workgroup=64)
def share_ranks(
    row_ptr: In[u32], source: In[u32], degree: In[u64], ranks: In[u64], base: u64, new_ranks: Out[u64, like("ranks")]
) -> None:
    """Each lane adds up what one node gets: 85 % of the shares of the nodes that point to it, and ``base``."""
    node = vyre.global_id()
    if node < len(new_ranks):
        total = u64(0)
        for k in range(row_ptr[node], row_ptr[node + 1]):
            giver = source[k]
            total += ranks[giver] // degree[giver]
        new_ranks[node] = base + total * 85 // 100


def pagerank(session: Dispatcher, program: Program, row_ptr: Words, source: Words, degree: Array) -> Array:
    """Returns the rank of every node (u64, in parts of ``ONE``) after ``ROUNDS`` rounds.

    ``source[row_ptr[n] : row_ptr[n + 1]]`` are the nodes that point to node n, ``degree`` how many each points to.
    """
    nodes = degree.size
    ranks = np.full(nodes, ONE // nodes, np.uint64)
    fixed: Inputs = {"row_ptr": row_ptr, "source": source, "degree": degree, "base": ONE * 15 // 100 // nodes}
    for _ in range(ROUNDS):
        ranks = session.dispatch(program, {**fixed, "ranks": ranks})["new_ranks"]
    return ranks


def plain_pagerank(nodes: int, edges: list[tuple[int, int]]) -> Array:
    """Returns the same ranks from Python integers, pushed along the edges instead of pulled."""
    degree = [0] * nodes
    for giver, _ in edges:
        degree[giver] += 1
    ranks = [ONE // nodes] * nodes
    for _ in range(ROUNDS):
        got = [0] * nodes
        for giver, taker in edges:
            got[taker] += ranks[giver] // degree[giver]
        ranks = [ONE * 15 // 100 // nodes + total * 85 // 100 for total in got]
    return np.array(ranks, np.uint64)


def case() -> Case:
    """Returns random edges, and the ranks from Python integers."""
    edges = random_edges(71, NODES, 1800)
    row_ptr, source = compressed_rows(NODES, [(taker, giver) for giver, taker in edges])
    degree = np.bincount([giver for giver, _ in edges], minlength=NODES).astype(np.uint64)
    inputs: Inputs = {"row_ptr": row_ptr, "source": source, "degree": degree}
    return Case(inputs, {"ranks": plain_pagerank(NODES, edges)})


EXAMPLE = Example(
    "pagerank", "PageRank in exact integers", share_ranks, case, "Python integers", answered_by(pagerank, "ranks")
)
