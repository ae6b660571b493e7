"""One running launch: the state that its lanes share, its progress, and its faults."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from vyre.adapters.cuda.machine.faults import FaultKind, KernelFault, access_kind, space_of
from vyre.adapters.cuda.machine.frame import WARP, Frame
from vyre.adapters.cuda.machine.memory import DeviceMemory, Region
from vyre.adapters.cuda.machine.races import RaceChecker
from vyre.adapters.cuda.seam import FoundAccess
from vyre.adapters.lanes.types import Dense
from vyre.domain.cached import cached_property
from vyre.domain.races import LanePlace

if TYPE_CHECKING:
    from vyre.adapters.cuda.machine.access import Index
    from vyre.adapters.cuda.machine.compilation import Code
    from vyre.adapters.cuda.machine.module import MachineEntry
    from vyre.adapters.cuda.machine.options import RunOptions
    from vyre.adapters.cuda.machine.paths import Paths
    from vyre.adapters.cuda.machine.ptx_syntax import Instruction
    from vyre.adapters.cuda.machine.resting import Poll
    from vyre.adapters.cuda.seam import LaunchShape

_RECENT: Final = 1 << 12
"""Instructions after which a lane that has polled does something else."""
_NOISE: Final[dict[np.dtype[Any], tuple[type[np.unsignedinteger[Any]], int, int]]] = {
    np.dtype(np.float32): (np.uint32, 0x7FC0_0000, 0x803F_FFFF),
    np.dtype(np.float64): (np.uint64, 0x7FF8_0000_0000_0000, 0x8007_FFFF_FFFF_FFFF),
}
"""The word of each float type, the bits that make a quiet NaN, and those that a NaN leaves free."""


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
        self, entry: MachineEntry, shape: LaunchShape, parameters: bytes, memory: DeviceMemory, options: RunOptions
    ) -> None:
        code: Code = entry.code
        self.entry: MachineEntry = entry
        self.code: Code = code
        self.shape: LaunchShape = shape
        self.options: RunOptions = options
        self.memory: DeviceMemory = memory
        self.threads: Final = shape.block[0] * shape.block[1] * shape.block[2]
        self.warps: Final = -(-self.threads // WARP)
        self.block_count: Final = shape.grid[0] * shape.grid[1] * shape.grid[2]
        self.registers: list[Dense] = code.registers
        self.parameters: Final = _parameter_region(parameters, entry.parameter_bytes)
        self.shared_bytes: Final = code.dynamic_offset + shape.dynamic_shared
        self.shared_stride: Final = -(-self.shared_bytes // 16) * 16
        self.local_stride: Final = code.local_bytes
        self.random: Final = np.random.default_rng(options.seed)
        self.races: Final = RaceChecker(self) if options.check_races else None
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

    @cached_property
    def paths(self) -> Paths:
        """Returns the control flow of the entry."""
        return self.code.paths()

    # ---- memory
    def shared_region(self, blocks: int) -> Region:
        """Returns the shared memory of a number of blocks."""
        return Region(0, max(1, self.shared_stride * blocks))

    def local_region(self, lanes: int) -> Region:
        """Returns the local memory of a number of lanes."""
        return Region(0, max(1, self.local_stride * lanes))

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

    # ---- faults
    def place(self, lane: int) -> LanePlace:
        """Returns the place of a lane, which is given by its linear id plus 1."""
        block, thread = divmod(lane - 1, self.threads)
        grid, size = self.shape.grid, self.shape.block
        return LanePlace.of(grid, size, _unravel(block, grid), _unravel(thread, size))

    def address(self, frame: Frame, region: Region, offset: int) -> int:
        """Returns the address of a byte of a region; in memory of a block or a lane it counts from that
        memory's start.
        """
        if region.base or region is self.parameters:
            return region.base + offset
        return offset % (self.shared_stride if region is frame.strand.batch.shared else self.local_stride)

    def fault(
        self,
        kind: FaultKind,
        instruction: Instruction,
        frame: Frame | None = None,
        where: int = 0,
        address: int | None = None,
        detail: str = "",
        earlier: FoundAccess | None = None,
    ) -> KernelFault:
        """Returns the fault of the lane at index ``where`` of a frame.  ``earlier`` is the other access of a race."""
        accesses = () if earlier is None else (earlier,)
        lane = None
        if frame is not None:
            found = self.found(instruction, int(frame.lanes[where]))
            lane, accesses = found.lane.global_id, (*accesses, found)
        return KernelFault(kind, self.entry.name, instruction.line, str(instruction), lane, address, detail, accesses)

    def endless(self, kind: FaultKind, instruction: Instruction, frame: Frame, detail: str) -> KernelFault:
        """Returns the fault of a launch that does not end; it says what a lane polls, if one has just done so."""
        awaited = self.awaited
        if awaited is None or self.instructions - awaited.instructions > _RECENT:
            return self.fault(kind, instruction, frame, detail=detail)
        polling, frame, region, place, size, _ = awaited
        first = place.start if isinstance(place, slice) else np.asarray(place).flat[0]
        address, lane = self.address(frame, region, int(first) * size), int(frame.lanes[0])
        poll, now = self.found(polling, lane), self.found(instruction, lane)._replace(kind="")
        detail = f"{detail}; line {polling.line} polls memory: {polling}"
        name, at, space = self.entry.name, now.lane.global_id, space_of(str(polling))
        return KernelFault(kind, name, instruction.line, str(instruction), at, address, detail, (poll, now), space)

    def found(self, instruction: Instruction, lane: int) -> FoundAccess:
        """Returns the access that a lane, given by its linear id plus 1, makes with an instruction."""
        return FoundAccess(access_kind(instruction.opcode), instruction.line, self.place(lane))


def _unravel(number: int, extent: tuple[int, int, int]) -> tuple[int, int, int]:
    rest, x = divmod(number, extent[0])
    z, y = divmod(rest, extent[1])
    return x, y, z


def _parameter_region(parameters: bytes, nbytes: int) -> Region:
    if len(parameters) < nbytes:
        raise ValueError(f"{len(parameters)} bytes of parameters, {nbytes} declared")
    region = Region(0, max(1, nbytes))
    region.data[:nbytes] = np.frombuffer(parameters, np.uint8, nbytes)
    region.known.fill(0xFF)
    region.complete = True
    return region
