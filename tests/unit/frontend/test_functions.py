"""``@vyre.function``: calls give what Python's calls give."""

from __future__ import annotations

import numpy as np
import pytest

import vyre
from support.both_ways import assert_agrees
from vyre import In, InOut, KernelSourceError, i32

X = np.arange(-8, 8, dtype=np.int32)
Y = np.arange(16, dtype=np.int32) * 5 - 30
STEP = 3


@vyre.function
def clamped(v, low=-2, high=STEP):  # type: ignore[no-untyped-def]
    if v < low:
        return low
    if v > high:
        return high
    return v


STEP = 4  # a default is computed when its function is made


@vyre.function
def ordered(a, b):  # type: ignore[no-untyped-def]
    if a > b:
        return b, a
    return a, b


@vyre.function
def median(a, b, c):  # type: ignore[no-untyped-def]
    a, b = ordered(a, b)
    b, c = ordered(b, c)
    a, b = ordered(a, b)
    return b


@vyre.function
def factor(n):  # type: ignore[no-untyped-def]
    for j in range(2, 20):
        if n % j == 0:
            found = j
            if found % 2 == 1:
                return found * 100
            break
    else_value = n
    return else_value


@vyre.function
def position_in(v, w):  # type: ignore[no-untyped-def]
    result = 50
    result += v
    for a in range(5):
        b = 0
        while True:
            if a * b == v:
                return a * 100 + b
            if b > 4:
                break
            if a + b == w:
                for c in vyre.static((1, 2, 3)):
                    if c * c == v + w:
                        return c * 1000
            b += 1
        result += 1
    return result


def test_early_returns_defaults_and_keywords() -> None:
    @vyre.kernel
    def k(x: In[i32], y: InOut[i32]) -> None:
        i = vyre.global_id()
        y[i] = clamped(x[i]) + clamped(high=5, v=x[i]) * 10 + clamped(x[i], x[0], x[10]) * 100

    assert_agrees(k, X, Y, lanes=16)


def test_tuples_are_returned_and_calls_nest() -> None:
    @vyre.kernel
    def k(x: In[i32], y: InOut[i32]) -> None:
        i = vyre.global_id()
        low, high = ordered(x[i], y[i])
        pair = ordered(high, low + 7)
        y[i] = median(x[i], y[i], median(3, low, 12)) * 7 + pair[0] - pair[1] * 2

    assert_agrees(k, X, Y, lanes=16)


def test_returns_in_nested_loops_leave_all_of_them() -> None:
    @vyre.kernel
    def k(x: In[i32], y: InOut[i32]) -> None:
        i = vyre.global_id()
        total = 0
        for j in range(1, 4):
            total += i32(position_in(x[i] + j, j)) + factor(x[i] * 3 + j)
            if total > 5000:
                break
        y[i] = total

    assert_agrees(k, X, Y, lanes=16)


def test_returns_in_unrolled_loops() -> None:
    @vyre.function
    def level(v):  # type: ignore[no-untyped-def]
        for j, limit in vyre.static(enumerate((5, 3, -2))):
            if v > limit:
                return j
            v += 1
        return 9

    @vyre.kernel
    def k(x: In[i32], y: InOut[i32]) -> None:
        i = vyre.global_id()
        y[i] = i32(level(x[i])) * 10 + i32(level(7))

    assert_agrees(k, X, Y, lanes=16)


def test_locals_are_those_of_the_function() -> None:
    @vyre.function
    def shifted(v, by):  # type: ignore[no-untyped-def]
        i = v + by
        v = i * 2
        by += 1
        return v + by

    @vyre.kernel
    def k(x: In[i32], y: InOut[i32]) -> None:
        i = vyre.global_id()
        v = x[i]
        by = 2
        w = shifted(by=v, v=3)
        y[i] = shifted(v, by) + w * 100 + v + by

    assert_agrees(k, X, Y, lanes=16)


def test_arrays_are_passed_as_they_are() -> None:
    @vyre.function
    def add_to(array, at, v=1):  # type: ignore[no-untyped-def]
        array[at] += v
        return array[at]

    @vyre.function
    def nothing_given(array):  # type: ignore[no-untyped-def]
        array[1] = 77
        return

    @vyre.kernel
    def k(y: InOut[i32]) -> None:
        memory = vyre.private_array(i32, 3)
        add_to(memory, 2, v=5)
        nothing_given(y)
        if add_to(y, 0) == -29:
            y[2] = add_to(memory, 2)
        y[3] = i32(len(y) + len(memory)) - 16

    assert_agrees(k, Y)


def test_functions_of_functions() -> None:
    @vyre.function
    def twice(f, v):  # type: ignore[no-untyped-def]
        return f(f(v))

    @vyre.kernel
    def k(x: In[i32], y: InOut[i32]) -> None:
        i = vyre.global_id()
        y[i] = twice(clamped, x[i]) + twice(abs, x[i])

    assert_agrees(k, X, Y, lanes=16)


def test_parameters_with_types_convert_numbers_and_refuse_others() -> None:
    @vyre.function
    def plus(v: i32, w: i32 = 4) -> i32:
        return v + w

    @vyre.kernel
    def k(y: InOut[i32]) -> None:
        y[0] = plus(3) + plus(2, 2)

    assert_agrees(k, Y)

    @vyre.kernel
    def wrong(y: InOut[i32]) -> None:
        y[0] = plus(vyre.global_id())

    with pytest.raises(KernelSourceError, match="`v` of plus must be i32, not u32"):
        wrong.program  # noqa: B018


def test_called_by_python_it_is_the_python_function() -> None:
    assert clamped(17) == 3 and clamped(-9, high=1) == -2
    assert repr(clamped) == "<vyre.function clamped>"


@pytest.mark.parametrize(
    ("call", "told"),
    [
        ("clamped()", "gets no `v`"),
        ("clamped(1, v=2)", "gets `v` twice"),
        ("clamped(1, 2, 3, 4)", "takes 3 arguments by position, and 4 are given"),
        ("clamped(1, top=2)", "has no parameter `top`"),
        ("clamped(*(1, 2))", "cannot stand in a call"),
    ],
)
def test_arguments_that_do_not_fit(call: str, told: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import linecache

    text = f"@vyre.kernel\ndef k(y: InOut[i32]):\n    y[0] = {call}\n"
    monkeypatch.setitem(linecache.cache, "calls.py", (1, None, text.splitlines(keepends=True), "calls.py"))
    names = {"vyre": vyre, "InOut": InOut, "i32": i32, "clamped": clamped}
    exec(compile(text, "calls.py", "exec"), names)
    with pytest.raises(KernelSourceError, match="calls.py:3: .*" + told):
        names["k"].program  # type: ignore[attr-defined]  # noqa: B018


def test_recursion_is_refused() -> None:
    @vyre.function
    def down(v):  # type: ignore[no-untyped-def]
        return down(v - 1) if v > 0 else v

    @vyre.kernel
    def k(y: InOut[i32]) -> None:
        y[0] = down(y[0])

    with pytest.raises(KernelSourceError, match="calls are nested more than 32 deep here, or `down` calls itself"):
        k.program  # noqa: B018


def test_a_kernel_that_calls_a_kernel_is_refused_as_such() -> None:
    @vyre.kernel
    def first(y: InOut[i32]) -> None:
        y[0] = 1

    @vyre.kernel
    def second(y: InOut[i32]) -> None:
        first(y)  # type: ignore[arg-type, unused-ignore]

    with pytest.raises(KernelSourceError, match="`first` is a kernel, and a kernel calls no other one"):
        second.program  # noqa: B018
