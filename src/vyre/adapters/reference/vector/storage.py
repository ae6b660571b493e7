"""Buffers as typed arrays: total loads, stores and atomics for all lanes of a context at once.

An index is a u32, or an array of any integer type.

An affine index that stays in range is a strided view; any other is a gather or scatter with the lanes that are out of
range masked off.  Scatters write ascending lanes, so the highest lane wins.  Of private memory every lane has the
elements for itself, so that any index is in order and no two lanes collide.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from vyre.adapters import lanes
from vyre.adapters.lanes.types import LANE_DTYPE, Dense, Lanes, UnaryRule
from vyre.adapters.reference.vector.affine import LIMIT, Affine, Axes, Value, Word
from vyre.adapters.reference.vector.atomics import fetch, update
from vyre.adapters.reference.vector.lanes_context import Box, Context, Grid, Indices
from vyre.domain.ir.operators import AtomicOp
from vyre.domain.ir.types import ScalarType

if TYPE_CHECKING:
    from numpy.typing import NDArray


U32 = ScalarType.U32
_NOWHERE: Final = (0, 0, 0, 0)
_SIGN: Final = 1 << 31


class ElementRules(NamedTuple):
    """The layout of one element type in memory, and its conversions."""

    element: ScalarType
    stored: np.dtype[np.generic]
    load: UnaryRule
    store: UnaryRule

    @classmethod
    def of(cls, element: ScalarType) -> ElementRules:
        """Returns the rules of an element type."""
        stored = np.dtype(element.numpy_name)
        return cls(element, stored, lanes.load_convert(element), lanes.store_convert(element))


class Storage:
    """One buffer: ``array`` of stored elements; workgroup memory has ``count`` elements for each workgroup.

    ``per_group``: an index that all lanes agree on may select different elements for them.
    """

    __slots__ = ("array", "count", "dtype", "element", "itemsize", "load_rule", "per_group", "store_rule")

    def __init__(self, array: Lanes, count: int, rules: ElementRules, *, per_group: bool) -> None:
        self.array: Lanes = array
        self.count: int = count
        self.element: ScalarType = rules.element
        self.dtype: np.dtype[np.generic] = rules.stored
        self.load_rule: UnaryRule = rules.load
        self.store_rule: UnaryRule = rules.store
        self.itemsize: int = self.dtype.itemsize
        self.per_group: bool = per_group

    # -- addressing -----------------------------------------------------------------------------------

    def view(self, ctx: Box, index: Affine) -> Lanes | None:
        """Returns a strided view of the elements that an affine index selects, or None if one is out of range."""
        base, c = index
        least, greatest, first = ctx.reach(c)
        if base + least < 0 or base + greatest >= self.count:
            settled = ctx.settled(index)
            if settled is None or settled is index:
                return None
            return self.view(ctx, settled)
        return self._strided(ctx, base + first, c)

    def _strided(self, ctx: Box, start: int, c: Axes) -> Lanes:
        """Returns the view that begins at a number of an element, or of a lane's element."""
        size, along_w = self.itemsize, c[0]
        if self.per_group:
            start += self.count * ctx.extent.lo[0]
            along_w += self.count
        strides = along_w * size, c[1] * size, c[2] * size, c[3] * size
        return np.ndarray(ctx.shape, self.dtype, self.array, start * size, strides)

    def _elements(self, ctx: Context, index: Word) -> tuple[Indices, NDArray[np.bool_] | None]:
        """Returns the lanes' indices as a new array, 0 for those out of range, and a mask of these (None if there are
        none); both flattened.
        """
        if isinstance(index, Affine):
            index = ctx.materialise(index)
        elif isinstance(index, int):
            index = np.full(ctx.size, index, np.uint32)
        flat = _unsigned(index.reshape(-1), self.count)
        numbers: Indices = flat.astype(np.intp)
        if not flat.size or int(flat.max()) < self.count:
            return numbers, None
        outside = flat >= self.count
        numbers[outside] = 0
        return numbers, outside

    def _numbers(self, ctx: Context, index: Word) -> tuple[Indices, NDArray[np.bool_] | None]:
        """Returns the numbers in ``array`` of the elements with the lanes' indices, that of some other element for
        lanes out of range, and a mask of these (None if there are none); both flattened.
        """
        numbers, outside = self._elements(ctx, index)
        if self.per_group:
            numbers += ctx.numbers // (ctx.grid.lanes // ctx.grid.dims[0]) * self.count
        return numbers, outside

    def _flat(self, ctx: Context, index: Word) -> tuple[Indices, NDArray[np.bool_] | None]:
        """Returns element numbers of the lanes in range, and a mask of them (None if all are); both flattened."""
        numbers, outside = self._numbers(ctx, index)
        if outside is None:
            return numbers, None
        inside = ~outside
        return numbers[inside], inside

    # -- loads ----------------------------------------------------------------------------------------

    def load(self, ctx: Context, index: Word) -> Value:
        """Returns widened elements: a scalar for a uniform index, possibly a view of memory for a strided one."""
        if type(index) is int:
            if not self.per_group:
                return self._uniform(index)
            index = Affine(index, _NOWHERE)
        if isinstance(index, Affine) and isinstance(ctx, Box):
            elements = self.view(ctx, index)
            if elements is not None:
                return self.load_rule(elements)
        numbers, outside = self._numbers(ctx, index)
        if outside is None:
            return self.load_rule(self.array[numbers]).reshape(ctx.shape)
        if not self.count:
            return np.zeros(ctx.shape, LANE_DTYPE[self.element.widened])
        values = self.load_rule(self.array[numbers])
        assert isinstance(values, np.ndarray)
        values[outside] = 0
        return values.reshape(ctx.shape)

    def _uniform(self, index: int) -> Value:
        inside = index < self.count
        values = self.load_rule(self.array[index : index + 1] if inside else np.zeros(1, self.array.dtype))
        if self.element.widened is U32:
            return int(values.item())
        return bool(values.item()) if self.element.widened is ScalarType.BOOL else values.reshape(-1)[0]

    # -- stores ---------------------------------------------------------------------------------------

    def store(self, ctx: Context, index: Word, value: Dense) -> None:
        """Writes lane values (an array of the context's shape, or a scalar) at the lanes' indices."""
        target = self.target(ctx, index)
        stored = self.store_rule(
            value if isinstance(value, np.ndarray) else np.asarray(value, LANE_DTYPE[self.element.widened])
        )
        if target is not None:
            target[...] = stored
            return
        flat, inside = self._flat(ctx, index)
        if stored.ndim:
            stored = np.broadcast_to(stored, ctx.shape).reshape(-1)
            if inside is not None:
                stored = stored[inside]
        self.array[flat] = stored

    def target(self, ctx: Context, index: Word) -> Lanes | None:
        """Returns a view of the elements that the lanes write, if each writes a different one and all are in range."""
        if isinstance(index, int):
            index = Affine(index, _NOWHERE)
        if isinstance(index, Affine) and isinstance(ctx, Box) and self._distinct(ctx, index.c):
            return self.view(ctx, index)
        return None

    def canonicalise(self, stored: Lanes) -> None:
        """Gives the NaN among freshly stored floats their canonical bits."""
        if self.element.is_float and stored.size and np.isnan(np.maximum.reduce(stored, axis=None)):
            stored[...] = self.store_rule(stored)

    def _distinct(self, ctx: Box, c: Axes) -> bool:
        """Returns whether no two lanes of the box share an element."""
        axes = [(abs(c[a]), ctx.shape[a]) for a in range(1 if self.per_group else 0, 4) if ctx.shape[a] > 1]
        reach = 0
        for step, extent in sorted(axes):
            if step <= reach:
                return False
            reach += step * (extent - 1)
        return True

    # -- atomics --------------------------------------------------------------------------------------

    def update(self, ctx: Context, op: AtomicOp, index: Word, value: Dense) -> None:
        """Applies a commutative atomic whose old value is unused."""
        elements, inside = self._flat(ctx, index)
        if isinstance(value, np.ndarray):
            value = _spread(value, ctx, inside, self.array.dtype)
        update(self.array, op, elements, value)

    def fetch(self, ctx: Context, op: AtomicOp, index: Word, value: Dense, expected: Dense) -> Lanes:
        """Applies any atomic, in ascending lane order; returns the old values in the context's shape."""
        elements, inside = self._flat(ctx, index)
        values, wanted = (_spread(v, ctx, inside, self.array.dtype) for v in (value, expected))
        olds = fetch(self.array, op, elements, values, wanted)
        if inside is None:
            return olds.reshape(ctx.shape)
        result = np.zeros(ctx.size, self.array.dtype)
        result[inside] = olds
        return result.reshape(ctx.shape)


def _unsigned(index: Lanes, count: int) -> Lanes:
    """Returns indices of any integer type as unsigned ones, of which those of negative indices are out of range."""
    if index.dtype.kind == "u":
        return index
    if index.itemsize == 4:
        return index.view(np.uint32) if count <= _SIGN else index.astype(np.int64).view(np.uint64)
    return index.view(np.uint64)


def _spread(value: Dense, ctx: Context, inside: NDArray[np.bool_] | None, dtype: np.dtype[np.generic]) -> Lanes:
    flat = np.broadcast_to(np.asarray(value, dtype), ctx.shape).reshape(-1)
    return flat if inside is None else flat[inside]


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
