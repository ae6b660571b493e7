"""Matrix product in tiles of 8 x 8 held in workgroup memory."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

import vyre
from vyre import DispatchConfig, In, Out, f32
from vyre.gallery.example import Case, Example, random_f32

N, TILE = 16, 8


@vyre.kernel(workgroup=(TILE, TILE))
def matmul(A: In[f32, N * N], Bm: In[f32, N * N], C: Out[f32, N * N]) -> None:
    """C = A B for 16 x 16 matrices, with one fused multiply-add per product."""
    tile_a = vyre.workgroup_array(f32, TILE * TILE)
    tile_b = vyre.workgroup_array(f32, TILE * TILE)
    row = vyre.global_id(1)
    col = vyre.global_id(0)
    slot = vyre.local_id(1) * TILE + vyre.local_id(0)
    acc = 0.0
    for t in range(N // TILE):
        tile_a[slot] = A[row * N + (t * TILE + vyre.local_id(0))]
        tile_b[slot] = Bm[(t * TILE + vyre.local_id(1)) * N + col]
        vyre.barrier()
        for k in range(TILE):
            acc = vyre.fma(tile_a[vyre.local_id(1) * TILE + k], tile_b[k * TILE + vyre.local_id(0)], acc)
        vyre.barrier()
    C[row * N + col] = acc


def case() -> Case:
    """Returns random matrices, and their product from exact fractions, rounded after every addition."""
    a, b = random_f32(11, N * N), random_f32(12, N * N)
    left = [[Fraction(float(v)) for v in row] for row in a.reshape(N, N)]
    right = [[Fraction(float(v)) for v in col] for col in b.reshape(N, N).T]
    expected = np.empty((N, N), np.float32)
    for i, row in enumerate(left):
        for j, col in enumerate(right):
            total = np.float32(0.0)
            for u, v in zip(row, col, strict=True):
                total = np.float32(float(u * v + Fraction(float(total))))  # 47 bits: float() is exact
            expected[i, j] = total
    return Case({"A": a, "Bm": b}, {"C": expected.reshape(-1)}, DispatchConfig(grid=(2, 2, 1)))


EXAMPLE = Example("P10", "tiled 16 x 16 matrix product", matmul, case, "exact fractions")
