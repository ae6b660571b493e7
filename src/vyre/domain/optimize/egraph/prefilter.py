"""``Starts``: whether an expression is an instance of a rule that makes it cheaper, found without an e-graph.

Most expressions are not, and saturating them would find nothing in most cases: rules that only give an expression
another form of the same cost rarely lead to a cheaper one.  Patterns are found by the kinds of the root and of its
operands, so that a node costs a few look-ups.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import product
from typing import Any, Final, TypeAlias

from vyre.domain.ir import nodes as ir
from vyre.domain.ir.node import Node
from vyre.domain.ir.operators import BinaryOp
from vyre.domain.ir.types import ScalarType
from vyre.domain.optimize.egraph.rules import Program, Rule, RuleSet

_Kind: TypeAlias = object
_ByOperands: TypeAlias = dict[tuple[_Kind, ...], list[tuple[Rule, ir.Expr]]]
"""Patterns by what their operands must be: anything (None), or of a kind."""
_LITERAL: Final[_Kind] = ir.Literal
_ASSOCIATIVE: Final = frozenset({BinaryOp.ADD, BinaryOp.MUL, BinaryOp.BIT_AND, BinaryOp.BIT_OR, BinaryOp.BIT_XOR})
_WITH_OP: Final[frozenset[type[Node]]] = frozenset({ir.Binary, ir.Unary})
_WITH_TYPE: Final[frozenset[type[Node]]] = frozenset({ir.Cast, ir.Bitcast, ir.Narrow, ir.Pack, ir.Unpack, ir.WrapCast})


_ANY: Final[tuple[_Kind, ...]] = (None,)
_OF_CLASS: Final[dict[type[Node], tuple[_Kind, ...]]] = {
    **dict.fromkeys(ir.LEAVES, _ANY),
    ir.Literal: (None, ir.Literal),
    ir.Load: _ANY,
}
"""The kinds of operands whose class tells them; no pattern has a load or a leaf that is no literal."""


def _kind(expr: Any) -> _Kind:
    """Returns what two expressions have in common that differ in their operands alone."""
    cls = type(expr)
    if cls in _WITH_OP:
        return expr.op
    if cls in _WITH_TYPE:
        return cls, expr.dtype
    return cls


class Starts:
    """The patterns of the rules that gain something, by the kinds of their root and of its operands."""

    def __init__(self, rules: RuleSet) -> None:
        self._patterns: dict[_Kind, dict[ScalarType, _ByOperands]] = {}
        for rule in rules.rules:
            if rule.gain > 0:
                for program in rule.programs:
                    self._add(rule, program)

    def _add(self, rule: Rule, program: Program) -> None:
        wanted = [None if type(part) is ir.Var else _kind(part) for part in ir.children(program.pattern)]
        assert program.root.operand is not None
        by_type = self._patterns.setdefault(_kind(program.pattern), {})
        by_operands = by_type.setdefault(program.root.operand, {})
        by_operands.setdefault(tuple(wanted), []).append((rule, program.pattern))

    def at(self, expr: ir.Expr, values: Mapping[str, ir.Expr], type_of: Callable[[ir.Expr], ScalarType]) -> bool:
        """Returns whether a rule that gains something starts at an expression; ``values`` are those of locals."""
        by_type = self._patterns.get(_kind(expr))
        if by_type is None:
            return False
        operands = ir.CHILDREN[type(expr)](expr)
        kinds = [_kinds(operand, values) for operand in operands]
        if all(head_kinds[-1] is _LITERAL for head_kinds in kinds):
            return type(expr) is not ir.Load
        patterns = by_type.get(type_of(operands[type(expr) is ir.Select]))
        if patterns is None:
            return False
        for combination in product(*kinds):
            for rule, pattern in patterns.get(combination, ()):
                if _is_instance(rule, pattern, expr, values, type_of):
                    return True
        return _has_two_literals(expr)


def _has_two_literals(expr: ir.Expr) -> bool:
    """Returns whether an associative operator joins a literal with what itself joins another: one of both can go."""
    if type(expr) is not ir.Binary or expr.op not in _ASSOCIATIVE or type(expr.right) is not ir.Literal:
        return False
    inner, is_float = expr.left, expr.right.dtype.is_float
    return type(inner) is ir.Binary and inner.op is expr.op and type(inner.right) is ir.Literal and not is_float


def _kinds(operand: ir.Expr, values: Mapping[str, ir.Expr]) -> tuple[_Kind, ...]:
    """Returns the kinds that an operand can have in a pattern: any, and its own."""
    cls = type(operand)
    if cls is ir.Var:
        value = values.get(operand.name)  # type: ignore[union-attr]
        return _ANY if value is None else (None, _kind(value))
    return _OF_CLASS.get(cls) or (None, _kind(operand))


def _is_instance(
    rule: Rule, pattern: ir.Expr, expr: ir.Expr, values: Mapping[str, ir.Expr], type_of: Callable[[ir.Expr], ScalarType]
) -> bool:
    holes: dict[str, ir.Expr] = {}
    if not _fits(pattern, expr, rule, values, holes):
        return False
    if any(type_of(holes[name]) is not dtype for name, dtype in rule.holes.items() if name in holes):
        return False
    return rule.holds is None or rule.holds({name: _bits(holes[name], values) for name in rule.constants})


def _value(expr: ir.Expr, values: Mapping[str, ir.Expr]) -> ir.Expr:
    """Returns the value of a local that has one, else the expression."""
    return values.get(expr.name, expr) if type(expr) is ir.Var else expr


def _bits(expr: ir.Expr, values: Mapping[str, ir.Expr]) -> int:
    literal = _value(expr, values)
    assert type(literal) is ir.Literal
    return literal.bits


def _fits(
    pattern: ir.Expr, expr: ir.Expr, rule: Rule, values: Mapping[str, ir.Expr], holes: dict[str, ir.Expr]
) -> bool:
    """Returns whether an expression is the pattern, with these expressions for its holes; adds new ones."""
    cls = type(pattern)
    if cls is ir.Var:
        name = pattern.name  # type: ignore[union-attr]
        known = holes.get(name)
        if known is None:
            holes[name] = expr
            return name not in rule.constants or type(_value(expr, values)) is ir.Literal
        return known is expr or known == expr or _value(known, values) == _value(expr, values)
    expr = _value(expr, values)
    if cls is ir.Literal:
        return pattern == expr
    if cls is not type(expr) or _kind(pattern) != _kind(expr):
        return False
    parts = zip(ir.CHILDREN[cls](pattern), ir.CHILDREN[cls](expr), strict=True)
    return all(_fits(part, operand, rule, values, holes) for part, operand in parts)
