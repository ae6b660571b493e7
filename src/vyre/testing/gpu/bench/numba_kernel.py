"""The kernel for Numba, which compiles a function with its module's globals."""

# Numba's decorators and intrinsics have no types.
# mypy: ignore-errors

from __future__ import annotations

from numba import cuda


@cuda.jit(fastmath=False)
def saxpy(x, y, a, n):
    i = cuda.grid(1)
    if i < n:
        y[i] = a * x[i] + y[i]
