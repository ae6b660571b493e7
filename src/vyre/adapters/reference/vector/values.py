"""Values of expressions, in the cheapest form that is exact.

* u32: a Python int when all lanes agree, ``Affine`` when the value follows from the position, else an array;
* bool: a Python bool, a ``Split`` of the (box) context into boxes, or an array;
* other types: a NumPy scalar when all lanes agree, else an array.

Arrays have the shape of the context.  Uniform control flow needs no analysis: it is a condition that came out as a
bool.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np

from vyre.adapters import lanes
from vyre.adapters.reference.vector.affine import Affine, Split
from vyre.adapters.reference.vector.chunk import Chunk
from vyre.adapters.reference.vector.lanes_context import Box, Context
from vyre.domain.ir.types import ScalarType

Value: TypeAlias = Any
Evaluate: TypeAlias = Callable[[Chunk, Context], Value]
Into: TypeAlias = Callable[[Chunk, Context, Any, bool], None]


class Compiled(NamedTuple):
    """A compiled expression.

    ``fresh``: an array it returns is new and belongs to the caller.  ``into``: writes the value straight into an
    array of the context's shape, where that saves a copy; its last argument says that the expression does not read
    that array, so that parts of the value may be worked out in it.
    """

    evaluate: Evaluate
    dtype: ScalarType
    fresh: bool = False
    into: Into | None = None


U32, BOOL = ScalarType.U32, ScalarType.BOOL
LANE_DTYPE: Final = lanes.types.LANE_DTYPE


def dense(value: Value, ctx: Context, dtype: ScalarType) -> Any:
    """The value as an array of the context or a NumPy scalar, which is what lane rules take."""
    kind = type(value)
    if kind is np.ndarray:
        return value
    if kind is Affine:
        return ctx.materialise(value)
    if kind is Split:
        return mask_of(value, ctx)
    return LANE_DTYPE[dtype].type(value) if kind is int or kind is bool else value


def full(value: Value, ctx: Context, dtype: ScalarType) -> Any:
    """The value as an array of the context."""
    found = dense(value, ctx, dtype)
    return found if isinstance(found, np.ndarray) else np.full(ctx.shape, found)


def mask_of(split: Split, ctx: Context) -> Any:
    assert isinstance(ctx, Box)
    mask = np.zeros(ctx.shape, np.bool_)
    lo = ctx.extent.lo
    for box in split.true:
        mask[tuple(slice(a - o, b - o) for a, b, o in zip(box.lo, box.hi, lo, strict=True))] = True
    return mask


def simplest(result: Any) -> Value:
    """What a lane rule returned, in canonical form."""
    if isinstance(result, np.ndarray):
        if result.ndim:
            return result
        result = result[()]
    if isinstance(result, np.uint32):
        return int(result)
    return bool(result) if isinstance(result, np.bool_) else result
