"""The three subgroup operations: sum, ballot and shuffle over 32 lanes."""

from __future__ import annotations

import numpy as np

import vyre
from vyre import In, Out, u32
from vyre.gallery.example import Case, Example, random_u32


@vyre.kernel(workgroup=32)
def subgroups(src: In[u32, 96], sum: Out[u32, 96], vote: Out[u32, 96], swap: Out[u32, 96]) -> None:
    """Stores the sum of each subgroup, the ballot of odd elements, and the neighbour's element."""
    i = vyre.global_id()
    x = src[i]
    s = vyre.subgroup_add(x)
    m = vyre.subgroup_ballot(x & 1 == 1)
    t = vyre.subgroup_shuffle(x, vyre.local_id() ^ 1)
    sum[i] = s
    vote[i] = m
    swap[i] = t


def case() -> Case:
    """Returns random words, and the answers from NumPy."""
    src = random_u32(22, 96)
    rows = src.reshape(3, 32)
    bits = (rows & 1) << np.arange(32, dtype=np.uint32)
    return Case(
        {"src": src},
        {
            "sum": np.repeat(rows.sum(axis=1, dtype=np.uint32), 32),
            "vote": np.repeat(bits.sum(axis=1, dtype=np.uint32), 32),
            "swap": src.reshape(48, 2)[:, ::-1].reshape(-1),
        },
    )


EXAMPLE = Example("P23", "subgroup add, ballot and shuffle", subgroups, case, "NumPy")
