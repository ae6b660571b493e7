"""Sparse matrix times vector in compressed sparse rows (CSR): one lane per row, products added in row order."""

from __future__ import annotations

import numpy as np

import vyre
from vyre import In, Out, f32, like, u32
from vyre.gallery.applications.graphs import compressed_rows, random_edges
from vyre.gallery.example import Case, Example, random_f32, random_u32

ROWS = 300


@vyre.kernel(workgroup=64)
def spmv(row_ptr: In[u32], col: In[u32], values: In[f32], x: In[f32], y: Out[f32, like("x")]) -> None:
    """Each lane computes one element of the product."""
    row = vyre.global_id()
    if row < len(y):
        total = 0.0
        for k in range(row_ptr[row], row_ptr[row + 1]):
            total += values[k] * x[col[k]]
        y[row] = total


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
