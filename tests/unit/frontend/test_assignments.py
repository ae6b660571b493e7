"""Assignments give names and elements the values that Python gives them."""

from __future__ import annotations

import numpy as np
import pytest

import vyre
from support.both_ways import assert_agrees
from vyre import In, InOut, KernelSourceError, f32, i32, u32

X = np.arange(-8, 8, dtype=np.int32)
Y = np.arange(16, dtype=np.int32) * 5 - 30
F = np.linspace(-2, 2, 16, dtype=np.float32)


def test_swaps_evaluate_both_sides_first() -> None:
    @vyre.kernel
    def k(x: In[i32], y: InOut[i32]) -> None:
        i = vyre.global_id()
        a, b = x[i], y[i]
        a, b = b, a
        (a, b), c = (a + b, a - b), a
        y[i] = a * 100 + b * 10 + c

    assert_agrees(k, X, Y, lanes=16)


def test_elements_are_swapped() -> None:
    @vyre.kernel
    def k(y: InOut[i32]) -> None:
        i, j = 2, 5
        y[i], y[j] = y[j], y[i]
        i, y[i] = 7, 1000
        y[i], i = i32(y[i]) * 2, i + 1
        y[i] = -1

    assert_agrees(k, Y)


def test_chained_assignment_evaluates_once_and_from_the_left() -> None:
    @vyre.kernel
    def k(x: In[i32], y: InOut[i32]) -> None:
        j = 2
        a = b = y[3] = x[1] + y[2]
        y[2] = 0
        j = y[j + 1] = 4
        y[0] = a * 2 + b + i32(j)

    # In Python `j` gets its value before the index of `y` is evaluated, so that y[5] is stored to.
    assert_agrees(k, X, Y)


def test_augmented_assignment_of_names_and_elements() -> None:
    @vyre.kernel
    def k(x: In[i32], y: InOut[i32]) -> None:
        i = vyre.global_id()
        v = x[i]
        v += 3
        v *= v
        v -= x[i] * 2
        v //= 3
        v %= 7
        v <<= 2
        v |= 1
        v ^= 5
        v &= 0xFF
        v >>= 1
        v **= 2
        y[i] += v
        y[i] -= y[i] // 2
        y[i] *= 3

    assert_agrees(k, X, Y, lanes=16)


def test_the_index_of_an_augmented_element_is_evaluated_once() -> None:
    @vyre.function
    def following(y, j):  # type: ignore[no-untyped-def]
        y[10] += 1
        return j + y[10]

    @vyre.kernel
    def k(y: InOut[i32]) -> None:
        y[10] = 0
        y[following(y, 2)] += following(y, 100)
        y[10] += following(y, 7)

    assert_agrees(k, Y)


def test_arguments_are_evaluated_from_the_left() -> None:
    @vyre.function
    def counted(y):  # type: ignore[no-untyped-def]
        y[0] += 1
        return y[0]

    @vyre.kernel
    def k(y: InOut[i32]) -> None:
        y[0] = 0
        y[1] = y[0] + counted(y) * 10 + y[0] * 100
        t = (counted(y), y[0], counted(y))
        y[2] = t[0] + t[1] * 10 + t[2] * 100
        y[counted(y)] = counted(y)
        y[5] = max(y[0], counted(y)) * 10 + min(counted(y), y[0])
        y[6] = -y[0] * ((y[0] < counted(y) < 100 and 5) or 1) if y[0] else 7

    with pytest.raises(KernelSourceError):
        k.program  # noqa: B018

    @vyre.kernel
    def m(y: InOut[i32]) -> None:
        y[0] = 0
        y[1] = y[0] + counted(y) * 10 + y[0] * 100
        t = (counted(y), y[0], counted(y))
        y[2] = t[0] + t[1] * 10 + t[2] * 100
        y[counted(y)] = counted(y)
        y[5] = max(y[0], counted(y)) * 10 + min(counted(y), y[0])
        if y[0] < counted(y) < 100:
            y[6] = y[0]

    assert_agrees(m, Y)


def test_names_keep_the_values_they_were_given() -> None:
    @vyre.kernel
    def k(x: In[i32], y: InOut[i32]) -> None:
        i = vyre.global_id()
        old = y[i]
        pair = (y[i], (x[i], y[i]))
        y[i] = 5
        n = x[i]
        m = n
        n += 1
        both = (n, m)
        n += 1
        y[i] = old + pair[0] * 3 + pair[1][1] * 7 + m + both[0] * 11 + n

    assert_agrees(k, X, Y, lanes=16)


def test_a_variable_takes_its_type_from_its_uses() -> None:
    @vyre.kernel
    def k(x: In[f32], n: In[i32], y: InOut[f32]) -> None:
        i = vyre.global_id()
        total = 0
        count = 0
        half = 0.5
        lowest = 0
        for j in range(len(x)):
            total += x[j]
            count += 1
            half = half * 2
            lowest = min(lowest, n[j])
        y[i] = total + f32(count) + half + f32(lowest)

    text = k.program.to_text()
    assert "let total = 0.0f\n" in text and "let count = 0u\n" in text and "let lowest = 0i\n" in text
    assert_agrees(k, F, X, np.zeros(16, np.float32), lanes=16)


def test_two_unknown_numbers_get_one_type() -> None:
    @vyre.kernel
    def k(x: In[i32], y: InOut[i32]) -> None:
        i = vyre.global_id()
        a, b = 0, 1
        c = 7 if x[i] > 0 else 3
        for j in range(6):
            a, b = b, a + b
        b = b + c
        y[i] = x[i] - b

    assert_agrees(k, X, Y, lanes=16)


def test_a_variable_that_nothing_types_is_u32() -> None:
    @vyre.kernel
    def k(y: InOut[u32]) -> None:
        n = 0
        while n < 3:
            n += 1
        y[n] = n

    assert "let n = 0u\n" in k.program.to_text()
    assert_agrees(k, np.zeros(5, np.uint32))


def test_annotations_give_types() -> None:
    @vyre.kernel
    def k(x: In[i32], y: InOut[i32]) -> None:
        i = vyre.global_id()
        best: i32 = -1
        for j in range(len(x)):
            if x[j] > x[i]:
                best = i32(j)
                break
        y[i] = best

    assert_agrees(k, X, Y, lanes=16)


def test_a_parameter_may_be_assigned() -> None:
    @vyre.kernel
    def k(n: i32, y: InOut[i32]) -> None:
        i = vyre.global_id()
        while n > 10:
            n -= 3
        n, m = n * 2, n
        y[i] = n * 100 + m

    assert_agrees(k, np.int32(50), Y, lanes=16)


def test_private_and_workgroup_memory() -> None:
    @vyre.kernel
    def k(x: In[i32], y: InOut[i32]) -> None:
        i = vyre.global_id()
        stack = vyre.private_array(i32, 8)
        grid = vyre.private_array(i32, (2, 3))
        top = 0
        for j in range(8):
            if x[(i + j) % 16] > 0:
                stack[top] = x[(i + j) % 16]
                top += 1
        total = 0
        while top > 0:
            top -= 1
            total = total * 3 + stack[top]
        grid[1, 2] = total
        grid[0, 1] += grid[1, 2] + grid[1, 1]
        y[i] = grid[0, 1] + len(stack) + len(grid) + grid.shape[1]

    assert_agrees(k, X, Y, lanes=16)


def test_workgroup_memory_is_shared() -> None:
    @vyre.kernel(workgroup=4)
    def k(x: In[i32], y: InOut[i32]) -> None:
        tile = vyre.workgroup_array(i32, 4)
        lane = vyre.local_id()
        tile[lane] = x[vyre.global_id()]
        vyre.barrier()
        y[vyre.global_id()] = tile[3 - lane]

    y = Y.copy()
    with vyre.open("reference"):
        k.over(16)(X, y)
    assert y.tolist() == X.reshape(4, 4)[:, ::-1].reshape(-1).tolist()


def test_names_of_branches_are_apart() -> None:
    @vyre.kernel
    def k(x: In[i32], y: InOut[i32]) -> None:
        i = vyre.global_id()
        if x[i] > 0:
            t = (x[i], 2)
            y[i] = t[0] * t[1]
        else:
            t = (x[i], 3, 4)
            y[i] = t[2] - t[0]

    assert ":=" not in k.program.to_text()
    assert_agrees(k, X, Y, lanes=16)
