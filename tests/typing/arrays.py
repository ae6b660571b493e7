"""Kernels over arrays with two and three axes, over memory of a workgroup and of a lane, and with atomics.

mypy and pyright, both strict, find nothing in this file (tests/unit/frontend/test_typing.py).
"""

from __future__ import annotations

from typing import Annotated, Literal

import vyre
from vyre import In, InOut, Ordering, Out, Static, f32, i32, like, u8, u32, u64

RADIUS = 1


@vyre.kernel(workgroup=(16, 16))
def blur(x: In[f32, Literal[2]], y: Annotated[Out[f32, Literal[2]], like("x")]) -> None:
    row, column = vyre.global_id(1), vyre.global_id(0)
    acc = 0.0
    for dy in vyre.static(range(-RADIUS, RADIUS + 1)):
        for dx in vyre.static(range(-RADIUS, RADIUS + 1)):
            acc += x[i32(row) + dy, i32(column) + dx]
    height, width = y.shape
    if row < height and column < width:
        y[row, column] = acc / 9


@vyre.kernel
def planes(x: InOut[u8, Literal[3]], n: Static[int]) -> None:
    i = vyre.global_id()
    for z in range(len(x)):
        for k in range(n):
            x[z, k, i] += 1


@vyre.kernel(workgroup=64)
def tiled(x: In[f32], y: Out[f32, Literal["len(x) // 64"]], z: Annotated[Out[f32], 8]) -> None:
    tile = vyre.workgroup_array(f32, 64)
    lane = vyre.local_id()
    tile[lane] = x[vyre.global_id()]
    vyre.barrier()
    width = 32
    while width > 0:
        if lane < width:
            tile[lane] += tile[lane + width]
        vyre.barrier()
        width //= 2
    if lane == 0:
        y[vyre.group_id()] = tile[0]
        z[vyre.group_id() % 8] = tile[0] / f32(vyre.num_groups())


@vyre.kernel(workgroup=(8, 8))
def transposed(x: In[f32, Literal[2]], y: Out[f32, Literal["x.shape[1], x.shape[0]"]]) -> None:
    row, column = vyre.global_id(1), vyre.global_id(0)
    y[row, column] = x[column, row]


@vyre.kernel
def spread(a: Annotated[In[f32], 64], b: Out[f32, Literal[2], Literal["8, 8"]]) -> None:
    for k in range(8):
        b[vyre.global_id(), k] += a[k]


@vyre.kernel
def interpreter(code: In[u32], out: InOut[u32]) -> None:
    stack = vyre.private_array(u32, 16)
    grid = vyre.private_array(u32, (4, 4))
    top = 0
    for at in range(len(code)):
        match code[at]:
            case 0:
                stack[top] = vyre.global_id()
                top += 1
            case 1:
                top -= 1
                stack[top - 1] += stack[top]
            case _:
                vyre.trap(at, "unknown instruction")
    grid[1, 2] = top
    out[vyre.global_id()] = stack[0] + grid[1, 2]


@vyre.kernel
def histogram(x: In[u8], bins: InOut[u32]) -> None:
    local = vyre.workgroup_array(u32, 256)
    i = vyre.global_id()
    if i < len(x):
        local.atomic_add(x[i], 1, ordering=Ordering.RELAXED)
    vyre.barrier()
    bins.atomic_add(vyre.local_id(), local[vyre.local_id()])


@vyre.kernel
def atomics(a: InOut[u32], b: InOut[i32], c: InOut[u64], d: InOut[u32, Literal[2]]) -> None:
    i = vyre.global_id()
    old = a.atomic_add(i, 1) + a.atomic_or(0, 4) + a.atomic_and(1, 3) + a.atomic_xor(2, i)
    low = b.atomic_min(0, i32(i)) - b.atomic_max(1, -1)
    c.atomic_add(3, c.atomic_exchange(0, 5) + c.atomic_fetch_nand(1, u64(i)))
    if a.atomic_compare_exchange(3, 0, i) == 0 and low < 3:
        d.atomic_add((i, 0), old)


@vyre.kernel
def subgroups(x: InOut[f32], n: InOut[u32]) -> None:
    i = vyre.global_id()
    total = vyre.subgroup_add(x[i])
    votes = vyre.popcount(vyre.subgroup_ballot(x[i] > 0.0))
    x[i] = vyre.subgroup_shuffle(total, 0)
    n[i] = votes * vyre.subgroup_size() + vyre.subgroup_lane()
