"""Constants that kernels capture, and types: each combination of their values is a program of its own."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from enum import IntEnum
from types import ModuleType
from typing import Any, TypeVar

import numpy as np
import pytest

import vyre
from vyre import InOut, Out, Static, f32, like  # noqa: F401  # annotations of kernels

T = TypeVar("T")
FACTOR: Any = 2.0


class Level(IntEnum):
    LOW = 1
    HIGH = 2


@vyre.function
def scaled(x: f32) -> f32:
    return x * FACTOR


@vyre.kernel
def multiplied(x: InOut[f32]) -> None:
    i = vyre.global_id()
    if i < len(x):
        x[i] = x[i] * FACTOR


@vyre.kernel
def through_a_function(x: InOut[f32]) -> None:
    x[vyre.global_id()] = scaled(x[vyre.global_id()])


@vyre.kernel
def generic(n: Static[float], x: InOut[T]) -> None:
    i = vyre.global_id()
    if i < len(x):
        x[i] = x[i] + T(n)


@pytest.fixture(autouse=True)
def session() -> Iterator[vyre.Session]:
    with vyre.open(backend="reference") as opened:
        yield opened


def result(kernel: Any, start: float = 3.0) -> float:
    x = np.array([start], np.float32)
    kernel(x)
    return float(x[0])


@pytest.mark.parametrize("kernel", [multiplied, through_a_function])
def test_a_captured_constant_is_read_at_each_call(kernel: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules[__name__], "FACTOR", 2.0)
    assert result(kernel) == 6.0
    first = kernel.program
    monkeypatch.setattr(sys.modules[__name__], "FACTOR", 5.0)
    assert result(kernel) == 15.0
    assert kernel.program is not first
    monkeypatch.setattr(sys.modules[__name__], "FACTOR", float("2"))  # another object of the same value
    assert kernel.program is first
    assert result(kernel) == 6.0
    monkeypatch.setattr(sys.modules[__name__], "FACTOR", -0.0)
    assert np.signbit(result(kernel))
    monkeypatch.setattr(sys.modules[__name__], "FACTOR", 0.0)  # equal to -0.0, and another constant
    assert not np.signbit(result(kernel))
    monkeypatch.setattr(sys.modules[__name__], "FACTOR", [2.0])
    with pytest.raises(vyre.KernelSourceError, match=r"`FACTOR`.*may change"):
        result(kernel)
    monkeypatch.delattr(sys.modules[__name__], "FACTOR")
    with pytest.raises(vyre.KernelSourceError, match="`FACTOR` is not defined"):
        result(kernel)


def test_cells_and_attributes_of_modules_are_read_at_each_call() -> None:
    module, power = ModuleType("settings"), 1.0
    module.step = 10.0  # type: ignore[attr-defined]

    @vyre.kernel
    def k(x: InOut[f32]) -> None:
        x[vyre.global_id()] = power + module.step

    assert result(k) == 11.0
    power = 2.0
    assert result(k) == 12.0
    module.step = 20.0  # type: ignore[attr-defined]
    assert result(k) == 22.0


def test_a_name_that_hides_a_function_of_python_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    @vyre.kernel
    def k(x: InOut[f32]) -> None:
        x[vyre.global_id()] = max(x[0], 1.0)

    assert result(k) == 3.0
    monkeypatch.setattr(sys.modules[__name__], "max", scaled, raising=False)
    with pytest.raises(vyre.VyreError):
        result(k)


def test_each_type_and_static_value_is_a_program_of_its_own() -> None:
    for dtype, n, expected in ((np.float32, 1.5, 2.5), (np.int32, 1.0, 2), (np.float32, 2, 3.0), (np.int32, 1.0, 2)):
        x = np.ones(2, dtype)
        generic(n, x)
        assert x.tolist() == [expected] * 2
    assert generic.specialize(T=f32, n=0.0) is not generic.specialize(T=f32, n=-0.0)
    assert generic.specialize(T=f32, n=Level.HIGH) is generic.specialize(T=f32, n=2)
    x = np.ones(2, np.float32)
    for level in Level:
        generic(level, x)
    assert x.tolist() == [4.0, 4.0]
    for wrong in ("1", 1j, None, np.ones(2)):
        with pytest.raises(vyre.VyreError, match="Fix: "):
            generic(wrong, np.ones(2, np.float32))
    with pytest.raises(vyre.InvalidInput, match="array of complex64, which vyre does not have"):
        generic(1.0, np.ones(2, np.complex64))
    with pytest.raises(vyre.InvalidInput, match=r"big-endian|little-endian"):
        generic(1.0, np.ones(2, ">f4"))
