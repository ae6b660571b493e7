"""Matrix product of any shape through 16 x 16 tiles in workgroup memory."""

from __future__ import annotations

import numpy as np

import vyre
from vyre import DispatchConfig, In, Out, Program, ProgramBuilder, f32, fma, u32
from vyre.gallery.example import Array, Case, Dispatcher, Example, answered_by, random_u32

TILE = 16


@vyre.kernel(workgroup=(TILE, TILE))
def tiled_matmul(rows: u32, inner: u32, cols: u32, a: In[f32], b: In[f32], c: Out[f32]) -> None:
    """C = A B with A of rows x inner, B of inner x cols, all row-major."""
    tile_a = vyre.workgroup_array(f32, TILE * TILE)
    tile_b = vyre.workgroup_array(f32, TILE * TILE)
    x, y = vyre.local_id(0), vyre.local_id(1)
    row, col = vyre.global_id(1), vyre.global_id(0)
    total = 0.0
    for first in range(0, inner, TILE):
        # Every lane takes part in both barriers; elements outside the matrices are zero.
        tile_a[y * TILE + x] = 0.0
        tile_b[y * TILE + x] = 0.0
        if row < rows and first + x < inner:
            tile_a[y * TILE + x] = a[row * inner + first + x]
        if first + y < inner and col < cols:
            tile_b[y * TILE + x] = b[(first + y) * cols + col]
        vyre.barrier()
        for k in range(TILE):
            total = vyre.fma(tile_a[y * TILE + k], tile_b[k * TILE + x], total)
        vyre.barrier()
    if row < rows and col < cols:
        c[row * cols + col] = total


def tiled_matmul_by_builder() -> Program:
    """Builds the same program with a ``ProgramBuilder``."""
    with ProgramBuilder("tiled_matmul", workgroup=(TILE, TILE)) as p:
        rows, inner, cols = (p.param(name, u32) for name in ("rows", "inner", "cols"))
        a = p.input("a", f32)
        b = p.input("b", f32)
        c = p.output("c", f32)
        tile_a = p.workgroup("tile_a", f32, TILE * TILE)
        tile_b = p.workgroup("tile_b", f32, TILE * TILE)
        x, y = p.let(p.local_id(0), "x"), p.let(p.local_id(1), "y")
        row, col = p.let(p.global_id(1), "row"), p.let(p.global_id(0), "col")
        total = p.var(0.0, "total")
        with p.for_(0, inner, TILE, name="first") as first:
            tile_a[y * TILE + x] = 0.0
            tile_b[y * TILE + x] = 0.0
            with p.if_((row < rows) & (first + x < inner)):
                tile_a[y * TILE + x] = a[row * inner + first + x]
            with p.if_((first + y < inner) & (col < cols)):
                tile_b[y * TILE + x] = b[(first + y) * cols + col]
            p.barrier()
            with p.for_(0, TILE) as k:
                total.assign(fma(tile_a[y * TILE + k], tile_b[k * TILE + x], total))
            p.barrier()
        with p.if_((row < rows) & (col < cols)):
            c[row * cols + col] = total
    return p.build()


def matmul(session: Dispatcher, program: Program, a: Array, b: Array) -> Array:
    """Returns the product of two f32 matrices."""
    (rows, inner), cols = a.shape, b.shape[1]
    config = DispatchConfig(extent=(cols, rows), output_counts={"c": rows * cols})
    inputs = {"rows": rows, "inner": inner, "cols": cols, "a": a.reshape(-1), "b": b.reshape(-1)}
    return session.dispatch(program, inputs, config)["c"]


def case() -> Case:
    """Returns random matrices of small integers, and their product from NumPy."""
    # Small integers keep every sum exact in f32, so the order of NumPy's additions does not matter.
    a = (random_u32(41, 37 * 50) >> 16).astype(np.float32).reshape(37, 50) % np.float32(16)
    b = (random_u32(42, 50 * 29) >> 16).astype(np.float32).reshape(50, 29) % np.float32(16)
    return Case({"a": a, "b": b}, {"c": a @ b})


EXAMPLE = Example(
    "tiled-matmul",
    "tiled matrix product of any shape",
    tiled_matmul,
    case,
    "NumPy",
    answered_by(matmul, "c"),
    builder=tiled_matmul_by_builder,
)
