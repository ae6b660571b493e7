"""``Starts``: whether an expression is an instance of a rule that makes it cheaper, found without an e-graph.

Most expressions are not, and saturating them would find nothing in most cases: rules that only give an expression
another form of the same cost rarely lead to a cheaper one.  Patterns are found by the kinds of the root and of its
operands, so that a node costs a few look-ups.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import product
from typing import Any, Final, TypeAlias

from vyre.domain.ir.expr import (
    CHILDREN,
    LEAVES,
    Binary,
    Bitcast,
    Cast,
    Expr,
    Literal,
    Load,
    Narrow,
    Pack,
    Unary,
    Unpack,
    Var,
    WrapCast,
    children,
)
from vyre.domain.ir.node import Node
from vyre.domain.ir.types import ScalarType
from vyre.domain.optimize.egraph.rules import Rule, RuleSet

_Kind: TypeAlias = object
_LITERAL: Final[_Kind] = Literal
_WITH_OP: Final[frozenset[type[Node]]] = frozenset({Binary, Unary})
_WITH_TYPE: Final[frozenset[type[Node]]] = frozenset({Cast, Bitcast, Narrow, Pack, Unpack, WrapCast})


_ANY: Final[tuple[_Kind, ...]] = (None,)
_OF_CLASS: Final[dict[type[Node], tuple[_Kind, ...]]] = {
    **dict.fromkeys(LEAVES, _ANY),
    Literal: (None, Literal),
    Load: _ANY,
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
        self._patterns: dict[_Kind, dict[tuple[_Kind, ...], list[tuple[Rule, Expr]]]] = {}
        for rule in rules.rules:
            if rule.gain > 0:
                for program in rule.programs:
                    self._add(rule, program.pattern)

    def _add(self, rule: Rule, pattern: Expr) -> None:
        wanted = [None if type(part) is Var else _kind(part) for part in children(pattern)]
        by_operands = self._patterns.setdefault(_kind(pattern), {})
        by_operands.setdefault(tuple(wanted), []).append((rule, pattern))

    def at(self, expr: Expr, values: Mapping[str, Expr], type_of: Callable[[Expr], ScalarType]) -> bool:
        """Returns whether a rule that gains something starts at an expression; ``values`` are those of locals."""
        patterns = self._patterns.get(_kind(expr))
        if patterns is None:
            return False
        kinds = [_kinds(operand, values) for operand in CHILDREN[type(expr)](expr)]
        if all(found[-1] is _LITERAL for found in kinds):
            return type(expr) is not Load
        for found in product(*kinds):
            for rule, pattern in patterns.get(found, ()):
                if _is_instance(rule, pattern, expr, values, type_of):
                    return True
        return False


def _kinds(operand: Expr, values: Mapping[str, Expr]) -> tuple[_Kind, ...]:
    """Returns the kinds that an operand can have in a pattern: any, and its own."""
    cls = type(operand)
    if cls is Var:
        value = values.get(operand.name)  # type: ignore[union-attr]
        return _ANY if value is None else (None, _kind(value))
    return _OF_CLASS.get(cls) or (None, _kind(operand))


def _is_instance(
    rule: Rule, pattern: Expr, expr: Expr, values: Mapping[str, Expr], type_of: Callable[[Expr], ScalarType]
) -> bool:
    holes: dict[str, Expr] = {}
    if not _fits(pattern, expr, rule, values, holes):
        return False
    if any(type_of(holes[name]) is not dtype for name, dtype in rule.holes.items() if name in holes):
        return False
    return rule.holds is None or rule.holds({name: _bits(holes[name], values) for name in rule.constants})


def _value(expr: Expr, values: Mapping[str, Expr]) -> Expr:
    """Returns the value of a local that has one, else the expression."""
    return values.get(expr.name, expr) if type(expr) is Var else expr


def _bits(expr: Expr, values: Mapping[str, Expr]) -> int:
    literal = _value(expr, values)
    assert type(literal) is Literal
    return literal.bits


def _fits(pattern: Expr, expr: Expr, rule: Rule, values: Mapping[str, Expr], holes: dict[str, Expr]) -> bool:
    """Returns whether an expression is the pattern, with these expressions for its holes; adds new ones."""
    cls = type(pattern)
    if cls is Var:
        name = pattern.name  # type: ignore[union-attr]
        known = holes.get(name)
        if known is None:
            holes[name] = expr
            return name not in rule.constants or type(_value(expr, values)) is Literal
        return known is expr or known == expr or _value(known, values) == _value(expr, values)
    expr = _value(expr, values)
    if cls is Literal:
        return pattern == expr
    if cls is not type(expr) or _kind(pattern) != _kind(expr):
        return False
    parts = zip(CHILDREN[cls](pattern), CHILDREN[cls](expr), strict=True)
    return all(_fits(part, operand, rule, values, holes) for part, operand in parts)
