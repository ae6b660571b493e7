"""Captured values are constants by value, read again at each call; what may change is refused."""

from __future__ import annotations

import math
from enum import Enum, IntEnum
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import vyre
from support.both_ways import on_reference
from vyre import InOut, KernelSourceError, f32, i32

LIMIT = 3
PAIRS = ((1, 2.5), (3, -4.0))
SETTINGS = ModuleType("settings")
SETTINGS.__dict__["gain"] = 2


class Level(IntEnum):
    LOW = 1
    HIGH = 30


class Plain(Enum):
    A = 1


@vyre.kernel
def of_globals(y: InOut[i32]) -> None:
    y[0] = LIMIT + SETTINGS.gain * 10 + Level.HIGH


@vyre.function
def limited(v: int) -> int:
    return min(v, LIMIT)


@vyre.kernel
def through_a_function(y: InOut[i32]) -> None:
    y[0] = limited(y[0])


def result(kernel: Any, *given: Any) -> int:
    (y, *_) = on_reference(kernel, np.full(2, 100, np.int32), *given)
    return int(y[0])


def test_a_changed_global_gives_a_new_program(monkeypatch: pytest.MonkeyPatch) -> None:
    assert result(of_globals) == 53
    first = of_globals.program
    assert of_globals.program is first
    monkeypatch.setitem(globals(), "LIMIT", 4)
    assert result(of_globals) == 54 and result(through_a_function) == 4
    assert of_globals.program.digest != first.digest
    monkeypatch.setitem(globals(), "LIMIT", 5)
    assert result(through_a_function) == 5


def test_an_equal_number_of_another_type_is_another_constant(monkeypatch: pytest.MonkeyPatch) -> None:
    @vyre.kernel
    def k(y: InOut[f32]) -> None:
        y[0] = LIMIT // 2

    assert on_reference(k, np.zeros(1, np.float32))[0][0] == 1
    monkeypatch.setitem(globals(), "LIMIT", 3.0)
    assert on_reference(k, np.zeros(1, np.float32))[0][0] == 1.0
    monkeypatch.setitem(globals(), "LIMIT", -0.0)
    assert math.copysign(1, on_reference(k, np.ones(1, np.float32))[0][0]) == -1


def test_changed_module_attributes_and_functions_give_new_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    assert result(of_globals) == 53
    monkeypatch.setattr(SETTINGS, "gain", 7)
    assert result(of_globals) == 103
    assert result(through_a_function) == 3

    @vyre.function
    def limited(v: int) -> int:
        return v * 2

    monkeypatch.setitem(globals(), "limited", limited)
    assert result(through_a_function) == 200


def test_a_name_that_goes_away_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    assert result(of_globals) == 53
    monkeypatch.delitem(globals(), "LIMIT")
    with pytest.raises(KernelSourceError, match="`LIMIT` is not defined"):
        result(of_globals)


def test_closures_are_read_again() -> None:
    n = 5

    @vyre.kernel
    def k(y: InOut[i32]) -> None:
        y[0] = n

    assert result(k) == 5
    n = 6
    assert result(k) == 6


def test_numpy_scalars_tuples_and_members() -> None:
    scalar, flag, tiny = np.float32(2.5), np.bool_(True), np.int8(-3)

    @vyre.kernel
    def k(y: InOut[i32]) -> None:
        total = 0
        for a, b in PAIRS:
            total += a * i32(b * 2)
        v = tiny
        if flag and Level.LOW == 1:
            v += total
        y[0] = v + i32(scalar) + PAIRS[1][0]

    assert result(k) == 5 - 24 - 3 + 2 + 3


@pytest.mark.parametrize(
    "held", [[1, 2], {1: 2}, {1}, np.arange(3), (1, [2]), bytearray(b"a"), object()], ids=lambda one: type(one).__name__
)
def test_what_may_change_is_refused(held: Any) -> None:
    @vyre.kernel
    def k(y: InOut[i32]) -> None:
        y[0] = held[0]

    with pytest.raises(
        KernelSourceError, match=r"`held` is (of the type .*, whose values may|an array, which may) change"
    ):
        k.program  # noqa: B018


def test_plain_members_are_no_numbers() -> None:
    @vyre.kernel
    def k(y: InOut[i32]) -> None:
        y[0] = Plain.A

    with pytest.raises(KernelSourceError, match="is used where a value is needed"):
        k.program  # noqa: B018


def test_attributes_of_objects_and_missing_ones_are_refused() -> None:
    @vyre.kernel
    def k(y: InOut[i32]) -> None:
        y[0] = SETTINGS.loss

    with pytest.raises(KernelSourceError, match="`SETTINGS` has no attribute `loss`"):
        k.program  # noqa: B018
