"""One compare-exchange step of a bitonic sort in global memory."""

from __future__ import annotations

import numpy as np

from vyre import Program, ProgramBuilder, u32
from vyre.gallery.example import Case, Example, random_u32


def bitonic_step() -> Program:
    """Builds the kernel: each pair of elements at a given distance is put into order."""
    with ProgramBuilder("bitonic_step", workgroup=64) as p:
        data = p.inout("data", u32, 256)
        params = p.uniform("params", u32, 2)
        i = p.let(p.global_id(), "i")
        partner = p.let(i ^ params[1], "partner")
        with p.if_((partner > i) & (partner < data.length)):
            x = p.let(data[i], "x")
            y = p.let(data[partner], "y")
            up = p.let((i & params[0]) == 0, "up")
            with p.if_((x > y) == up):
                data[i] = y
                data[partner] = x
    return p.build()


def case() -> Case:
    """Returns random words, and the answer of the same step as a Python loop."""
    data = random_u32(9, 256)
    k, j = 8, 4
    expected = data.copy()
    for i in range(256):
        partner = i ^ j
        if partner > i and (data[i] > data[partner]) == (i & k == 0):
            expected[i], expected[partner] = data[partner], data[i]
    return Case({"data": data, "params": np.array([k, j], np.uint32)}, {"data": expected})


EXAMPLE = Example("P08", "one bitonic compare-exchange step", bitonic_step, case, "a Python loop")
