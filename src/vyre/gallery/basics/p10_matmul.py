"""Matrix product in tiles of 8 x 8 held in workgroup memory."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from vyre import DispatchConfig, Program, ProgramBuilder, f32, fma
from vyre.gallery.example import Case, Example, random_f32

N, TILE = 16, 8


def matmul() -> Program:
    """Builds the kernel: C = A B for 16 x 16 matrices, with one fused multiply-add per product."""
    with ProgramBuilder("matmul", workgroup=(TILE, TILE)) as p:
        a = p.input("A", f32, N * N)
        b = p.input("Bm", f32, N * N)
        c = p.output("C", f32, N * N)
        tile_a = p.workgroup("ta", f32, TILE * TILE)
        tile_b = p.workgroup("tb", f32, TILE * TILE)
        x, y = p.local_id(0), p.local_id(1)
        row = p.let(p.global_id(1), "row")
        col = p.let(p.global_id(0), "col")
        slot = p.let(y * TILE + x, "slot")
        acc = p.var(0.0, "acc")
        with p.for_(0, N // TILE, name="t") as t:
            tile_a[slot] = a[row * N + (t * TILE + x)]
            tile_b[slot] = b[(t * TILE + y) * N + col]
            p.barrier()
            with p.for_(0, TILE) as k:
                acc.assign(fma(tile_a[y * TILE + k], tile_b[k * TILE + x], acc))
            p.barrier()
        c[row * N + col] = acc
    return p.build()


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
