"""Compiled expressions, and conversions between the forms of their values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple, TypeAlias, cast

import numpy as np

from vyre.adapters import lanes
from vyre.adapters.lanes.types import Dense, Lanes, LaneScalar
from vyre.adapters.reference.vector.affine import Affine, Split, Truth, Value, Word
from vyre.adapters.reference.vector.chunk import Chunk
from vyre.adapters.reference.vector.lanes_context import Box, Context
from vyre.domain.ir.types import ScalarType

Evaluate: TypeAlias = Callable[[Chunk, Context], Value]
EvaluateWord: TypeAlias = Callable[[Chunk, Context], Word]
EvaluateTruth: TypeAlias = Callable[[Chunk, Context], Truth]
Into: TypeAlias = Callable[[Chunk, Context, Lanes, bool], None]

U32, BOOL = ScalarType.U32, ScalarType.BOOL
LANE_DTYPE: Final = lanes.types.LANE_DTYPE


class Compiled(NamedTuple):
    """A compiled expression.

    ``fresh``: an array it returns is new and belongs to the caller.  ``into``: writes the value straight into an array
    of the context's shape, where that saves a copy; its last argument says that the expression does not read that
    array, so that parts of the value may be computed in it.
    """

    evaluate: Evaluate
    dtype: ScalarType
    fresh: bool = False
    into: Into | None = None

    @property
    def words(self) -> EvaluateWord:
        """The evaluator of a u32 expression, whose values are words."""
        assert self.dtype is U32, self.dtype
        return cast(EvaluateWord, self.evaluate)

    @property
    def truths(self) -> EvaluateTruth:
        """The evaluator of a bool expression, whose values are truths."""
        assert self.dtype is BOOL, self.dtype
        return cast(EvaluateTruth, self.evaluate)


def dense(value: Value, ctx: Context, dtype: ScalarType) -> Dense:
    """Returns the value as an array of the context or a NumPy scalar, as lane rules take it."""
    if type(value) is np.ndarray:
        return value
    if isinstance(value, int):
        scalar: LaneScalar = LANE_DTYPE[dtype].type(value)
        return scalar
    if isinstance(value, Affine):
        return ctx.materialise(value, dtype)
    if isinstance(value, Split):
        return mask_of(value, ctx)
    return value


def full(value: Value, ctx: Context, dtype: ScalarType) -> Lanes:
    """Returns the value as an array of the context."""
    dense_value = dense(value, ctx, dtype)
    return dense_value if isinstance(dense_value, np.ndarray) else np.full(ctx.shape, dense_value)


def mask_of(split: Split, ctx: Context) -> Lanes:
    """Returns a split as a bool array of the context."""
    assert isinstance(ctx, Box)
    mask = np.zeros(ctx.shape, np.bool_)
    lo = ctx.extent.lo
    for box in split.true:
        mask[tuple(slice(a - o, b - o) for a, b, o in zip(box.lo, box.hi, lo, strict=True))] = True
    return mask


def simplest(result: Dense) -> Value:
    """Returns the result of a lane rule in canonical form."""
    if isinstance(result, np.ndarray):
        if result.ndim:
            return result
        result = result[()]
    if isinstance(result, np.uint32):
        return int(result)
    return bool(result) if isinstance(result, np.bool_) else result
