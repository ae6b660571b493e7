"""Connected components: every edge lowers the labels of both ends until nothing changes."""

from __future__ import annotations

from typing import Annotated

import numpy as np

import vyre
from vyre import In, InOut, Out, Program, ProgramBuilder, u32
from vyre.gallery.applications.graphs import Words, plain_components, random_edges
from vyre.gallery.example import Case, Dispatcher, Example, Outputs

NODES = 400


@vyre.kernel(workgroup=64)
def propagate_labels(
    src: In[u32], dst: In[u32], labels: In[u32], new_labels: InOut[u32], changed: Annotated[Out[u32], (1,)]
) -> None:
    """Each edge lowers the labels of its ends, and sets ``changed`` if they differed."""
    edge = vyre.global_id()
    if edge < len(src):
        a, b = src[edge], dst[edge]
        new_labels.atomic_min(a, labels[b])
        new_labels.atomic_min(b, labels[a])
        if labels[a] != labels[b]:
            changed[0] = 1


def propagate_labels_by_builder() -> Program:
    """Builds the same program with a ``ProgramBuilder``."""
    with ProgramBuilder("propagate_labels", workgroup=64) as p:
        src = p.input("src", u32)
        dst = p.input("dst", u32)
        labels = p.input("labels", u32)
        new_labels = p.inout("new_labels", u32)
        changed = p.output("changed", u32, 1)
        edge = p.let(p.global_id(), "edge")
        with p.if_(edge < src.length):
            a = p.let(src[edge], "a")
            b = p.let(dst[edge], "b")
            new_labels.atomic_min(a, labels[b])
            new_labels.atomic_min(b, labels[a])
            with p.if_(labels[a] != labels[b]):
                changed[0] = 1
    return p.build()


def components(session: Dispatcher, program: Program, nodes: int, src: Words, dst: Words) -> Words:
    """Returns the least node number of every node's component; edges are undirected."""
    labels = np.arange(nodes, dtype=np.uint32)
    for _ in range(nodes):
        result = session.dispatch(program, {"src": src, "dst": dst, "labels": labels, "new_labels": labels})
        if not result["changed"][0]:
            break
        labels = result["new_labels"].copy()
    return labels


def case() -> Case:
    """Returns random edges, and the labels from union-find."""
    edges = np.array(random_edges(35, NODES, 330), np.uint32)
    inputs = {"src": edges[:, 0].copy(), "dst": edges[:, 1].copy()}
    return Case(inputs, {"labels": plain_components(NODES, edges.tolist())})


def run(session: Dispatcher, program: Program, case: Case) -> Outputs:
    """Finds the components and returns the labels."""
    src, dst = np.asarray(case.inputs["src"]), np.asarray(case.inputs["dst"])
    return {"labels": components(session, program, NODES, src, dst)}


EXAMPLE = Example(
    "components",
    "connected components by label propagation",
    propagate_labels_by_builder,
    case,
    "union-find",
    run,
    kernel=propagate_labels,
)
