"""Constant folding: operators on literals become what the rules of one lane give, and operands that change nothing go.

The values come from ``vyre.domain.numerics.scalar``, which decides every operator.  Besides literals the pass knows
the lengths of buffers of a fixed count, the width of a subgroup, identities with one literal operand (``x * 1``,
``x + 0`` on integers, ``c and true``), selections between equal values, and conversions that undo each other.  A float
``x + 0.0`` is left alone, because it turns -0 into +0; two floats count as equal if both are NaN.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

from vyre.domain.ir import nodes as ir
from vyre.domain.ir.node import Node
from vyre.domain.ir.operators import BINARY, COMMUTING, COUNTED, BinaryOp, UnaryOp
from vyre.domain.ir.program import Program
from vyre.domain.ir.rebuilding import rebuilt
from vyre.domain.ir.types import ScalarType
from vyre.domain.numerics.constants import FOLD, folded
from vyre.domain.optimize.passes import Counts
from vyre.domain.optimize.static_types import StaticTypes
from vyre.domain.optimize.walking import Rewriter, walking_pass

_Simpler = TypeVar("_Simpler", bound=ir.Expr)
_U32, _BOOL = ScalarType.U32, ScalarType.BOOL
SUBGROUP_LANES: Final = 32


class _Folding(Rewriter):
    def __init__(self, program: Program, counts: Counts) -> None:
        super().__init__(program, counts)
        self._types = StaticTypes(program)
        self._memo: dict[int, ir.Expr] = {}
        self._impure: dict[int, ir.Expr] = {}
        """Expressions of the new program that must not be dropped, by identity."""

    def expression(self, expr: ir.Expr) -> ir.Expr:
        return rebuilt(expr, self._rule, self._memo)

    def evaluated(self, stmt: ir.Stmt) -> None:
        self._types.declare_all((stmt,))

    # ---- expressions
    def _rule(self, node: ir.Expr) -> ir.Expr:
        """Returns what an expression becomes whose operands are folded."""
        kind = type(node)
        if kind in FOLD and kind is not ir.Select and {*map(type, ir.CHILDREN[kind](node))} == {ir.Literal}:
            return self._literal(node, self._types.of(node), folded(node))
        rule = _RULES.get(kind)
        new = node if rule is None else rule(self, node)
        if kind in ir.IMPURE or (self._impure and self._is_around_impure(new)):
            self._impure[id(new)] = new
        return new

    def _is_around_impure(self, expr: ir.Expr) -> bool:
        kind = type(expr)
        return kind not in ir.LEAVES and any(id(operand) in self._impure for operand in ir.CHILDREN[kind](expr))

    def _literal(self, node: ir.Expr, dtype: ScalarType, bits: int) -> ir.Literal:
        self.counts["folded"] += 1
        return ir.Literal(dtype, bits, loc=node.loc)

    def _simpler(self, expr: _Simpler) -> _Simpler:
        self.counts["simplified"] += 1
        return expr

    def _is_free(self, expr: ir.Expr) -> bool:
        """Returns whether an expression may be dropped."""
        return id(expr) not in self._impure

    def _length(self, node: ir.BufferLength) -> ir.Expr:
        count = self.source.buffers_by_name[node.buffer].count
        return self._literal(node, _U32, count) if count else node

    def _subgroup_size(self, node: ir.SubgroupSize) -> ir.Expr:
        return self._literal(node, _U32, SUBGROUP_LANES)

    def _binary(self, node: ir.Binary) -> ir.Expr:
        left, right = node.left, node.right
        if type(right) is ir.Literal:
            return self._with_literal(node, left, right, left_is_literal=False)
        if type(left) is ir.Literal:
            return self._with_literal(node, right, left, left_is_literal=True)
        return node

    def _with_literal(self, node: ir.Binary, other: ir.Expr, literal: ir.Literal, *, left_is_literal: bool) -> ir.Expr:
        """Returns an operator of which one operand is a literal, simplified."""
        op = node.op
        dtype = literal.dtype
        if left_is_literal and op not in COMMUTING:
            return node
        if dtype is _BOOL and (op is BinaryOp.EQ or op is BinaryOp.NE):
            if bool(literal.bits) is (op is BinaryOp.EQ):
                return self._simpler(other)
            return self._simpler(self._not(ir.Unary(UnaryOp.LOGICAL_NOT, other, loc=node.loc)))
        if literal.bits == neutral(op, dtype):
            return self._simpler(other)
        if op in COUNTED and not literal.bits & (self._types.of(other).bits - 1):
            return self._simpler(other)
        result = absorbing(op, dtype)
        if result is not None and result[0] == literal.bits and self._is_free(other):
            return self._literal(node, dtype, result[1])
        return node

    def _unary(self, node: ir.Unary) -> ir.Expr:
        return self._not(node) if node.op is UnaryOp.LOGICAL_NOT else node

    def _not(self, node: ir.Unary) -> ir.Expr:
        operand = node.operand
        if type(operand) is ir.Unary and operand.op is UnaryOp.LOGICAL_NOT:
            return self._simpler(operand.operand)
        return node

    def _select(self, node: ir.Select) -> ir.Expr:
        condition, yes, no = node.condition, node.on_true, node.on_false
        if type(condition) is ir.Literal:
            chosen, dropped = (yes, no) if condition.bits else (no, yes)
            return self._simpler(chosen) if self._is_free(dropped) else node
        if _is_same(yes, no) and self._is_free(condition) and self._is_free(no):
            return self._simpler(yes)
        return node

    def _cast(self, node: ir.Cast) -> ir.Expr:
        operand, dtype = node.operand, node.dtype
        if self._types.of(operand) is dtype:
            return self._simpler(operand)
        if (
            type(operand) is ir.Cast
            and dtype.is_integer
            and operand.dtype.is_integer
            and operand.dtype.bits >= dtype.bits
        ):
            source = self._types.of(operand.operand)
            if source is dtype:
                return self._simpler(operand.operand)
            if source.is_integer:  # the low bits survive the first conversion
                return self._cast(self._simpler(ir.Cast(dtype, operand.operand, loc=node.loc)))
        return node

    def _bitcast(self, node: ir.Bitcast) -> ir.Expr:
        operand, dtype = node.operand, node.dtype
        return self._simpler(operand) if self._types.of(operand) is dtype else node


_RULES: Final[dict[type[Node], Callable[[_Folding, Any], ir.Expr]]] = {
    ir.BufferLength: _Folding._length,
    ir.SubgroupSize: _Folding._subgroup_size,
    ir.Binary: _Folding._binary,
    ir.Unary: _Folding._unary,
    ir.Select: _Folding._select,
    ir.Cast: _Folding._cast,
    ir.Bitcast: _Folding._bitcast,
}

FOLDING: Final = walking_pass("folding", 2, _Folding)
"""Folds constants; counts ``folded`` and ``simplified`` expressions."""

# ---------------------------------------------------------------- literal operands that decide or change nothing


def neutral(op: BinaryOp, dtype: ScalarType) -> int | None:
    """Returns the bits of the right operand with which ``op`` gives its left operand; None: there are none.

    Of a float, the result may be another NaN than the operand.
    """
    row = BINARY[op]
    element = row.float_neutral if dtype.is_float else row.neutral
    return None if element is None else element.bits(dtype)


def absorbing(op: BinaryOp, dtype: ScalarType) -> tuple[int, int] | None:
    """Returns the bits of the right operand with which ``op`` gives the same for every left operand, and what it gives;
    None: there are none.
    """
    row = BINARY[op]
    if dtype.is_float or row.absorbing is None or row.absorbed is None:
        return None
    return row.absorbing.bits(dtype), row.absorbed.bits(dtype)


def _is_same(a: ir.Expr, b: ir.Expr) -> bool:
    """Returns whether two operands are the same literal, local or object."""
    if a is b:
        return True
    if type(a) is ir.Var and type(b) is ir.Var:
        return a.name == b.name
    return type(a) is ir.Literal and type(b) is ir.Literal and a.dtype is b.dtype and a.bits == b.bits
