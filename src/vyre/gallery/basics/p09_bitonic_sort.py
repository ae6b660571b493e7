"""A whole bitonic sort inside one workgroup: barriers in nested loops with uniform bounds."""

from __future__ import annotations

import numpy as np

from vyre import Program, ProgramBuilder, u32
from vyre.gallery.example import Case, Example, random_u32


def bitonic_sort() -> Program:
    """Builds the kernel: sorts 64 words in ascending order."""
    with ProgramBuilder("bitonic_sort", workgroup=64) as p:
        data = p.inout("data", u32, 64)
        s = p.workgroup("s", u32, 64)
        lane = p.let(p.local_id(), "lane")
        s[lane] = data[lane]
        p.barrier()
        with p.for_(1, 7, name="stage") as stage:
            k = p.let(u32(1) << stage, "k")
            with p.for_(0, stage, name="round") as round_number:
                j = p.let(u32(1) << ((stage - 1) - round_number), "j")
                partner = p.let(lane ^ j, "partner")
                with p.if_(partner > lane):
                    x = p.let(s[lane], "x")
                    y = p.let(s[partner], "y")
                    with p.if_((x > y) == ((lane & k) == 0)):
                        s[lane] = y
                        s[partner] = x
                p.barrier()
        data[lane] = s[lane]
    return p.build()


def case() -> Case:
    """Returns random words, and the words in the order of ``sorted()``."""
    data = random_u32(10, 64)
    return Case({"data": data}, {"data": np.array(sorted(data.tolist()), np.uint32)})


EXAMPLE = Example("P09", "bitonic sort inside one workgroup", bitonic_sort, case, "sorted()")
