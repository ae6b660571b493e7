"""Lowering: one element-wise kernel per expression."""

from __future__ import annotations

from typing import assert_never

from tinylang.syntax import Add, Expression, Mul, Name, Number
from vyre.ir import (
    Access,
    Binary,
    BinaryOp,
    BufferLength,
    EventBuilder,
    Expr,
    IdKind,
    LaunchId,
    Literal,
    Load,
    Program,
    ScalarType,
    Var,
)

RESULT = "result"


def names(expression: Expression) -> list[str]:
    """Names in order of first use."""
    match expression:
        case Name(text):
            return [text]
        case Number():
            return []
        case Add(left, right) | Mul(left, right):
            return list(dict.fromkeys(names(left) + names(right)))
        case _:
            assert_never(expression)


def lower(expression: Expression) -> Program:
    """``result[i] = expression`` over arrays of f32; the first name gives the length."""
    inputs = names(expression)
    if not inputs:
        raise ValueError("an expression without names has no length")
    b = EventBuilder("tinylang", workgroup=128)
    for name in inputs:
        b.buffer(name, ScalarType.F32)
    b.buffer(RESULT, ScalarType.F32, Access.READ_WRITE, is_output=True, like=inputs[0])
    i = LaunchId(IdKind.GLOBAL, 0)
    b.if_(Binary(BinaryOp.LT, i, BufferLength(inputs[0])))
    for name in inputs:
        b.let(_element(name), Load(name, i))
    b.store(RESULT, i, _value(expression))
    b.close()
    return b.build()


def _element(name: str) -> str:
    return f"{name}_i"


def _value(expression: Expression) -> Expr:
    match expression:
        case Name(text):
            return Var(_element(text))
        case Number(value):
            return Literal.of(ScalarType.F32, value)
        case Add(left, right):
            return Binary(BinaryOp.ADD, _value(left), _value(right))
        case Mul(left, right):
            return Binary(BinaryOp.MUL, _value(left), _value(right))
        case _:
            assert_never(expression)
