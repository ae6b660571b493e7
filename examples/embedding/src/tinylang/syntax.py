"""The language: ``+``, ``*``, numbers and names, parsed with Python's own grammar."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Name:
    text: str


@dataclass(frozen=True, slots=True)
class Number:
    value: float


@dataclass(frozen=True, slots=True)
class Add:
    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True)
class Mul:
    left: Expression
    right: Expression


Expression: TypeAlias = Name | Number | Add | Mul


def parse(text: str) -> Expression:
    """The expression in ``text``; raises ``SyntaxError``."""
    return _convert(ast.parse(text, mode="eval").body)


def _convert(node: ast.expr) -> Expression:
    match node:
        case ast.Name(id=name):
            return Name(name)
        case ast.Constant(value=int() | float() as value):
            return Number(float(value))
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return Add(_convert(left), _convert(right))
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            return Mul(_convert(left), _convert(right))
    raise SyntaxError(f"tinylang has no {type(node).__name__}")
