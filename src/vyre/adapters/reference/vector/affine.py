"""Lane values that need no array: affine functions of the lane's position, and boxes of lanes; and the closed unions of
values of expressions.

A chunk of workgroups has four axes: w (workgroup in the chunk), z, y, x (position in the workgroup); lanes are numbered
in C order, which is ascending linear id.  ``Affine`` is ``base + sum(c * position)`` in unbounded arithmetic; its u32
value is that modulo 2^32, which addition, subtraction and multiplication respect, so numbers that grow too long are
reduced.  As a value of another integer type it is exact: it fits the type for all lanes.  Where the values are used,
``settled`` proves that none of them wraps, and an index becomes a strided view instead of a gather.  Comparing an
affine value with a number splits a box of lanes into boxes instead of making a mask.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Final, NamedTuple, TypeAlias

from vyre.adapters.lanes.types import Dense, Lanes
from vyre.domain.ir.operators import BinaryOp

Axes: TypeAlias = tuple[int, int, int, int]
LIMIT: Final = 1 << 32
_AXES: Final = (0, 1, 2, 3)


class Affine(NamedTuple):
    """The function ``base + c[0]*w + c[1]*z + c[2]*y + c[3]*x``."""

    base: int
    c: Axes

    def plus(self, other: Affine | int, sign: int = 1) -> Affine:
        """Returns the sum with ``other``, or the difference for ``sign`` -1."""
        if isinstance(other, int):
            return Affine(self.base + sign * other, self.c)
        a, b = self.c, other.c
        return Affine(
            _short(self.base + sign * other.base),
            (
                _short(a[0] + sign * b[0]),
                _short(a[1] + sign * b[1]),
                _short(a[2] + sign * b[2]),
                _short(a[3] + sign * b[3]),
            ),
        )

    def times(self, factor: int) -> Affine:
        """Returns the product with an integer."""
        c = self.c
        return Affine(
            _short(self.base * factor),
            (_short(c[0] * factor), _short(c[1] * factor), _short(c[2] * factor), _short(c[3] * factor)),
        )

    def settled(self, lo: Axes, hi: Axes) -> Affine | None:
        """Returns a form with the same u32 values that does not wrap inside the box [lo, hi), or None if they wrap
        there.
        """
        least, greatest = self.bounds(lo, hi)
        turns = least >> 32
        if greatest >> 32 != turns:
            return None
        return self if not turns else Affine(self.base - (turns << 32), self.c)

    def bounds(self, lo: Axes, hi: Axes) -> tuple[int, int]:
        """Returns the least and greatest value over the half-open, non-empty box [lo, hi)."""
        least = greatest = self.base
        for axis in _AXES:
            c = self.c[axis]
            if c:
                first, last = c * lo[axis], c * (hi[axis] - 1)
                if c > 0:
                    least += first
                    greatest += last
                else:
                    least += last
                    greatest += first
        return least, greatest


def _short(number: int) -> int:
    """Returns a number congruent modulo 2^32 whose products with positions fit 64 bits."""
    return number if -LIMIT < number < LIMIT else number % LIMIT


class Extent(NamedTuple):
    """A half-open box of lanes."""

    lo: Axes
    hi: Axes

    def intersect(self, other: Extent) -> Extent | None:
        """Returns the common box, or None if it is empty."""
        lo = tuple(max(a, b) for a, b in zip(self.lo, other.lo, strict=True))
        hi = tuple(min(a, b) for a, b in zip(self.hi, other.hi, strict=True))
        if any(a >= b for a, b in zip(lo, hi, strict=True)):
            return None
        return Extent((lo[0], lo[1], lo[2], lo[3]), (hi[0], hi[1], hi[2], hi[3]))

    def cut(self, axis: int, start: int) -> tuple[Extent | None, Extent | None]:
        """Returns the parts below and from ``start`` on along one axis."""
        below = self._with(axis, self.lo[axis], min(start, self.hi[axis]))
        above = self._with(axis, max(start, self.lo[axis]), self.hi[axis])
        return below, above

    def _with(self, axis: int, first: int, end: int) -> Extent | None:
        if first >= end:
            return None
        lo, hi = list(self.lo), list(self.hi)
        lo[axis], hi[axis] = first, end
        return Extent((lo[0], lo[1], lo[2], lo[3]), (hi[0], hi[1], hi[2], hi[3]))


class Split(NamedTuple):
    """The lanes where a condition is true and where it is false, as disjoint boxes."""

    true: tuple[Extent, ...]
    false: tuple[Extent, ...]


def share_workgroups(boxes: tuple[Extent, ...]) -> bool:
    """Returns whether some workgroup has lanes in two of the boxes."""
    ranges = sorted((box.lo[0], box.hi[0]) for box in boxes)
    return any(after[0] < before[1] for before, after in pairwise(ranges))


def compare_with_zero(op: BinaryOp, value: Affine, box: Extent, row: Axes) -> Split | bool | None:
    """Returns where ``value op 0`` holds in ``box``: everywhere or nowhere (bool), on boxes, or None if not a set of
    boxes.

    ``row``: size of the whole chunk along each axis.
    """
    least, greatest = value.bounds(box.lo, box.hi)
    decided = _decided(op, least, greatest)
    if decided is not None:
        return decided
    if op is BinaryOp.EQ or op is BinaryOp.NE:
        return _point(op, value, box, row)
    # the least position p with base + c*p >= limit, for rising values; falling ones are compared the other way round
    varying = _single_axis(value, box)
    limit = 1 if op in (BinaryOp.LE, BinaryOp.GT) else 0
    if varying is not None:
        axis, rest = varying
        c = value.c[axis]
        if c > 0:
            start = -((rest - limit) // c)
            low, high = box.cut(axis, start)
        else:
            start = (rest - limit) // -c + 1
            high, low = box.cut(axis, start)
        below = _some(low), _some(high)
    else:
        ragged = _ragged_cut(value, limit, box, row)
        if ragged is None:
            return None
        below = ragged
    holds_below = op in (BinaryOp.LT, BinaryOp.LE)
    return Split(*below) if holds_below else Split(below[1], below[0])


def _decided(op: BinaryOp, least: int, greatest: int) -> bool | None:
    match op:
        case BinaryOp.LT:
            return True if greatest < 0 else False if least >= 0 else None
        case BinaryOp.LE:
            return True if greatest <= 0 else False if least > 0 else None
        case BinaryOp.GT:
            return True if least > 0 else False if greatest <= 0 else None
        case BinaryOp.GE:
            return True if least >= 0 else False if greatest < 0 else None
        case BinaryOp.EQ:
            return False if least > 0 or greatest < 0 else True if least == greatest == 0 else None
        case _:
            return True if least > 0 or greatest < 0 else False if least == greatest == 0 else None


def _some(box: Extent | None) -> tuple[Extent, ...]:
    return () if box is None else (box,)


def _single_axis(value: Affine, box: Extent) -> tuple[int, int] | None:
    """Returns the one axis along which the value varies inside the box, and its value at position 0 of that axis."""
    varying = [a for a in range(4) if value.c[a] and box.hi[a] - box.lo[a] > 1]
    if len(varying) != 1:
        return None
    axis = varying[0]
    return axis, value.base + sum(value.c[a] * box.lo[a] for a in range(4) if a != axis)


def _point(op: BinaryOp, value: Affine, box: Extent, row: Axes) -> Split | bool | None:
    varying = _single_axis(value, box)
    if varying is None:
        return None
    axis, rest_value = varying
    position, remainder = divmod(-rest_value, value.c[axis])
    if remainder or not box.lo[axis] <= position < box.hi[axis]:
        return op is BinaryOp.NE
    below, rest = box.cut(axis, position)
    assert rest is not None
    here, above = rest.cut(axis, position + 1)
    other = _some(below) + _some(above)
    return Split(_some(here), other) if op is BinaryOp.EQ else Split(other, _some(here))


def _ragged_cut(
    value: Affine, limit: int, box: Extent, row: Axes
) -> tuple[tuple[Extent, ...], tuple[Extent, ...]] | None:
    """Cuts a rising value that continues from workgroup to workgroup along one of their axes: into whole workgroups,
    and one workgroup in two parts.
    """
    axes = [a for a in (1, 2, 3) if value.c[a] and box.hi[a] - box.lo[a] > 1]
    if len(axes) != 1:
        return None
    axis, width = axes[0], row[axes[0]]
    c = value.c[axis]
    if c <= 0 or value.c[0] != c * width or box.hi[axis] - box.lo[axis] != width:
        return None
    first = value.base + sum(value.c[a] * box.lo[a] for a in (1, 2, 3) if a != axis)
    start = -((first - limit) // c)  # first position w * width + position that reaches the limit
    whole, part = divmod(start, width)
    head, tail = box.cut(0, whole)
    if tail is None or part == 0:
        return _some(head), _some(tail)
    middle, rest = tail.cut(0, whole + 1)
    assert middle is not None
    left, right = middle.cut(axis, part)
    return _some(head) + _some(left), _some(right) + _some(rest)


Word: TypeAlias = "int | Affine | Lanes"
Truth: TypeAlias = "bool | Split | Lanes"
Value: TypeAlias = "Word | Truth | Dense"
