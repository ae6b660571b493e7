"""Softmax of rows of 64: maximum and sum by trees in workgroup memory."""

from __future__ import annotations

import math

import numpy as np

import vyre
from vyre import In, Out, f32
from vyre.gallery.example import Case, Example, random_f32


@vyre.kernel(workgroup=64)
def softmax(x: In[f32, 128], out: Out[f32, 128]) -> None:
    """Each workgroup computes the softmax of one row of 64 elements."""
    s = vyre.workgroup_array(f32, 64)
    lane = vyre.local_id()
    t = x[vyre.global_id()]
    s[lane] = t
    vyre.barrier()
    for k in range(6):
        d = 32 >> k
        if lane < d:
            s[lane] = vyre.max_(s[lane], s[lane + d])
        vyre.barrier()
    m = s[0]
    vyre.barrier()
    e = math.exp(t - m)
    s[lane] = e
    vyre.barrier()
    for k in range(6):
        d = 32 >> k
        if lane < d:
            s[lane] += s[lane + d]
        vyre.barrier()
    out[vyre.global_id()] = e / s[0]


def case() -> Case:
    """Returns random rows, and their softmax from NumPy with the same tree of additions."""
    x = random_f32(18, 128) * np.float32(4.0)
    rows = x.reshape(2, 64)
    # exp of the f32 difference in f64, rounded once: correctly rounded except for near-ties.
    e = np.exp((rows - rows.max(axis=1, keepdims=True)).astype(np.float64)).astype(np.float32)
    total = e
    while total.shape[1] > 1:  # the same tree
        half = total.shape[1] // 2
        total = total[:, :half] + total[:, half:]
    return Case({"x": x}, {"out": (e / total).reshape(-1)}, tolerance_ulp=1)


EXAMPLE = Example("P19", "row softmax", softmax, case, "NumPy")
