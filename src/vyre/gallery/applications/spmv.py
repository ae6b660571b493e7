"""Sparse matrix times vector in compressed sparse rows (CSR): one lane per row, products added in row order."""

from __future__ import annotations

import numpy as np

from vyre import Program, ProgramBuilder, f32, u32
from vyre.gallery.applications.graphs import compressed_rows, random_edges
from vyre.gallery.example import Case, Example, random_f32, random_u32

ROWS = 300


def spmv() -> Program:
    """Builds the kernel: each lane computes one element of the product."""
    with ProgramBuilder("spmv", workgroup=64) as p:
        row_ptr = p.input("row_ptr", u32)
        col = p.input("col", u32)
        values = p.input("values", f32)
        x = p.input("x", f32)
        y = p.output("y", f32, like=x)
        row = p.global_id()
        with p.if_(row < y.length):
            total = p.var(0.0, "total")
            with p.for_(row_ptr[row], row_ptr[row + 1]) as k:
                total += values[k] * x[col[k]]
            y[row] = total
    return p.build()


def case() -> Case:
    """Returns a random sparse matrix and vector, and their product from dense NumPy."""
    edges = random_edges(36, ROWS, 2500)
    row_ptr, col = compressed_rows(ROWS, edges)
    # Small integers: every order of additions gives the same f32, so a dense product is a valid check.
    values = (random_u32(37, col.size) % 17).astype(np.float32) - np.float32(8)
    x = np.floor(random_f32(38, ROWS) * np.float32(100))
    dense = np.zeros((ROWS, ROWS))
    for (row, column), value in zip(edges, values.tolist(), strict=True):
        dense[row, column] = value
    return Case({"row_ptr": row_ptr, "col": col, "values": values, "x": x}, {"y": (dense @ x).astype(np.float32)})


EXAMPLE = Example("spmv", "sparse matrix times vector (CSR)", spmv, case, "a dense NumPy product")
