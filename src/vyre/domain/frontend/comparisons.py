"""Comparisons of the operands of a kernel: ``<``, ``==``, ``in``, and ``is`` of types."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from typing import Any, Final

from vyre.domain.frontend.lowering import Lowering
from vyre.domain.frontend.operands import Array, Constant, Items, Method, Operand, Scalar, Thing
from vyre.domain.frontend.operators import binary, common, made, named, negated, not_a_value
from vyre.domain.ir.operators import BinaryOp
from vyre.domain.ir.types import ScalarType

_BOOL: Final = ScalarType.BOOL
_COMPARED: Final[Mapping[type[ast.cmpop], tuple[BinaryOp, str, Callable[[Any, Any], bool]]]] = {
    ast.Eq: (BinaryOp.EQ, "==", operator.eq),
    ast.NotEq: (BinaryOp.NE, "!=", operator.ne),
    ast.Lt: (BinaryOp.LT, "<", operator.lt),
    ast.LtE: (BinaryOp.LE, "<=", operator.le),
    ast.Gt: (BinaryOp.GT, ">", operator.gt),
    ast.GtE: (BinaryOp.GE, ">=", operator.ge),
}


def compare(k: Lowering, op: ast.cmpop, a: Operand, b: Operand, node: ast.AST) -> Operand:
    """Returns ``a op b``, a truth value."""
    if isinstance(op, ast.In | ast.NotIn):
        return _among(k, op, a, b, node)
    known = _COMPARED.get(type(op))
    if known is None or not (isinstance(a, Scalar | Constant) and isinstance(b, Scalar | Constant)):
        return _of_things(k, op, a, b, node)
    made_of, text, fold = known
    if isinstance(a, Constant) and isinstance(b, Constant):
        return Constant(fold(a.value, b.value))
    left, right = common(k, a, b, f"`{text}`", node)
    if left.dtype is _BOOL and made_of not in (BinaryOp.EQ, BinaryOp.NE):
        k.fail(node, f"`{text}` is not defined for bool", "convert: u32(a) counts a truth value as 0 or 1.")
    return made(k, made_of, left, right, node, _BOOL)


def _of_things(k: Lowering, op: ast.cmpop, a: Operand, b: Operand, node: ast.AST) -> Operand:
    """Returns whether two Python objects, such as types, are the same."""
    if isinstance(a, Thing) and isinstance(b, Thing):
        if isinstance(op, ast.Is | ast.Eq):
            return Constant(a.value is b.value)
        if isinstance(op, ast.IsNot | ast.NotEq):
            return Constant(a.value is not b.value)
    for operand in (a, b):
        if isinstance(operand, Array | Items | Method):
            not_a_value(k, operand, node)
    if isinstance(op, ast.Is | ast.IsNot):
        k.fail(node, "`is` compares objects, and values of a kernel are none", "write == or !=.")
    not_a_value(k, a if isinstance(a, Thing) else b, node)


def _among(k: Lowering, op: ast.cmpop, a: Operand, b: Operand, node: ast.AST) -> Operand:
    if not isinstance(b, Items):
        k.fail(node, "`in` looks into tuples only", "write a tuple of the values, x in (1, 2, 3), or a loop.")
    found: Operand = Constant(False)
    if isinstance(a, Scalar):
        a = named(k, a, node)
    for item in b.items:
        same = compare(k, ast.Eq(), a, item, node)
        if isinstance(same, Constant) and isinstance(found, Constant):
            found = Constant(found.value or same.value)
        elif isinstance(found, Constant) and not found.value:
            found = same
        else:
            found = binary(k, ast.BitOr(), found, same, node)
    if isinstance(op, ast.In):
        return found
    return Constant(not found.value) if isinstance(found, Constant) else negated(k, found, node)
