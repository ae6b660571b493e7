"""Two phases with a barrier of the whole grid between them: the second phase reads elements that any lane wrote."""

from __future__ import annotations

import numpy as np

import vyre
from vyre import In, InOut, Out, u32
from vyre.gallery.example import Case, Example, random_u32

COUNT, MASK = 512, 0x5BD1E995


@vyre.kernel(workgroup=64)
def two_phases(src: In[u32, COUNT], tmp: InOut[u32, COUNT], out: Out[u32, COUNT]) -> None:
    """Stores ``src ^ MASK`` in ``tmp``, and after the barrier ``tmp`` reversed in ``out``."""
    i = vyre.global_id()
    tmp[i] = src[i] ^ MASK
    vyre.grid_sync()
    out[i] = tmp[COUNT - 1 - i]


def case() -> Case:
    """Returns random words, and the answers from NumPy."""
    src = random_u32(23, COUNT)
    mixed = src ^ np.uint32(MASK)
    return Case({"src": src, "tmp": np.zeros(COUNT, np.uint32)}, {"tmp": mixed, "out": mixed[::-1].copy()})


EXAMPLE = Example("P24", "two phases with a grid barrier", two_phases, case, "NumPy")
