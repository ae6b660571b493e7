"""Matrix product in binary16: every product and every sum is rounded to f16, as half-precision hardware does."""

from __future__ import annotations

import numpy as np

import vyre
from vyre import DispatchConfig, In, Out, Program, f16
from vyre.gallery.example import Array, Case, Dispatcher, Example, answered_by, random_u32


@vyre.kernel(workgroup=(16, 4))
def half_matmul(a: In[f16, 2], b: In[f16, 2], c: Out[f16, 2]) -> None:
    """C = A B with A of rows x inner, B of inner x columns, all f16."""
    x, y = vyre.global_id(0), vyre.global_id(1)
    total = 0.0
    for k in range(a.shape[1]):
        # One f32 operator on f16 values, rounded to f16, is the f16 operator.
        product = vyre.narrow(f16, a[y, k] * b[k, x])
        total = vyre.narrow(f16, total + product)
    c[y, x] = total


def matmul(session: Dispatcher, program: Program, a: Array, b: Array) -> Array:
    """Returns the product of two f16 matrices."""
    (rows, inner), columns = a.shape, b.shape[1]
    config = DispatchConfig(extent=(columns, rows), output_counts={"c": rows * columns})
    return session.dispatch(
        program, {"a": a, "b": b, "a_width": inner, "b_width": columns, "c_width": columns}, config
    )["c"]


def matmul_by_numpy(a: Array, b: Array) -> Array:
    """Returns the same product: a product and a sum of two f16 are exact in binary64 and then rounded once."""
    total = np.zeros((a.shape[0], b.shape[1]), np.float16)
    for k in range(a.shape[1]):
        exact = np.outer(a[:, k].astype(np.float64), b[k].astype(np.float64))
        product = exact.astype(np.float16).astype(np.float64)
        total = (total.astype(np.float64) + product).astype(np.float16)
    return total


def case() -> Case:
    """Returns random matrices, with subnormal elements among others, and their product from NumPy."""
    bits = random_u32(59, 19 * 40 + 40 * 23) >> 16
    halves = (bits & 0x8000 | (bits & 0x7FFF) % 0x4400).astype(np.uint16).view(np.float16)
    a, b = halves[: 19 * 40].reshape(19, 40), halves[19 * 40 :].reshape(40, 23)
    return Case({"a": a, "b": b}, {"c": matmul_by_numpy(a, b)})


EXAMPLE = Example(
    "half-matmul", "matrix product in binary16", half_matmul, case, "NumPy in binary64", answered_by(matmul, "c")
)
