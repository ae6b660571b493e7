"""Quicksort of short rows: every lane sorts one row in private memory, with a private stack of the parts to sort."""

from __future__ import annotations

import numpy as np

from vyre import Program, ProgramBuilder, i32, u32
from vyre.gallery.example import Case, Example, random_u32

WIDTH = 32
ROWS = 96


def row_quicksort() -> Program:
    """Builds the kernel: the rows of ``WIDTH`` elements of ``rows`` are sorted in ascending order in place."""
    with ProgramBuilder("row_quicksort", workgroup=32) as p:
        rows = p.inout("rows", u32)
        row = p.array("row", u32, WIDTH)
        # The shorter part is sorted first, so that at most log2(WIDTH) parts wait.
        first_of = p.array("first_of", u32, 8)
        last_of = p.array("last_of", u32, 8)
        base = p.let(p.global_id() * WIDTH, "base")
        with p.if_(base >= rows.length):
            p.return_()
        with p.for_(0, WIDTH) as k:
            row[k] = rows[base + k]
        first_of[0] = 0
        last_of[0] = WIDTH - 1
        waiting = p.var(1, "waiting")
        with p.while_(waiting > 0):
            waiting -= 1
            first = p.var(first_of[waiting].cast(i32), "first")
            last = p.var(last_of[waiting].cast(i32), "last")
            with p.while_(first < last):
                pivot = p.let(row[(first + last) >> 1], "pivot")
                i = p.var(first, "i")
                j = p.var(last, "j")
                with p.while_(i <= j):
                    with p.while_(row[i] < pivot):
                        i += 1
                    with p.while_(row[j] > pivot):
                        j -= 1
                    with p.if_(i <= j):
                        low = p.let(row[i])
                        row[i] = row[j]
                        row[j] = low
                        i += 1
                        j -= 1
                # What is left are first..j and i..last; the longer one waits.
                with p.if_(j - first > last - i):
                    first_of[waiting] = first.cast(u32)
                    last_of[waiting] = j.cast(u32)
                    first.assign(i)
                with p.else_():
                    first_of[waiting] = i.cast(u32)
                    last_of[waiting] = last.cast(u32)
                    last.assign(j)
                waiting += 1
        with p.for_(0, WIDTH) as k:
            rows[base + k] = row[k]
    return p.build()


def case() -> Case:
    """Returns random rows, many of them with equal elements, and the same rows sorted by NumPy."""
    rows = random_u32(53, ROWS * WIDTH).reshape(ROWS, WIDTH)
    rows[::3] >>= 28
    return Case({"rows": rows.reshape(-1)}, {"rows": np.sort(rows, axis=1).reshape(-1)})


EXAMPLE = Example("row-quicksort", "quicksort of rows in private memory", row_quicksort, case, "NumPy")
