"""Data races as values, and their wording.  Every backend that finds races reports them with these records."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from vyre.domain.names import Dim3

if TYPE_CHECKING:
    from vyre.domain.source_location import SourceLocation

_U32: Final = 0xFFFF_FFFF
_LISTED: Final = 4
_TOGETHER: Final = (
    "put a workgroup barrier between the two accesses, make both of them atomic, or give each lane elements of its own."
)
_APART: Final = (
    "make both accesses atomic, put a grid barrier or a second dispatch between them, or give each lane elements of "
    "its own; a workgroup barrier orders no lanes of different workgroups."
)


class LanePlace(NamedTuple):
    """The position of a lane in a launch.

    ``linear`` is the global id as one number, x fastest; ``workgroup`` is the position of the workgroup in the grid,
    and ``local`` the position of the lane in the workgroup.
    """

    linear: int
    global_id: Dim3
    workgroup: Dim3
    local: Dim3

    @classmethod
    def of(cls, grid: Dim3, size: Dim3, workgroup: Dim3, local: Dim3) -> LanePlace:
        """Returns the lane at ``local`` of ``workgroup``, in a grid of ``grid`` workgroups of ``size`` lanes."""
        x, y, z = (g * s + i for g, s, i in zip(workgroup, size, local, strict=True))
        linear = (z * grid[1] * size[1] + y) * grid[0] * size[0] + x
        return cls(linear, (x & _U32, y & _U32, z & _U32), workgroup, local)

    def __str__(self) -> str:
        return f"lane {self.linear} (workgroup {_triple(self.workgroup)}, local {_triple(self.local)})"


class RacingAccess(NamedTuple):
    """One access of a race.

    ``kind`` is ``load``, ``store`` or ``atomic``; ``loc`` is the line of the user's source, None where the program or
    the backend does not know it.
    """

    kind: str
    lane: LanePlace
    loc: SourceLocation | None = None

    def __str__(self) -> str:
        return f"{self.kind} by {self.lane} at {place_text(self.loc)}"

    def to_json(self) -> dict[str, Any]:
        """Returns the access as a JSON object."""
        loc = None if self.loc is None else {"file": self.loc.file, "line": self.loc.line, "column": self.loc.column}
        return {"kind": self.kind, **self.lane._asdict(), "loc": loc}


class DataRace(NamedTuple):
    """Two unordered accesses to one element; ``first`` happened first in the schedule that was observed.

    ``sizes``: those of the axes after the first, () for an array of one axis.
    """

    buffer: str
    element: int
    first: RacingAccess
    second: RacingAccess
    sizes: tuple[int, ...] = ()

    def __str__(self) -> str:
        return f"{self.buffer}[{', '.join(map(str, self.position))}]: {self.first}, {self.second}"

    @property
    def position(self) -> tuple[int, ...]:
        """The index of the element along each axis of the array: (row, column) of a table."""
        rest, position = self.element, []
        for size in reversed(self.sizes):
            rest, index = divmod(rest, size)
            position.append(index)
        return (rest, *reversed(position))

    def to_json(self) -> dict[str, Any]:
        """Returns the race as a JSON object."""
        return {
            "buffer": self.buffer,
            "element": self.element,
            "position": list(self.position),
            "first": self.first.to_json(),
            "second": self.second.to_json(),
        }

    @property
    def remedy(self) -> str:
        """Returns advice for repairing the program."""
        return _TOGETHER if self.first.lane.workgroup == self.second.lane.workgroup else _APART


def place_text(loc: SourceLocation | None) -> str:
    """Returns a source line as messages name it."""
    return "an unknown source line" if loc is None else str(loc)


def races_text(races: tuple[DataRace, ...]) -> str:
    """Returns the first races as text, and the number of the others."""
    listed = "; ".join(map(str, races[:_LISTED]))
    return f"{listed}; and {len(races) - _LISTED} more" if len(races) > _LISTED else listed


def _triple(axes: Dim3) -> str:
    return ",".join(map(str, axes))
