"""Dominators of a flow graph: a node dominates another if every way from the entry to that one leads through it.

The dominators of a node are itself and those that all its predecessors share, which is repeated from above until
nothing changes.  They are a row of bits, one for every node, in words of 32.
"""

from __future__ import annotations

from typing import Annotated

import numpy as np

import vyre
from vyre import In, Out, Program, like, u32
from vyre.gallery.applications.graphs import (
    Words,
    bit_rows,
    compressed_rows,
    plain_search,
    random_edges,
    repeated,
    target_lists,
)
from vyre.gallery.example import Case, Dispatcher, Example, Inputs, answered_by, random_u32

NODES = 150
ALL_BITS = 0xFFFF_FFFF


@vyre.kernel(workgroup=64)
def share_dominators(
    row_ptr: In[u32],
    predecessor: In[u32],
    dominators: In[u32],
    words: u32,
    new_dominators: Out[u32, like("dominators")],
    changed: Annotated[Out[u32], (1,)],
) -> None:
    """Each lane computes one word of the dominators of one node, and sets ``changed`` if it differs."""
    index = vyre.global_id()
    if index < len(dominators):
        node, word = index // words, index % words
        kept = u32(ALL_BITS) if row_ptr[node] < row_ptr[node + 1] else u32(0)
        for k in range(row_ptr[node], row_ptr[node + 1]):
            kept &= dominators[predecessor[k] * words + word]
        if node // 32 == word:
            kept |= u32(1) << node % 32
        new_dominators[index] = kept
        if kept != dominators[index]:
            changed[0] = 1


def find_dominators(session: Dispatcher, program: Program, row_ptr: Words, predecessor: Words) -> Words:
    """Returns the dominators of every node as rows of bits; a node without predecessors is an entry.

    ``predecessor[row_ptr[n] : row_ptr[n + 1]]`` are the nodes before node n.  No edge leads to node 0, and every node
    can be reached from it.
    """
    nodes = row_ptr.size - 1
    words = -(-nodes // 32)
    fixed: Inputs = {"row_ptr": row_ptr, "predecessor": predecessor, "words": words}
    everyone = np.full(nodes * words, ALL_BITS, np.uint32)
    dominators = repeated(
        lambda dominators: session.dispatch(program, {**fixed, "dominators": dominators}),
        everyone,
        "new_dominators",
        nodes + 1,
    )
    return dominators.reshape(nodes, words)


def plain_dominators(nodes: int, edges: list[tuple[int, int]]) -> list[set[int]]:
    """Returns the dominators of every node: those without which it cannot be reached from node 0."""
    targets = target_lists(nodes, edges)
    dominators: list[set[int]] = [set() for _ in range(nodes)]
    for removed in range(nodes):
        seen = plain_search(targets, [0], {removed})
        for node in range(nodes):
            if node == removed or node not in seen:
                dominators[node].add(removed)
    return dominators


def case() -> Case:
    """Returns a random flow graph from node 0, and its dominators from searches that leave out a node each."""
    parents = random_u32(75, NODES) >> 8
    tree = [(int(parents[node]) % node, node) for node in range(1, NODES)]
    more = [(a, b) for a, b in random_edges(76, NODES, 60) if b != 0]
    edges = sorted({*tree, *more})
    row_ptr, predecessor = compressed_rows(NODES, [(b, a) for a, b in edges])
    expected = bit_rows(NODES, plain_dominators(NODES, edges))
    return Case({"row_ptr": row_ptr, "predecessor": predecessor}, {"dominators": expected})


EXAMPLE = Example(
    "dominators",
    "dominators of a flow graph, as rows of bits",
    share_dominators,
    case,
    "searches that leave out a node each",
    answered_by(find_dominators, "dominators"),
)
