"""Bits set in each word, and their total by an atomic."""

from __future__ import annotations

import numpy as np

from vyre import Program, ProgramBuilder, popcount, u32
from vyre.gallery.example import Case, Example, random_u32


def count_bits() -> Program:
    """Builds the kernel: ``out[i]`` is the number of bits set in ``src[i]``, and ``total`` grows by their sum."""
    with ProgramBuilder("count_bits", workgroup=64) as p:
        src = p.input("src", u32, 500)
        out = p.output("out", u32, 500)
        total = p.inout("total", u32, 1)
        i = p.let(p.global_id(), "i")
        with p.if_(i < src.length):
            c = p.let(popcount(src[i]), "c")
            out[i] = c
            total.atomic_add(0, c)
    return p.build()


def case() -> Case:
    """Returns random words, and the counts from ``int.bit_count``."""
    src = random_u32(14, 500)
    counts = np.array([word.bit_count() for word in src.tolist()], np.uint32)
    return Case(
        {"src": src, "total": np.array([7], np.uint32)},
        {"out": counts, "total": np.array([7 + counts.sum()], np.uint32)},
    )


EXAMPLE = Example("P12", "population count and atomic total", count_bits, case, "int.bit_count")
