"""Bits set in each word, and their total by an atomic."""

from __future__ import annotations

import numpy as np

import vyre
from vyre import In, InOut, Out, u32
from vyre.gallery.example import Case, Example, random_u32


@vyre.kernel(workgroup=64)
def count_bits(src: In[u32, 500], out: Out[u32, 500], total: InOut[u32, (1,)]) -> None:
    """``out[i]`` is the number of bits set in ``src[i]``, and ``total`` grows by their sum."""
    i = vyre.global_id()
    if i < len(src):
        c = vyre.popcount(src[i])
        out[i] = c
        total.atomic_add(0, c)


def case() -> Case:
    """Returns random words, and the counts from ``int.bit_count``."""
    src = random_u32(14, 500)
    counts = np.array([word.bit_count() for word in src.tolist()], np.uint32)
    return Case(
        {"src": src, "total": np.array([7], np.uint32)},
        {"out": counts, "total": np.array([7 + counts.sum()], np.uint32)},
    )


EXAMPLE = Example("P12", "population count and atomic total", count_bits, case, "int.bit_count")
