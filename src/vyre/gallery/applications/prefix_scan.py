"""Inclusive prefix sum of any number of elements in one program with a barrier of the whole grid.

First every workgroup scans its own elements and stores its total; after the grid barrier each adds the totals of the
workgroups before it.
"""

from __future__ import annotations

import numpy as np

import vyre
from vyre import In, Out, Program, ProgramBuilder, like, u32
from vyre.gallery.example import Case, Example, random_u32

WORKGROUP, DOUBLINGS = 256, 8


@vyre.kernel(workgroup=WORKGROUP)
def prefix_scan(data: In[u32], sums: Out[u32, like("data")], totals: Out[u32, like("data")]) -> None:
    """``sums[k]`` is the sum of ``data[0]`` to ``data[k]``; ``totals`` has one sum per workgroup, and then zeros."""
    a = vyre.workgroup_array(u32, WORKGROUP)
    b = vyre.workgroup_array(u32, WORKGROUP)
    i, lane, group = vyre.global_id(), vyre.local_id(), vyre.group_id()
    a[lane] = data[i]
    vyre.barrier()
    for doubling in range(DOUBLINGS):
        distance = 1 << doubling
        if lane >= distance:
            b[lane] = a[lane] + a[lane - distance]
        else:
            b[lane] = a[lane]
        vyre.barrier()
        a[lane] = b[lane]
        vyre.barrier()
    sums[i] = a[lane]
    if lane == WORKGROUP - 1:
        totals[group] = a[lane]
    vyre.grid_sync()
    offset = 0
    for earlier in range(group):
        offset += totals[earlier]
    sums[i] += offset


def prefix_scan_by_builder() -> Program:
    """Builds the same program with a ``ProgramBuilder``."""
    with ProgramBuilder("prefix_scan", workgroup=WORKGROUP) as p:
        data = p.input("data", u32)
        sums = p.output("sums", u32, like=data)
        totals = p.output("totals", u32, like=data)
        a = p.workgroup("a", u32, WORKGROUP)
        b = p.workgroup("b", u32, WORKGROUP)
        i, lane, group = p.let(p.global_id(), "i"), p.let(p.local_id(), "lane"), p.let(p.group_id(), "group")
        a[lane] = data[i]
        p.barrier()
        with p.for_(0, DOUBLINGS, name="doubling") as doubling:
            distance = p.let(u32(1) << doubling, "distance")
            with p.if_(lane >= distance):
                b[lane] = a[lane] + a[lane - distance]
            with p.else_():
                b[lane] = a[lane]
            p.barrier()
            a[lane] = b[lane]
            p.barrier()
        sums[i] = a[lane]
        with p.if_(lane == WORKGROUP - 1):
            totals[group] = a[lane]
        p.grid_sync()
        offset = p.var(0, "offset")
        with p.for_(0, group, name="earlier") as earlier:
            offset += totals[earlier]
        sums[i] = sums[i] + offset
    return p.build()


def case() -> Case:
    """Returns random words, and their cumulative sum from NumPy."""
    data = random_u32(39, 3000)
    totals = np.zeros(3000, np.uint32)
    per_group = np.add.reduceat(data, np.arange(0, 3000, WORKGROUP), dtype=np.uint32)
    totals[: per_group.size] = per_group
    return Case({"data": data}, {"sums": np.cumsum(data, dtype=np.uint32), "totals": totals})


EXAMPLE = Example(
    "prefix-scan",
    "prefix sum over workgroups with a grid barrier",
    prefix_scan,
    case,
    "NumPy",
    builder=prefix_scan_by_builder,
)
