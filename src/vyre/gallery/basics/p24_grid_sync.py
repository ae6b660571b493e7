"""Two phases with a barrier of the whole grid between them: the second phase reads elements that any lane wrote."""

from __future__ import annotations

import numpy as np

from vyre import Program, ProgramBuilder, u32
from vyre.gallery.example import Case, Example, random_u32

COUNT, MASK = 512, 0x5BD1E995


def two_phases() -> Program:
    """Builds the kernel: stores ``src ^ MASK`` in ``tmp``, and after the barrier ``tmp`` reversed in ``out``."""
    with ProgramBuilder("two_phases", workgroup=64) as p:
        src = p.input("src", u32, COUNT)
        tmp = p.inout("tmp", u32, COUNT)
        out = p.output("out", u32, COUNT)
        i = p.let(p.global_id(), "i")
        tmp[i] = src[i] ^ MASK
        p.grid_sync()
        out[i] = tmp[u32(COUNT - 1) - i]
    return p.build()


def case() -> Case:
    """Returns random words, and the answers from NumPy."""
    src = random_u32(23, COUNT)
    mixed = src ^ np.uint32(MASK)
    return Case({"src": src, "tmp": np.zeros(COUNT, np.uint32)}, {"tmp": mixed, "out": mixed[::-1].copy()})


EXAMPLE = Example("P24", "two phases with a grid barrier", two_phases, case, "NumPy")
