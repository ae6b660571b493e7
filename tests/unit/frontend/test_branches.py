"""``if``, ``match`` and conditional expressions do what Python does."""

from __future__ import annotations

from enum import IntEnum

import numpy as np
import pytest

import vyre
from support.both_ways import assert_agrees
from vyre import In, InOut, KernelSourceError, f32, i32, u32

X = np.arange(-8, 8, dtype=np.int32)
Y = np.full(16, -77, dtype=np.int32)
F = np.array([0.0, -0.0, 1.5, -2.25, 3.0, 7.0, -8.5, 0.25], np.float32)


class Color(IntEnum):
    RED = 1
    GREEN = -3


def test_if_elif_else() -> None:
    @vyre.kernel
    def k(x: In[i32], y: InOut[i32]) -> None:
        i = vyre.global_id()
        if x[i] < -4:
            y[i] = 1
        elif x[i] == 0:
            y[i] = 2
        elif x[i] % 2:
            y[i] = 3
        else:
            y[i] = 4
            if x[i] > 5:
                y[i] += 10

    assert_agrees(k, X, Y, lanes=16)


def test_a_name_assigned_in_branches_is_one_variable() -> None:
    @vyre.kernel
    def k(x: In[i32], y: InOut[i32]) -> None:
        i = vyre.global_id()
        v = x[i]
        if v > 2:
            w = v * 2
            v = 100
        elif v > 0:
            w = 5
        else:
            w = -v
            if w > 3:
                v += w
        y[i] = v * 1000 + w

    assert_agrees(k, X, Y, lanes=16)


def test_a_way_that_returns_needs_no_value() -> None:
    @vyre.kernel
    def k(x: In[i32], y: InOut[i32]) -> None:
        i = vyre.global_id()
        if x[i] > 0:
            v = x[i]
        else:
            y[i] = 0
            return
        y[i] = v

    assert_agrees(k, X, Y, lanes=16)


def test_numbers_are_true_where_they_are_not_zero() -> None:
    @vyre.kernel
    def k(x: In[f32], n: In[i32], y: InOut[i32]) -> None:
        i = vyre.global_id()
        if x[i]:
            y[i] = 1
        if not n[i]:
            y[i] = 2
        if x[i] and n[i] and x[i] > 1:
            y[i] = 3
        if not (x[i] or n[i] == 3):
            y[i] = 4
        if bool(n[i]) and True:
            y[i] -= 1

    assert_agrees(k, F, np.arange(8, dtype=np.int32), np.zeros(8, np.int32), lanes=8)


def test_conditions_that_are_known_leave_one_branch() -> None:
    @vyre.kernel
    def k(x: InOut[i32]) -> None:
        if None:
            x[0] = nothing  # type: ignore[name-defined]
        elif 0:
            x[0] = 1
        elif ():
            x[0] = 2
        elif "text" and not 0.0:
            x[0] = 3

    assert [type(stmt).__name__ for stmt in k.program.body] == ["Store"]
    assert_agrees(k, Y)


def test_match_on_integers() -> None:
    limit = 4

    @vyre.kernel
    def k(x: In[i32], y: InOut[i32]) -> None:
        i = vyre.global_id()
        v = 1
        match x[i]:
            case Color.RED:
                y[i] = 1
                v = 7
            case Color.GREEN | 2 | -5:
                y[i] = 2
            case 3:
                pass
            case _:
                y[i] = x[i] + limit
                v = 9
        y[i] += v

    assert_agrees(k, X, Y, lanes=16)


def test_match_without_a_default_goes_on() -> None:
    @vyre.kernel
    def k(x: In[i32], y: InOut[i32]) -> None:
        i = vyre.global_id()
        s = 0
        for j in range(4):
            match x[i] + j:
                case 0:
                    continue
                case 3:
                    break
                case -1 | -2:
                    s -= 10
            s += 1
        y[i] = s

    assert_agrees(k, X, Y, lanes=16)


def test_match_on_a_number_that_is_known() -> None:
    mode = 2

    @vyre.kernel
    def k(y: InOut[i32]) -> None:
        match mode:
            case 1:
                y[0] = nothing  # type: ignore[name-defined]
            case 2 | 3:
                y[0] = 5
            case _:
                y[0] = 6

    assert_agrees(k, Y)


def test_every_case_that_assigns_gives_a_value() -> None:
    @vyre.kernel
    def k(x: In[u32], y: InOut[u32]) -> None:
        i = vyre.global_id()
        match x[i]:
            case 1:
                v = 5
            case 2:
                return
            case _:
                v = 6
        y[i] = v

    assert_agrees(k, np.arange(4, dtype=np.uint32), np.zeros(4, np.uint32), lanes=4)


def test_a_case_that_assigns_nothing_is_noticed() -> None:
    @vyre.kernel
    def k(x: In[u32], y: InOut[u32]) -> None:
        match x[0]:
            case 1:
                v = 5
        y[0] = v

    with pytest.raises(KernelSourceError, match="`v` may have no value here"):
        k.program  # noqa: B018


def test_a_case_that_names_what_it_takes_is_refused() -> None:
    @vyre.kernel
    def k(y: InOut[i32]) -> None:
        match y[0]:
            case 3 as found:
                y[0] = found

    with pytest.raises(KernelSourceError, match="`as` cannot stand in a `case`"):
        k.program  # noqa: B018


def test_conditional_expressions() -> None:
    @vyre.kernel
    def k(x: In[i32], y: InOut[i32]) -> None:
        i = vyre.global_id()
        v = x[i] if x[i] > 0 else -x[i]
        a, b = (v, 1) if v > 3 else (2, v)
        w = 1 if v == 2 else 0 if v == 3 else 5
        y[i] = a * 100 + b * 10 + w + (3 if x[i] else 4)

    assert_agrees(k, X, Y, lanes=16)


def test_an_atomic_in_a_conditional_expression_is_refused() -> None:
    @vyre.kernel
    def k(x: InOut[u32]) -> None:
        x[1] = x.atomic_add(0, 1) if x[1] > 3 else 0

    with pytest.raises(KernelSourceError, match="stands in a conditional expression"):
        k.program  # noqa: B018


def test_and_or_not_of_truth_values_and_numbers() -> None:
    @vyre.kernel
    def k(x: In[i32], y: InOut[i32]) -> None:
        i = vyre.global_id()
        a = x[i] > 2
        b = x[i] % 3 == 0
        both = a and b
        some = a or b or x[i] == -1
        neither = not some
        y[i] = (x[i] and 5) + (x[i] or 7) * 10
        if both or neither:
            y[i] += 1000

    assert_agrees(k, X, Y, lanes=16)


def test_a_function_with_statements_is_refused_on_the_right() -> None:
    @vyre.function
    def counted(y: InOut[u32], v: int) -> int:
        y[3] = v
        return v

    @vyre.kernel
    def k(y: InOut[u32]) -> None:
        if y[0] > 1 or counted(y, 2) > 1:
            y[1] = 5

    with pytest.raises(KernelSourceError, match="stands on the right of `or`"):
        k.program  # noqa: B018


def test_chained_comparisons_evaluate_the_middle_once() -> None:
    @vyre.kernel
    def k(x: In[i32], y: InOut[i32]) -> None:
        i = vyre.global_id()
        if -3 < x[i] <= 4 != x[i] + 1:
            y[i] = 1
        if 0 <= x[i] * x[i] - 9 < 16 > x[i]:
            y[i] += 10
        if x[i] in (1, 2, -4) and x[i] not in (2, 100):
            y[i] += 100
        y[i] += 3 if 1 < 2 < 3 else 4

    assert_agrees(k, X, Y, lanes=16)


def test_comparisons_of_nan_are_those_of_python() -> None:
    @vyre.kernel
    def k(x: In[f32], y: InOut[i32]) -> None:
        i = vyre.global_id()
        y[i] = 0
        if x[i] == x[i]:
            y[i] += 1
        if x[i] != x[i]:
            y[i] += 2
        if x[i] < 1.0:
            y[i] += 4
        if not x[i] >= 1.0:
            y[i] += 8
        if x[i]:
            y[i] += 16

    assert_agrees(k, np.array([np.nan, 0.5, 1.0, np.inf, -0.0], np.float32), Y[:5], lanes=5)
