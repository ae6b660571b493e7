"""Inclusive prefix sum of one workgroup, doubling the distance each round (Hillis and Steele)."""

from __future__ import annotations

import numpy as np

import vyre
from vyre import In, Out, u32
from vyre.gallery.example import Case, Example, random_u32


@vyre.kernel(workgroup=256)
def scan(data: In[u32, 256], out: Out[u32, 256]) -> None:
    """``out[k]`` is the sum of ``data[0]`` to ``data[k]``."""
    a = vyre.workgroup_array(u32, 256)
    b = vyre.workgroup_array(u32, 256)
    lane = vyre.local_id()
    a[lane] = data[lane]
    vyre.barrier()
    for k in range(8):
        d = 1 << k
        if lane >= d:
            b[lane] = a[lane] + a[lane - d]
        else:
            b[lane] = a[lane]
        vyre.barrier()
        a[lane] = b[lane]
        vyre.barrier()
    out[lane] = a[lane]


def case() -> Case:
    """Returns random words, and their cumulative sum from NumPy."""
    data = random_u32(6, 256)
    return Case({"data": data}, {"out": np.cumsum(data, dtype=np.uint32)})


EXAMPLE = Example("P05", "prefix sum in one workgroup", scan, case, "NumPy")
