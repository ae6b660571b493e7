"""Expressions over four locals for tests of e-graphs: from text, at random, their values, and checked saturations."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Final

from vyre.domain.dialects.laws.catalogue import LAWS
from vyre.domain.dialects.laws.evaluation import SCALARS, evaluated
from vyre.domain.ir.expr import Binary, Expr, Literal, Select, Unary, Var
from vyre.domain.ir.operators import BINARY, UNARY, BinaryOp, Result, RightOperand, UnaryOp
from vyre.domain.ir.text_cursor import Cursor
from vyre.domain.ir.text_expressions import ExpressionParser
from vyre.domain.ir.text_lexer import tokenize
from vyre.domain.ir.types import ScalarType
from vyre.domain.numerics.scalar import canonical
from vyre.domain.optimize.egraph.explanation import Replay, Step
from vyre.domain.optimize.egraph.rules import Rules, typed_head
from vyre.domain.optimize.egraph.saturate import Limits, Saturated, saturated
from vyre.domain.optimize.egraph.windows import Scope

ALL_RULES: Final = Rules(LAWS)
NAMES: Final = ("x", "y", "z", "w")
SMALL: Final = Limits(nodes=300, matches=30, rounds=4, search=200)
_BOOL: Final = ScalarType.BOOL


def parsed(text: str) -> Expr:
    """The expression of a text, in which names are locals."""
    return ExpressionParser(Cursor(tokenize(text, "expression")), frozenset(), {}).expression()


def types_for(dtype: ScalarType) -> dict[str, ScalarType]:
    """Four locals of a type, and the bool ``p``."""
    return {**dict.fromkeys(NAMES, dtype), "p": _BOOL}


def saturate(
    expr: Expr,
    dtype: ScalarType,
    rules: Rules = ALL_RULES,
    limits: Limits = SMALL,
    definitions: Mapping[str, Expr] | None = None,
) -> Saturated:
    """The saturation of an expression over locals of a type."""
    return saturated(expr, rules, Scope(types_for(dtype), definitions=definitions), limits)


def replay(
    expr: Expr,
    steps: tuple[Step, ...],
    dtype: ScalarType,
    rules: Rules = ALL_RULES,
    definitions: Mapping[str, Expr] | None = None,
) -> Expr:
    """What the steps of an explanation make of an expression; each is compared with its law."""
    compiled = rules.of(frozenset({*ScalarType})).rules
    return Replay(compiled, rules.commuting, types_for(dtype), definitions=definitions).replayed(expr, steps)


def value(expr: Expr, dtype: ScalarType, bits: Mapping[str, int]) -> int:
    """The bits of an expression, every NaN the canonical one."""
    types = types_for(dtype)
    return canonical(typed_head(expr, types).dtype, evaluated(expr, types, bits, SCALARS))


def random_bits(random: Random, dtype: ScalarType) -> dict[str, int]:
    """Bits for the locals, half of them near the ends of the range or few."""
    mask = (1 << dtype.bits) - 1
    found = {}
    for name in NAMES:
        near = random.choice([0, mask, 1 << (dtype.bits - 1), mask >> 1])
        found[name] = random.choice([random.getrandbits(dtype.bits), (near + random.randint(-3, 3)) & mask])
    return {**found, "p": random.getrandbits(1)}


def random_expression(random: Random, dtype: ScalarType, depth: int) -> Expr:
    """A well-typed expression of a type, at most ``depth`` operators high, with few locals and small literals."""
    if depth == 0 or random.random() < 0.15:
        if dtype is _BOOL:
            return Var("p")
        if random.random() < 0.3:
            return Literal(dtype, _literal_bits(random, dtype))
        return Var(random.choice(NAMES[:3]))
    kind = random.random()
    if kind < 0.07:
        parts = [random_expression(random, kind, depth - 1) for kind in (_BOOL, dtype, dtype)]
        return Select(*parts)
    if kind < 0.3:
        unary = random.choice([op for op in UnaryOp if dtype in UNARY[op].operands and _keeps(UNARY[op].result)])
        return Unary(unary, random_expression(random, dtype, depth - 1))
    ops = [op for op in BinaryOp if dtype in BINARY[op].operands and _keeps(BINARY[op].result)]
    op = random.choice(ops)
    left, right = (random_expression(random, dtype, depth - 1) for _ in range(2))
    if BINARY[op].right is RightOperand.SHIFT and random.random() < 0.5:
        right = Literal(ScalarType.U32, random.randrange(0, 40))
    return Binary(op, left, right)


def _keeps(result: Result) -> bool:
    return result is Result.LEFT


def _literal_bits(random: Random, dtype: ScalarType) -> int:
    if dtype.is_float:
        return Literal.of(dtype, random.choice([0.0, -0.0, 1.0, -1.0, 2.0, 0.5, float("inf"), float("nan")])).bits
    return random.choice([0, 1, 2, 3, 4, 8, 255, -1, -2]) & ((1 << dtype.bits) - 1)
