"""FNV-1a, 32 bits, of rows of bytes (Fowler, Noll and Vo)."""

from __future__ import annotations

import numpy as np

from vyre import Program, ProgramBuilder, u8, u32
from vyre.gallery.example import Case, Example, random_u32

OFFSET_BASIS, PRIME = 0x811C9DC5, 0x01000193
ROWS, LENGTH = 50, 32


def fnv1a() -> Program:
    """Builds the kernel: each lane hashes one row of bytes."""
    with ProgramBuilder("fnv1a", workgroup=32) as p:
        msg = p.input("msg", u8, ROWS * LENGTH)
        length = p.uniform("len_b", u32, 1)
        out = p.output("out", u32, ROWS)
        r = p.let(p.global_id(), "r")
        with p.if_(r < out.length):
            n = p.let(length[0], "n")
            h = p.var(OFFSET_BASIS, "h")
            with p.for_(0, n, name="pos") as pos:
                h.assign((h ^ msg[r * n + pos].cast(u32)) * PRIME)
            out[r] = h
    return p.build()


def case() -> Case:
    """Returns random rows, and their hashes from Python integers."""
    msg = (random_u32(15, ROWS * LENGTH) >> 24).astype(np.uint8)
    hashes = []
    for row in msg.reshape(ROWS, LENGTH):
        h = OFFSET_BASIS
        for byte in row.tolist():
            h = (h ^ byte) * PRIME % 2**32
        hashes.append(h)
    return Case({"msg": msg, "len_b": np.array([LENGTH], np.uint32)}, {"out": np.array(hashes, np.uint32)})


EXAMPLE = Example("P13", "FNV-1a of fixed-length rows", fnv1a, case, "Python integers")
