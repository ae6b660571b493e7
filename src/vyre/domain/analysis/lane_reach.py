"""How many lanes the indices of a program ask for along each axis: which part of an array its ids reach.

``q[i, c]`` with ``i = global_id(0)`` reaches the rows of ``q``: axis 0 needs as many lanes as ``q`` has rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from vyre.domain.analysis.index_flow import Access, Step, Walk
from vyre.domain.analysis.index_values import Value, signed
from vyre.domain.geometry import LaneReach, Reach
from vyre.domain.ir.expr import Binary, Cast, Expr, IdKind, LaunchId, Load, Select
from vyre.domain.ir.operators import BinaryOp
from vyre.domain.ir.program import Program
from vyre.domain.ir.walk import unique_expressions


def lane_reach(program: Program, axes: Mapping[str, int], widths: frozenset[str]) -> LaneReach:
    """Returns the parts of arrays that the ids of a valid program reach.

    ``axes``: how many axes each array has, by name; one that is not named has one.  ``widths``: the parameters that
    hold sizes of arrays of several axes, by which their indices are recognised.
    """
    walk = _Walk(program, axes, widths)
    return LaneReach(walk.reads, tuple([walk.along(axis) for axis in range(3)]))


class _Reached(NamedTuple):
    """The parts of an array that an access reaches: by axis of the array, the last one first, and of the ids.

    ``bounded``: the axes of ids along which no index is below a known one.  ``is_one``: the element is always the same.
    """

    access: Access
    parts: list[dict[int, Reach]]
    bounded: set[int]
    is_one: bool


class _Walk(Walk):
    """Notes for each access how many indices one lane takes, by axis of the array and of the ids."""

    def __init__(self, program: Program, axes: Mapping[str, int], widths: frozenset[str]) -> None:
        self._axes, self._widths = axes, widths
        self._arrays = {buffer.name for buffer in program.abi_buffers if not buffer.is_push}
        self._accesses: list[_Reached] = []
        ids = [node for node in unique_expressions(program) if isinstance(node, LaunchId)]
        self.reads = frozenset(one.axis for one in ids if one.kind in (IdKind.GLOBAL, IdKind.GROUP))
        super().__init__(program, program.workgroup_size, frozenset(), same_length=False)

    def _access(self, access: Access, step: Step | None) -> None:
        if access.buffer in self._arrays:
            reached: list[dict[int, Reach]] = []
            bounded: set[int] = set()
            is_one = True
            for place, part in enumerate(self._coordinates(access.index, self._axes.get(access.buffer, 1))):
                while isinstance(part, Cast) and part.dtype.bits == 64:
                    part = part.operand
                value = self._meanings.number(part)
                is_one = is_one and value is not None and value.is_constant
                reached.append({} if value is None else self._reached(access.buffer, place, value, bounded))
            self._accesses.append(_Reached(access, reached, bounded, is_one))

    def _coordinates(self, index: Expr, axes: int) -> list[Expr]:
        """Returns the coordinates of an index of an array with so many axes, the last one first."""
        if axes > 1 and isinstance(index, Select):
            index = index.on_true
        coordinates: list[Expr] = []
        while len(coordinates) < axes - 1 and isinstance(index, Binary) and isinstance(index.left, Binary):
            row = index.left
            size = row.right.operand if isinstance(row.right, Cast) else None
            if not (isinstance(size, Load) and size.buffer in self._widths):
                break
            coordinates.append(index.right)
            index = row.left
        return [*coordinates, index]

    def _reached(self, buffer: str, place: int, value: Value, bounded: set[int]) -> dict[int, Reach]:
        """Returns by axis of ids what an index reaches; adds the axes along which no index is below a known one."""
        factors: dict[int, tuple[int, int]] = {}
        of_groups: set[int] = set()
        rises = True
        for atom, times in value.form.terms:
            rises = rises and times > 0
            over = 1
            while atom.op in _QUOTIENTS and atom.left is not None and len(atom.left.form.terms) == 1:
                if atom.right is None or not atom.right.is_constant:
                    break
                over *= atom.right.constant if atom.op is BinaryOp.DIV else 1 << (atom.right.constant & 31)
                ((atom, inner),) = atom.left.form.terms
                times *= inner
            for axis in self.reads:
                groups = self._meanings.launch_id(IdKind.GROUP, axis).atom
                if atom is groups or atom is self._meanings.launch_id(IdKind.GLOBAL, axis).atom:
                    factors[axis] = abs(times), over
                    if atom is groups:
                        of_groups.add(axis)
        if rises:
            bounded.update(factors)
        more = max(0, -signed(value.constant))
        reaches: dict[int, Reach] = {}
        for axis, (top, bottom) in factors.items():
            larger = [t * bottom / (b * top) for other, (t, b) in factors.items() if other != axis]
            if 1 in larger:
                continue  # of two ids that are added, none tells the other one's lanes
            steps = [ratio for ratio in larger if ratio > 1]
            most = -int(-min(steps) // 1) if steps else 0
            reaches[axis] = Reach(buffer, place, (bottom, top), more, most, axis in of_groups)
        return reaches

    def along(self, axis: int) -> tuple[Reach, ...]:
        """Returns the parts of written arrays from which lanes are counted, and of all where not all stores are plain.

        Along the only axis of ids, an array that they do not reach plainly then counts with all elements.
        """
        if all(
            one.is_one for one in self._accesses
        ):  # any number of lanes writes the same: columns along x, rows along y
            return tuple([Reach(name, axis) for name, axes in self._axes.items() if axis < axes and axis in self.reads])
        writes = [one for one in self._accesses if not isinstance(one.access, Load) and not one.is_one]
        plain = writes and all(axis in one.bounded and any(axis in part for part in one.parts) for one in writes)
        parts: dict[Reach, None] = {}
        for access, by_coordinate, _, is_one in self._accesses:
            if is_one or (plain and isinstance(access, Load)):
                continue
            reached = [part[axis] for part in by_coordinate if axis in part]
            if not reached and self.reads == {0} and axis == 0:
                reached = [Reach(access.buffer)]
            parts |= dict.fromkeys(reached)
        return tuple(parts)


_QUOTIENTS = frozenset({BinaryOp.DIV, BinaryOp.SHR})
