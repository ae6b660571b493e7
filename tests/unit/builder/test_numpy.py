"""Scalars and types of NumPy wherever the builder takes a number or a type."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import vyre
from support.limits import LIMIT_S
from vyre import (
    BuildError,
    ProgramBuilder,
    ScalarType,
    Value,
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
from vyre.domain.ir.expr import Literal
from vyre.domain.ir.numpy_scalars import python_number
from vyre.ir import Access, EventBuilder, MemoryKind


class Kernel:
    def __init__(self) -> None:
        self.p = ProgramBuilder("kernel", workgroup=32)
        self.x, self.y = self.p.input("x", u32), self.p.inout("y", f32)
        self.n, self.a, self.d = self.p.param("n", u32), self.p.param("a", f32), self.p.param("d", f64)
        self.k, self.w, self.t = self.p.param("k", i32), self.p.param("w", u64), self.p.param("t", bool_)
        self.v = self.p.var(1.0)


NUMBERS: list[Any] = [
    *(kind(5) for kind in (np.uint8, np.uint16, np.uint32, np.uint64, np.int8, np.int16, np.int32, np.int64)),
    np.longlong(5),
    np.int64(-5),
    np.uint64(1 << 63),
    *(kind(0.1) for kind in (np.float16, np.float32, np.float64)),
    np.float64(1e300),
    np.float32("nan"),
    np.float64("-inf"),
    np.float64(-0.0),
    np.True_,
    np.False_,
    np.array(5),
    np.array(0.5, np.float32),
]
"""Numbers of every kind; each stands for the Python number of its value."""

USES: list[Callable[[Kernel, Any], Value | None]] = [
    lambda k, x: k.n + x,
    lambda k, x: x + k.n,
    lambda k, x: k.k - x,
    lambda k, x: x - k.k,
    lambda k, x: k.w * x,
    lambda k, x: x * k.a,
    lambda k, x: k.a / x,
    lambda k, x: x / k.d,
    lambda k, x: x // k.n,
    lambda k, x: k.n % x,
    lambda k, x: x % k.w,
    lambda k, x: x & k.n,
    lambda k, x: k.t | x,
    lambda k, x: x ^ k.t,
    lambda k, x: k.n << x,
    lambda k, x: x >> k.n,
    lambda k, x: x < k.a,
    lambda k, x: k.d <= x,
    lambda k, x: x == k.n,
    lambda k, x: k.t != x,
    lambda k, x: x >= k.k,
    lambda k, x: vyre.min_(x, k.d),
    lambda k, x: vyre.select(k.t, x, k.a),
    lambda k, x: vyre.fma(k.a, x, 1.0),
    lambda k, x: vyre.subgroup_shuffle(k.a, x),
    lambda k, x: k.x[x],
    lambda k, x: k.y.__setitem__(x, 1.0),
    lambda k, x: k.y.__setitem__(0, x),
    lambda k, x: k.v.assign(x),
    lambda k, x: k.p.trap(x, "tag"),
    lambda k, x: u32(x),
    lambda k, x: f32(x),
    lambda k, x: f64(x),
    lambda k, x: bool_(x),
    lambda k, x: i64(x),
]
"""Uses in which the type of the number follows from what stands beside it."""


def outcome(use: Callable[[Kernel, Any], Value | None], number: Any) -> tuple[object, ...]:
    """What the use makes of a number: the type and the expression, the statement, or the error without its line."""
    k = Kernel()
    try:
        made = use(k, number)
    except BuildError as error:
        return type(error), str(error).partition(": ")[2]
    return (None if made is None else (made.dtype, made.expr)), k.p.build(check=False).body


@pytest.mark.parametrize("number", NUMBERS, ids=repr)
def test_where_a_type_is_wanted_a_scalar_is_the_python_number_of_its_value(number: Any) -> None:
    taken = 0
    for use in USES:
        assert outcome(use, number) == outcome(use, number.item())
        taken += not isinstance(outcome(use, number)[0], type)
    assert 2 <= taken < len(USES)


OWN_TYPES: list[tuple[Any, ScalarType]] = [
    (np.uint8(5), u32),
    (np.uint16(5), u32),
    (np.uint32(5), u32),
    (np.uint64(5), u64),
    (np.ulonglong(5), u64),
    (np.int8(-5), i32),
    (np.int16(-5), i32),
    (np.int32(-5), i32),
    (np.int64(-5), i64),
    (np.float16(0.1), f32),
    (np.float32(0.1), f32),
    (np.float64(0.1), f64),
    (np.True_, bool_),
    (np.array(0.1), f64),
]


@pytest.mark.parametrize(("number", "dtype"), OWN_TYPES, ids=repr)
def test_where_nothing_else_decides_its_own_type_does(number: Any, dtype: ScalarType) -> None:
    p = ProgramBuilder("kernel", workgroup=1)
    assert p.let(number).dtype is p.var(number).dtype is dtype
    assert p.build(check=False).body[0].value == Literal.of(dtype, number.item())  # type: ignore[union-attr]
    if dtype is not bool_:
        assert vyre.min_(number, 1).dtype is vyre.min_(1, number).dtype is vyre.select(True, 1, number).dtype is dtype
        assert vyre.abs_(number).dtype is dtype


def test_a_value_decides_before_a_scalar_does() -> None:
    k = Kernel()
    assert vyre.select(np.True_, np.float64(1), k.a).dtype is f32
    assert vyre.fma(np.float64(1), k.a, np.float16(2)).dtype is f32
    assert (np.float64(1) + k.a + np.int64(1)).dtype is f32


def test_a_float_rounds_once() -> None:
    near = np.float64(1 + 2**-24 + 2**-52)  # nearest f32: 1 + 2^-23
    assert f32(near).expr == Literal.of(f32, 1 + 2**-23)
    assert (Kernel().a * near).expr.right == Literal.of(f32, 1 + 2**-23)  # type: ignore[union-attr]


def test_literals_of_nodes_take_them() -> None:
    assert Literal.of(u32, np.int64(7)) == Literal.of(u32, 7)
    assert Literal.of(bool_, np.True_) == Literal.of(bool_, True)
    assert Literal.of(f32, np.float64(0.1)) == Literal.of(f32, 0.1)
    refused: list[tuple[ScalarType, Any]] = [
        (u32, np.float32(1)),
        (u32, np.int64(-1)),
        (bool_, np.int64(1)),
        (f32, np.complex64(1)),
        (f32, np.ones(1)),
        (f32, "1"),
    ]
    for dtype, number in refused:
        with pytest.raises(ValueError, match="Fix: "):
            Literal.of(dtype, number)


ELEMENTS: list[tuple[Any, ScalarType]] = [
    (np.uint8, u8),
    (np.uint16, u16),
    (np.uint32, u32),
    (np.uint64, u64),
    (np.int8, i8),
    (np.int16, i16),
    (np.int32, i32),
    (np.int64, i64),
    (np.longlong, i64),
    (np.intc, i32),
    (np.half, f16),
    (np.single, f32),
    (np.double, f64),
]


@pytest.mark.parametrize(("given", "dtype"), ELEMENTS)
def test_a_type_of_numpy_is_the_type_of_the_same_memory(given: Any, dtype: ScalarType) -> None:
    for one in (given, np.dtype(given), np.zeros(1, given).dtype):
        p = ProgramBuilder("kernel", workgroup=1)
        for declare in (p.input, p.inout, p.output, p.uniform, p.workgroup):
            declare(declare.__name__, one, 4)
        if dtype.is_executable:
            assert p.param("a", one).dtype is dtype
            assert u32(1).cast(one).expr == u32(1).cast(dtype).expr
        assert {buffer.element for buffer in p.build(check=False).buffers} == {dtype}
        assert EventBuilder(workgroup=1).buffer("x", one).element is dtype


def test_numpys_bool_is_bool_as_a_value() -> None:
    p = ProgramBuilder("kernel", workgroup=1)
    assert p.param("c", np.bool_).dtype is bool_
    assert p.param("d", np.dtype(bool)).dtype is bool_
    assert u32(1).cast(np.bool_).dtype is bool_
    b = EventBuilder(workgroup=1)
    assert b.buffer("c", np.bool_, Access.UNIFORM, 1, kind=MemoryKind.PUSH).element is bool_


REFUSED: list[tuple[Any, str]] = [
    (np.dtype(">f4"), 'use vyre.f32, and pass x.astype("<f4"): memory of kernels is little-endian'),
    (np.dtype([("a", "<f4"), ("b", "<u4")]), "declare a buffer for each field"),
    (np.dtype(object), "use a scalar type such as vyre.f32 or vyre.u8"),
    (np.object_, "use a scalar type"),
    (np.complex64, "use a scalar type"),
    (np.longdouble, "use a scalar type"),
    (np.dtype("<M8[s]"), "use a scalar type"),
    (np.timedelta64, "use a scalar type"),
    (np.dtype("U4"), "use a scalar type"),
    (np.dtype(("<f4", (2,))), "use a scalar type"),
    (np.floating, "use a scalar type"),
    (np.void, "use a scalar type"),
    (np.ndarray, "use a scalar type"),
    (np.float32(1), "use a scalar type"),
]


@pytest.mark.parametrize(("given", "fix"), REFUSED, ids=repr)
def test_other_types_of_numpy_are_refused(given: Any, fix: str) -> None:
    for declare in (ProgramBuilder("kernel", workgroup=1).input, EventBuilder(workgroup=1).buffer):
        with pytest.raises(BuildError, match="`x` has the element type") as caught:
            declare("x", given)
        assert fix in str(caught.value)
    with pytest.raises(BuildError, match="no expression has that type"):
        u32(1).cast(given)


NO_NUMBERS: list[Any] = [
    np.complex64(1),
    np.longdouble(1),
    np.str_("1"),
    np.timedelta64(1, "s"),
    np.ones(1),
    np.ones((2, 2)),
]


@pytest.mark.parametrize("given", NO_NUMBERS, ids=repr)
def test_what_is_no_number_is_refused(given: Any) -> None:
    for use in (lambda k: k.a + given, lambda k: given + k.a, lambda k: k.p.let(given), lambda k: f32(given)):
        with pytest.raises(BuildError) as caught:
            use(Kernel())
        assert caught.value.loc is not None and caught.value.loc.file == __file__


def test_sizes_axes_and_ranges_take_them() -> None:
    p = ProgramBuilder("kernel", workgroup=(np.int64(8), np.uint8(4)))
    p.inout("x", f32, np.int64(64), output_range=(np.int64(4), np.uint32(8)))
    p.workgroup("t", f32, np.prod([4, 2]))
    assert p.global_id(np.int64(1)).expr == p.global_id(1).expr
    program = p.build(check=False)
    assert program.workgroup_size == (8, 4, 1)
    x, t = program.buffers
    assert (x.count, x.output_range, t.count) == (64, (4, 8), 8)
    assert {type(number) for number in (*program.workgroup_size, x.count, t.count, *(x.output_range or ()))} == {int}
    for wrong in (np.float64(4), np.True_, np.int64(-1), np.uint64(1 << 32), np.ones(1, np.int64)):
        with pytest.raises(BuildError):
            ProgramBuilder("kernel", workgroup=wrong)  # type: ignore[arg-type]
        with pytest.raises(BuildError):
            ProgramBuilder("kernel", workgroup=1).input("x", f32, wrong)  # type: ignore[arg-type]


def test_a_name_bound_to_a_scalar_before_a_block_is_watched_like_any_number() -> None:
    with pytest.raises(BuildError, match="`scale` is bound to another value"), ProgramBuilder("k", workgroup=1) as p:
        y = p.inout("y", f32)
        other = p.let(y[0])
        scale: Any = np.float32(2)
        with p.if_(y[1] > 0):
            scale = other
        y[0] = scale


def test_a_kernel_of_scalars_and_dtypes_computes() -> None:
    x = np.linspace(-1, 1, 64, dtype=np.float32)
    scale, shift = np.float32(0.3), np.float64(0.1)
    with ProgramBuilder("affine", workgroup=np.int64(32)) as p:
        data, y = p.input("x", x.dtype, x.size), p.inout("y", np.float64, len(x))
        i = p.global_id()
        y[i] = scale.astype(np.float64) * data[i].cast(np.float64) + shift
    with vyre.open("reference") as session:
        result = session.dispatch(p.build(), {"x": x, "y": np.zeros(64)})
    assert result["y"].tobytes() == (np.float64(scale) * x.astype(np.float64) + shift).tobytes()


def test_the_builder_imports_no_numpy() -> None:
    code = "import sys, vyre.domain.ir.builder, vyre.domain.ir.event_builder; print('numpy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=LIMIT_S)
    assert done.stdout.split() == ["False"]


def test_python_numbers_stay_the_same_objects() -> None:
    for number in (True, 5, 0.5, 10**400, "x", None):
        assert python_number(number) is number
