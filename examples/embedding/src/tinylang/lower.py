"""Lowering: one element-wise kernel per expression."""

from __future__ import annotations

from typing import assert_never

from tinylang.syntax import Add, Expression, Mul, Name, Number
from vyre import Program, ProgramBuilder, Value, f32

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
    with ProgramBuilder("tinylang", workgroup=128) as p:
        buffers = {name: p.input(name, f32) for name in inputs}
        first = buffers[inputs[0]]
        result = p.output(RESULT, f32, like=first)
        i = p.global_id()
        with p.if_(i < first.length):
            elements = {name: p.let(buffer[i]) for name, buffer in buffers.items()}
            result[i] = _value(expression, elements)
    return p.build()


def _value(expression: Expression, elements: dict[str, Value]) -> Value:
    match expression:
        case Name(text):
            return elements[text]
        case Number(value):
            return f32(value)
        case Add(left, right):
            return _value(left, elements) + _value(right, elements)
        case Mul(left, right):
            return _value(left, elements) * _value(right, elements)
        case _:
            assert_never(expression)
