"""``while`` and ``for`` over a range do what Python does."""

from __future__ import annotations

import numpy as np
import pytest

import vyre
from support.both_ways import assert_agrees
from vyre import In, InOut, KernelSourceError, f32, i32, u32

X = np.arange(-8, 8, dtype=np.int32)
Y = np.full(16, -77, dtype=np.int32)


def test_while_with_break_and_continue() -> None:
    @vyre.kernel
    def k(x: In[i32], y: InOut[i32]) -> None:
        i = vyre.global_id()
        n, steps = x[i] * x[i] + 1, 0
        while n != 1:
            steps += 1
            if steps > 12:
                break
            if n % 2 == 0:
                n //= 2
                continue
            n = 3 * n + 1
        y[i] = steps * 1000 + n

    assert_agrees(k, X, Y, lanes=16)


def test_while_true_gives_its_names_at_each_break() -> None:
    @vyre.kernel
    def k(x: In[i32], y: InOut[i32]) -> None:
        i = vyre.global_id()
        n = x[i]
        while True:
            n += 3
            if n > 20:
                v = n
                break
            if n == 4:
                v = -1
                break
        y[i] = v

    assert_agrees(k, X, Y, lanes=16)


def test_a_loop_that_never_runs() -> None:
    @vyre.kernel
    def k(y: InOut[i32]) -> None:
        while False:
            y[0] = nothing  # type: ignore[name-defined]
        for j in range(0):
            y[0] = 5
        for j in range(3, -3):
            y[0] = 6
        y[1] = 1

    assert_agrees(k, Y)


@pytest.mark.parametrize("start", [-4, 0, 3])
@pytest.mark.parametrize("stop", [-5, 0, 4])
@pytest.mark.parametrize("step", [-3, -1, 1, 2])
def test_ranges_with_ends_that_are_known(start: int, stop: int, step: int) -> None:
    @vyre.kernel
    def k(y: InOut[i32]) -> None:
        n = 0
        y[0] = 99
        for j in range(start, stop, step):
            y[1] = y[1] * 10 + j
            n += 1
        y[2] = i32(n)

    assert_agrees(k, Y)


@pytest.mark.parametrize("step", [-3, -1, 1, 2, 7])
def test_ranges_with_ends_of_the_lane(step: int) -> None:
    @vyre.kernel
    def k(x: In[i32], y: InOut[i32]) -> None:
        i = vyre.global_id()
        total = 0
        for j in range(x[i], 3, step):
            total += j * 2 + 1
        for j in range(3, x[i], step):
            total += j
        y[i] = total

    assert_agrees(k, X, Y, lanes=16)


def test_a_step_of_the_lane_may_have_either_sign() -> None:
    @vyre.kernel
    def k(x: In[i32], y: InOut[i32]) -> None:
        i = vyre.global_id()
        step = x[i]
        if step == 0:
            step = 5
        total = 0
        for j in range(0, step * 3 + 1, step):
            total = total * 3 + j
        y[i] = total

    assert_agrees(k, X, Y, lanes=16)


def test_the_loop_variable_keeps_its_last_value() -> None:
    @vyre.kernel
    def k(x: In[i32], y: InOut[i32]) -> None:
        i = vyre.global_id()
        j = -5 + x[i]
        for j in range(x[i]):
            if j == 4:
                break
        for m in range(3):
            pass
        y[i] = j * 100 + i32(m)

    assert_agrees(k, X, Y, lanes=16)


def test_a_loop_variable_assigned_in_the_body_counts_on() -> None:
    @vyre.kernel
    def k(x: In[i32], y: InOut[i32]) -> None:
        i = vyre.global_id()
        total = 0
        for j in range(x[i]):
            total += j
            j *= 2
            total += j
        y[i] = total

    assert_agrees(k, X, Y, lanes=16)


def test_the_ends_of_a_range_are_read_once() -> None:
    @vyre.kernel
    def k(x: In[i32], y: InOut[i32]) -> None:
        i = vyre.global_id()
        n = 5
        n += x[i] - x[i]
        total = 0
        for j in range(n):
            n += 1
            total += j
        y[i] = total * 100 + n

    assert_agrees(k, X, Y, lanes=16)


def test_loops_share_a_name_and_nest() -> None:
    @vyre.kernel
    def k(x: In[i32], y: InOut[i32]) -> None:
        i = vyre.global_id()
        total = 0
        for j in range(3):
            for m in range(j, 5):
                if m == x[i]:
                    continue
                if m > x[i] + 2:
                    break
                total = total * 2 + m
            total += j
        for j in range(x[i]):
            total -= j
        y[i] = total

    assert "j_round" not in k.program.to_text()  # each loop has a variable of its own
    assert_agrees(k, X, Y, lanes=16)


def test_a_nested_loop_over_the_same_name_changes_it() -> None:
    @vyre.kernel
    def k(x: In[i32], y: InOut[i32]) -> None:
        i = vyre.global_id()
        total = 0
        for j in range(3):
            total = total * 10 + j
            for j in range(x[i]):
                total += j
            total += j
        y[i] = total

    assert_agrees(k, X, Y, lanes=16)


def test_a_value_made_in_a_loop_is_that_of_each_round() -> None:
    @vyre.kernel
    def k(x: In[f32], y: InOut[f32]) -> None:
        i = vyre.global_id()
        best = 0.0
        for j in range(len(x)):
            v = x[j] - x[i]
            if v < 0:
                v = -v
            best = max(best, v)
        y[i] = best

    assert_agrees(k, np.linspace(-2, 2, 9, dtype=np.float32), np.zeros(9, np.float32), lanes=9)


def test_a_value_of_the_round_before_needs_a_first_value() -> None:
    @vyre.kernel
    def k(y: InOut[i32]) -> None:
        for j in range(3):
            if j > 0:
                y[j] = last
            last = y[0]

    with pytest.raises(KernelSourceError, match="`last` may have no value here"):
        k.program  # noqa: B018


def test_return_ends_the_lane_in_any_loop() -> None:
    @vyre.kernel
    def k(x: In[i32], y: InOut[i32]) -> None:
        i = vyre.global_id()
        for j in range(4):
            while True:
                if j == x[i]:
                    y[i] = j
                    return
                if x[i] < 0:
                    return
                break
        y[i] = 1000

    assert_agrees(k, X, Y, lanes=16)


def test_unsigned_ranges_end_at_their_largest_number() -> None:
    @vyre.kernel
    def k(y: InOut[u32]) -> None:
        for j in range(4294967290, 4294967295, 2):
            y[0] += j

    assert_agrees(k, np.zeros(1, np.uint32))
