"""Transpose of 24 x 16 through tiles whose pitch of nine words avoids bank conflicts."""

from __future__ import annotations

import vyre
from vyre import DispatchConfig, In, Out, Program, ProgramBuilder, u32
from vyre.gallery.example import Case, Example, random_u32

ROWS, COLS, TILE, PITCH = 24, 16, 8, 9
GRID = (COLS // TILE, ROWS // TILE, 1)


@vyre.kernel(workgroup=(TILE, TILE))
def transpose(src: In[u32, ROWS * COLS], out: Out[u32, ROWS * COLS]) -> None:
    """``out`` is the transpose of ``src``; each workgroup moves one tile."""
    tile = vyre.workgroup_array(u32, TILE * PITCH)
    x, y = vyre.global_id(0), vyre.global_id(1)
    if x < COLS and y < ROWS:
        tile[vyre.local_id(1) * PITCH + vyre.local_id(0)] = src[y * COLS + x]
    vyre.barrier()
    tx = vyre.group_id(1) * TILE + vyre.local_id(0)
    ty = vyre.group_id(0) * TILE + vyre.local_id(1)
    if tx < ROWS and ty < COLS:
        out[ty * ROWS + tx] = tile[vyre.local_id(0) * PITCH + vyre.local_id(1)]


def transpose_by_builder() -> Program:
    """Builds the same program with a ``ProgramBuilder``."""
    with ProgramBuilder("transpose", workgroup=(TILE, TILE)) as p:
        src = p.input("src", u32, ROWS * COLS)
        out = p.output("out", u32, ROWS * COLS)
        tile = p.workgroup("tile", u32, TILE * PITCH)
        x = p.let(p.global_id(0), "x")
        y = p.let(p.global_id(1), "y")
        lx, ly = p.local_id(0), p.local_id(1)
        with p.if_((x < COLS) & (y < ROWS)):
            tile[ly * PITCH + lx] = src[y * COLS + x]
        p.barrier()
        tx = p.let(p.group_id(1) * TILE + lx, "tx")
        ty = p.let(p.group_id(0) * TILE + ly, "ty")
        with p.if_((tx < ROWS) & (ty < COLS)):
            out[ty * ROWS + tx] = tile[lx * PITCH + ly]
    return p.build()


def case() -> Case:
    """Returns random words, and their transpose from NumPy."""
    src = random_u32(21, ROWS * COLS)
    return Case({"src": src}, {"out": src.reshape(ROWS, COLS).T.reshape(-1)}, DispatchConfig(grid=GRID))


EXAMPLE = Example("P22", "tiled transpose", transpose_by_builder, case, "NumPy", kernel=transpose)
