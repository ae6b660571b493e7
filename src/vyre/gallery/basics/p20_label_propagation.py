"""One round of connected components: every edge lowers the labels of both of its ends."""

from __future__ import annotations

import numpy as np

from vyre import Program, ProgramBuilder, u32
from vyre.gallery.example import Case, Example, random_u32

EDGES, NODES = 30, 40


def label_propagation() -> Program:
    """Builds the kernel: each edge lowers the labels of both of its ends to the smaller one."""
    with ProgramBuilder("label_propagation", workgroup=32) as p:
        src = p.input("src", u32, EDGES)
        dst = p.input("dst", u32, EDGES)
        label = p.input("label", u32, NODES)
        new_label = p.inout("new_label", u32, NODES)
        e = p.let(p.global_id(), "e")
        with p.if_(e < src.length):
            a = p.let(src[e], "a")
            b = p.let(dst[e], "b")
            new_label.atomic_min(b, label[a])
            new_label.atomic_min(a, label[b])
    return p.build()


def case() -> Case:
    """Returns random edges, and the labels from a Python loop."""
    ends = ((random_u32(19, 200) >> 8) % NODES)[: 2 * EDGES].astype(np.uint32)
    src, dst = ends[0::2].copy(), ends[1::2].copy()
    labels = np.arange(NODES, dtype=np.uint32)
    expected = labels.copy()
    for a, b in zip(src.tolist(), dst.tolist(), strict=True):
        expected[b] = min(expected[b], a)
        expected[a] = min(expected[a], b)
    return Case({"src": src, "dst": dst, "label": labels, "new_label": labels}, {"new_label": expected})


EXAMPLE = Example("P20", "label propagation with atomic minimum", label_propagation, case, "a Python loop")
