"""Sum of each workgroup's 128 elements by a tree in workgroup memory."""

from __future__ import annotations

import numpy as np

import vyre
from vyre import In, Out, u32
from vyre.gallery.example import Case, Example, random_u32


@vyre.kernel(workgroup=128)
def tree_reduction(src: In[u32, 1000], partial: Out[u32, 8]) -> None:
    """``partial[g]`` is the sum of the elements of workgroup g."""
    s = vyre.workgroup_array(u32, 128)
    lane = vyre.local_id()
    s[lane] = src[vyre.global_id()]
    vyre.barrier()
    for k in range(7):
        stride = 64 >> k
        if lane < stride:
            s[lane] += s[lane + stride]
        vyre.barrier()
    if lane == 0:
        partial[vyre.group_id()] = s[0]


def case() -> Case:
    """Returns random words, and the sum of every 128 of them from NumPy."""
    src = random_u32(4, 1000)
    return Case({"src": src}, {"partial": np.add.reduceat(src, np.arange(0, 1000, 128), dtype=np.uint32)})


EXAMPLE = Example("P03", "tree reduction in workgroup memory", tree_reduction, case, "NumPy")
