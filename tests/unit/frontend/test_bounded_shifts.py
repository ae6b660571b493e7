"""A shift needs no guard where the loops around it bound its count, and keeps Python's meaning where they do not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import vyre
from vyre import In, InOut, Kernel, u32


@vyre.kernel
def by_loop(x: In[u32], y: InOut[u32]) -> None:
    for k in range(32):
        y[k] = 1 << k


@vyre.kernel
def by_sum_of_loops(x: In[u32], y: InOut[u32]) -> None:
    for k in range(7, -1, -1):
        for b in range(4):
            y[k * 4 + b] = u32(1 << b * 8 + k)


@vyre.kernel
def too_far(x: In[u32], y: InOut[u32]) -> None:
    for k in range(34):
        y[k] = 1 << k


@vyre.kernel
def by_data(x: In[u32], y: InOut[u32]) -> None:
    for k in range(x[0]):
        y[k] = 1 << k


@vyre.kernel
def changed_in_the_loop(x: In[u32], y: InOut[u32]) -> None:
    for k in range(4):
        at = k
        k += 40
        y[at] = 1 << k


@vyre.kernel
def signed(x: In[u32], y: InOut[u32]) -> None:
    for k in range(-2, 3):
        y[u32(k + 2)] = u32(1) << u32(k)


def shifted(count: int) -> int:
    return 1 << count if 0 <= count < 32 else 0


EXPECTED: list[tuple[Kernel[...], bool, list[int]]] = [
    (by_loop, False, [shifted(k) for k in range(32)]),
    (by_sum_of_loops, False, [shifted(b * 8 + k) for k in range(8) for b in range(4)]),
    (too_far, True, [shifted(k) for k in range(34)]),
    (by_data, True, [shifted(k) for k in range(34)]),
    (changed_in_the_loop, True, [0] * 4),
    (signed, True, [0, 0, 1, 2, 4]),
]


@pytest.mark.parametrize(
    ("kernel", "guarded", "expected"), [pytest.param(*row, id=row[0].__name__) for row in EXPECTED]
)
def test_the_guard_stands_where_it_is_needed(kernel: Kernel[...], guarded: bool, expected: list[int]) -> None:
    assert ("select" in kernel.program.to_text()) is guarded
    y: Any = np.zeros(len(expected), np.uint32)
    with vyre.open("reference"):
        kernel.over(1)(np.array([34], np.uint32), y)
    assert y.tolist() == expected
