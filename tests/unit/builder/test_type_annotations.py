"""``f32`` and its like are types to a type checker and members of ``ScalarType`` to the interpreter.

mypy --strict checks this file with the others; its comments say which uses it must refuse.
"""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Generic, TypeVar, get_args, get_type_hints

import numpy as np
import pytest

import vyre
from vyre import (
    BufferHandle,
    Operand,
    ProgramBuilder,
    ScalarType,
    Value,
    bf16,
    bool8,
    bool_,
    f16,
    f32,
    f64,
    i8,
    i16,
    i32,
    i64,
    u8,
    u16,
    u32,
    u64,
)
from vyre.domain.ir.types import DataType

T = TypeVar("T", bound=Value)


class In(Generic[T]):
    """A buffer whose elements have a type that checkers know, as a front end may define it."""

    def __init__(self, handle: BufferHandle) -> None:
        self.handle = handle

    def __getitem__(self, index: Operand) -> Value:
        return self.handle[index]


class Out(In[T]):
    def __setitem__(self, index: Operand, value: T | Value | float) -> None:
        self.handle[index] = value


def saxpy(i: u32, a: f32, x: In[f32], y: Out[f32]) -> None:
    y[i] = a * x[i] + y[i]


def clamped(x: f32, low: f32 | float, high: f32 | float) -> Value:
    return vyre.min_(vyre.max_(x, low), high)


def declared(p: ProgramBuilder, name: str, dtype: ScalarType) -> Value:
    return p.param(name, dtype)


ALL = (bf16, bool8, bool_, f16, f32, f64, i8, i16, i32, i64, u8, u16, u32, u64)


def test_functions_of_a_kernel_are_annotated_with_them() -> None:
    with ProgramBuilder("saxpy", workgroup=32) as p:
        x, y = p.input("x", f32), p.inout("y", f32)
        i, a = p.global_id(), declared(p, "a", f32)
        call: Callable[..., None] = saxpy
        call(i, a, In(x), Out(y))
        y[i] = clamped(f32(0.5), 0.0, f32(1))
    with vyre.open(backend="reference") as session:
        xs = np.ones(32, np.float32)
        assert session.dispatch(p.build(), {"x": xs, "y": xs, "a": 2.0})["y"].tolist() == [0.5] * 32
    assert get_type_hints(clamped)["x"] is f32
    assert set(get_args(get_type_hints(clamped)["low"])) == {f32, float}
    assert get_args(None | f32) == (type(None), f32)
    assert get_type_hints(saxpy)["x"] == In[f32]


def test_they_are_the_members() -> None:
    assert set(ALL) == set(ScalarType)
    types: dict[ScalarType, str] = {f32: "f32", bool_: "bool"}
    for member in ALL:
        known: ScalarType = member
        stored: DataType = member
        assert isinstance(known, ScalarType) and stored is known and ScalarType(known.value) is known
        assert pickle.loads(pickle.dumps(member)) is copy.deepcopy(member) is member
        assert types.get(known, repr(member)) == known.text
        assert (known.size, known.bits, known.numpy_name[1]) == (member.size, member.bits, member.numpy_name[1])
    assert ScalarType.F32 is f32
    assert ScalarType.BOOL is bool_


def test_literals_are_values() -> None:
    half: Value = f32(0.5)
    same: f32 = f32(0.5)
    assert half.dtype is f32 and same.expr == half.expr
    with pytest.raises(vyre.BuildError):
        f32("0.5")  # type: ignore[arg-type]


def test_what_is_no_type_of_vyre_is_refused() -> None:
    p = ProgramBuilder("wrong", workgroup=1)
    with pytest.raises(vyre.BuildError):
        p.input("x", float)  # type: ignore[arg-type]
    with pytest.raises(vyre.BuildError):
        p.input("y", f32(1))  # type: ignore[arg-type]
    number: f32 = 1.5  # type: ignore[assignment]
    with pytest.raises(vyre.BuildError):
        f32(1) + f32  # type: ignore[operator]
    assert number == 1.5
