"""Sum of each workgroup's 128 elements by a tree in workgroup memory."""

from __future__ import annotations

import numpy as np

import vyre
from vyre import In, Out, Program, ProgramBuilder, u32
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


def tree_reduction_by_builder() -> Program:
    """Builds the same program with a ``ProgramBuilder``."""
    with ProgramBuilder("tree_reduction", workgroup=128) as p:
        src = p.input("src", u32, 1000)
        partial = p.output("partial", u32, 8)
        s = p.workgroup("s", u32, 128)
        lane = p.let(p.local_id(), "lane")
        s[lane] = src[p.global_id()]
        p.barrier()
        with p.for_(0, 7) as k:
            stride = p.let(u32(64) >> k, "stride")
            with p.if_(lane < stride):
                s[lane] = s[lane] + s[lane + stride]
            p.barrier()
        with p.if_(lane == 0):
            partial[p.group_id()] = s[0]
    return p.build()


def case() -> Case:
    """Returns random words, and the sum of every 128 of them from NumPy."""
    src = random_u32(4, 1000)
    return Case({"src": src}, {"partial": np.add.reduceat(src, np.arange(0, 1000, 128), dtype=np.uint32)})


EXAMPLE = Example(
    "P03", "tree reduction in workgroup memory", tree_reduction_by_builder, case, "NumPy", kernel=tree_reduction
)
