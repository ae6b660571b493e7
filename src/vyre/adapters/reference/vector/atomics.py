"""Atomics on flat arrays of element numbers, all in range, in ascending lane order.

``update`` is for commutative operators whose results are unused.  ``fetch`` returns the old value of each lane: lanes
are sorted by element, and the updates of one element become a running composition along its run of equal numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

import numpy as np

from vyre.adapters.lanes.types import Dense, Lanes
from vyre.adapters.reference.vector.lanes_context import Indices
from vyre.domain.ir.operators import AtomicOp

Maps: TypeAlias = tuple[Lanes, ...]
"""One function of an element's value per lane, as the arrays of its parameters."""

_BINCOUNT_SLACK: Final = 1 << 16
_EXACT_SUMMANDS: Final = 1 << 20
"""Sums of fewer values below 2^32 are exact in binary64."""
_ROUNDS: Final = 8
_UFUNC: Final[dict[AtomicOp, np.ufunc]] = {
    AtomicOp.OR: np.bitwise_or,
    AtomicOp.AND: np.bitwise_and,
    AtomicOp.XOR: np.bitwise_xor,
    AtomicOp.MIN: np.minimum,
    AtomicOp.MAX: np.maximum,
}


def update(array: Lanes, op: AtomicOp, elements: Indices, value: Dense) -> None:
    """Applies a commutative operator; ``value`` is an array like ``elements``, or one NumPy scalar for all."""
    if not len(elements):
        return
    if op is AtomicOp.ADD:
        _add(array, elements, value)
    else:
        _UFUNC[op].at(array, elements, np.asarray(value, array.dtype))


def _add(array: Lanes, elements: Indices, value: Dense) -> None:
    dense = len(array) <= 4 * len(elements) + _BINCOUNT_SLACK
    if not isinstance(value, np.ndarray):
        first = elements[:1]
        if (elements == first).all():
            array[first] += array.dtype.type(value) * np.asarray(len(elements)).astype(array.dtype)
        elif dense:
            array += np.bincount(elements, minlength=len(array)).astype(array.dtype) * array.dtype.type(value)
        else:
            np.add.at(array, elements, array.dtype.type(value))
    elif dense and array.itemsize == 4 and len(elements) < _EXACT_SUMMANDS:
        sums = np.bincount(elements, weights=value.astype(np.float64), minlength=len(array))
        array += sums.astype(np.int64).astype(array.dtype)
    else:
        np.add.at(array, elements, value)


def fetch(array: Lanes, op: AtomicOp, elements: Indices, values: Lanes, expected: Lanes) -> Lanes:
    """Applies any operator; returns the old value for each lane."""
    if not len(elements):
        return values
    order = _stable_order(elements)
    runs = _Runs(elements[order])
    values = values[order]
    if op is AtomicOp.COMPARE_EXCHANGE:
        in_order = _exchange_one_by_one(array, runs, values, expected[order])
    else:
        in_order = _RUNNING[op](array, runs, values)
    olds = np.empty_like(in_order)
    olds[order] = in_order
    return olds


def _stable_order(elements: Indices) -> Indices:
    """Returns a stable argsort: sorting (element, position) packed into one word is several times faster."""
    bits = (len(elements) - 1).bit_length()
    if int(elements.max()).bit_length() + bits > 63:
        return np.argsort(elements, kind="stable")
    packed = (elements << bits) | np.arange(len(elements))
    packed.sort()
    order: Indices = packed & ((1 << bits) - 1)
    return order


class _Runs:
    """The runs of equal numbers in sorted ``elements``."""

    __slots__ = ("elements", "ends", "lengths", "starts", "targets")

    def __init__(self, elements: Indices) -> None:
        self.elements = elements
        self.starts: Indices = np.flatnonzero(np.concatenate(([True], elements[1:] != elements[:-1])))
        self.ends: Indices = np.append(self.starts[1:], len(elements)) - 1
        self.lengths: Indices = self.ends - self.starts + 1
        self.targets: Indices = elements[self.starts]

    def spread(self, per_run: Lanes) -> Lanes:
        """Returns a value of each run for each of its members."""
        return np.repeat(per_run, self.lengths)

    def compose(self, maps: Maps, after: Callable[[Maps, Maps], Maps]) -> Maps:
        """Returns compositions of the maps from the start of the run up to each member, in log2(longest run) passes."""
        longest = int(self.lengths.max())
        if longest == 1:
            return maps
        maps = tuple(np.array(part) for part in maps)
        rank = np.arange(len(self.elements)) - self.spread(self.starts)
        distance = 1
        while distance < longest:
            late = np.flatnonzero(rank >= distance)
            early = tuple(part[late - distance] for part in maps)
            for part, new in zip(maps, after(early, tuple(part[late] for part in maps)), strict=True):
                part[late] = new
            distance *= 2
        return maps

    def finish(self, array: Lanes, results: Lanes) -> Lanes:
        """Writes the last result of every run; returns for each member the result of the one before it."""
        olds = np.empty_like(results)
        olds[1:] = results[:-1]
        olds[self.starts] = array[self.targets]
        array[self.targets] = results[self.ends]
        return olds


def _running_sum(array: Lanes, runs: _Runs, values: Lanes) -> Lanes:
    sums = np.cumsum(values, dtype=values.dtype)
    before = sums - values
    return runs.finish(array, sums + runs.spread(array[runs.targets] - before[runs.starts]))


def _running_extreme(op: AtomicOp) -> Callable[[Lanes, _Runs, Lanes], Lanes]:
    ufunc = _UFUNC[op]

    def run(array: Lanes, runs: _Runs, values: Lanes) -> Lanes:
        (extremes,) = runs.compose((values,), lambda early, late: (ufunc(*early, *late),))
        return runs.finish(array, ufunc(runs.spread(array[runs.targets]), extremes))

    return run


def _running_bits(masks: Callable[[Lanes], Maps]) -> Callable[[Lanes, _Runs, Lanes], Lanes]:
    """Returns operators that keep some bits and flip some: x -> (x & keep) ^ flip, which is closed under
    composition.
    """

    def after(early: Maps, late: Maps) -> Maps:
        return early[0] & late[0], (early[1] & late[0]) ^ late[1]

    def run(array: Lanes, runs: _Runs, values: Lanes) -> Lanes:
        keep, flip = runs.compose(masks(values), after)
        return runs.finish(array, (runs.spread(array[runs.targets]) & keep) ^ flip)

    return run


_RUNNING: Final[dict[AtomicOp, Callable[[Lanes, _Runs, Lanes], Lanes]]] = {
    AtomicOp.ADD: _running_sum,
    AtomicOp.MIN: _running_extreme(AtomicOp.MIN),
    AtomicOp.MAX: _running_extreme(AtomicOp.MAX),
    AtomicOp.AND: _running_bits(lambda v: (v, np.zeros_like(v))),
    AtomicOp.OR: _running_bits(lambda v: (~v, v)),
    AtomicOp.XOR: _running_bits(lambda v: (~np.zeros_like(v), v)),
    AtomicOp.EXCHANGE: _running_bits(lambda v: (np.zeros_like(v), v)),
    AtomicOp.FETCH_NAND: _running_bits(lambda v: (v, ~np.zeros_like(v))),
}


def _exchange_one_by_one(array: Lanes, runs: _Runs, values: Lanes, expected: Lanes) -> Lanes:
    """Processes the k-th member of every run in round k, because compare and exchange has no short composition; the
    rest of long runs is done in plain Python.
    """
    olds = np.empty_like(values)
    starts, lengths, targets = runs.starts, runs.lengths, runs.targets
    for rank in range(_ROUNDS):
        positions = starts + rank
        old = array[targets]
        olds[positions] = old
        array[targets] = np.where(old == expected[positions], values[positions], old)
        longer = lengths > rank + 1
        starts, lengths, targets = starts[longer], lengths[longer], targets[longer]
        if not len(starts):
            return olds
    for start, length, target in zip(starts.tolist(), lengths.tolist(), targets.tolist(), strict=True):
        rest = slice(start + _ROUNDS, start + length)
        current: int = array[target].item()
        returned: list[int] = []
        for value, wanted in zip(values[rest].tolist(), expected[rest].tolist(), strict=True):
            returned.append(current)
            if current == wanted:
                current = value
        olds[rest] = returned
        array[target] = current
    return olds
