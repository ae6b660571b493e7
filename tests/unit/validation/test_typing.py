"""Static types of expressions, without a whole program."""

from __future__ import annotations

import pytest

from support.kernels import INP, LID, SH, TRUE, less, lit, load, var
from vyre.domain.ir.expr import (
    Atomic,
    Binary,
    Bitcast,
    BufferLength,
    Cast,
    Expr,
    Fma,
    Literal,
    Select,
    SpecConst,
    SubgroupBallot,
    SubgroupLane,
    SubgroupReduce,
    SubgroupShuffle,
    SubgroupSize,
    Unary,
)
from vyre.domain.ir.operators import AtomicOp, BinaryOp, SubgroupOp, UnaryOp, binary_result, unary_result
from vyre.domain.ir.program import Access, Buffer
from vyre.domain.ir.types import EXECUTABLE_TYPES, ReservedType, ScalarType, bool_, f32, f64, i32, u32, u64
from vyre.domain.validation.typing import static_type

_BUFFERS = {
    INP.name: INP,
    SH.name: SH,
    "opaque": Buffer.make("opaque", 5, Access.READ_ONLY, ReservedType("bytes")),
    **{t.text: Buffer.make(t.text, 10 + i, Access.READ_WRITE, t) for i, t in enumerate(ScalarType)},
}


def _typed(expr: Expr) -> ScalarType | None:
    return static_type(expr, {"x": f64}, _BUFFERS)


@pytest.mark.parametrize("op", BinaryOp)
def test_binary_operators_follow_their_table(op: BinaryOp) -> None:
    for left in EXECUTABLE_TYPES:
        for right in EXECUTABLE_TYPES:
            assert _typed(Binary(op, Literal(left, 1), Literal(right, 1))) is binary_result(op, left, right)


@pytest.mark.parametrize("op", UnaryOp)
def test_unary_operators_follow_their_table(op: UnaryOp) -> None:
    for operand in EXECUTABLE_TYPES:
        assert _typed(Unary(op, Literal(operand, 1))) is unary_result(op, operand)


@pytest.mark.parametrize("element", ScalarType)
def test_loads_widen(element: ScalarType) -> None:
    assert _typed(load(element.text)) is element.widened


@pytest.mark.parametrize(
    ("expr", "expected"),
    [
        (var("x"), f64),
        (BufferLength("inp"), u32),
        (SubgroupLane(), u32),
        (SubgroupSize(), u32),
        (Select(TRUE, var("x"), var("x")), f64),
        (Select(TRUE, var("x"), LID), None),
        (Cast(u64, var("x")), u64),
        (Cast(ScalarType.U8, var("x")), None),
        (Bitcast(u64, var("x")), u64),
        (Bitcast(u32, var("x")), None),
        (Fma(*(var("x"),) * 3), f64),
        (Fma(var("x"), var("x"), lit(1.0, f32)), None),
        (Atomic(AtomicOp.ADD, "sh", LID, None, LID), u32),
        (Atomic(AtomicOp.ADD, "i32", LID, None, lit(1, i32)), i32),
        (Atomic(AtomicOp.ADD, "f32", LID, None, lit(1.0, f32)), None),
        (SubgroupReduce(SubgroupOp.ADD, var("x")), f64),
        (SubgroupReduce(SubgroupOp.ADD, TRUE), None),
        (SubgroupBallot(less(LID, lit(2))), u32),
        (SubgroupShuffle(TRUE, lit(0)), bool_),
        (SpecConst("n", lit(1.0, f32)), f32),
        (SpecConst("n", lit(1, u64)), None),
        (var("nope"), None),
        (load("nope"), None),
        (load("opaque"), None),
        (less(var("nope"), lit(1)), None),
    ],
)
def test_types(expr: Expr, expected: ScalarType | None) -> None:
    assert _typed(expr) is expected
