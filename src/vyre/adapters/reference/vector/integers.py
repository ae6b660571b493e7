"""Integers and bools that may be known without an array.

A u32 wraps where its arithmetic does, so any sum of affine values is one.  A value of another type stays affine only as
long as it is proved not to wrap among the lanes of a box, which makes casts, comparisons and indices exact.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

import numpy as np

from vyre.adapters.lanes.types import BinaryRule, InPlaceRule, UnaryRule
from vyre.adapters.reference.vector.affine import LIMIT, Affine, Extent, Split, Value, Word
from vyre.adapters.reference.vector.chunk import Chunk
from vyre.adapters.reference.vector.lanes_context import Box, Context
from vyre.adapters.reference.vector.values import (
    BOOL,
    U32,
    Compiled,
    Evaluate,
    EvaluateTruth,
    EvaluateWord,
    dense,
    simplest,
)
from vyre.domain.ir.operators import COMPARISONS, BinaryOp
from vyre.domain.ir.types import ScalarType
from vyre.domain.numerics.scalar import unsigned_rule

_S = ScalarType
_RANGES: Final = {
    _S.U32: (0, LIMIT - 1),
    _S.I32: (-(1 << 31), (1 << 31) - 1),
    _S.U64: (0, (1 << 63) - 1),
    _S.I64: (-(1 << 63), (1 << 63) - 1),
}
"""The values of each type that may stay affine: those that also fit 64 bits with a sign."""
_TERM: Final = 1 << 62
_EXACT_OPERATORS: Final = COMPARISONS | {BinaryOp.ADD, BinaryOp.SUB, BinaryOp.MUL, BinaryOp.SHL}
NO_INDEX: Final = LIMIT - 1
"""An index that no buffer has an element for, since it has fewer than 2^32."""


def has_affine_values(dtype: ScalarType) -> bool:
    """Returns whether values of a type other than u32 may be affine."""
    return dtype is not U32 and dtype in _RANGES


def integer_binary(
    op: BinaryOp,
    dtype: ScalarType,
    rule: BinaryRule,
    left: Evaluate,
    right: Evaluate,
    other: ScalarType,
    *,
    reuse: InPlaceRule | None,
) -> Evaluate:
    """Returns the evaluator of an operator on a left operand of type i32, u64 or i64 and a right one of type ``other``.

    ``reuse``: the rule again, if the left operand is an array that the result may overwrite.
    """
    exact = op in _EXACT_OPERATORS

    def evaluate(chunk: Chunk, ctx: Context) -> Value:
        x, y = left(chunk, ctx), right(chunk, ctx)
        if type(x) is np.ndarray:
            y = dense(y, ctx, other)
            if reuse is not None and x.shape == ctx.shape:
                return reuse(x, y, out=x)
            return simplest(rule(x, y))
        if exact and (type(x) is Affine or type(y) is Affine) and type(y) is not np.ndarray and type(ctx) is Box:
            result = _exact(op, dtype, _known(x), _known(y), ctx)
            if result is not None:
                return result
        return simplest(rule(dense(x, ctx, dtype), dense(y, ctx, other)))

    return evaluate


def integer_cast(source: ScalarType, target: ScalarType, rule: UnaryRule, operand: Evaluate) -> Evaluate:
    """Returns the evaluator of a cast between integer types."""

    def evaluate(chunk: Chunk, ctx: Context) -> Value:
        x = operand(chunk, ctx)
        if type(x) is Affine:
            if target is U32:
                return x.times(1)  # any integer is a u32 modulo 2^32
            if type(ctx) is Box:
                settled = ctx.settled(x) if source is U32 else x
                if settled is not None and _fits(settled, target, ctx):
                    return settled
        return simplest(rule(dense(x, ctx, source)))

    return evaluate


def index_words(index: Compiled) -> EvaluateWord:
    """Returns the evaluator of an index of any integer type.

    Its values are those of a u32, or arrays of another integer type; the signs of these count.  A uniform index that is
    no u32 becomes ``NO_INDEX``.
    """
    evaluate, dtype, _, _ = index
    if dtype is U32:
        return index.words

    def word(chunk: Chunk, ctx: Context) -> Word:
        x = evaluate(chunk, ctx)
        if isinstance(x, np.ndarray):
            return x
        if isinstance(x, Affine):
            box = ctx if type(ctx) is Box else ctx.grid.root
            if _fits(x, U32, box):
                return x
            words = dense(x, ctx, dtype)
            assert isinstance(words, np.ndarray)
            return words
        number = _known(x)
        return number if isinstance(number, int) and 0 <= number < LIMIT else NO_INDEX

    return word


def numbers(value: Compiled) -> EvaluateWord:
    """Returns the evaluator of an integer whose values are Python ints when all lanes agree."""
    evaluate, dtype, _, _ = value
    if dtype is U32:
        return value.words

    def word(chunk: Chunk, ctx: Context) -> Word:
        x = evaluate(chunk, ctx)
        return x if isinstance(x, np.ndarray) else _known(x)

    return word


def _known(value: Value) -> Known:
    """Returns a value without an array as an affine one or as a Python int."""
    if isinstance(value, Affine | int):
        return value
    assert isinstance(value, np.integer)
    return int(value)


def _fits(value: Affine, dtype: ScalarType, box: Box) -> bool:
    base, c = value
    least, greatest, _ = box.reach(c)
    low, high = _RANGES[dtype]
    if base + least < low or base + greatest > high:
        return False
    return -_TERM < base < _TERM and all(-_TERM < number < _TERM for number in c)


def _exact(op: BinaryOp, dtype: ScalarType, x: Known, y: Known, box: Box) -> Affine | Split | bool | None:
    """Returns the result if it is affine and fits its type, or where a comparison holds."""
    result: Affine | None = None
    if op in COMPARISONS:
        difference = _combined(x, y, -1)
        return box.grid.split(op, difference, box.extent)
    if op is BinaryOp.ADD or op is BinaryOp.SUB:
        result = _combined(x, y, 1 if op is BinaryOp.ADD else -1)
    elif op is BinaryOp.SHL:
        result = _scaled(x, 1 << (y & (dtype.bits - 1))) if isinstance(x, Affine) and isinstance(y, int) else None
    elif isinstance(x, Affine):
        result = _scaled(x, y) if isinstance(y, int) else None
    elif isinstance(y, Affine):
        result = _scaled(y, x)
    return result if result is not None and _fits(result, dtype, box) else None


def _combined(x: Known, y: Known, sign: int) -> Affine:
    a, b = (v if isinstance(v, Affine) else Affine(v, (0, 0, 0, 0)) for v in (x, y))
    (p, q, r, s), (t, u, v, w) = a.c, b.c
    return Affine(a.base + sign * b.base, (p + sign * t, q + sign * u, r + sign * v, s + sign * w))


def _scaled(x: Affine, factor: int) -> Affine:
    a, b, c, d = x.c
    return Affine(x.base * factor, (a * factor, b * factor, c * factor, d * factor))


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
