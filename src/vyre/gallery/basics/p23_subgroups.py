"""The three subgroup operations: sum, ballot and shuffle over 32 lanes."""

from __future__ import annotations

import numpy as np

from vyre import Program, ProgramBuilder, subgroup_add, subgroup_ballot, subgroup_shuffle, u32
from vyre.gallery.example import Case, Example, random_u32


def subgroups() -> Program:
    """Builds the kernel: stores the sum of each subgroup, the ballot of odd elements, and the neighbour's element."""
    with ProgramBuilder("subgroups", workgroup=32) as p:
        src = p.input("src", u32, 96)
        total = p.output("sum", u32, 96)
        vote = p.output("vote", u32, 96)
        swap = p.output("swap", u32, 96)
        i = p.let(p.global_id(), "i")
        x = p.let(src[i], "x")
        s = p.let(subgroup_add(x), "s")
        m = p.let(subgroup_ballot((x & 1) == 1), "m")
        t = p.let(subgroup_shuffle(x, p.local_id() ^ 1), "t")
        total[i] = s
        vote[i] = m
        swap[i] = t
    return p.build()


def case() -> Case:
    """Returns random words, and the answers from NumPy."""
    src = random_u32(22, 96)
    rows = src.reshape(3, 32)
    bits = (rows & 1) << np.arange(32, dtype=np.uint32)
    return Case(
        {"src": src},
        {
            "sum": np.repeat(rows.sum(axis=1, dtype=np.uint32), 32),
            "vote": np.repeat(bits.sum(axis=1, dtype=np.uint32), 32),
            "swap": src.reshape(48, 2)[:, ::-1].reshape(-1),
        },
    )


EXAMPLE = Example("P23", "subgroup add, ballot and shuffle", subgroups, case, "NumPy")
