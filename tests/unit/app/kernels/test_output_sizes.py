"""Sizes that kernels declare for outputs that a caller leaves out."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pytest

import vyre
from vyre import In, Out, f32, like, u32

X = np.arange(7, dtype=np.float32)


def test_an_expression_of_lengths_sizes_an_output() -> None:
    @vyre.kernel
    def differences(x: In[f32], y: Out[f32, Literal["max(len(x) - 1, 0)"]]) -> None:
        i = vyre.global_id()
        if i < len(y):
            y[i] = x[i + 1] - x[i]

    with vyre.open(backend="reference"):
        assert differences(X).tolist() == [1.0] * 6
        assert differences(X[:1]).shape == (0,)


def test_an_expression_may_give_several_axes_and_name_whole_numbers() -> None:
    @vyre.kernel(workgroup=(8, 8))
    def table(x: In[f32], n: u32, y: Out[f32, Literal["n, x.shape[0] // 2 + -n % 3"]]) -> None:
        r, c = vyre.global_id(1), vyre.global_id(0)
        y[r, c] = x[c]

    with vyre.open(backend="reference"):
        found = table(X, 2)
    assert found.shape == (2, 4)
    assert found.tolist() == [[0, 1, 2, 3]] * 2


@pytest.mark.parametrize(
    ("size", "message"),
    [
        ("len(y)", "`y` is no array that is passed"),
        ("__import__('os').getpid()", "is none of what sizes are made of"),
        ("x", "`x` is an array, and no number"),
        ("a", "`a` is no parameter that is a whole number"),
        ("x.shape[1]", "`x` has 1 axes, and `1` is none of them"),
        ("len(x) / 2", "`len(x) / 2` is none of what sizes are made of"),
        ("2 ** len(x)", "is none of what sizes are made of"),
        ("True", "`True` is none of what sizes are made of"),
        ("len(x", "it is no expression"),
        ("(" * 400 + "1" + ")" * 400, "it is no expression"),
        ("1 + " * 400 + "1", "it is longer than 1000 characters"),
        ("len(x), 1, 1, 1", "has 1 axes, and a size of 4"),
    ],
)
def test_anything_else_is_refused_at_decoration(size: str, message: str) -> None:
    with pytest.raises(vyre.KernelSourceError, match=r"Fix: ") as caught:

        @vyre.kernel
        def k(a: f32, x: In[f32], y: Out[f32, size]) -> None:  # type: ignore[valid-type]
            y[vyre.global_id()] = a * x[0]

    assert message in str(caught.value)
    assert "y: Out[f32, size]" in str(caught.value)


def test_a_size_below_zero_is_refused_at_the_call() -> None:
    @vyre.kernel
    def shorter(x: In[f32], y: Out[f32, Literal["len(x) - 8"]]) -> None:
        y[vyre.global_id()] = x[0]

    @vyre.kernel
    def divided(n: u32, y: Out[f32, "4 // n"]) -> None:  # noqa: F821, UP037
        y[vyre.global_id()] = 1.0

    with vyre.open(backend="reference"):
        with pytest.raises(vyre.InvalidInput, match="`len\\(x\\) - 8` of `y` of shorter is -1"):
            shorter(X)
        with pytest.raises(vyre.InvalidInput, match="`4 // n` of `y` of divided"):
            divided(0)
        assert divided(2).shape == (2,)


def test_a_tuple_gives_the_axes() -> None:
    @vyre.kernel(workgroup=(4, 4))
    def identity(y: Out[f32, (3, 2)]) -> None:
        r, c = vyre.global_id(1), vyre.global_id(0)
        if r == c:
            y[r, c] = 1.0

    with vyre.open(backend="reference"):
        assert identity().tolist() == [[1, 0], [0, 1], [0, 0]]


def test_a_model_must_be_another_array_with_as_many_axes() -> None:
    with pytest.raises(vyre.KernelSourceError, match="there is no other array `y`"):

        @vyre.kernel
        def itself(y: Out[f32, like("y")]) -> None:
            y[vyre.global_id()] = 1.0

    with pytest.raises(vyre.KernelSourceError, match="there is no other array `y`"):

        @vyre.kernel
        def circle(y: Out[f32, like("z")], z: Out[f32, like("y")]) -> None:
            y[vyre.global_id()] = 1.0

    with pytest.raises(vyre.KernelSourceError, match="`y` has 2 axes, and `x` has 1"):

        @vyre.kernel
        def rows(x: In[f32], y: Out[f32, 2, like("x")]) -> None:
            y[0, 0] = 1.0


def test_one_counts_the_elements_of_an_output() -> None:
    @vyre.kernel(workgroup=1)
    def largest(x: In[f32], y: Out[f32, Literal[1]]) -> None:
        y[0] = x[0]
        for k in range(1, len(x)):
            y[0] = max(y[0], x[k])

    with vyre.open(backend="reference"):
        assert largest[1](X).tolist() == [6.0]


def test_two_and_three_count_axes() -> None:
    @vyre.kernel
    def pair(y: Out[f32, Literal[2]]) -> None:
        y[0, 0] = 1.0

    with (
        vyre.open(backend="reference"),
        pytest.raises(vyre.InvalidInput, match=r"its size is not declared\. Fix: .*sizes: \(2,\)"),
    ):
        pair()
