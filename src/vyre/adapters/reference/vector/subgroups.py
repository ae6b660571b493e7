"""Subgroup operations: a subgroup is 32 consecutive lanes by linear local id, the last one may be shorter."""

from __future__ import annotations

from typing import Final

import numpy as np

from vyre.adapters import lanes
from vyre.adapters.lanes.types import Dense, Lanes, LaneScalar, lane_scalar
from vyre.adapters.reference.vector.lanes_context import Context
from vyre.domain.ir.operators import Span, SubgroupRow
from vyre.domain.ir.types import ScalarType

WIDTH: Final = 32


def _spread(values: Lanes, ctx: Context, missing: LaneScalar | int = 0) -> tuple[Lanes, int]:
    """Returns values as (workgroups, subgroups, 32), ``missing`` without a lane; and the lanes of a workgroup."""
    grid = ctx.grid
    size = grid.lanes // grid.dims[0]
    padded = -(-size // WIDTH) * WIDTH
    table = np.full((grid.dims[0], padded), missing, values.dtype)
    numbers = ctx.numbers
    table[numbers // size, numbers % size] = values.reshape(-1)
    return table.reshape(grid.dims[0], padded // WIDTH, WIDTH), size


def _collect(table: Lanes, ctx: Context, size: int) -> Lanes:
    """Returns the lanes of the context from (workgroups, subgroups, 32)."""
    numbers = ctx.numbers
    flat = table.reshape(table.shape[0], -1)
    return flat[numbers // size, numbers % size].reshape(ctx.shape)


def subgroup_reduce(row: SubgroupRow, dtype: ScalarType, values: Lanes, ctx: Context) -> Lanes:
    """Returns the values of each subgroup, folded in ascending lanes; what a fold begins with changes none later."""
    fold, start = lanes.binary(row.operator, dtype), lane_scalar(dtype, row.start(dtype))
    table, size = _spread(values, ctx, start)
    total: Dense = np.full(table.shape[:2], start, values.dtype)
    results = np.empty_like(table)
    for lane in range(WIDTH):
        before, total = total, fold(total, table[:, :, lane])
        results[:, :, lane] = before if row.span is Span.EXCLUSIVE else total
    if row.span is Span.ALL:
        results[:] = results[:, :, WIDTH - 1 :]
    return _collect(results, ctx, size)


def subgroup_ballot(votes: Lanes, ctx: Context) -> Lanes:
    """Returns a u32 whose bit k is the vote of lane k."""
    table, size = _spread(votes, ctx)
    bits = np.where(table, np.uint32(1) << np.arange(WIDTH, dtype=np.uint32), np.uint32(0))
    total = np.bitwise_or.reduce(bits, axis=2)
    return _collect(np.broadcast_to(total[:, :, None], table.shape), ctx, size)


def subgroup_shuffle(values: Lanes, sources: Lanes, ctx: Context) -> Lanes:
    """Returns the value of the source lane; 0 if the subgroup has no such lane."""
    table, size = _spread(values, ctx)
    wanted, _ = _spread(sources, ctx)
    groups = np.arange(table.shape[1])[None, :, None]
    present = np.minimum(size - groups * WIDTH, WIDTH)
    exists = wanted < present
    moved = np.take_along_axis(table, np.where(exists, wanted, 0).astype(np.intp), axis=2)
    return _collect(np.where(exists, moved, np.zeros(1, values.dtype)), ctx, size)
