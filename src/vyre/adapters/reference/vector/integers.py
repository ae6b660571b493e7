"""Integers of the types other than u32 that are known without an array: affine values that fit their type.

A u32 wraps where its arithmetic does, so any sum of affine values is one (``words``).  Here a value stays affine only
as long as it is proved not to wrap among the lanes of a box, which makes casts, comparisons and indices exact.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from vyre.adapters.lanes.types import BinaryRule, InPlaceRule, UnaryRule
from vyre.adapters.reference.vector.affine import LIMIT, Affine, Split
from vyre.adapters.reference.vector.chunk import Chunk
from vyre.adapters.reference.vector.lanes_context import Box, Context
from vyre.adapters.reference.vector.value_types import Value, Word
from vyre.adapters.reference.vector.values import U32, Compiled, Evaluate, EvaluateWord, dense, simplest
from vyre.adapters.reference.vector.words import Known
from vyre.domain.ir.operators import COMPARISONS, BinaryOp
from vyre.domain.ir.types import ScalarType

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
