"""Transpose of 24 x 16 through tiles whose pitch of nine words avoids bank conflicts."""

from __future__ import annotations

from vyre import DispatchConfig, Program, ProgramBuilder, u32
from vyre.gallery.example import Case, Example, random_u32

ROWS, COLS, TILE, PITCH = 24, 16, 8, 9
GRID = (COLS // TILE, ROWS // TILE, 1)


def transpose() -> Program:
    """Builds the kernel: ``out`` is the transpose of ``src``; each workgroup moves one tile."""
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


EXAMPLE = Example("P22", "tiled transpose", transpose, case, "NumPy")
