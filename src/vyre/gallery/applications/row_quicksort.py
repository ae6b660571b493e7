"""Quicksort of short rows: every lane sorts one row in private memory, with a private stack of the parts to sort."""

from __future__ import annotations

import numpy as np

import vyre
from vyre import InOut, i32, u32
from vyre.gallery.example import Case, Example, random_u32

WIDTH = 32
ROWS = 96


@vyre.kernel(workgroup=32)
def row_quicksort(rows: InOut[u32]) -> None:
    """The rows of ``WIDTH`` elements of ``rows`` are sorted in ascending order in place."""
    row = vyre.private_array(u32, WIDTH)
    # The shorter part is sorted first, so that at most log2(WIDTH) parts wait.
    first_of = vyre.private_array(u32, 8)
    last_of = vyre.private_array(u32, 8)
    base = vyre.global_id() * WIDTH
    if base >= len(rows):
        return
    for k in range(WIDTH):
        row[k] = rows[base + k]
    first_of[0], last_of[0] = 0, WIDTH - 1
    waiting = 1
    while waiting > 0:
        waiting -= 1
        first, last = i32(first_of[waiting]), i32(last_of[waiting])
        while first < last:
            pivot = row[(first + last) >> 1]
            i, j = first, last
            while i <= j:
                while row[i] < pivot:
                    i += 1
                while row[j] > pivot:
                    j -= 1
                if i <= j:
                    row[i], row[j] = row[j], row[i]
                    i += 1
                    j -= 1
            # What is left are first..j and i..last; the longer one waits.
            if j - first > last - i:
                first_of[waiting], last_of[waiting] = u32(first), u32(j)
                first = i
            else:
                first_of[waiting], last_of[waiting] = u32(i), u32(last)
                last = j
            waiting += 1
    for k in range(WIDTH):
        rows[base + k] = row[k]


def case() -> Case:
    """Returns random rows, many of them with equal elements, and the same rows sorted by NumPy."""
    rows = random_u32(53, ROWS * WIDTH).reshape(ROWS, WIDTH)
    rows[::3] >>= 28
    return Case({"rows": rows.reshape(-1)}, {"rows": np.sort(rows, axis=1).reshape(-1)})


EXAMPLE = Example("row-quicksort", "quicksort of rows in private memory", row_quicksort, case, "NumPy")
