"""Lanes that execute together, and their registers.

A register holds one NumPy scalar while all lanes agree, else an array with one element for each lane of the frame.
Every array belongs to one register of one frame, so it may be written in place.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias, TypeVar, overload

import numpy as np

from vyre.adapters.lanes.types import Dense

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from vyre.adapters.cuda.machine.launch import Launch
    from vyre.adapters.cuda.machine.memory import Region

WARP: Final = 32
_Element = TypeVar("_Element", bound=np.generic)
Positions: TypeAlias = "NDArray[np.int64] | None"
"""Lanes of a strand, in its order; None means all of them."""
Numbers: TypeAlias = "NDArray[np.int64] | np.int64"
"""A number for each lane, or one for all of them."""


class Strand:
    """Whole warps of resident blocks that advance together, in any order of lanes.

    ``numbers`` are the lanes: block within the batch times threads, plus the linear thread id.
    ``groups`` are lanes that are about to execute a basic block.
    """

    def __init__(self, batch: Batch, numbers: NDArray[np.int64]) -> None:
        self.batch = batch
        self.launch: Launch = batch.launch
        self.numbers = numbers
        self.size: int = len(numbers)
        self.groups: dict[int, Positions] = {0: None}
        self.parked: list[Parked] = []
        self.registers: list[Dense] = list(self.launch.registers)
        self.spinning: set[int] = set()
        self.back_edges: dict[int, Round] = {}
        self.stuck_at: int | None = None
        self.idle_since: int | None = None
        self.idle = 0

    def frame(self, positions: Positions, reads: Iterable[int]) -> Frame:
        """The lanes at ``positions`` with copies of the registers that they read."""
        if positions is None:
            return Frame(self, self.registers, None, self.size)
        return Frame(self, gathered(self.launch.registers, self.registers, positions, reads), positions, len(positions))

    @cached_property
    def slots(self) -> Numbers:
        """Block within the batch: an array, or a scalar where there is only one."""
        return np.int64(0) if self.batch.count == 1 else self.numbers // self.launch.threads

    @cached_property
    def blocks(self) -> Numbers:
        """Linear block id in the grid."""
        return self.batch.blocks[self.slots]

    @cached_property
    def threads(self) -> NDArray[np.int64]:
        """Linear thread id in the block."""
        return self.numbers % self.launch.threads if self.batch.count > 1 else self.numbers

    @cached_property
    def lanes(self) -> NDArray[np.uint64]:
        """Linear lane id in the launch, plus 1."""
        lanes: NDArray[np.int64] = self.blocks * self.launch.threads + self.threads + 1
        return lanes.astype(np.uint64)

    @cached_property
    def warp_places(self) -> NDArray[np.int64]:
        """Place of each lane in a table of all warps of the batch, 32 places for each."""
        width = self.launch.warps * WARP
        places: NDArray[np.int64] = self.slots * width + self.threads
        return places

    @cached_property
    def shared_bases(self) -> Numbers:
        """Offset of the block's shared memory in that of the batch."""
        return self.slots * np.int64(self.launch.shared_stride)

    @cached_property
    def local_bases(self) -> NDArray[np.int64]:
        return np.arange(self.size, dtype=np.int64) * np.int64(self.launch.local_stride)

    @cached_property
    def copies(self) -> Copies:
        return Copies(self.size)

    @cached_property
    def local(self) -> Region:
        return self.launch.local_region(self.size)


class Round(NamedTuple):
    """Counters of the launch when a loop began a round, and how many rounds in a row had tried in vain to write."""

    polls: int
    attempts: int
    writes: int
    failures: int


class Parked(NamedTuple):
    """Lanes waiting at a barrier that ends ``block``; they go on at ``target``."""

    barrier: int
    block: int
    target: int
    positions: NDArray[np.int64]


class PendingCopy(NamedTuple):
    """A word for each of some lanes of a strand: where it goes in shared memory, and the group of the lane's copy."""

    lanes: NDArray[np.int64]
    place: NDArray[np.int64]
    value: NDArray[np.uint32]
    group: NDArray[np.int64]


class Copies:
    """Copies that lanes of a strand have issued and not waited for.  ``group`` is the number of each lane's open
    group."""

    __slots__ = ("group", "pending")

    def __init__(self, lanes: int) -> None:
        self.group: NDArray[np.int64] = np.zeros(lanes, np.int64)
        self.pending: list[PendingCopy] = []


class Batch:
    """Blocks that are resident together: their shared memory, their strands, and who still lives."""

    def __init__(self, launch: Launch, blocks: NDArray[np.int64]) -> None:
        self.launch = launch
        self.blocks = blocks
        self.count: int = len(blocks)
        self.live: NDArray[np.int64] = np.full(self.count, launch.threads, np.int64)
        self.arrived: dict[int, NDArray[np.int64]] = {}
        self.strands: list[Strand] = []

    @cached_property
    def shared(self) -> Region:
        return self.launch.shared_region(self.count)

    @cached_property
    def warp_live(self) -> NDArray[np.int64]:
        """Lanes of each warp that have not ended.  First asked for while all live, or kept up to date."""
        sizes = np.minimum(WARP, self.launch.threads - WARP * np.arange(self.launch.warps))
        return np.tile(sizes, self.count)

    def end(self, strand: Strand, positions: Positions) -> None:
        """Lanes have ended."""
        slots = strand.slots
        if positions is not None and isinstance(slots, np.ndarray):
            slots = slots[positions]
        size = strand.size if positions is None else len(positions)
        self.live -= counted(slots, self.count, size)
        places = strand.warp_places if positions is None else strand.warp_places[positions]
        self.warp_live -= np.bincount(places // WARP, minlength=len(self.warp_live))


def counted(slots: Numbers, count: int, size: int) -> NDArray[np.int64]:
    """How many lanes each block of a batch has; ``slots`` may be a scalar for all."""
    return np.bincount(slots, minlength=count) if isinstance(slots, np.ndarray) else np.array([size], np.int64)


class Frame:
    """Lanes executing one basic block or one instruction."""

    __slots__ = ("_lanes", "launch", "positions", "registers", "size", "strand")

    def __init__(self, strand: Strand, registers: list[Dense], positions: Positions, size: int) -> None:
        self.strand: Strand = strand
        self.launch: Launch = strand.launch
        self.registers: list[Dense] = registers
        self.positions: Positions = positions
        self.size: int = size
        self._lanes: NDArray[np.uint64] | None = None

    @overload
    def own(self, values: NDArray[_Element]) -> NDArray[_Element]: ...

    @overload
    def own(self, values: Numbers) -> Numbers: ...

    def own(self, values: NDArray[_Element] | np.int64) -> NDArray[_Element] | np.int64:
        """The elements of a per-lane array of the strand that belong to this frame's lanes."""
        return values if self.positions is None or not isinstance(values, np.ndarray) else values[self.positions]

    @property
    def lanes(self) -> NDArray[np.uint64]:
        """Linear lane id in the launch, plus 1."""
        if self._lanes is None:
            self._lanes = self.own(self.strand.lanes)
        return self._lanes

    def subset(self, where: NDArray[np.int64], reads: Iterable[int]) -> Frame:
        """Some of the lanes, with copies of the registers that they read."""
        positions = where if self.positions is None else self.positions[where]
        return Frame(
            self.strand, gathered(self.launch.registers, self.registers, where, reads), positions, len(positions)
        )

    def merge(self, subset: Frame, where: NDArray[np.int64], writes: Iterable[int]) -> None:
        """Take over what a subset wrote."""
        scatter(self.registers, subset.registers, where, writes, self.size)


def gathered(
    template: list[Dense], registers: list[Dense], where: NDArray[np.int64], reads: Iterable[int]
) -> list[Dense]:
    """Registers of a subset.  ``template`` has the constants."""
    result = list(template)
    for register in reads:
        value = registers[register]
        result[register] = value[where] if isinstance(value, np.ndarray) and value.ndim else value
    return result


def scatter(
    registers: list[Dense], source: list[Dense], where: NDArray[np.int64], writes: Iterable[int], size: int
) -> None:
    """Write the registers of a subset back."""
    for register in writes:
        target, value = registers[register], source[register]
        if not isinstance(target, np.ndarray) or not target.ndim:
            if value.ndim == 0 and value.tobytes() == target.tobytes():
                continue
            target = registers[register] = np.full(size, target)
        target[where] = value
