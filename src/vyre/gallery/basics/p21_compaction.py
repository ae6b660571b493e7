"""Stream compaction: the multiples of four, in order, are packed to the front by a prefix sum of their flags."""

from __future__ import annotations

import numpy as np

import vyre
from vyre import In, Out, u32
from vyre.gallery.example import Case, Example, random_u32


@vyre.kernel(workgroup=128)
def compaction(src: In[u32, 128], out: Out[u32, 128], count: Out[u32, (1,)]) -> None:
    """Stores the kept elements of ``src`` at the front of ``out``, and their number in ``count``."""
    a = vyre.workgroup_array(u32, 128)
    b = vyre.workgroup_array(u32, 128)
    lane = vyre.local_id()
    x = src[lane]
    keep = x & 3 == 0
    a[lane] = 1 if keep else 0
    vyre.barrier()
    for k in range(7):
        d = 1 << k
        if lane >= d:
            b[lane] = a[lane] + a[lane - d]
        else:
            b[lane] = a[lane]
        vyre.barrier()
        a[lane] = b[lane]
        vyre.barrier()
    if keep:
        out[a[lane] - 1] = x
    if lane == 127:
        count[0] = a[127]


def case() -> Case:
    """Returns random words, and the answer of a list comprehension."""
    src = random_u32(20, 128)
    kept = [v for v in src.tolist() if v % 4 == 0]
    packed = kept + [0] * (128 - len(kept))
    return Case({"src": src}, {"out": np.array(packed, np.uint32), "count": np.array([len(kept)], np.uint32)})


EXAMPLE = Example("P21", "order-preserving compaction", compaction, case, "a list comprehension")
