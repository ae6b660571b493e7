"""Evaluation of the expressions of a kernel in the order of Python: from left to right, each of them once."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Final

from vyre.domain.frontend import operators
from vyre.domain.frontend.asides import aside, placed
from vyre.domain.frontend.comparisons import truth
from vyre.domain.frontend.lowering import Hole, Lowering
from vyre.domain.frontend.operands import Constant, Items, Operand, Scalar, Thing
from vyre.domain.frontend.operators import condition
from vyre.domain.frontend.refused import refuse
from vyre.domain.ir.expr import Atomic, walk
from vyre.domain.ir.operators import BinaryOp
from vyre.domain.ir.stmt import Let, Stmt
from vyre.domain.ir.types import ScalarType

_BOOL: Final = ScalarType.BOOL


def expression(k: Lowering, node: ast.expr) -> Operand:
    """Returns what an expression evaluates to; statements that it needs are recorded before it."""
    rule = k.rules.expressions.get(type(node))
    if rule is None:
        refuse(k, node)
    return k.settled(rule(k, node))


def operands(k: Lowering, nodes: Sequence[ast.expr]) -> list[Operand]:
    """Returns several operands, which Python evaluates from left to right.

    Where a later one changes something, as an atomic does, the earlier ones are evaluated before it.
    """
    values: list[Operand] = []
    starts: list[int] = []
    body = k.body
    for node in nodes:
        start = len(body)
        operand = expression(k, node)
        if len(body) > start and has_effect(k, start):
            _evaluate_before(k, values, starts, nodes)
        values.append(operand)
        starts.append(len(body))
    return values


def _evaluate_before(k: Lowering, values: list[Operand], starts: list[int], nodes: Sequence[ast.expr]) -> None:
    """Names the values so far at the places where they were written, if they may have changed since."""
    added = 0
    for index, operand in enumerate(values):
        before = len(k.body)
        values[index] = _kept_at(k, operand, starts[index] + added, nodes[index])
        added += len(k.body) - before
        starts[index] += added


def kept(k: Lowering, operand: Operand, node: ast.AST, hint: str = "t") -> Operand:
    """Returns an operand with the value that it has now, whatever later statements change."""
    if isinstance(operand, Items):
        return Items(tuple(kept(k, item, node, hint) for item in operand.items))
    if isinstance(operand, Scalar) and operand.changes:
        return k.let(operand, hint, node)
    return operand


def kept_before(k: Lowering, operand: Operand, start: int, node: ast.AST) -> Operand:
    """Returns an operand as it was before the statements from number ``start`` on, which may change what it reads."""
    return _kept_at(k, operand, start, node) if has_effect(k, start) else operand


def _kept_at(k: Lowering, operand: Operand, start: int, node: ast.AST) -> Operand:
    later = k.body[start:]
    del k.body[start:]
    value = kept(k, operand, node)
    k.body.extend(later)
    return value


def has_effect(k: Lowering, start: int) -> bool:
    """Returns whether the statements of the open body from ``start`` do more than to name values."""
    return any(map(_does_something, k.body[start:]))


def _does_something(stmt: Stmt | Hole) -> bool:
    if isinstance(stmt, Hole):
        return False
    return not isinstance(stmt, Let) or any(isinstance(expr, Atomic) for expr in walk(stmt.value))


def index_operands(k: Lowering, node: ast.Subscript) -> list[Operand]:
    """Returns the indices of a subscript of an array."""
    parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    for part in parts:
        if isinstance(part, ast.Slice):
            k.fail(node, "arrays of kernels cannot be sliced", "loop over the elements.")
    return operands(k, parts)


# ---------------------------------------------------------------- conditions
def test(k: Lowering, node: ast.expr) -> Scalar | bool:
    """Returns a condition, or its truth if it is known while the kernel is being built."""
    if isinstance(node, ast.BoolOp):
        return _all_or_any(k, node)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        known = test(k, node.operand)
        return not known if isinstance(known, bool) else operators.negated(k, known, node)
    operand = expression(k, node)
    if isinstance(operand, Constant | Thing | Items):
        return truth(k, operand, node)
    return condition(k, operand, node)


def _all_or_any(k: Lowering, node: ast.BoolOp) -> Scalar | bool:
    """Returns the truth of ``and`` or ``or``, whose operands need not have one type."""
    conjunction = isinstance(node.op, ast.And)
    result = test(k, node.values[0])
    for part in node.values[1:]:
        if isinstance(result, bool):
            if result is not conjunction:
                return result
            result = test(k, part)
            continue
        side = aside(k, test, part, on_the_right(node))
        result, right = placed(k, result, node, side, where=conjunction)
        if isinstance(right, bool):
            if right is not conjunction:
                return right
            continue
        result = operators.made(k, BinaryOp.AND if conjunction else BinaryOp.OR, result, right, node, _BOOL)
    return result


def on_the_right(node: ast.BoolOp) -> str:
    """Returns the words for the place of an operand that Python might not evaluate."""
    return f"on the right of `{'and' if isinstance(node.op, ast.And) else 'or'}`"
