"""One running launch: the state that its lanes share, and the lanes: batches of blocks, strands of warps, and frames.

A frame is lanes that execute together, and the registers of these.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias, TypeVar, overload

import numpy as np

from vyre.adapters.cuda.machine.faults import FaultKind, KernelFault, access_of, space_of
from vyre.adapters.cuda.machine.memory import DeviceMemory, Index, Region
from vyre.adapters.cuda.machine.races import RaceChecker
from vyre.adapters.cuda.machine.registers import Numbers, Registers, gathered, scatter
from vyre.adapters.lanes.types import Dense
from vyre.domain.cached import cached_property

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from vyre.adapters.cuda.machine.options import RunOptions
    from vyre.adapters.cuda.machine.ptx_syntax import Instruction
    from vyre.adapters.cuda.seam import FoundAccess, LaunchShape

WARP: Final = 32
_Element = TypeVar("_Element", bound=np.generic)
Positions: TypeAlias = "NDArray[np.int64] | None"
"""Lanes of a strand, in its order; None means all of them."""
_RECENT: Final = 1 << 12
"""Instructions after which a lane that has polled does something else."""
_NOISE: Final[dict[np.dtype[Any], tuple[type[np.unsignedinteger[Any]], int, int]]] = {
    np.dtype(np.float16): (np.uint16, 0x7E00, 0x81FF),
    np.dtype(np.float32): (np.uint32, 0x7FC0_0000, 0x803F_FFFF),
    np.dtype(np.float64): (np.uint64, 0x7FF8_0000_0000_0000, 0x8007_FFFF_FFFF_FFFF),
}
"""The word of each float type, the bits that make a quiet NaN, and those that a NaN leaves free."""


class Needs(NamedTuple):
    """The values of an entry that its lanes need.  ``registers`` is the initial register file: poison and constants.

    ``dynamic_offset`` is where dynamic shared memory begins; ``local_bytes`` are those of one lane.
    """

    name: str
    registers: list[Dense]
    parameter_bytes: int
    dynamic_offset: int
    local_bytes: int


class Poll(NamedTuple):
    """A value that lanes found in memory: ``memory`` is its elements, of which ``place`` selects some."""

    memory: NDArray[Any]
    place: Index
    found: NDArray[Any]

    def holds(self) -> bool:
        """Returns whether the memory still has this value."""
        return bool((self.memory[self.place] == self.found).all())


class Awaited(NamedTuple):
    """An access that may be a poll, after so many ``instructions`` of the launch; ``place`` counts elements."""

    instruction: Instruction
    frame: Frame
    region: Region
    place: Index
    size: int
    instructions: int


class Launch:
    """The state of a running launch.

    ``registers`` is the template of every register file: poison, and the constants.

    Progress counters: ``writes`` counts stores and atomics that changed memory, ``polls`` loads whose value other lanes
    may change, ``host_polls`` those whose value the host may change, ``attempts`` atomics that changed nothing.  A loop
    that polls and writes nothing waits for other lanes, or, if some lane polls what the host may change, for the host.
    ``seen`` collects what lanes poll, unless it is None, and ``awaited`` is the latest access that may be a poll.
    """

    def __init__(
        self, needs: Needs, shape: LaunchShape, parameters: bytes, memory: DeviceMemory, options: RunOptions
    ) -> None:
        self.name: Final = needs.name
        self.shape: LaunchShape = shape
        self.options: RunOptions = options
        self.memory: DeviceMemory = memory
        self.threads: Final = shape.block[0] * shape.block[1] * shape.block[2]
        self.warps: Final = -(-self.threads // WARP)
        self.block_count: Final = shape.grid[0] * shape.grid[1] * shape.grid[2]
        self.registers: list[Dense] = needs.registers
        self.parameters: Final = _parameter_region(parameters, needs.parameter_bytes)
        self.shared_bytes: Final = needs.dynamic_offset + shape.dynamic_shared
        self.shared_stride: Final = -(-self.shared_bytes // 16) * 16
        self.local_stride: Final = needs.local_bytes
        self.random: Final = np.random.default_rng(options.seed)
        self.races: Final = RaceChecker(shape) if options.check_races else None
        self.recent: Region | None = None  # the allocation of the last access
        self.touched: set[Region] = set()
        self.instructions = 0
        self.lane_instructions = 0
        self.barriers = 0
        self.atomics = 0
        self.writes = 0
        self.polls = 0
        self.host_polls = 0
        self.attempts = 0
        self.clock_reads = 0
        self.nanoseconds = 0
        self.seen: list[Poll] | None = None
        self.awaited: Awaited | None = None

    # ---- memory
    def settle(self) -> None:
        """Marks allocations that are now written throughout as complete; called after the last lane."""
        self.awaited = None  # which refers to the launch
        for region in self.touched:
            region.settle()

    # ---- values that are unspecified on hardware
    def nan_noise(self, values: Dense) -> Dense:
        """Returns the values with a random sign and payload in every NaN."""
        if not values.size or not np.isnan(np.maximum.reduce(values, axis=None)):
            return values
        word, quiet, free = _NOISE[values.dtype]
        random = self.random.integers(0, int(np.iinfo(word).max), np.shape(values), word, endpoint=True)
        noise = (random & word(free) | word(quiet)).view(values.dtype)
        return np.where(np.isnan(values), noise, values)

    def approximation_noise(self, values: Dense) -> Dense:
        """Returns f32 values moved by one place, upward or downward at random; zeros and infinities are unchanged."""
        values = self.nan_noise(values)
        inexact = np.isfinite(values) & (values != 0)
        up = self.random.integers(0, 2, np.shape(values), np.uint32)
        bits = values.view(np.uint32) + np.where(inexact, up * np.uint32(2) - np.uint32(1), np.uint32(0))
        return bits.view(np.float32)


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
        return Region(0, max(1, self.launch.shared_stride * self.count))

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
        return Region(0, max(1, self.launch.local_stride * self.size))


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

    @property
    def blocks(self) -> Numbers:
        """Returns each lane's linear block id in the grid."""
        return self.own(self.strand.blocks)

    def subset(self, where: NDArray[np.int64], reads: Iterable[int]) -> Frame:
        """Returns some of the lanes, with copies of the registers that they read."""
        positions = where if self.positions is None else self.positions[where]
        return Frame(
            self.strand, gathered(self.launch.registers, self.registers, where, reads), positions, len(positions)
        )

    def merge(self, subset: Frame, where: NDArray[np.int64], writes: Iterable[int]) -> None:
        """Copies back the registers that a subset wrote."""
        scatter(self.registers, subset.registers, where, writes, self.size)

    # ---- faults
    def address(self, region: Region, offset: int) -> int:
        """Returns the address of a byte of a region; in memory of a block or a lane it counts from that
        memory's start.
        """
        launch = self.launch
        if region.base or region is launch.parameters:
            return region.base + offset
        return offset % (launch.shared_stride if region is self.strand.batch.shared else launch.local_stride)

    def fault(
        self,
        kind: FaultKind,
        instruction: Instruction,
        where: int = 0,
        address: int | None = None,
        detail: str = "",
        earlier: FoundAccess | None = None,
    ) -> KernelFault:
        """Returns the fault of the lane at index ``where``.  ``earlier`` is the other access of a race."""
        access = self.access(instruction, where)
        accesses = (access,) if earlier is None else (earlier, access)
        name, lane = self.launch.name, access.lane.global_id
        return KernelFault(kind, name, instruction.line, str(instruction), lane, address, detail, accesses)

    def endless(self, kind: FaultKind, instruction: Instruction, detail: str) -> KernelFault:
        """Returns the fault of a launch that does not end; it says what a lane polls, if one has just done so."""
        launch, awaited = self.launch, self.launch.awaited
        if awaited is None or launch.instructions - awaited.instructions > _RECENT:
            return self.fault(kind, instruction, detail=detail)
        polling, frame, region, place, size, _ = awaited
        first = place.start if isinstance(place, slice) else np.asarray(place).flat[0]
        address = frame.address(region, int(first) * size)
        poll, now = frame.access(polling), frame.access(instruction)._replace(kind="")
        detail = f"{detail}; line {polling.line} polls memory: {polling}"
        name, lane, space = launch.name, now.lane.global_id, space_of(str(polling))
        return KernelFault(kind, name, instruction.line, str(instruction), lane, address, detail, (poll, now), space)

    def access(self, instruction: Instruction, where: int = 0) -> FoundAccess:
        """Returns the access that the lane at index ``where`` makes with an instruction."""
        return access_of(self.launch.shape, int(self.lanes[where]), instruction.opcode, instruction.line)


def _parameter_region(parameters: bytes, nbytes: int) -> Region:
    if len(parameters) < nbytes:
        raise ValueError(f"{len(parameters)} bytes of parameters, {nbytes} declared")
    region = Region(0, max(1, nbytes))
    region.data[:nbytes] = np.frombuffer(parameters, np.uint8, nbytes)
    region.known.fill(0xFF)
    region.complete = True
    return region
