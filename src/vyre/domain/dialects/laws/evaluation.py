"""Pure expressions interpreted by an algebra: on bit patterns, on tables of all values, or as terms of a prover.

One walk serves all of them.  An algebra says what an operator does to its own kind of values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol, TypeAlias, TypeVar

from vyre.domain.ir.expr import (
    PURE,
    Binary,
    Call,
    Expr,
    Fma,
    Literal,
    Native,
    Select,
    Unary,
    Var,
    children,
    result_type,
)
from vyre.domain.ir.node import Node
from vyre.domain.ir.operators import BinaryOp, UnaryOp
from vyre.domain.ir.types import ScalarType
from vyre.domain.numerics import scalar
from vyre.domain.numerics.constants import CONVERSIONS, FOLD
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

    def binary(self, op: BinaryOp, dtype: ScalarType, count: ScalarType, left: V, right: V) -> V:
        """Returns ``left op right``; ``count`` is the type of the right operand."""

    def unary(self, op: UnaryOp, dtype: ScalarType, operand: V) -> V:
        """Returns ``op operand``."""


class Algebra(Operators[V], Protocol[V]):
    """All of ``PURE_NODES`` on values of one kind; a type named ``target`` is that of the result."""

    def select(self, dtype: ScalarType, condition: V, on_true: V, on_false: V) -> V:
        """Returns one of two values."""

    def convert(self, node: type[Node], source: ScalarType, target: ScalarType, operand: V) -> V:
        """Returns what ``Cast``, ``Bitcast``, ``Narrow``, ``Pack``, ``Unpack`` or ``WrapCast`` makes of a value."""

    def fma(self, dtype: ScalarType, a: V, b: V, c: V) -> V:
        """Returns ``a * b + c``, rounded once."""


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
            case _ if type(expr) in FOLD:
                types, values = zip(*map(self.of, children(expr)), strict=True)
                return result_type(expr, *types), self._operation(expr, types, values)
            case _:
                raise KeyError(type(expr))

    def _operation(self, expr: Any, types: Sequence[ScalarType], values: Sequence[Any]) -> Any:
        match expr:
            case Binary(op):
                return self._algebra.binary(op, *types, *values)
            case Unary(op):
                return self._algebra.unary(op, *types, *values)
            case Select():
                return self._algebra.select(types[1], *values)
            case Fma():
                return self._algebra.fma(types[0], *values)
            case _:
                return self._algebra.convert(type(expr), types[0], expr.dtype, *values)


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
