"""The operators and functions of Python, ``math`` and NumPy give in kernels what they give in Python."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import numpy as np
import pytest

import vyre
from support.both_ways import assert_agrees, on_reference
from vyre import In, InOut, KernelSourceError, f32, f64, i32, i64, u32

PAIRS = list(product([-7, -3, -1, 0, 1, 2, 5, 2**31 - 1, -(2**31)], [-5, -2, -1, 1, 3, 2**31 - 1, -(2**31)]))
A = np.array([a for a, _ in PAIRS], np.int32)
B = np.array([b for _, b in PAIRS], np.int32)
FLOATS = np.array([0.5, 1.5, 2.5, -0.5, -1.5, 0.0, -0.0, 3.7, -3.7, np.inf, -np.inf, np.nan], np.float32)


def test_division_rounds_down() -> None:
    @vyre.kernel
    def k(a: In[i32], b: In[i32], q: InOut[i32], r: InOut[i32], d: InOut[i32], m: InOut[i32]) -> None:
        i = vyre.global_id()
        q[i] = a[i] // b[i]
        r[i] = a[i] % b[i]
        d[i], m[i] = divmod(a[i], b[i])

    zeros = np.zeros(len(A), np.int32)
    _, _, q, r, d, m = on_reference(k, A, B, zeros, zeros, zeros, zeros, lanes=len(A))
    for a, b, *found in zip(*(one.tolist() for one in (A, B, q, r, d, m)), strict=True):
        if (a, b) != (-(2**31), -1):  # whose quotient is no i32
            assert found == [a // b, a % b, a // b, a % b], (a, b)


def test_division_by_constants_rounds_down() -> None:
    for by in (-4, -1, 1, 3):

        @vyre.kernel
        def k(a: In[i32], q: InOut[i32], r: InOut[i32]) -> None:
            i = vyre.global_id()
            q[i] = a[i] // by
            r[i] = a[i] % by

        values = A[A > -(2**31)]
        _, q, r = on_reference(k, values, values, values, lanes=len(values))
        assert q.tolist() == [a // by for a in values.tolist()]
        assert r.tolist() == [a % by for a in values.tolist()]


def test_shifts_by_any_count() -> None:
    @vyre.kernel
    def k(a: In[i32], n: In[u32], left: InOut[i32], right: InOut[i32]) -> None:
        i = vyre.global_id()
        left[i] = a[i] << n[i]
        right[i] = a[i] >> n[i]

    a = np.array([1, -1, 5, -77, 2**30] * 4, np.int32)
    n = np.array([0, 1, 31, 32, 1000] * 4, np.uint32)
    n.sort()
    _, _, left, right = on_reference(k, a, n, a, a, lanes=len(a))
    for x, by, lefts, rights in zip(a.tolist(), n.tolist(), left.tolist(), right.tolist(), strict=True):
        assert lefts == np.array([(x << by) & 0xFFFFFFFF], np.uint64).astype(np.uint32).astype(np.int32)[0]
        assert rights == x >> by


def test_powers_of_integers() -> None:
    @vyre.kernel
    def k(a: In[i32], y: InOut[i32]) -> None:
        i = vyre.global_id()
        y[i] = a[i] ** 5 + a[i] ** 2 - a[i] ** 1

    assert_agrees(k, np.arange(-6, 6, dtype=np.int32), np.zeros(12, np.int32), lanes=12)


def test_min_max_and_abs_of_integers() -> None:
    @vyre.kernel
    def k(a: In[i32], b: In[i32], y: InOut[i32]) -> None:
        i = vyre.global_id()
        y[i] = min(a[i], b[i], 4) - max((a[i], -3)) + abs(b[i] // 2)
        y[i] += min(3, 5) + max(2, abs(-7)) + len((1, 2, 3))

    assert_agrees(k, A // 4, B // 4, np.zeros(len(A), np.int32), lanes=len(A))


@pytest.mark.parametrize("order", [1, -1])
def test_min_and_max_of_floats_are_those_of_python(order: int) -> None:
    @vyre.kernel
    def k(a: In[f32], b: In[f32], low: InOut[f32], high: InOut[f32]) -> None:
        i = vyre.global_id()
        low[i] = min(a[i], b[i])
        high[i] = max(a[i], b[i])

    pairs = list(product(FLOATS.tolist(), FLOATS.tolist()))[::order]
    a = np.array([one for one, _ in pairs], np.float32)
    b = np.array([one for _, one in pairs], np.float32)
    _, _, low, high = on_reference(k, a, b, a, a, lanes=len(a))
    expected_low = np.array([min(one, other) for one, other in pairs], np.float32)
    expected_high = np.array([max(one, other) for one, other in pairs], np.float32)
    assert low.tobytes() == expected_low.tobytes() and high.tobytes() == expected_high.tobytes()


def test_round_is_half_even() -> None:
    @vyre.kernel
    def k(x: In[f32], y: InOut[f32], z: InOut[i32]) -> None:
        i = vyre.global_id()
        y[i] = round(x[i])
        z[i] = i32(round(x[i])) + round(2.5) + 7

    x = np.array([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 3.49], np.float32)
    _, y, z = on_reference(k, x, x, np.zeros(7, np.int32), lanes=7)
    assert y.tolist() == [round(one) for one in x.tolist()]
    assert z.tolist() == [round(one) + 9 for one in x.tolist()]


NAMES = ("sqrt", "floor", "ceil", "trunc", "fabs", "isnan", "isinf", "isfinite")


@pytest.mark.parametrize("module", [math, np], ids=["math", "numpy"])
@pytest.mark.parametrize("name", NAMES)
def test_exact_functions_of_libraries(module: Any, name: str) -> None:
    function = getattr(module, name)

    @vyre.kernel
    def k(x: In[f32], y: InOut[f32]) -> None:
        i = vyre.global_id()
        if function(x[i]):
            y[i] = f32(function(x[i]))

    x = np.array([0.25, 4.0, 2.75, 9.5, 1e20] + ([-1.5, np.inf, np.nan] if name.startswith("is") else []), np.float32)
    _, found = on_reference(k, x, np.zeros_like(x), lanes=len(x))
    assert found.tolist() == getattr(np, name)(x).astype(np.float32).tolist()


@pytest.mark.parametrize("name", ["sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "exp", "log"])
def test_approximate_functions_of_libraries(name: str) -> None:
    of_math, of_numpy = getattr(math, name), getattr(np, name.replace("a", "arc", 1) if name[0] == "a" else name)

    @vyre.kernel
    def k(x: In[f32], y: InOut[f32], z: InOut[f32]) -> None:
        i = vyre.global_id()
        y[i] = of_math(x[i])
        z[i] = of_numpy(x[i]) + of_math(0.5)

    x = np.array([0.125, 0.5, 0.75], np.float32)
    _, y, z = on_reference(k, x, x, x, lanes=3)
    expected = [of_math(one) for one in x.tolist()]
    np.testing.assert_allclose(y, expected, rtol=1e-5)
    np.testing.assert_allclose(z, [one + of_math(0.5) for one in expected], rtol=1e-5)


def test_conversions() -> None:
    @vyre.kernel
    def k(x: In[f32], n: In[i32], y: InOut[f64], z: InOut[i64]) -> None:
        i = vyre.global_id()
        y[i] = f64(x[i]) + f64(n[i]) + float(2) + f64(True)
        z[i] = i64(x[i]) + i64(n[i]) + int(2.9) + i64(u32(7)) + i64(n[i] > 2)
        z[i] += int(z[i]) + i64(np.int64(3)) + i64(bool(n[i]))

    x = np.array([1.5, -2.75, 100.0, 0.25], np.float32)
    n = np.array([-3, 0, 2, 9], np.int32)
    _, _, y, z = on_reference(k, x, n, np.zeros(4), np.zeros(4, np.int64), lanes=4)
    assert y.tolist() == [a + b + 3 for a, b in zip(x.tolist(), n.tolist(), strict=True)]
    first = [int(a) + b + 9 + (b > 2) for a, b in zip(x.tolist(), n.tolist(), strict=True)]
    assert z.tolist() == [2 * a + 3 + (b != 0) for a, b in zip(first, n.tolist(), strict=True)]


def test_numbers_of_python_and_numpy_take_the_other_type() -> None:
    third, big, narrow = np.float64(0.25), np.int64(3), np.uint8(200)

    @vyre.kernel
    def k(x: In[f32], n: In[i32], y: InOut[f32]) -> None:
        i = vyre.global_id()
        y[i] = x[i] * third + big * x[i] - 1 + narrow
        m = n[i] * big + narrow - True.__class__(0)
        y[i] += f32(m)

    with pytest.raises(KernelSourceError):
        k.program  # noqa: B018

    @vyre.kernel
    def ok(x: In[f32], n: In[i32], y: InOut[f32]) -> None:
        i = vyre.global_id()
        y[i] = x[i] * third + big * x[i] - 1 + narrow
        m = n[i] * big + narrow
        y[i] += f32(m)

    x, n = np.array([1.5, 2.0], np.float32), np.array([4, -5], np.int32)
    _, _, y = on_reference(ok, x, n, x, lanes=2)
    assert y.tolist() == [x * 0.25 + 3 * x - 1 + 200 + n * 3 + 200 for x, n in ((1.5, 4), (2.0, -5))]


def test_constants_are_computed_by_python() -> None:
    n = 10**6

    @vyre.kernel
    def k(y: InOut[f64]) -> None:
        y[0] = (n**3 // 7 % 1001) / 4 + math.pi * 0 + (7 / 2) ** 2 + (1 << 40 >> 38) + (-7 // 2) + max(1, 2.5)
        y[1] = math.inf
        y[2] = float("-inf") + math.floor(2.5)
        y[3] = -(~5) + +True + (3 if 2 in (1, 2) else 4) + abs(-2.5) + math.sqrt(16)

    (y,) = on_reference(k, np.zeros(4))
    assert y.tolist() == [
        (n**3 // 7 % 1001) / 4 + 12.25 + 4 - 4 + 2.5,
        math.inf,
        -math.inf,
        6 + 1 + 3 + 2.5 + 4,
    ]


def test_atomics_and_bits() -> None:
    @vyre.kernel
    def k(count: InOut[u32], x: In[f32], y: InOut[u32]) -> None:
        i = vyre.global_id()
        if i >= len(x):
            return
        old = count.atomic_add(0, i)
        count.atomic_max(1, i * 2)
        y[i] = x[i].bitcast(u32) if old < 1000 else 0

    x = np.array([1.5, -0.0, 3.25], np.float32)
    count, _, y = on_reference(k, np.zeros(2, np.uint32), x, np.zeros(3, np.uint32), lanes=3)
    assert count.tolist() == [3, 4]
    assert y.tobytes() == x.tobytes()
