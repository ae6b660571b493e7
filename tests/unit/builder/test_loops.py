"""Loops of every integer type, private arrays and narrow values: what is recorded, and what it computes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import vyre
from vyre import BuildError, ProgramBuilder, Value, bf16, bool8, f16, f32, f64, i8, i16, i32, i64, u8, u16, u32, u64
from vyre.domain.ir.expr import Expr, Literal, Load, Narrow, Pack, Unary, Unpack, Var, WrapCast
from vyre.domain.ir.operators import UnaryOp
from vyre.domain.ir.stmt import Barrier, Let, Loop, Store
from vyre.ir import NARROW_TYPES, Access, Buffer, MemoryKind

ENGINES = ("reference", "reference-scalar")


def lit(value: int | float, dtype: Any = u32) -> Literal:
    return Literal.of(dtype, value)


class Kernel:
    def __init__(self) -> None:
        self.p = ProgramBuilder("kernel", workgroup=32)
        self.y = self.p.inout("y", i32)
        self.n, self.i, self.w = self.p.param("n", u32), self.p.param("i", i32), self.p.param("w", i64)
        self.q, self.f = self.p.param("q", u64), self.p.param("f", f32)


BOUNDS: list[tuple[Any, Any]] = [
    (lambda k: (0, 3), u32),
    (lambda k: (0, (1 << 32) - 1, 1 << 31), u32),
    (lambda k: (10, -1, -1), i32),
    (lambda k: (10, 0, -1), i32),
    (lambda k: (-3, 3), i32),
    (lambda k: (0, np.int64(3)), u32),
    (lambda k: (np.uint8(3), -1, np.int16(-1)), i32),
    (lambda k: (0, k.n), u32),
    (lambda k: (k.i, 0, -1), i32),
    (lambda k: (k.i - 1, -1, -1), i32),
    (lambda k: (0, k.w, np.uint8(4)), i64),
    (lambda k: (0, 1 << 40, u64(1)), u64),
    (lambda k: (k.q, i64(5).cast(u64)), u64),
]


@pytest.mark.parametrize(("bounds", "dtype"), BOUNDS)
def test_a_loop_counts_in_the_type_of_its_bounds(bounds: Any, dtype: Any) -> None:
    k = Kernel()
    given = bounds(k)
    with k.p.for_(*given) as c:
        assert c.dtype is dtype
        k.y[c] = 1
    (loop,) = k.p.build().body
    assert isinstance(loop, Loop)
    expected = tuple(
        one.expr if isinstance(one, Value) else lit(int(one), dtype) for one in (*given, *(1,) * (3 - len(given)))
    )
    assert (loop.start, loop.stop, loop.step) == expected
    assert loop.body == (Store("y", Var("k"), lit(1, i32)),)


REFUSED: list[tuple[Any, str]] = [
    (lambda k: (k.n, -1, -1), "the stop of a loop, -1, is negative, and the loop counts in u32"),
    (lambda k: (k.q, 0, np.int8(-2)), "the step of a loop, -2, is negative, and the loop counts in u64"),
    (lambda k: (-1, k.n), "the start of a loop, -1, is negative"),
    (lambda k: (0, k.n, k.i), "the step of a loop must be u32, not i32"),
    (lambda k: (k.i, k.w), "the stop of a loop must be i32, not i64"),
    (lambda k: (0, k.f), "the stop of a loop must be an integer, not f32"),
    (lambda k: (k.n < 3, 3), "the start of a loop must be an integer, not bool"),
    (lambda k: (0, 1.5), "1.5 is no integer"),
    (lambda k: (0, np.float32(3)), "3.0 is no integer"),
    (lambda k: (0, True), "True is a bool"),
    (lambda k: (0, 1 << 32), "4294967296 does not fit u32"),
    (lambda k: (1 << 31, -1, -1), "2147483648 does not fit i32"),
    (lambda k: (0, k.i, 1 << 31), "2147483648 does not fit i32"),
]


@pytest.mark.parametrize(("bounds", "message"), REFUSED)
def test_bounds_that_have_no_common_type_are_refused(bounds: Any, message: str) -> None:
    k = Kernel()
    with pytest.raises(BuildError) as caught:
        k.p.for_(*bounds(k))
    assert message in str(caught.value) and "Fix: " in str(caught.value)


RANGES: list[tuple[Any, tuple[int, int, int]]] = [
    (u32, (0, 5, 2)),
    (u32, (5, 5, 1)),
    (u32, ((1 << 32) - 3, (1 << 32) - 1, 2)),
    (u32, (0, (1 << 32) - 1, 1 << 31)),
    (i32, (10, -1, -3)),
    (i32, (-1, 10, 4)),
    (i32, (0, 5, -1)),
    (i32, (-(1 << 31), (1 << 31) - 1, (1 << 31) - 1)),
    (i32, ((1 << 31) - 1, -(1 << 31), -(1 << 31))),
    (i64, ((1 << 40) + 3, 1 << 40, -1)),
    (i64, (-(1 << 63), (1 << 63) - 1, (1 << 63) - 1)),
    (u64, ((1 << 64) - 3, (1 << 64) - 1, 1)),
    (u64, (0, 9, 3)),
]


@pytest.mark.parametrize(("dtype", "bounds"), RANGES)
@pytest.mark.parametrize("as_values", [False, True])
@pytest.mark.parametrize("backend", ENGINES)
def test_a_loop_is_the_range_of_python(dtype: Any, bounds: tuple[int, int, int], as_values: bool, backend: str) -> None:
    with ProgramBuilder("range", workgroup=1) as p:
        y = p.inout("y", dtype, 8)
        start, stop, step = (
            p.param(name, dtype) if as_values else dtype(at) for name, at in zip("abc", bounds, strict=True)
        )
        count = p.var(0)
        with p.for_(start, stop, step) as c:
            y[count] = c
            count += 1
        y[7] = count.cast(dtype)
    numpy_type = np.dtype(dtype.numpy_name)
    with vyre.open(backend) as session:
        inputs = {"y": np.zeros(8, numpy_type)} | (dict(zip("abc", bounds, strict=True)) if as_values else {})
        found = session.dispatch(p.build(), inputs, grid=1)["y"]
    expected = [*range(*bounds)]
    assert len(expected) < 8
    assert found.tolist() == [*expected, *[0] * (7 - len(expected)), len(expected)]


def test_private_arrays_are_declared_like_workgroup_memory() -> None:
    k = Kernel()
    stack = k.p.array("stack", u8, 64)
    shared = k.p.workgroup("shared", u32, 4)
    out = k.p.output("out", np.float32, 8)
    flags = k.p.array("flags", np.bool_, np.int64(3))
    assert (stack.dtype, flags.dtype) == (u32, vyre.bool_)
    stack[k.i] = stack[0] + 1
    flags[k.w] = True
    assert (shared.name, out.name) == ("shared", "out")
    program = k.p.build()
    by_name = {buffer.name: buffer for buffer in program.buffers}
    made = by_name["stack"]
    assert made == Buffer.make("stack", 0, Access.PRIVATE, u8, 64)
    assert (made.kind, made.is_bound, by_name["out"].binding) == (MemoryKind.PRIVATE, False, 6)
    assert by_name["flags"].element is bool8
    assert program.body[-1] == Store("flags", Load("w", lit(0)), Literal.of(vyre.bool_, True))


def test_a_barrier_leaves_private_memory_as_it_is() -> None:
    k = Kernel()
    a, t = k.p.array("a", i32, 4), k.p.workgroup("t", i32, 4)
    mine, theirs = a[0], t[0]
    k.p.barrier()
    k.y[0] = mine
    with pytest.raises(BuildError, match="this value reads buffer `t`"):
        k.y[0] = theirs
    a[0] = 1
    with pytest.raises(BuildError, match="this value reads buffer `a`"):
        k.y[0] = mine
    assert k.p.build(check=False).body[0] == Barrier()


def test_misuse_of_private_memory_is_refused() -> None:
    k = Kernel()
    a = k.p.array("a", u32, 4)
    with pytest.raises(BuildError, match="buffer `a` is private memory, on which there are no atomics"):
        a.atomic_add(0, 1)
    for count in (None, 0, -1, 2.5):
        with pytest.raises(BuildError, match="Fix: give a"):
            k.p.array("b", u32, count)  # type: ignore[arg-type]
    k.p.array("large", u32, 1 << 14)
    with pytest.raises(vyre.InvalidProgram, match="V220"):
        k.p.build()


@pytest.mark.parametrize("backend", ENGINES)
def test_a_stack_in_private_memory_reverses(backend: str) -> None:
    data = np.arange(12, dtype=np.uint16) * 1000
    with ProgramBuilder("reverse", workgroup=4) as p:
        x, y = p.input("x", u16), p.output("y", u32, like="x")
        stack, top = p.array("stack", u16, 4), p.var(i32(0))
        first = p.global_id() * 4
        with p.for_(0, 4) as k:
            stack[top] = x[first + k]
            top += 1
        with p.for_(0, 4) as k:
            top -= 1
            y[first + k] = stack[top]
    with vyre.open(backend) as session:
        found = session.dispatch(p.build(), {"x": data}, grid=1)["y"]
    assert found.tolist() == data.reshape(3, 4)[:, ::-1].ravel().tolist()


@pytest.mark.parametrize("dtype", NARROW_TYPES, ids=repr)
def test_narrow_pack_and_unpack_record_their_nodes(dtype: Any) -> None:
    p = ProgramBuilder("narrow", workgroup=1)
    x, word = p.param("x", dtype.widened), p.param("word", u32)
    read: Expr = x.expr
    made = (vyre.narrow(dtype, x), vyre.pack(dtype, x), vyre.unpack(dtype, word))
    assert [value.expr for value in made] == [Narrow(dtype, read), Pack(dtype, read), Unpack(dtype, word.expr)]
    assert [value.dtype for value in made] == [dtype.widened, u32, dtype.widened]
    assert vyre.narrow(dtype, 1).expr == Narrow(dtype, lit(1, dtype.widened))
    if dtype is not bf16:
        assert vyre.narrow(np.dtype(dtype.numpy_name), x).expr == Narrow(dtype, read)
    p.let(made[0])
    assert p.build().body == (Let("t", Narrow(dtype, read)),)
    for operation in (vyre.narrow, vyre.pack):
        with pytest.raises(BuildError, match=rf"the operand of {operation.__name__}\({dtype.text}, x\) must be"):
            operation(dtype, f64(1))
    with pytest.raises(BuildError, match=r"the operand of unpack.* must be u32"):
        vyre.unpack(dtype, i64(1))


@pytest.mark.parametrize("target", [u32, i32, u64, i64], ids=repr)
@pytest.mark.parametrize("source", [f32, f64], ids=repr)
def test_wrap_cast_records_its_node(target: Any, source: Any) -> None:
    p = ProgramBuilder("wrap", workgroup=1)
    x = p.param("x", source)
    assert p.let(vyre.wrap_cast(target, x)).dtype is target
    assert p.build().body == (Let("t", WrapCast(target, x.expr)),)
    assert vyre.wrap_cast(np.dtype(target.numpy_name), source(1.5)).expr == WrapCast(target, lit(1.5, source))


def test_round_even_is_a_function_of_floats() -> None:
    assert vyre.round_even(f64(2.5)).expr == Unary(UnaryOp.ROUND_EVEN, lit(2.5, f64))
    with pytest.raises(BuildError, match="`round_even` is not defined for u32"):
        vyre.round_even(1)


def loosely(given: object) -> Any:
    """Returns the argument with the type Any, so that type checkers accept it where they would refuse it."""
    return given


WRONG: list[tuple[Any, str]] = [
    (lambda x: vyre.narrow(f32, x), "narrow is not defined for f32. Fix: use u8, u16, i8, i16, f16 or bf16"),
    (lambda x: vyre.pack(bool8, x), "pack is not defined for bool8"),
    (lambda x: vyre.unpack(np.bool_, x), "unpack is not defined for bool"),
    (
        lambda x: vyre.narrow(x, loosely(f16)),
        "narrow takes a type first, and `x` (an f32 value) is none. Fix: write narrow(type, x)",
    ),
    (lambda x: vyre.pack(loosely("f16"), x), "pack takes a type first, and 'f16' is none. Fix: use vyre.f16"),
    (lambda x: vyre.unpack(np.dtype(">f2"), x), 'use vyre.f16, and pass x.astype("<f2")'),
    (lambda x: vyre.wrap_cast(f64, x), "wrap_cast makes integers, and not f64"),
    (lambda x: vyre.wrap_cast(i8, x), "wrap_cast makes integers, and not i8"),
    (lambda x: vyre.wrap_cast(u32, loosely(i16)), "i16 (ScalarType) is neither a value nor a number"),
    (lambda x: vyre.wrap_cast(u32, 3), "`wrap_cast` is not defined for u32"),
]


@pytest.mark.parametrize(("use", "message"), WRONG)
def test_misuse_of_the_functions_with_a_type(use: Any, message: str) -> None:
    with pytest.raises(BuildError) as caught:
        use(f32(1))
    assert message in str(caught.value)
    assert caught.value.loc is not None and caught.value.loc.file == __file__
