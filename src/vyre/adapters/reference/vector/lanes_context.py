"""The active lanes of a chunk: a box of positions, or a list of lane numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

from vyre.adapters.lanes.types import LANE_DTYPE, Dense, Lanes
from vyre.adapters.reference.vector.affine import LIMIT, Affine, Axes, Extent, Split, compare_with_zero
from vyre.domain.ir.operators import BinaryOp
from vyre.domain.ir.program import Dim3
from vyre.domain.ir.types import ScalarType
from vyre.domain.launch import Launch

if TYPE_CHECKING:
    from numpy.typing import NDArray

Indices: TypeAlias = "NDArray[np.intp]"
CACHED: Final = 256
U32: Final = ScalarType.U32


class Grid:
    """Shape of a chunk and its numbering; shared by all chunks of one size."""

    __slots__ = ("_boxes", "_coordinates", "dims", "lanes", "numbers", "root", "splits")

    def __init__(self, dims: Axes) -> None:
        self.dims: Axes = dims
        self.lanes: int = dims[0] * dims[1] * dims[2] * dims[3]
        self.numbers: Indices = np.arange(self.lanes, dtype=np.intp)
        self.root: Box = Box(self, Extent((0, 0, 0, 0), dims))
        self._coordinates: tuple[Indices, ...] | None = None
        self._boxes: dict[Extent, Box] = {self.root.extent: self.root}
        self.splits: dict[tuple[BinaryOp, Affine, Extent], Split | bool | None] = {}

    def coordinates(self) -> tuple[Indices, ...]:
        """Returns the position of every lane along each axis, by lane number."""
        if self._coordinates is None:
            self._coordinates = tuple(np.unravel_index(self.numbers, self.dims))
        return self._coordinates

    def box(self, extent: Extent) -> Box:
        """Returns the box of an extent, cached."""
        box = self._boxes.get(extent)
        if box is None:
            if len(self._boxes) >= CACHED:
                self._boxes = {self.root.extent: self.root}
            box = self._boxes[extent] = Box(self, extent)
        return box

    def split(self, op: BinaryOp, value: Affine, box: Extent) -> Split | bool | None:
        """Returns ``compare_with_zero``, cached."""
        key = (op, value, box)
        try:
            return self.splits[key]
        except KeyError:
            if len(self.splits) >= CACHED:
                self.splits = {}
            split = self.splits[key] = compare_with_zero(op, value, box, self.dims)
            return split


class Box:
    """All lanes of an extent; arrays have its four-dimensional shape."""

    __slots__ = ("_numbers", "_reaches", "extent", "grid", "shape", "size", "slices")

    def __init__(self, grid: Grid, extent: Extent) -> None:
        self.grid: Grid = grid
        self.extent: Extent = extent
        lo, hi = extent
        self.shape: tuple[int, ...] = (hi[0] - lo[0], hi[1] - lo[1], hi[2] - lo[2], hi[3] - lo[3])
        self.size: int = self.shape[0] * self.shape[1] * self.shape[2] * self.shape[3]
        self.slices: tuple[slice, ...] = tuple(slice(a, b) for a, b in zip(lo, hi, strict=True))
        self._numbers: Indices | None = None
        self._reaches: dict[Axes, tuple[int, int, int]] = {}

    def reach(self, c: Axes) -> tuple[int, int, int]:
        """Returns what coefficients add to a base inside the box: the least, the greatest, and that of the first
        lane.
        """
        reach = self._reaches.get(c)
        if reach is None:
            if len(self._reaches) >= CACHED:
                self._reaches = {}
            lo, hi = self.extent
            least, greatest = Affine(0, c).bounds(lo, hi)
            first = c[0] * lo[0] + c[1] * lo[1] + c[2] * lo[2] + c[3] * lo[3]
            reach = self._reaches[c] = least, greatest, first
        return reach

    @property
    def numbers(self) -> Indices:
        """Lane numbers, ascending."""
        if self._numbers is None:
            self._numbers = self.grid.numbers.reshape(self.grid.dims)[self.slices].reshape(-1)
        return self._numbers

    def settled(self, value: Affine) -> Affine | None:
        """Returns ``value.settled`` over the box."""
        return value.settled(*self.extent)

    def materialise(self, value: Affine, dtype: ScalarType = U32) -> Lanes:
        """Returns the values as lanes of an integer type."""
        total = _base(value, dtype)
        for axis, c in enumerate(value.c):
            if c:
                shape = [1, 1, 1, 1]
                shape[axis] = self.shape[axis]
                line = np.arange(self.extent.lo[axis], self.extent.hi[axis], dtype=np.int64) * c
                total = total + line.reshape(shape)
        return np.broadcast_to(np.asarray(total).astype(LANE_DTYPE[dtype]), self.shape)


class Gather:
    """Lanes by ascending number; arrays have one dimension."""

    __slots__ = ("_relative", "grid", "numbers", "shape", "size")

    def __init__(self, grid: Grid, numbers: Indices) -> None:
        self.grid: Grid = grid
        self.numbers: Indices = numbers
        self.size: int = len(numbers)
        self.shape: tuple[int, ...] = (self.size,)
        self._relative: dict[int, tuple[Context, Indices]] = {}

    def materialise(self, value: Affine, dtype: ScalarType = U32) -> Lanes:
        """Returns the values as lanes of an integer type."""
        total = _base(value, dtype)
        cw, cz, cy, cx = value.c
        dims = self.grid.dims
        if dims[1] == dims[2] == 1 and cw == cx * dims[3] and not (cz or cy):
            total = self.numbers * cx + total
        else:
            for c, line in zip(value.c, self.grid.coordinates(), strict=True):
                if c:
                    total = total + line[self.numbers] * c
        return np.broadcast_to(np.asarray(total).astype(LANE_DTYPE[dtype]), self.shape)

    def positions_in(self, outer: Context) -> Indices:
        """Returns the positions of these lanes in the flattened arrays of an enclosing context."""
        positions = self._relative.get(id(outer))
        if positions is None:
            if outer is self.grid.root:
                positions = outer, self.numbers
            else:
                positions = outer, np.searchsorted(outer.numbers, self.numbers)
            self._relative[id(outer)] = positions  # holds ``outer``, so its id stays unique
        return positions[1]


Context: TypeAlias = Box | Gather


def _base(value: Affine, dtype: ScalarType) -> NDArray[np.int64] | np.int64:
    """Returns the base as a number of 64 bits, to which products that wrap may be added."""
    return np.int64(value.base % LIMIT if dtype is U32 else value.base)


def select(ctx: Context, mask: Lanes) -> Context | None:
    """Returns the lanes of ``ctx`` where the mask (of its shape) is set."""
    flat = mask.reshape(-1)
    chosen = np.flatnonzero(flat)
    if len(chosen) == ctx.size:
        return ctx
    if not len(chosen):
        return None
    return Gather(ctx.grid, ctx.numbers[chosen])


def union(parts: list[Context]) -> Context | None:
    """Returns all lanes of disjoint contexts."""
    if not parts:
        return None
    if len(parts) == 1:
        return parts[0]
    return Gather(parts[0].grid, np.sort(np.concatenate([p.numbers for p in parts])))


def without(ctx: Context, gone: list[Context]) -> Context | None:
    """Returns the lanes of ``ctx`` that are in none of ``gone``."""
    keep = np.isin(ctx.numbers, np.concatenate([g.numbers for g in gone]), invert=True)
    return select(ctx, keep)


def restrict(value: Lanes, outer: Context, inner: Context) -> Lanes:
    """Returns an array of ``outer`` restricted to ``inner``, a subset of its lanes; a view where possible."""
    if outer is inner:
        return value
    if isinstance(inner, Box):
        if not isinstance(outer, Box):
            return value[Gather(inner.grid, inner.numbers).positions_in(outer)].reshape(inner.shape)
        if outer.extent == inner.extent:
            return value
        lo = outer.extent.lo
        return value[tuple(slice(a - o, b - o) for a, b, o in zip(inner.extent.lo, inner.extent.hi, lo, strict=True))]
    return value.reshape(-1)[inner.positions_in(outer)]


def merge(old: Lanes, outer: Context, new: Dense, inner: Context) -> Lanes:
    """Returns a copy of ``old`` (an array of ``outer``) with the lanes of ``inner`` replaced."""
    merged = np.array(old, order="C")  # a copy, whose flattening below must be a view
    if isinstance(inner, Box) and isinstance(outer, Box):
        lo = outer.extent.lo
        merged[tuple(slice(a - o, b - o) for a, b, o in zip(inner.extent.lo, inner.extent.hi, lo, strict=True))] = new
    else:
        lanes = inner if isinstance(inner, Gather) else Gather(inner.grid, inner.numbers)
        flat = new.reshape(-1) if isinstance(new, np.ndarray) else new
        merged.reshape(-1)[lanes.positions_in(outer)] = flat
    return merged


def linear_global_ids(launch: Launch, group: Dim3, along: int, grid: Grid, numbers: Indices) -> NDArray[np.int64]:
    """Returns linear global ids of lanes of the chunk whose first workgroup is ``group`` and which runs ``along`` an
    axis.
    """
    w, z, y, x = (c[numbers] for c in grid.coordinates())
    sx, sy, sz = launch.workgroup
    groups: list[int | NDArray[np.int64]] = list(group)
    groups[along] = groups[along] + w
    gx, gy, gz = groups[0] * sx + x, groups[1] * sy + y, groups[2] * sz + z
    wide_x, wide_y = launch.grid[0] * sx, launch.grid[1] * sy
    ids: NDArray[np.int64] = np.asarray((gz * wide_y + gy) * wide_x + gx, np.int64)
    return ids
