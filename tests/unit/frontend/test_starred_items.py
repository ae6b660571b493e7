"""``(*a, b)`` in a kernel: the items of tuples as items of another one."""

from __future__ import annotations

import numpy as np
import pytest

import vyre
from vyre import InOut, Kernel, KernelSourceError, u32

FIRST = (7, 9)


@vyre.function
def rotated(words: tuple[u32, ...]) -> tuple[u32, ...]:
    return words[1], words[2], words[0]


@vyre.kernel
def of_tuples(y: InOut[u32]) -> None:
    a = y[0], y[1], y[2]
    y[0] = 100
    y[1] = 200
    for k, word in enumerate((*FIRST, *rotated(a), *vyre.static(range(2)), len((*a, *a)))):
        y[k] = word


@vyre.function
def counted(y: InOut[u32]) -> u32:
    y[0] += 1
    return y[0] + 10


@vyre.kernel
def in_order(y: InOut[u32]) -> None:
    a = (*(y[0], y[0]), counted(y), *(y[0],))
    for k, word in enumerate(a):
        y[k] = word


@vyre.kernel
def of_an_array(y: InOut[u32]) -> None:
    a = (*y, 1)
    y[0] = a[0]


def run(kernel: Kernel[[InOut[u32]]], given: list[int]) -> list[int]:
    y = np.array(given, np.uint32)
    with vyre.open("reference"):
        kernel.over(1)(y)  # type: ignore[arg-type]
    return [int(word) for word in y]


def test_items_stand_in_their_order() -> None:
    assert run(of_tuples, [1, 2, 3, 0, 0, 0, 0, 0]) == [7, 9, 2, 3, 1, 0, 1, 6]


def test_they_are_evaluated_from_left_to_right() -> None:
    assert run(in_order, [5, 0, 0, 0]) == [5, 5, 16, 6]


def test_only_tuples_have_items() -> None:
    with pytest.raises(KernelSourceError, match="the array `y` stands where a tuple"):
        run(of_an_array, [1])
