"""Lanes that execute together, and their registers.

A register holds one NumPy scalar if all lanes agree, else an array with one element per lane of the frame.  Every array
belongs to one register of one frame, so it may be written in place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias, TypeVar, overload

import numpy as np

from vyre.adapters.lanes.types import Dense
from vyre.domain.cached import cached_property

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from vyre.adapters.cuda.machine.launch import Launch
    from vyre.adapters.cuda.machine.memory import Region

WARP: Final = 32
_Element = TypeVar("_Element", bound=np.generic)
FEW_REGISTERS: Final = 512
"""The largest number of registers and constants of which a subset of lanes gets a whole file."""
Positions: TypeAlias = "NDArray[np.int64] | None"
"""Lanes of a strand, in its order; None means all of them."""
Numbers: TypeAlias = "NDArray[np.int64] | np.int64"
"""A number per lane, or one for all of them."""


class Strand:
    """Whole warps of resident blocks that advance together, in any order of lanes.

    ``numbers`` are the lanes: block within the batch times threads, plus the linear thread id.  ``groups`` maps a basic
    block to the lanes that execute it next.
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
        """Returns the lanes at ``positions`` with copies of the registers that they read."""
        if positions is None:
            return Frame(self, self.registers, None, self.size)
        return Frame(self, gathered(self.launch.registers, self.registers, positions, reads), positions, len(positions))

    @cached_property
    def slots(self) -> Numbers:
        """Returns each lane's block within the batch: an array, or a scalar if there is only one."""
        return np.int64(0) if self.batch.count == 1 else self.numbers // self.launch.threads

    @cached_property
    def blocks(self) -> Numbers:
        """Returns each lane's linear block id in the grid."""
        return self.batch.blocks[self.slots]

    @cached_property
    def threads(self) -> NDArray[np.int64]:
        """Returns each lane's linear thread id in the block."""
        return self.numbers % self.launch.threads if self.batch.count > 1 else self.numbers

    @cached_property
    def lanes(self) -> NDArray[np.uint64]:
        """Returns each lane's linear id in the launch, plus 1."""
        lanes: NDArray[np.int64] = self.blocks * self.launch.threads + self.threads + 1
        return lanes.astype(np.uint64)

    @cached_property
    def warp_places(self) -> NDArray[np.int64]:
        """Returns the place of each lane in a table of all warps of the batch, with 32 places per warp.

        For example, in blocks of 40 lanes (two warps) thread 35 of block 1 has the place 1 * 64 + 35 = 99.
        """
        width = self.launch.warps * WARP
        places: NDArray[np.int64] = self.slots * width + self.threads
        return places

    @cached_property
    def shared_bases(self) -> Numbers:
        """Returns the offset of each block's shared memory in that of the batch, in bytes."""
        return self.slots * np.int64(self.launch.shared_stride)

    @cached_property
    def local_bases(self) -> NDArray[np.int64]:
        """Returns the offset of each lane's local memory in that of the strand, in bytes."""
        return np.arange(self.size, dtype=np.int64) * np.int64(self.launch.local_stride)

    @cached_property
    def copies(self) -> Copies:
        """Returns the asynchronous copies of the strand's lanes."""
        return Copies(self.size)

    @cached_property
    def local(self) -> Region:
        """Returns the local memory of the strand's lanes."""
        return self.launch.local_region(self.size)


class Round(NamedTuple):
    """Counters of the launch when a loop began a round, and the number of rounds in a row whose atomics all failed."""

    polls: int
    attempts: int
    writes: int
    failures: int


class Parked(NamedTuple):
    """Lanes that wait at a barrier which ends ``block``; they continue at ``target``."""

    barrier: int
    block: int
    target: int
    positions: NDArray[np.int64]


class PendingCopy(NamedTuple):
    """One word for each of some lanes of a strand: its place in shared memory, its value, and the group of the copy."""

    lanes: NDArray[np.int64]
    place: NDArray[np.int64]
    value: NDArray[np.uint32]
    group: NDArray[np.int64]


class Copies:
    """Copies that lanes of a strand have issued and not waited for.

    ``group`` is the number of each lane's open group.
    """

    __slots__ = ("group", "pending")

    def __init__(self, lanes: int) -> None:
        self.group: NDArray[np.int64] = np.zeros(lanes, np.int64)
        self.pending: list[PendingCopy] = []


class Batch:
    """Blocks that are resident together: their shared memory, their strands, and their living lanes."""

    def __init__(self, launch: Launch, blocks: NDArray[np.int64]) -> None:
        self.launch = launch
        self.blocks = blocks
        self.count: int = len(blocks)
        self.live: NDArray[np.int64] = np.full(self.count, launch.threads, np.int64)
        self.arrived: dict[int, NDArray[np.int64]] = {}
        self.strands: list[Strand] = []

    @cached_property
    def shared(self) -> Region:
        """Returns the shared memory of the batch's blocks."""
        return self.launch.shared_region(self.count)

    @cached_property
    def warp_live(self) -> NDArray[np.int64]:
        """Returns the number of lanes of each warp that have not ended.

        It is first read while all lanes live, and kept up to date from then on.
        """
        sizes = np.minimum(WARP, self.launch.threads - WARP * np.arange(self.launch.warps))
        return np.tile(sizes, self.count)

    def end(self, strand: Strand, positions: Positions) -> None:
        """Records that lanes have ended."""
        slots = strand.slots
        if positions is not None and isinstance(slots, np.ndarray):
            slots = slots[positions]
        size = strand.size if positions is None else len(positions)
        self.live -= counted(slots, self.count, size)
        places = strand.warp_places if positions is None else strand.warp_places[positions]
        self.warp_live -= np.bincount(places // WARP, minlength=len(self.warp_live))


def counted(slots: Numbers, count: int, size: int) -> NDArray[np.int64]:
    """Returns the number of lanes of each block of a batch; ``slots`` may be a scalar for all."""
    return np.bincount(slots, minlength=count) if isinstance(slots, np.ndarray) else np.array([size], np.int64)


class Frame:
    """Lanes that execute one basic block or one instruction."""

    __slots__ = ("_lanes", "launch", "positions", "registers", "size", "strand")

    def __init__(self, strand: Strand, registers: Registers, positions: Positions, size: int) -> None:
        self.strand: Strand = strand
        self.launch: Launch = strand.launch
        self.registers: Registers = registers
        self.positions: Positions = positions
        self.size: int = size
        self._lanes: NDArray[np.uint64] | None = None

    @overload
    def own(self, values: NDArray[_Element]) -> NDArray[_Element]: ...

    @overload
    def own(self, values: Numbers) -> Numbers: ...

    def own(self, values: NDArray[_Element] | np.int64) -> NDArray[_Element] | np.int64:
        """Returns the elements of a per-lane array of the strand that belong to this frame's lanes."""
        return values if self.positions is None or not isinstance(values, np.ndarray) else values[self.positions]

    @property
    def lanes(self) -> NDArray[np.uint64]:
        """Returns each lane's linear id in the launch, plus 1."""
        if self._lanes is None:
            self._lanes = self.own(self.strand.lanes)
        return self._lanes

    def subset(self, where: NDArray[np.int64], reads: Iterable[int]) -> Frame:
        """Returns some of the lanes, with copies of the registers that they read."""
        positions = where if self.positions is None else self.positions[where]
        return Frame(
            self.strand, gathered(self.launch.registers, self.registers, where, reads), positions, len(positions)
        )

    def merge(self, subset: Frame, where: NDArray[np.int64], writes: Iterable[int]) -> None:
        """Copies back the registers that a subset wrote."""
        scatter(self.registers, subset.registers, where, writes, self.size)


class FewRegisters(dict[int, Dense]):
    """The registers of a subset that are in use; others have the value that ``template`` gives them.

    In an entry of many registers a whole file for every subset would cost more than its instructions.
    """

    __slots__ = ("_template",)

    def __init__(self, template: list[Dense]) -> None:
        super().__init__()
        self._template = template

    def __missing__(self, register: int) -> Dense:
        return self._template[register]


Registers: TypeAlias = "list[Dense] | FewRegisters"


def gathered(template: list[Dense], registers: Registers, where: NDArray[np.int64], reads: Iterable[int]) -> Registers:
    """Returns the registers of a subset.  ``template`` has the constants."""
    result: Registers = list(template) if len(template) <= FEW_REGISTERS else FewRegisters(template)
    for register in reads:
        value = registers[register]
        result[register] = value[where] if isinstance(value, np.ndarray) and value.ndim else value
    return result


def scatter(
    registers: Registers, source: Registers, where: NDArray[np.int64], writes: Iterable[int], size: int
) -> None:
    """Writes the registers of a subset back."""
    for register in writes:
        target, value = registers[register], source[register]
        if not isinstance(target, np.ndarray) or not target.ndim:
            if value.ndim == 0 and value.tobytes() == target.tobytes():
                continue
            target = registers[register] = np.full(size, target)
        target[where] = value
