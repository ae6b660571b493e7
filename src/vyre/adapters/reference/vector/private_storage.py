"""Private memory: every lane has the elements for itself, so that any index is in order and no two lanes collide.

Element ``e`` of lane ``n`` has the number ``e * lanes + n``: an index that all lanes agree on selects a row, whose
elements lie side by side.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from vyre.adapters.lanes.types import Lanes
from vyre.adapters.reference.vector.affine import LIMIT, Affine, Axes
from vyre.adapters.reference.vector.lanes_context import Box, Context, Grid, Indices
from vyre.adapters.reference.vector.storage import ElementRules, Storage
from vyre.adapters.reference.vector.value_types import Word

if TYPE_CHECKING:
    from numpy.typing import NDArray


class PrivateStorage(Storage):
    """One private buffer of a chunk: ``array`` has ``count`` elements for each lane of the grid.

    ``used``: the number of leading elements of ``array`` behind which only zeros are.  Arrays are used from the first
    element on as a rule, so that little of a large one has to become zero again for the next chunk.
    """

    __slots__ = ("_lanes", "_strides", "used")

    def __init__(self, array: Lanes, count: int, rules: ElementRules, grid: Grid) -> None:
        super().__init__(array, count, rules, per_group=True)
        self.used: int = 0
        self._lanes = grid.lanes
        _, sz, sy, sx = grid.dims
        self._strides = (sz * sy * sx, sy * sx, sx, 1)

    def _strided(self, ctx: Box, start: int, c: Axes) -> Lanes:
        lanes, size = self._lanes, self.itemsize
        s = self._strides
        own = sum(low * step for low, step in zip(ctx.extent.lo, s, strict=True))
        strides = (
            (c[0] * lanes + s[0]) * size,
            (c[1] * lanes + s[1]) * size,
            (c[2] * lanes + s[2]) * size,
            (c[3] * lanes + s[3]) * size,
        )
        return np.ndarray(ctx.shape, self.dtype, self.array, (start * lanes + own) * size, strides)

    def _numbers(self, ctx: Context, index: Word) -> tuple[Indices, NDArray[np.bool_] | None]:
        lanes = ctx.numbers
        if isinstance(index, Affine) and not any(index.c):
            index = index.base % LIMIT
        if isinstance(index, int):
            if index < self.count:
                return lanes + index * self._lanes, None
            return lanes, np.ones(ctx.size, np.bool_)
        numbers, outside = self._elements(ctx, index)
        numbers *= self._lanes
        numbers += lanes
        return numbers, outside

    def _flat(self, ctx: Context, index: Word) -> tuple[Indices, NDArray[np.bool_] | None]:
        numbers, inside = super()._flat(ctx, index)
        if len(numbers):
            self.used = max(self.used, int(numbers.max()) + 1)
        return numbers, inside

    def target(self, ctx: Context, index: Word) -> Lanes | None:
        """Returns a view of the elements that the lanes write, if all are in range."""
        view = super().target(ctx, index)
        if view is not None:
            last = index if isinstance(index, int) else self.count - 1
            self.used = max(self.used, (last + 1) * self._lanes)
        return view

    def _distinct(self, ctx: Box, c: Axes) -> bool:
        return True
