"""The state of the running workgroup of the scalar oracle, and the interface through which a run is observed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Protocol, TypeAlias

from vyre.adapters.reference.engine import RunOptions
from vyre.domain.errors import StepBudgetExceeded, TrapError
from vyre.domain.ir.program import Dim3
from vyre.domain.ir.types import ScalarType
from vyre.domain.launch import Launch
from vyre.domain.numerics import scalar
from vyre.domain.races import LanePlace
from vyre.domain.source_location import SourceLocation

_U32: Final = 0xFFFF_FFFF
Lanes: TypeAlias = list[int]
"""Active lanes of the workgroup by linear local id, ascending."""
Values: TypeAlias = list[int]
"""Bit patterns, one per active lane."""
Evaluate: TypeAlias = Callable[["Workgroup", Lanes], Values]
Execute: TypeAlias = Callable[["Workgroup", Lanes], Lanes]
Location: TypeAlias = "SourceLocation | None"


class Tracer(Protocol):
    """Observes every access to existing elements, as bytes of a buffer, in the order in which they happen.

    ``lane`` is the linear local id; the last announced workgroup gives its place in the grid.  ``loc`` is the source
    location of the access; a copy's is that of its start.
    """

    def workgroup(self, workgroup: Workgroup, /) -> None:
        """Called when a workgroup starts."""

    def barrier(self) -> None:
        """Called after each barrier of the workgroup."""

    def load(self, buffer: str, start: int, nbytes: int, lane: int, loc: Location, /) -> None:
        """Called for a load of ``nbytes`` bytes from ``start``."""

    def store(self, buffer: str, start: int, data: bytes, lane: int, loc: Location, /) -> None:
        """Called for a store of ``data`` to ``start``."""

    def atomic(self, buffer: str, start: int, nbytes: int, lane: int, loc: Location, /) -> None:
        """Called for an atomic on ``nbytes`` bytes from ``start``."""


class ElementBuffer:
    """Typed element access to bytes: loads widen, stores narrow; loads out of range are zero, stores are dropped.

    Indices are numbers, negative ones among them, not bit patterns.
    """

    __slots__ = ("count", "data", "element", "size")

    def __init__(self, data: memoryview, element: ScalarType) -> None:
        self.data: memoryview = data
        self.element: ScalarType = element
        self.size: int = element.size
        self.count: int = min(len(data) // element.size, _U32)

    def load(self, index: int) -> int:
        """Returns the bits of an element."""
        if not 0 <= index < self.count:
            return 0
        start = index * self.size
        return scalar.load_element(self.element, bytes(self.data[start : start + self.size]))

    def store(self, index: int, bits: int) -> None:
        """Stores the bits of an element."""
        if 0 <= index < self.count:
            start = index * self.size
            self.data[start : start + self.size] = scalar.store_element(self.element, bits)


@dataclass(slots=True)
class Workgroup:
    """State of the running workgroup; lanes are linear local ids.

    ``zeros``: returns new memory for a private buffer.  ``private``: that of the lanes that have used theirs.
    """

    buffers: dict[str, ElementBuffer]
    launch: Launch
    options: RunOptions
    tracer: Tracer | None
    zeros: Callable[[str], ElementBuffer]
    group: Dim3 = (0, 0, 0)
    size: int = 0
    locals: dict[str, Values] = field(default_factory=dict)
    broke: set[int] = field(default_factory=set)
    continued: set[int] = field(default_factory=set)
    pending: dict[tuple[str, int], tuple[str, int, bytes, Location]] = field(default_factory=dict)
    steps: dict[int, int] = field(default_factory=dict)
    private: dict[tuple[str, int], ElementBuffer] = field(default_factory=dict)
    trap: tuple[int, TrapError] | None = None
    over_budget: tuple[int, StepBudgetExceeded] | None = None

    def private_buffer(self, name: str, lane: int) -> ElementBuffer:
        """Returns the memory of a lane for a private buffer, zeros when the lane uses it first."""
        buffer = self.private.get((name, lane))
        if buffer is None:
            buffer = self.private[name, lane] = self.zeros(name)
        return buffer

    def local_id(self, lane: int) -> Dim3:
        """Returns the local id of a lane along x, y, z."""
        x, y, _ = self.launch.workgroup
        return lane % x, lane // x % y, lane // (x * y)

    def global_id(self, lane: int) -> Dim3:
        """Returns the global id of a lane along x, y, z, each modulo 2^32."""
        (a, b, c), (x, y, z) = self.group, self.launch.workgroup
        return (a * x + lane % x) & _U32, (b * y + lane // x % y) & _U32, (c * z + lane // (x * y)) & _U32

    def place(self, lane: int) -> LanePlace:
        """Returns the place of a lane in the grid."""
        return LanePlace.of(self.launch.grid, self.launch.workgroup, self.group, self.local_id(lane))

    def linear_global_id(self, lane: int) -> int:
        """Returns the linear global id of a lane."""
        x, y, z = self.global_id(lane)
        gx, gy, _ = self.launch.grid
        wx, wy, _ = self.launch.workgroup
        return (z * gy * wy + y) * gx * wx + x
