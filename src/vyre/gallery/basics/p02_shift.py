"""A shift by three without any bounds check: loads beyond the end give zero, stores beyond it vanish."""

from __future__ import annotations

import numpy as np

import vyre
from vyre import In, Out, Program, ProgramBuilder, u32
from vyre.gallery.example import Case, Example, random_u32


@vyre.kernel(workgroup=64)
def shift(src: In[u32, 70], out: Out[u32, 70]) -> None:
    """``out[i] = src[i + 3]`` without a bounds check."""
    out[vyre.global_id()] = src[vyre.global_id() + 3]


def shift_by_builder() -> Program:
    """Builds the same program with a ``ProgramBuilder``."""
    with ProgramBuilder("shift", workgroup=64) as p:
        src = p.input("src", u32, 70)
        out = p.output("out", u32, 70)
        out[p.global_id()] = src[p.global_id() + 3]
    return p.build()


def case() -> Case:
    """Returns random words, and the words shifted by NumPy."""
    src = random_u32(3, 70)
    return Case({"src": src}, {"out": np.append(src[3:], np.zeros(3, np.uint32))})


EXAMPLE = Example("P02", "unguarded shift, total loads and stores", shift_by_builder, case, "NumPy", kernel=shift)
