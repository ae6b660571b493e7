"""Pure expressions interpreted by an algebra: on bit patterns, on tables of all values, or as terms of a prover.

One walk serves all of them.  An algebra says what an operator does to its own kind of values.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Protocol, TypeAlias, TypeVar

from vyre.domain.ir.expr import (
    PURE,
    Binary,
    Bitcast,
    Call,
    Cast,
    Expr,
    Fma,
    Literal,
    Narrow,
    Native,
    Pack,
    Select,
    Unary,
    Unpack,
    Var,
    WrapCast,
)
from vyre.domain.ir.node import Node
from vyre.domain.ir.operators import BinaryOp, UnaryOp, binary_result, unary_result
from vyre.domain.ir.types import ScalarType
from vyre.domain.numerics import scalar
from vyre.domain.numerics.constants import CONVERSIONS
from vyre.domain.numerics.scalar import ValueType

V = TypeVar("V")
Types: TypeAlias = Mapping[ScalarType, ValueType]
"""The type with whose rules the values of each executable type are computed; absent types are computed as they are."""

PURE_NODES: Final = PURE - {Call, Native}
"""The expressions whose value depends on the values of their operands alone."""


class Operators(Protocol[V]):
    """The operators on values of one kind.  The types are those of the operands, as programs have them."""

    def literal(self, dtype: ScalarType, bits: int) -> V:
        """Returns the value of a literal."""
        ...

    def binary(self, op: BinaryOp, dtype: ScalarType, count: ScalarType, left: V, right: V) -> V:
        """Returns ``left op right``; ``count`` is the type of the right operand."""
        ...

    def unary(self, op: UnaryOp, dtype: ScalarType, operand: V) -> V:
        """Returns ``op operand``."""
        ...


class Algebra(Operators[V], Protocol[V]):
    """All of ``PURE_NODES`` on values of one kind; a type named ``target`` is that of the result."""

    def select(self, dtype: ScalarType, condition: V, on_true: V, on_false: V) -> V:
        """Returns one of two values."""
        ...

    def convert(self, node: type[Node], source: ScalarType, target: ScalarType, operand: V) -> V:
        """Returns what ``Cast``, ``Bitcast``, ``Narrow``, ``Pack``, ``Unpack`` or ``WrapCast`` makes of a value."""
        ...

    def fma(self, dtype: ScalarType, a: V, b: V, c: V) -> V:
        """Returns ``a * b + c``, rounded once."""
        ...


def evaluated(expr: Expr, holes: Mapping[str, ScalarType], values: Mapping[str, V], algebra: Operators[V]) -> V:
    """Returns the value of a well-typed expression of ``PURE_NODES``; ``holes`` and ``values`` are of its variables.
    ``algebra`` is an ``Algebra`` where the expression has more than literals and operators.

    Recurses over the expression.  Raises ``KeyError`` for an unknown variable or another kind of node.
    """
    value: V = _Evaluation(holes, values, algebra).of(expr)[1]
    return value


class _Evaluation:
    """One evaluation; shared nodes are computed once."""

    def __init__(self, holes: Mapping[str, ScalarType], values: Mapping[str, Any], algebra: Any) -> None:
        self._holes, self._values, self._algebra = holes, values, algebra
        self._known: dict[int, tuple[ScalarType, Any]] = {}

    def of(self, expr: Expr) -> tuple[ScalarType, Any]:
        value = self._known.get(id(expr))
        if value is None:
            value = self._known[id(expr)] = self._of(expr)
        return value

    def _of(self, expr: Expr) -> tuple[ScalarType, Any]:
        match expr:
            case Literal(dtype, bits):
                return dtype, self._algebra.literal(dtype, bits)
            case Var(name):
                return self._holes[name], self._values[name]
            case Binary(op):
                (dtype, left), (count, right) = self.of(expr.left), self.of(expr.right)
                result = binary_result(op, dtype, count)
                assert result is not None
                return result, self._algebra.binary(op, dtype, count, left, right)
            case Unary(op):
                dtype, operand = self.of(expr.operand)
                result = unary_result(op, dtype)
                assert result is not None
                return result, self._algebra.unary(op, dtype, operand)
            case Select():
                condition = self.of(expr.condition)[1]
                dtype, on_true = self.of(expr.on_true)
                return dtype, self._algebra.select(dtype, condition, on_true, self.of(expr.on_false)[1])
            case Fma():
                (dtype, a), (_, b), (_, c) = self.of(expr.a), self.of(expr.b), self.of(expr.c)
                return dtype, self._algebra.fma(dtype, a, b, c)
            case Cast(target) | Bitcast(target) | Narrow(target) | Pack(target) | Unpack(target) | WrapCast(target):
                source, operand = self.of(expr.operand)
                value = self._algebra.convert(type(expr), source, target, operand)
                return ScalarType.U32 if isinstance(expr, Pack) else target.widened, value
            case _:
                raise KeyError(type(expr))


class ScalarAlgebra:
    """Bit patterns, by the rules of ``numerics.scalar``; ``types`` computes with the rules of other widths.

    Literals are taken to the other width by their low bits, floats by rounding their value.
    """

    def __init__(self, types: Types | None = None) -> None:
        self._types: Types = {} if types is None else types

    def _type(self, dtype: ScalarType) -> ValueType:
        return self._types.get(dtype, dtype)

    def literal(self, dtype: ScalarType, bits: int) -> int:
        """Returns the bits of a literal."""
        target = self._type(dtype)
        if target is dtype:
            return bits
        return scalar.cast(dtype, target, bits) if dtype.is_float else bits & ((1 << target.bits) - 1)

    def binary(self, op: BinaryOp, dtype: ScalarType, count: ScalarType, left: int, right: int) -> int:
        """Returns ``left op right``."""
        return scalar.binary(op, self._type(dtype), left, right)

    def unary(self, op: UnaryOp, dtype: ScalarType, operand: int) -> int:
        """Returns ``op operand``."""
        return scalar.unary(op, self._type(dtype), operand)

    def select(self, dtype: ScalarType, condition: int, on_true: int, on_false: int) -> int:
        """Returns one of two values."""
        return on_true if condition else on_false

    def convert(self, node: type[Node], source: ScalarType, target: ScalarType, operand: int) -> int:
        """Returns the converted value; narrow types have real widths only."""
        return CONVERSIONS[node](self._type(source), self._type(target), operand)

    def fma(self, dtype: ScalarType, a: int, b: int, c: int) -> int:
        """Returns ``a * b + c``, rounded once."""
        return scalar.fma(self._type(dtype), a, b, c)


SCALARS: Final = ScalarAlgebra()
"""The rules of the language itself."""
