"""Reachability as in Datalog: facts that follow from facts, along edges of chosen kinds, until none is new.

    reaches(x, y) :- edge(x, y), kind of it in along.
    reaches(x, z) :- edge(x, y), kind of it in along, reaches(y, z).

The kind of an edge is one bit, and ``along`` is the bits of the kinds that are followed.  The facts of a node are a row
of bits, one for every node, in words of 32.
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
from vyre.gallery.example import Case, Dispatcher, Example, Inputs, Outputs, random_u32

NODES = 150
ALONG = 0b011


@vyre.kernel(workgroup=64)
def derive_facts(
    row_ptr: In[u32],
    col: In[u32],
    kind: In[u32],
    facts: In[u32],
    words: u32,
    along: u32,
    new_facts: Out[u32, like("facts")],
    changed: Annotated[Out[u32], (1,)],
) -> None:
    """Each lane derives one word of the facts of one node, and sets ``changed`` if a fact is new."""
    index = vyre.global_id()
    if index < len(facts):
        node, word = index // words, index % words
        derived = facts[index]
        for k in range(row_ptr[node], row_ptr[node + 1]):
            if along & kind[k] != 0:
                target = col[k]
                derived |= facts[target * words + word]
                if target // 32 == word:
                    derived |= u32(1) << target % 32
        new_facts[index] = derived
        if derived != facts[index]:
            changed[0] = 1


def reachable(session: Dispatcher, program: Program, row_ptr: Words, col: Words, kind: Words, along: int) -> Words:
    """Returns the nodes that each node reaches, by one or more edges of the kinds in ``along``, as rows of bits."""
    nodes = row_ptr.size - 1
    words = -(-nodes // 32)
    fixed: Inputs = {"row_ptr": row_ptr, "col": col, "kind": kind, "words": words, "along": along}
    none = np.zeros(nodes * words, np.uint32)
    facts = repeated(lambda facts: session.dispatch(program, {**fixed, "facts": facts}), none, "new_facts", nodes + 1)
    return facts.reshape(nodes, words)


def plain_reachable(nodes: int, edges: list[tuple[int, int]]) -> list[set[int]]:
    """Returns the nodes that each node reaches by one or more edges, found by a search from each."""
    targets = target_lists(nodes, edges)
    return [plain_search(targets, targets[node]) for node in range(nodes)]


def case() -> Case:
    """Returns random edges of three kinds, and the facts from a search from each node."""
    edges = random_edges(72, NODES, 260)
    row_ptr, col = compressed_rows(NODES, edges)
    kind = np.uint32(1) << (random_u32(73, col.size) >> 8) % 3
    followed = [edge for edge, bit in zip(edges, kind.tolist(), strict=True) if ALONG & bit]
    inputs: Inputs = {"row_ptr": row_ptr, "col": col, "kind": kind}
    return Case(inputs, {"facts": bit_rows(NODES, plain_reachable(NODES, followed))})


def run(session: Dispatcher, program: Program, case: Case) -> Outputs:
    """Derives all facts."""
    row_ptr, col, kind = (np.asarray(case.inputs[name]) for name in ("row_ptr", "col", "kind"))
    return {"facts": reachable(session, program, row_ptr, col, kind, ALONG)}


EXAMPLE = Example(
    "reachability",
    "reachability along kinds of edges, as in Datalog",
    derive_facts,
    case,
    "a search from each node",
    run,
)
