"""The kernel for Numba, which compiles a function with its module's globals."""

# Numba's decorators and intrinsics have no types.
# mypy: ignore-errors

from __future__ import annotations

from typing import Any

from numba import cuda


@cuda.jit(fastmath=False)
def saxpy(x: Any, y: Any, a: Any, n: Any) -> None:
    i = cuda.grid(1)
    if i < n:
        y[i] = a * x[i] + y[i]
