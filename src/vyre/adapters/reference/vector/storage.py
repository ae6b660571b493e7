"""Buffers as typed arrays: total loads, stores and atomics for all lanes of a context at once.

An affine index that stays in range is a strided view; anything else is a gather or scatter with the lanes that are out
of range masked off.  Scatters write ascending lanes, so the highest lane wins.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from vyre.adapters.reference import lanes
from vyre.adapters.reference.vector.affine import Affine, Axes
from vyre.adapters.reference.vector.lanes_context import Box, Context, Lanes
from vyre.domain.ir.operators import AtomicOp
from vyre.domain.ir.types import ScalarType

U32 = ScalarType.U32
_BINCOUNT_SLACK: Final = 1 << 16
_NOWHERE: Final = (0, 0, 0, 0)


class Storage:
    """One buffer: ``array`` of stored elements; workgroup memory has ``count`` elements for each workgroup."""

    __slots__ = ("array", "count", "element", "itemsize", "load_rule", "per_group", "plain", "store_rule")

    def __init__(self, array: Lanes, count: int, element: ScalarType, *, per_group: bool) -> None:
        self.array = array
        self.count = count
        self.element = element
        self.itemsize = array.itemsize
        self.per_group = per_group
        self.load_rule = lanes.load_convert(element)
        self.store_rule = lanes.store_convert(element)
        self.plain = element.is_executable and element is not ScalarType.BOOL

    # -- addressing -----------------------------------------------------------------------------------

    def view(self, ctx: Box, index: Affine) -> Lanes | None:
        """Strided view of the elements an affine index selects, or None if one is out of range."""
        lo, hi = ctx.extent
        least, greatest = index.bounds(lo, hi)
        if least < 0 or greatest >= self.count:
            settled = index.settled(lo, hi)
            if settled is None or settled is index:
                return None
            return self.view(ctx, settled)
        c = index.c
        start = index.base + c[0] * lo[0] + c[1] * lo[1] + c[2] * lo[2] + c[3] * lo[3]
        along_w = c[0]
        if self.per_group:
            start += self.count * lo[0]
            along_w += self.count
        size = self.itemsize
        return np.ndarray(
            ctx.shape,
            self.array.dtype,
            self.array,
            start * size,
            (along_w * size, c[1] * size, c[2] * size, c[3] * size),
        )

    def _flat(self, ctx: Context, index: Any) -> tuple[Any, Any]:
        """Element numbers of the lanes in range, and a mask of them (None if all are); both flattened."""
        if isinstance(index, Affine):
            index = ctx.materialise(index)
        elif isinstance(index, int):
            index = np.full(ctx.size, index, np.uint32)
        flat = index.reshape(-1)
        inside = None
        if flat.size and int(flat.max()) >= self.count:
            inside = flat < self.count
            flat = flat[inside]
        flat = flat.astype(np.intp)
        if self.per_group:
            groups = ctx.numbers // (ctx.grid.lanes // ctx.grid.dims[0])
            flat += (groups if inside is None else groups[inside]) * self.count
        return flat, inside

    # -- loads ----------------------------------------------------------------------------------------

    def load(self, ctx: Context, index: Any) -> Any:
        """Widened elements; a uniform result is a scalar, a view of memory may be returned for a strided one."""
        if isinstance(index, int):
            if not self.per_group:
                return self._uniform(index)
            index = Affine(index, _NOWHERE)
        if isinstance(index, Affine) and isinstance(ctx, Box):
            found = self.view(ctx, index)
            if found is not None:
                return self.load_rule(found)
        flat, inside = self._flat(ctx, index)
        values = self.load_rule(self.array[flat])
        if inside is not None:
            all_values = np.zeros(ctx.size, values.dtype)
            all_values[inside] = values
            values = all_values
        return values.reshape(ctx.shape)

    def _uniform(self, index: int) -> Any:
        if index < self.count:
            value = self.load_rule(self.array[index : index + 1])[0]
        else:
            value = self.load_rule(np.zeros(1, self.array.dtype))[0]
        if self.element.widened is U32:
            return int(value)
        return bool(value) if self.element is ScalarType.BOOL else value

    # -- stores ---------------------------------------------------------------------------------------

    def store(self, ctx: Context, index: Any, value: Any) -> None:
        """Write lane values (an array of the context's shape, or a scalar) at the lanes' indices."""
        target = self.target(ctx, index)
        stored = self.store_rule(
            value if isinstance(value, np.ndarray) else np.asarray(value, _lane_dtype(self.element))
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

    def target(self, ctx: Context, index: Any) -> Lanes | None:
        """View of the elements the lanes write, if each writes one of its own and all are in range."""
        if isinstance(index, int):
            index = Affine(index, _NOWHERE)
        if isinstance(index, Affine) and isinstance(ctx, Box) and self._distinct(ctx, index.c):
            return self.view(ctx, index)
        return None

    def canonicalise(self, stored: Lanes) -> None:
        """Give the NaN among freshly stored floats their canonical bits."""
        if self.element.is_float and stored.size and np.isnan(np.maximum.reduce(stored, axis=None)):
            stored[...] = self.store_rule(stored)

    def _distinct(self, ctx: Box, c: Axes) -> bool:
        """True if no two lanes of the box share an element."""
        axes = [(abs(c[a]), ctx.shape[a]) for a in range(1 if self.per_group else 0, 4) if ctx.shape[a] > 1]
        reach = 0
        for step, extent in sorted(axes):
            if step <= reach:
                return False
            reach += step * (extent - 1)
        return True

    # -- atomics --------------------------------------------------------------------------------------

    def update(self, ctx: Context, op: AtomicOp, index: Any, value: Any) -> None:
        """A commutative atomic whose old value nobody needs."""
        flat, inside = self._flat(ctx, index)
        if not len(flat):
            return
        if isinstance(value, np.ndarray):
            value = np.broadcast_to(value, ctx.shape).reshape(-1)
            if inside is not None:
                value = value[inside]
        if op is AtomicOp.ADD:
            self._add(flat, value)
        else:
            _UFUNC[op].at(self.array, flat, np.asarray(value, self.array.dtype))

    def _add(self, flat: Any, value: Any) -> None:
        array = self.array
        first = int(flat[0])
        if not isinstance(value, np.ndarray):
            if len(flat) == 1 or (flat == first).all():
                total = int(value) * len(flat)
                array[first] = array[first] + np.asarray(
                    total & _MASK[array.itemsize], _UNSIGNED[array.itemsize]
                ).astype(array.dtype)
                return
            if len(array) <= 4 * len(flat) + _BINCOUNT_SLACK:
                counts = np.bincount(flat, minlength=len(array)).astype(array.dtype)
                array += counts if int(value) == 1 else counts * array.dtype.type(value)
                return
        elif array.itemsize == 4 and len(array) <= 4 * len(flat) + _BINCOUNT_SLACK and len(flat) < 1 << 20:
            # sums of fewer than 2^20 values below 2^32 are exact in binary64
            sums = np.bincount(flat, weights=value.astype(np.float64), minlength=len(array))
            array += sums.astype(np.int64).astype(array.dtype)
            return
        np.add.at(array, flat, np.asarray(value, array.dtype))

    def exchange(self, ctx: Context, op: AtomicOp, index: Any, value: Any, expected: Any) -> Lanes:
        """Any atomic, in ascending lane order; returns the old values in the context's shape."""
        flat, inside = self._flat(ctx, index)
        operands = [_spread(v, ctx, inside, self.array.dtype) for v in (value, expected)]
        order = np.argsort(flat, kind="stable")
        addresses, values, wanted = flat[order], operands[0][order], operands[1][order]
        starts = np.flatnonzero(np.concatenate([[True], addresses[1:] != addresses[:-1]])) if len(flat) else flat
        if op in _SCANS:
            olds = self._scan(op, addresses, values, starts)
        else:
            olds = self._rounds(op, addresses, values, wanted, starts)
        unsorted = np.empty_like(olds)
        unsorted[order] = olds
        if inside is None:
            return unsorted.reshape(ctx.shape)
        found = np.zeros(ctx.size, self.array.dtype)
        found[inside] = unsorted
        return found.reshape(ctx.shape)

    def _scan(self, op: AtomicOp, addresses: Any, values: Lanes, starts: Any) -> Lanes:
        """Add and exchange, whose running results have a closed form; groups of equal addresses are adjacent."""
        array = self.array
        if not len(addresses):
            return values
        lengths = np.diff(np.append(starts, len(addresses)))
        first = array[addresses[starts]]
        if op is AtomicOp.ADD:
            sums = np.cumsum(values, dtype=values.dtype)
            before = sums - values
            olds: Lanes = before - np.repeat(before[starts], lengths) + np.repeat(first, lengths)
            ends = starts + lengths - 1
            array[addresses[starts]] = olds[ends] + values[ends]
            return olds
        olds = np.empty_like(values)
        olds[1:] = values[:-1]
        olds[starts] = first
        array[addresses] = values
        return olds

    def _rounds(self, op: AtomicOp, addresses: Any, values: Lanes, wanted: Lanes, starts: Any) -> Lanes:
        """The others: the k-th update of every address in round k."""
        olds = np.empty_like(values)
        lengths = np.diff(np.append(starts, len(addresses)))
        rank = 0
        while len(starts):
            at = starts + rank
            where = addresses[at]
            old = self.array[where]
            olds[at] = old
            self.array[where] = _apply(op, old, values[at], wanted[at])
            rank += 1
            more = lengths > rank
            starts, lengths = starts[more], lengths[more]
        return olds


_MASK: Final = {4: 0xFFFF_FFFF, 8: 0xFFFF_FFFF_FFFF_FFFF}
_UNSIGNED: Final = {4: np.uint32, 8: np.uint64}
_SCANS: Final = frozenset({AtomicOp.ADD, AtomicOp.EXCHANGE})
_UFUNC: Final[dict[AtomicOp, Any]] = {
    AtomicOp.OR: np.bitwise_or,
    AtomicOp.AND: np.bitwise_and,
    AtomicOp.XOR: np.bitwise_xor,
    AtomicOp.MIN: np.minimum,
    AtomicOp.MAX: np.maximum,
}
COMMUTATIVE: Final = frozenset({AtomicOp.ADD, *_UFUNC})


def _lane_dtype(element: ScalarType) -> Any:
    return lanes.types.LANE_DTYPE[element.widened]


def _spread(value: Any, ctx: Context, inside: Any, dtype: Any) -> Lanes:
    flat = np.broadcast_to(np.asarray(value, dtype), ctx.shape).reshape(-1)
    return flat if inside is None else flat[inside]


def _apply(op: AtomicOp, old: Lanes, value: Lanes, expected: Lanes) -> Any:
    match op:
        case AtomicOp.COMPARE_EXCHANGE:
            return np.where(old == expected, value, old)
        case AtomicOp.FETCH_NAND:
            return ~(old & value)
        case _:
            return _UFUNC[op](old, value)
