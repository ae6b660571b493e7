"""Lints on single expressions: ranges of types against literals."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from vyre.domain.ir.bits import integer_range
from vyre.domain.ir.expr import Binary, Cast, Expr, Literal, Load, Select, Unary
from vyre.domain.ir.node import Node
from vyre.domain.ir.operators import BINARY, BinaryOp, Element, UnaryOp
from vyre.domain.ir.program import Buffer
from vyre.domain.ir.types import ScalarType
from vyre.domain.numerics.ranges import equal, less


class Lint(NamedTuple):
    """A finding: its code and its message."""

    code: str
    message: str


class ExpressionLints:
    """The lints on expressions of one program.

    ``type_of`` returns the static type of an expression at the current position of the traversal.
    """

    def __init__(self, buffers: Mapping[str, Buffer], type_of: Callable[[Expr], ScalarType | None]) -> None:
        self._buffers = buffers
        self._type_of = type_of

    def of(self, expr: Expr) -> Lint | None:
        """Returns the lint on an expression itself, not on its operands, or None."""
        check = _CHECKS.get(type(expr))
        return None if check is None else check(self, expr)

    def _binary(self, expr: Binary) -> Lint | None:
        check = _OF_OPERATOR.get(expr.op)
        return None if check is None else check(self, expr)

    def _comparison(self, expr: Binary) -> Lint | None:
        left, right = self._range(expr.left), self._range(expr.right)
        if left is None or right is None:
            return self._with_nan(expr)
        literal = expr.right if isinstance(expr.right, Literal) else expr.left
        if not isinstance(literal, Literal):
            return None
        outcome = _OUTCOME[expr.op](left, right)
        if outcome is None:
            return None
        other = expr.left if literal is expr.right else expr.right
        what = f"`{BINARY[expr.op].text}` with {literal.value} is always {str(outcome).lower()}"
        return Lint("L001", f"{what} for {self._type_text(other, literal)}")

    def _with_nan(self, expr: Binary) -> Lint | None:
        for operand in (expr.left, expr.right):
            if isinstance(operand, Literal) and operand.dtype.is_float and math.isnan(operand.value):
                outcome = str(expr.op is BinaryOp.NE).lower()
                return Lint("L001", f"`{BINARY[expr.op].text}` with NaN is always {outcome}; `is_nan` asks for NaN")
        return None

    def _extremum(self, expr: Binary) -> Lint | None:
        literal, other = (expr.right, expr.left) if isinstance(expr.right, Literal) else (expr.left, expr.right)
        if not isinstance(literal, Literal) or not literal.dtype.is_integer:
            return None
        limits = self._range(other)
        if limits is None:
            return None
        low, high = limits
        value = int(literal.value)
        below, above = value <= low, value >= high
        if not below and not above:
            return None
        keeps_operand = below if BINARY[expr.op].neutral is Element.LEAST else above
        result = "the other operand" if keeps_operand else str(value)
        what = f"`{BINARY[expr.op].text}` with {value} is always {result}"
        return Lint("L002", f"{what} for {self._type_text(other, literal)}")

    def _absolute(self, expr: Unary) -> Lint | None:
        dtype = self._type_of(expr.operand) if expr.op is UnaryOp.ABS else None
        if dtype is None or not dtype.is_integer or dtype.is_signed:
            return None
        return Lint("L002", f"`abs` is always the operand itself for {dtype.text}")

    def _shift(self, expr: Binary) -> Lint | None:
        dtype = self._type_of(expr.left) if isinstance(expr.right, Literal) else None
        if dtype is None or not isinstance(expr.right, Literal):
            return None
        count = int(expr.right.value)
        if 0 <= count < dtype.bits:
            return None
        return Lint("L007", f"`{BINARY[expr.op].text}` by {count} shifts by {count % dtype.bits} for {dtype.text}")

    def _division(self, expr: Binary) -> Lint | None:
        divisor = expr.right
        if isinstance(divisor, Literal) and divisor.dtype.is_float:
            return Lint("L010", f"every quotient by {divisor.value} is infinite or NaN") if not divisor.value else None
        return self._remainder(expr)

    def _remainder(self, expr: Binary) -> Lint | None:
        dtype = self._type_of(expr.right) if _is_written_zero(expr.right) else None
        if dtype is None or not dtype.is_integer:
            return None
        return Lint("L013", f"the divisor of `{BINARY[expr.op].text}` is the literal 0")

    def of_label(self, selector: Expr, label: Literal) -> Lint | None:
        """Returns the lint on a label of a ``switch``, or None."""
        limits = self._range(selector)
        if limits is None or isinstance(selector, Literal) or limits[0] <= int(label.value) <= limits[1]:
            return None
        return Lint("L001", f"the label {label.value} never matches a value of {self._type_text(selector, label)}")

    def _select(self, expr: Select) -> Lint | None:
        if isinstance(expr.condition, Literal):
            return Lint("L008", f"the condition of this `select` is {str(bool(expr.condition.value)).lower()}")
        return None

    def _range(self, expr: Expr) -> tuple[int, int] | None:
        """Returns the least and the greatest value of an integer; None for other types."""
        if isinstance(expr, Literal):
            return (int(expr.value), int(expr.value)) if expr.dtype.is_integer else None
        dtype = self._type_of(expr)
        if isinstance(expr, Load):
            element = self._buffers[expr.buffer].element
            dtype = element if isinstance(element, ScalarType) else dtype
        return integer_range(dtype) if dtype is not None and dtype.is_integer else None

    def _type_text(self, other: Expr, literal: Literal) -> str:
        """Returns the type whose range decided."""
        return self._buffers[other.buffer].element.text if isinstance(other, Load) else literal.dtype.text


def _is_written_zero(expr: Expr) -> bool:
    """Returns whether an expression is an integer literal 0, also inside casts."""
    while isinstance(expr, Cast):
        expr = expr.operand
    return isinstance(expr, Literal) and expr.dtype.is_integer and expr.bits == 0


def _opposite(outcome: bool | None) -> bool | None:
    return None if outcome is None else not outcome


_Outcome = Callable[[tuple[int, int], tuple[int, int]], bool | None]
_OUTCOME: Final[dict[BinaryOp, _Outcome]] = {
    BinaryOp.LT: less,
    BinaryOp.GT: lambda left, right: less(right, left),
    BinaryOp.LE: lambda left, right: _opposite(less(right, left)),
    BinaryOp.GE: lambda left, right: _opposite(less(left, right)),
    BinaryOp.EQ: equal,
    BinaryOp.NE: lambda left, right: _opposite(equal(left, right)),
}
_ENDS: Final = (Element.LEAST, Element.GREATEST)
_OF_OPERATOR: Final[dict[BinaryOp, Callable[[ExpressionLints, Binary], Lint | None]]] = {
    **dict.fromkeys(_OUTCOME, ExpressionLints._comparison),
    **dict.fromkeys([op for op, row in BINARY.items() if row.neutral in _ENDS], ExpressionLints._extremum),
    BinaryOp.SHL: ExpressionLints._shift,
    BinaryOp.SHR: ExpressionLints._shift,
    BinaryOp.DIV: ExpressionLints._division,
    BinaryOp.MOD: ExpressionLints._remainder,
}
_CHECKS: Final[dict[type[Node], Callable[[ExpressionLints, Any], Lint | None]]] = {
    Binary: ExpressionLints._binary,
    Unary: ExpressionLints._absolute,
    Select: ExpressionLints._select,
}
