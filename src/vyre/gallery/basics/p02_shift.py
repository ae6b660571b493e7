"""A shift by three without any bounds check: loads beyond the end give zero, stores beyond it vanish."""

from __future__ import annotations

import numpy as np

import vyre
from vyre import In, Out, u32
from vyre.gallery.example import Case, Example, random_u32


@vyre.kernel(workgroup=64)
def shift(src: In[u32, 70], out: Out[u32, 70]) -> None:
    """``out[i] = src[i + 3]`` without a bounds check."""
    out[vyre.global_id()] = src[vyre.global_id() + 3]


def case() -> Case:
    """Returns random words, and the words shifted by NumPy."""
    src = random_u32(3, 70)
    return Case({"src": src}, {"out": np.append(src[3:], np.zeros(3, np.uint32))})


EXAMPLE = Example("P02", "unguarded shift, total loads and stores", shift, case, "NumPy")
