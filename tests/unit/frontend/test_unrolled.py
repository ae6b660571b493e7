"""Loops over what is known while a kernel is being built repeat their bodies in the program."""

from __future__ import annotations

import numpy as np
import pytest

import vyre
from support.both_ways import assert_agrees
from vyre import In, InOut, KernelSourceError, Static, i32

X = np.arange(-8, 8, dtype=np.int32)
Y = np.arange(16, dtype=np.int32) * 5 - 30
WEIGHTS = (1, 3, -2)


def test_ranges_tuples_enumerate_zip_and_reversed() -> None:
    @vyre.kernel
    def k(x: In[i32], y: InOut[i32]) -> None:
        i = vyre.global_id()
        total = x[i]
        for j in vyre.static(range(3)):
            total = total * 2 + j
        for w in WEIGHTS:
            total = total * 2 + w
        for j, w in vyre.static(enumerate(WEIGHTS, 1)):
            total += j * w
        for a, (b, c) in zip(WEIGHTS, ((1, 2), (3, 4)), strict=False):
            total = total * a + b - c
        for j in reversed(vyre.static(range(2, 5))):
            total = total * 3 - j
        for v in (x[i], total, x[0]):
            total += v
        y[i] = total + WEIGHTS[1] * len(WEIGHTS)

    program = k.program
    assert "loop" not in program.to_text() and "for " not in program.to_text()


def test_they_agree_with_python() -> None:
    @vyre.kernel
    def k(x: In[i32], y: InOut[i32]) -> None:
        i = vyre.global_id()
        total = x[i]
        for j in vyre.static(range(3)):
            total = total * 2 + j
        for w in WEIGHTS:
            total = total * 2 + w
        for j, w in vyre.static(enumerate(WEIGHTS, 1)):
            total += j * w
        for a, b in zip(WEIGHTS, (5, 6, 7)):  # noqa: B905
            total = total * a + b
        for j in reversed(vyre.static(range(2, 5))):
            total = total * 3 - j
        for v in (x[i], total, x[0]):
            total += v
        y[i] = total + WEIGHTS[1] * len(WEIGHTS)

    assert_agrees(k, X, Y, lanes=16)


def test_nested_loops_and_variables_of_bodies() -> None:
    @vyre.kernel
    def k(x: In[i32], y: InOut[i32]) -> None:
        i = vyre.global_id()
        for a in vyre.static(range(2)):
            for b in vyre.static(range(a, 3)):
                if x[i] > a + b:
                    v = x[i]
                    v += a * 10 + b
                    while v > 7:
                        step = v // 4
                        step += 1
                        v -= step
                    y[i] += v

    assert_agrees(k, X, Y, lanes=16)


def test_a_value_of_the_round_before() -> None:
    @vyre.kernel
    def k(x: In[i32], y: InOut[i32]) -> None:
        i = vyre.global_id()
        for j in vyre.static(range(4)):
            if j > 0:
                y[i] += last * j
            last = x[i] + j

    assert_agrees(k, X, Y, lanes=16)


def test_the_name_of_an_unrolled_loop_keeps_its_last_value() -> None:
    @vyre.kernel
    def k(x: In[i32], y: InOut[i32]) -> None:
        i = vyre.global_id()
        j = x[i]
        for j in WEIGHTS:
            y[i] += j
            if x[i] > 3:
                j = 50
        y[i] += j * 100

    assert_agrees(k, X, Y, lanes=16)


def test_conditions_on_the_item_leave_one_branch() -> None:
    @vyre.kernel
    def k(y: InOut[i32]) -> None:
        for j in vyre.static(range(4)):
            if j % 2 == 0:
                continue_with = j
                y[j] = continue_with
            else:
                y[j] = -1

    assert "if" not in k.program.to_text()
    assert_agrees(k, Y)


def test_a_counted_loop_in_an_unrolled_one() -> None:
    @vyre.kernel
    def k(x: In[i32], y: InOut[i32]) -> None:
        i = vyre.global_id()
        for w in WEIGHTS:
            for j in range(x[i]):
                if j == 4:
                    break
                y[i] += w * j
            for w2 in WEIGHTS:
                if w2 == w:
                    y[i] += 1

    assert_agrees(k, X, Y, lanes=16)


def test_arrays_are_items() -> None:
    @vyre.kernel
    def k(x: In[i32], y: InOut[i32]) -> None:
        i = vyre.global_id()
        for array in (x, y):
            y[i] += array[i] * 2

    assert_agrees(k, X, Y, lanes=16)


def test_static_parameters_are_numbers() -> None:
    @vyre.kernel
    def k(x: In[i32], y: InOut[i32], n: Static[int]) -> None:
        i = vyre.global_id()
        memory = vyre.private_array(i32, n)
        for j in vyre.static(range(n)):
            memory[j] = x[j] * j
        y[i] = memory[n - 1]

    assert k.specialize(n=3).digest != k.specialize(n=4).digest
    for n in (2, 5):
        assert_agrees(k, X, Y, n, lanes=16)


def test_items_that_do_not_fit_the_names() -> None:
    @vyre.kernel
    def k(y: InOut[i32]) -> None:
        for _a, _b in WEIGHTS:
            y[0] = 1

    with pytest.raises(KernelSourceError, match="the items do not fit the names of the loop"):
        k.program  # noqa: B018
