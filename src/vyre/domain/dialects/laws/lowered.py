"""Operators in terms of others: what an engine computes for an operator of which it has no rule of its own.

The operators work on the engine's values, so that operands are evaluated once, whatever they contain.
"""

from __future__ import annotations

from functools import cache
from typing import Final

from vyre.domain.dialects.laws.evaluation import Operators, V, evaluated
from vyre.domain.dialects.laws.law import Law
from vyre.domain.ir.expr import Binary, Expr, Literal, Unary, Var, walk
from vyre.domain.ir.operators import BINARY, BinaryOp
from vyre.domain.ir.rebuilding import rebuilt
from vyre.domain.ir.types import ScalarType

_NODES: Final = frozenset({Literal, Var, Binary, Unary})


@cache
def lowering_law(op: BinaryOp) -> Law:
    """Returns the law that says what an operator is made of; raises ``KeyError`` for one whose row does not."""
    row = BINARY[op]
    if row.lowers_to is None:
        raise KeyError(op)
    law = Law(f"{row.text}.lowered", f"{row.text}(x, y)", row.lowers_to, row.operands)
    assert all(type(node) in _NODES for dtype in row.operands for node in walk(law.at(dtype)[1])), law.name
    return law


@cache
def lowering(op: BinaryOp, dtype: ScalarType) -> Expr:
    """Returns what an operator gives for ``x`` and ``y`` of a type, equal parts as one object; raises ``KeyError``."""
    known: dict[Expr, Expr] = {}
    return rebuilt(lowering_law(op).at(dtype)[1], lambda node: known.setdefault(node, node))


def lowered(op: BinaryOp, dtype: ScalarType, left: V, right: V, operators: Operators[V]) -> V:
    """Returns ``left op right`` of operands of one type, by literals and other operators.

    Raises ``KeyError`` for an operator whose row has no ``lowers_to``.
    """
    return evaluated(lowering(op, dtype), {"x": dtype, "y": dtype}, {"x": left, "y": right}, operators)
