"""Stream compaction: the multiples of four, in order, are packed to the front by a prefix sum of their flags."""

from __future__ import annotations

import numpy as np

import vyre
from vyre import In, Out, Program, ProgramBuilder, select, u32
from vyre.gallery.example import Case, Example, random_u32


@vyre.kernel(workgroup=128)
def compaction(src: In[u32, 128], out: Out[u32, 128], count: Out[u32, (1,)]) -> None:
    """Stores the kept elements of ``src`` at the front of ``out``, and their number in ``count``."""
    a = vyre.workgroup_array(u32, 128)
    b = vyre.workgroup_array(u32, 128)
    lane = vyre.local_id()
    x = src[lane]
    keep = x & 3 == 0
    a[lane] = 1 if keep else 0
    vyre.barrier()
    for k in range(7):
        d = 1 << k
        if lane >= d:
            b[lane] = a[lane] + a[lane - d]
        else:
            b[lane] = a[lane]
        vyre.barrier()
        a[lane] = b[lane]
        vyre.barrier()
    if keep:
        out[a[lane] - 1] = x
    if lane == 127:
        count[0] = a[127]


def compaction_by_builder() -> Program:
    """Builds the same program with a ``ProgramBuilder``."""
    with ProgramBuilder("compaction", workgroup=128) as p:
        src = p.input("src", u32, 128)
        out = p.output("out", u32, 128)
        count = p.output("count", u32, 1)
        a = p.workgroup("a", u32, 128)
        b = p.workgroup("b", u32, 128)
        lane = p.let(p.local_id(), "lane")
        x = p.let(src[lane], "x")
        keep = p.let((x & 3) == 0, "keep")
        a[lane] = select(keep, 1, 0)
        p.barrier()
        with p.for_(0, 7) as k:
            d = p.let(u32(1) << k, "d")
            with p.if_(lane >= d):
                b[lane] = a[lane] + a[lane - d]
            with p.else_():
                b[lane] = a[lane]
            p.barrier()
            a[lane] = b[lane]
            p.barrier()
        with p.if_(keep):
            out[a[lane] - 1] = x
        with p.if_(lane == 127):
            count[0] = a[127]
    return p.build()


def case() -> Case:
    """Returns random words, and the answer of a list comprehension."""
    src = random_u32(20, 128)
    kept = [v for v in src.tolist() if v % 4 == 0]
    packed = kept + [0] * (128 - len(kept))
    return Case({"src": src}, {"out": np.array(packed, np.uint32), "count": np.array([len(kept)], np.uint32)})


EXAMPLE = Example(
    "P21", "order-preserving compaction", compaction_by_builder, case, "a list comprehension", kernel=compaction
)
