"""Binary operators on u32 and bool, whose values may be known without an array."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

import numpy as np

from vyre.adapters.lanes.types import BinaryRule, InPlaceRule
from vyre.adapters.reference.vector.affine import Affine, Extent, Split
from vyre.adapters.reference.vector.chunk import Chunk
from vyre.adapters.reference.vector.lanes_context import Box, Context
from vyre.adapters.reference.vector.value_types import Value
from vyre.adapters.reference.vector.values import BOOL, U32, Evaluate, EvaluateTruth, EvaluateWord, dense
from vyre.domain.ir.operators import COMPARISONS, BinaryOp
from vyre.domain.ir.types import ScalarType
from vyre.domain.numerics.scalar import unsigned_rule

Known: TypeAlias = int | Affine
"""A u32 value that is known without an array."""
INT_RULES: Final = {
    op: unsigned_rule(op, ScalarType.U32)
    for op in (
        BinaryOp.ADD,
        BinaryOp.SUB,
        BinaryOp.MUL,
        BinaryOp.BIT_AND,
        BinaryOp.BIT_OR,
        BinaryOp.BIT_XOR,
        BinaryOp.SHL,
        BinaryOp.SHR,
        *COMPARISONS,
    )
}
"""Rules for two words that are both ints: those of single values."""


def word_binary(
    op: BinaryOp, rule: BinaryRule, a: EvaluateWord, b: EvaluateWord, *, reuse: InPlaceRule | None
) -> Evaluate:
    """Returns the evaluator of a u32 operator.

    ``reuse``: the rule again, if the left operand is an array that the result may overwrite.
    """
    on_ints = INT_RULES[op]
    if op in COMPARISONS:
        return _comparison(op, rule, a, b)
    on_affine = _AFFINE_RULES.get(op)

    def evaluate(chunk: Chunk, ctx: Context) -> Value:
        x, y = a(chunk, ctx), b(chunk, ctx)
        if type(x) is np.ndarray:  # for exact types this costs half of isinstance
            right = y if type(y) is np.ndarray else dense(y, ctx, U32)
            return reuse(x, right, out=x) if reuse is not None and x.shape == ctx.shape else rule(x, right)
        if type(x) is int and type(y) is int:
            return on_ints(x, y)
        if on_affine is not None and not isinstance(x, np.ndarray) and not isinstance(y, np.ndarray):
            result = on_affine(x, y)
            if result is not None:
                return result
        return rule(dense(x, ctx, U32), dense(y, ctx, U32))

    return evaluate


_SHIFTS: Final[dict[BinaryOp, BinaryRule]] = {BinaryOp.SHL: np.left_shift, BinaryOp.SHR: np.right_shift}


def word_with_constant(
    op: BinaryOp, rule: BinaryRule, a: EvaluateWord, number: int, *, reuse: InPlaceRule | None
) -> Evaluate:
    """As ``word_binary``, with the parts prepared that depend on a known right operand."""
    on_ints, on_affine = INT_RULES[op], _AFFINE_RULES.get(op)
    if op in _SHIFTS:
        rule, number = _SHIFTS[op], number & 31
    lane = np.array(number, np.uint32)  # NumPy handles an array of no dimensions faster than a scalar

    def evaluate(chunk: Chunk, ctx: Context) -> Value:
        x = a(chunk, ctx)
        if type(x) is np.ndarray:
            return reuse(x, lane, out=x) if reuse is not None and x.shape == ctx.shape else rule(x, lane)
        if type(x) is int:
            return on_ints(x, number)
        result = on_affine(x, number) if on_affine is not None and isinstance(x, Affine) else None
        return rule(dense(x, ctx, U32), lane) if result is None else result

    return evaluate


def _comparison(op: BinaryOp, rule: BinaryRule, a: EvaluateWord, b: EvaluateWord) -> Evaluate:
    on_ints = INT_RULES[op]

    def evaluate(chunk: Chunk, ctx: Context) -> Value:
        x, y = a(chunk, ctx), b(chunk, ctx)
        if type(x) is int and type(y) is int:
            return on_ints(x, y)
        if not isinstance(x, np.ndarray) and not isinstance(y, np.ndarray):
            result = _compare_affine(op, x, y, ctx)
            if result is not None:
                return result
        return rule(dense(x, ctx, U32), dense(y, ctx, U32))

    return evaluate


def _affine_sum(x: Known, y: Known) -> Affine:
    if isinstance(x, Affine):
        return x.plus(y)
    assert isinstance(y, Affine)
    return y.plus(x)


def _affine_difference(x: Known, y: Known) -> Affine:
    if isinstance(x, Affine):
        return x.plus(y, -1)
    assert isinstance(y, Affine)
    return y.times(-1).plus(x)


def _affine_product(x: Known, y: Known) -> Affine | None:
    if isinstance(x, Affine):
        return None if isinstance(y, Affine) else x.times(y)
    assert isinstance(y, Affine)
    return y.times(x)


_AFFINE_RULES: Final[dict[BinaryOp, Callable[[Known, Known], Affine | None]]] = {
    BinaryOp.ADD: _affine_sum,
    BinaryOp.SUB: _affine_difference,
    BinaryOp.MUL: _affine_product,
    BinaryOp.SHL: lambda x, y: x.times(1 << (y & 31)) if isinstance(x, Affine) and isinstance(y, int) else None,
}
"""Ring operations on affine values, exact modulo 2^32; one operand is affine, the other affine or an int."""


def _compare_affine(op: BinaryOp, x: Known, y: Known, ctx: Context) -> Split | bool | None:
    """Returns where the comparison holds, if neither side wraps among the lanes."""
    if not isinstance(ctx, Box):
        return None
    left = x if isinstance(x, int) else ctx.settled(x)
    right = y if isinstance(y, int) else ctx.settled(y)
    if left is None or right is None:
        return None
    if isinstance(left, Affine):
        return ctx.grid.split(op, left.plus(right, -1), ctx.extent)
    assert isinstance(right, Affine)
    return ctx.grid.split(op, right.times(-1).plus(left), ctx.extent)


def bool_binary(op: BinaryOp, rule: BinaryRule, a: EvaluateTruth, b: EvaluateTruth) -> Evaluate:
    """Returns the evaluator of a bool operator."""

    def evaluate(chunk: Chunk, ctx: Context) -> Value:
        x, y = a(chunk, ctx), b(chunk, ctx)
        if isinstance(x, bool) and isinstance(y, bool):
            return bool(rule(np.bool_(x), np.bool_(y)))
        if op is BinaryOp.AND:
            if isinstance(x, bool):
                return y if x else False
            if isinstance(y, bool):
                return x if y else False
            if isinstance(x, Split) and isinstance(y, Split):
                return _both(x, y)
        elif op is BinaryOp.OR:
            if isinstance(x, bool):
                return True if x else y
            if isinstance(y, bool):
                return True if y else x
            if isinstance(x, Split) and isinstance(y, Split):
                neither = _both(Split(x.false, x.true), Split(y.false, y.true))
                return not neither if isinstance(neither, bool) else Split(neither.false, neither.true)
        return rule(dense(x, ctx, BOOL), dense(y, ctx, BOOL))

    return evaluate


def _both(x: Split, y: Split) -> Split | bool:
    true = _meet(x.true, y.true)
    if not true:
        return False
    return Split(true, x.false + _meet(x.true, y.false))


def _meet(a: tuple[Extent, ...], b: tuple[Extent, ...]) -> tuple[Extent, ...]:
    return tuple(common for p in a for q in b if (common := p.intersect(q)) is not None)
