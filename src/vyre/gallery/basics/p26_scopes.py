"""Scopes, loop bounds read once, empty ranges, early return."""

from __future__ import annotations

import numpy as np

from vyre import Program, ProgramBuilder, u32
from vyre.gallery.example import Case, Example


def scopes() -> Program:
    """Builds the kernel: stores ``22 + i``, computed through scopes and loops; lane 3 returns early."""
    with ProgramBuilder("scopes", workgroup=8) as p:
        out = p.output("out", u32, 16)
        i = p.let(p.global_id(), "i")
        acc = p.var(0, "acc")
        hi = p.var(3, "hi")
        with p.region("outer"), p.for_(0, hi) as k:
            hi.assign(100)  # the loop has read its bound already
            acc += k + 1
            with p.block():
                t = p.let(acc, "t")
                acc.assign(t * 2)
        with p.region("second"):
            t = p.let(acc + i, "t")
            acc.assign(t)
        with p.for_(5, 5):
            acc.assign(0)
        with p.for_(9, 2):
            acc.assign(0)
        with p.if_(i == 3):
            p.return_()
        with p.if_(i < out.length):
            out[i] = acc
    return p.build()


def case() -> Case:
    """Returns the answer, computed by hand; the kernel takes no inputs."""
    expected = np.arange(22, 38, dtype=np.uint32)
    expected[3] = 0
    return Case({}, {"out": expected})


EXAMPLE = Example("P26", "regions, scopes and early return", scopes, case, "by hand")
