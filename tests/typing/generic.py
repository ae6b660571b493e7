"""Kernels that are generic over the type of elements: the type parameter lists the types for which the body checks.

mypy and pyright, both strict, find nothing in this file (tests/unit/frontend/test_typing.py).
"""

from __future__ import annotations

from typing import Annotated, TypeVar

import numpy as np

import vyre
from vyre import In, InOut, Out, Static, f32, f64, i32, u32, u64

Real = TypeVar("Real", f32, f64)
Whole = TypeVar("Whole", u32, i32, u64)


@vyre.function
def doubled(x: Real) -> Real:
    return x + x


@vyre.kernel
def scaled(k: Real, x: InOut[Real]) -> None:
    i = vyre.global_id()
    x[i] = x[i] * k + 1
    x[i] += doubled(k)


@vyre.kernel
def summed(x: In[Real], y: Annotated[Out[Real], 4], n: Static[int]) -> None:
    acc = 0.0
    for k in range(n):
        acc += x[k] * x[k]
    y[vyre.global_id()] = acc + x.dtype(1)


@vyre.kernel
def counted(x: InOut[Whole], limit: Whole) -> None:
    i = vyre.global_id()
    if x[i] < limit:
        x[i] += 1


@vyre.kernel
def largest(x: In[Whole], found: InOut[Whole]) -> None:
    found.atomic_max(0, x[vyre.global_id()])


SINGLE = scaled.specialize(Real=f32)
DOUBLE = scaled.specialize(Real=np.float64)
LARGEST = largest.specialize(Whole=u64)
SIXTEEN = summed.specialize(Real=f64, n=16)
UNSIGNED = counted.specialize(Whole=u32)
