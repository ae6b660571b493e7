"""One round of connected components: every edge lowers the labels of both of its ends."""

from __future__ import annotations

import numpy as np

import vyre
from vyre import In, InOut, u32
from vyre.gallery.example import Case, Example, random_u32

EDGES, NODES = 30, 40


@vyre.kernel(workgroup=32)
def label_propagation(
    src: In[u32, EDGES], dst: In[u32, EDGES], label: In[u32, NODES], new_label: InOut[u32, NODES]
) -> None:
    """Each edge lowers the labels of both of its ends to the smaller one."""
    e = vyre.global_id()
    if e < len(src):
        a, b = src[e], dst[e]
        new_label.atomic_min(b, label[a])
        new_label.atomic_min(a, label[b])


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
