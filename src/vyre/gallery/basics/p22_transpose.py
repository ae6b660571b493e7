"""Transpose of 24 x 16 through tiles whose pitch of nine words avoids bank conflicts."""

from __future__ import annotations

import vyre
from vyre import DispatchConfig, In, Out, u32
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


def case() -> Case:
    """Returns random words, and their transpose from NumPy."""
    src = random_u32(21, ROWS * COLS)
    return Case({"src": src}, {"out": src.reshape(ROWS, COLS).T.reshape(-1)}, DispatchConfig(grid=GRID))


EXAMPLE = Example("P22", "tiled transpose", transpose, case, "NumPy")
