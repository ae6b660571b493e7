"""Data races, found while the kernel runs.

Every granule of memory that a launch accesses remembers its last write and two of its readers, each with the time of
the access, whether it was *plain*, and the instruction.  Time is a counter of the launch that advances at every
barrier, fence, acquire and release.  Two accesses by different lanes conflict if one writes and one is plain; they are
ordered if the block passed a barrier or fence in between (same block), or if the earlier one's block released and the
later one's block acquired after the earlier one (other block).  That is coarser than happens-before: it can miss a
race, but it reports no false one.

Plain stores of equal bits that no lane reads are no race.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, TypeAlias

import numpy as np

from vyre.adapters.cuda.machine.faults import FaultKind, KernelFault, access_of, lane_place
from vyre.adapters.cuda.machine.memory import Index, Region
from vyre.adapters.cuda.machine.ordering import Access
from vyre.adapters.cuda.machine.registers import Numbers
from vyre.adapters.cuda.seam import FoundAccess, LaunchShape

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from vyre.adapters.cuda.machine.ptx_syntax import Instruction

Entries: TypeAlias = "NDArray[np.uint64] | np.uint64"
_LANE: Final = np.uint64(0xFFFF_FFFF)
_PLAIN: Final = np.uint64(1 << 32)
_TIME_SHIFT: Final = np.uint64(33)
_ZERO: Final = np.uint64(0)
_GRANULE: Final = 4
_LOGGED: Final = 1 << 20
_MOST_RUNS: Final = 64


class Accessors(Protocol):
    """Lanes that access memory together: ``size`` of them."""

    size: int

    @property
    def lanes(self) -> NDArray[np.uint64]:
        """Returns each lane's linear id in the launch, plus 1."""

    @property
    def blocks(self) -> Numbers:
        """Returns each lane's linear block id in the grid."""

    def address(self, region: Region, offset: int) -> int:
        """Returns the address of a byte of a region."""

    def fault(
        self,
        kind: FaultKind,
        instruction: Instruction,
        where: int,
        address: int,
        detail: str = "",
        earlier: FoundAccess | None = None,
    ) -> KernelFault:
        """Returns the fault of the lane at index ``where``.  ``earlier`` is the other access of a race."""


class Elements(NamedTuple):
    """The elements of ``size`` bytes at ``places`` of a region, which the lanes of a frame access by an instruction."""

    region: Region
    places: Index
    size: int
    frame: Accessors
    instruction: Instruction


class Shadow:
    """The accesses to one region.

    An entry is ``time << 33 | plain << 32 | lane << shift | instruction``, 0 for none.  Of the readers since the last
    moment in time, ``highest`` has the one with the highest lane, and ``lowest`` the one with the lowest (whose low 32
    bits are stored subtracted from all ones, so that both are maxima).  Reads are only logged until the first write, so
    memory that is never written costs almost nothing.
    """

    __slots__ = ("granule", "highest", "log", "logged", "lowest", "noncoherent", "writes", "written")

    def __init__(self, region: Region) -> None:
        self.granule: int = _GRANULE
        size = len(region.data) // _GRANULE
        self.writes: NDArray[np.uint64] = np.zeros(size, np.uint64)
        self.lowest: NDArray[np.uint64] | None = None
        self.highest: NDArray[np.uint64] | None = None
        self.noncoherent: NDArray[np.bool_] | None = None
        self.log: list[
            tuple[Index, int, NDArray[np.uint64], int, bool]
        ] = []  # index, bytes, lanes, the rest of the entry, nc
        self.logged: int = 0
        self.written: bool = False

    def refine(self, granule: int) -> None:
        """Continues with smaller granules."""
        ratio = self.granule // granule
        self.granule = granule
        self.writes = np.repeat(self.writes, ratio)
        if self.lowest is not None and self.highest is not None:
            self.lowest, self.highest = np.repeat(self.lowest, ratio), np.repeat(self.highest, ratio)
        if self.noncoherent is not None:
            self.noncoherent = np.repeat(self.noncoherent, ratio)

    def places(self, index: Index, size: int) -> Iterator[Index]:
        """Yields the granules of elements of ``size`` bytes: slices, integers or arrays, as ``index`` is."""
        if size < self.granule:
            self.refine(size)
        ratio = size // self.granule
        if ratio == 1:
            yield index
        elif isinstance(index, slice):
            for part in range(ratio):
                yield slice(index.start * ratio + part, index.stop * ratio, (index.step or 1) * ratio)
        else:
            for part in range(ratio):
                yield index * ratio + part

    def accesses(self, region: Region) -> Iterator[Access]:
        """Yields runs of bytes that were read or written.

        Atomic accesses count as writes.  Of scattered accesses only the first 64 runs are reported, so that a race
        between streams may be missed.
        """
        for _, size, *_ in self.log:
            if size < self.granule:
                self.refine(size)
        written = self.writes != 0
        read = np.zeros(len(written), np.bool_) if self.lowest is None else self.lowest != 0
        for index, size, *_ in self.log:
            for place in self.places(index, size):
                read[place] = True
        for mask, writes in ((written, True), (read & ~written, False)):
            for start, end in _runs(mask):
                low, high = region.base + start * self.granule, region.base + end * self.granule
                yield Access(region.base, low, min(high, region.end), writes)


def _runs(mask: NDArray[np.bool_]) -> list[tuple[int, int]]:
    """Returns [start, end) of the first runs of True."""
    edges = np.flatnonzero(np.diff(mask, prepend=False, append=False))[: 2 * _MOST_RUNS]
    return [(int(start), int(end)) for start, end in edges.reshape(-1, 2)]


class RaceChecker:
    """The shadows of a launch, and its logical time."""

    def __init__(self, shape: LaunchShape) -> None:
        self._shape = shape
        self._shadows: dict[Region, Shadow] = {}
        self._now = 1
        blocks, threads = prod(shape.grid), prod(shape.block)
        self._threads: Final = np.uint64(threads)
        self._within = np.zeros(blocks, np.uint64)
        self._released = np.zeros(blocks, np.uint64)
        self._acquired = np.zeros(blocks, np.uint64)
        # The bits of an entry that lanes do not need identify the instruction.
        self._shift: Final = max(0, 32 - (blocks * threads).bit_length())
        self._instructions: list[Instruction] = []
        self._numbers: dict[int, int] = {}

    # ---- time
    def barrier(self, blocks: Numbers) -> None:
        """Records that blocks passed a barrier."""
        self._now += 1
        self._within[blocks] = self._now

    def order(self, frame: Accessors, *, acquire: bool, release: bool, block_only: bool) -> None:
        """Records that lanes executed a fence, or an access that acquires or releases; ``block_only``: of scope cta."""
        self._now += 1
        blocks = frame.blocks
        self._within[blocks] = self._now
        if block_only:
            return
        if acquire:
            self._acquired[blocks] = self._now
        if release:
            self._released[blocks] = self._now

    def forget(self, region: Region) -> None:
        """Drops the accesses to a region that no longer exists."""
        self._shadows.pop(region, None)

    def accesses(self, region: Region) -> Iterator[Access]:
        """Returns the ranges of a region that the launch accessed."""
        shadow = self._shadows.get(region)
        return iter(()) if shadow is None else shadow.accesses(region)

    # ---- accesses
    def read(self, elements: Elements, *, plain: bool, nc: bool) -> None:
        """Records that lanes read elements, and raises ``KernelFault`` for a race.

        ``nc``: the loads use the path that is not coherent with writes.
        """
        region, index, size, frame, instruction = elements
        shadow = self._shadow(region)
        if shadow.written:
            for part, place in enumerate(shadow.places(index, size)):
                entries = shadow.writes[place]
                if nc and entries.any():
                    self._report(FaultKind.READ_ONLY_WRITTEN, entries != _ZERO, entries, elements, part)
                self._report_race(entries, elements, part, plain)
        shadow.log.append((index, size, frame.lanes, self._stamp(plain) | self._number(instruction), nc))
        shadow.logged += frame.size
        if shadow.logged > _LOGGED:
            self._settle_log(shadow)

    def write(self, elements: Elements, *, plain: bool, same: Callable[[], NDArray[np.bool_]] | None) -> None:
        """Records that lanes are about to write, and raises ``KernelFault`` for a race.

        ``same()`` returns which lanes write bits that are already there.
        """
        region, index, size, frame, instruction = elements
        shadow = self._shadow(region)
        if shadow.log:
            self._settle_log(shadow)
        shadow.written = True
        mine = self._entries(frame.lanes, self._stamp(plain) | self._number(instruction))
        for part, place in enumerate(shadow.places(index, size)):
            entries = shadow.writes[place]
            conflict = self._conflicts(entries, frame, plain)
            if conflict is not None and plain and same is not None:
                # Plain stores of equal bits are no race.
                conflict = conflict & ~(same() & ((entries & _PLAIN) != _ZERO))
            if conflict is not None and conflict.any():
                self._report(FaultKind.RACE, conflict, entries, elements, part)
            if shadow.lowest is not None and shadow.highest is not None:
                for readers, flip in ((shadow.highest, _ZERO), (shadow.lowest, _LANE)):
                    entries = readers[place]
                    if flip and entries.any():
                        entries = np.where(entries != _ZERO, entries ^ flip, _ZERO)
                    self._report_race(entries, elements, part, plain)
            if shadow.noncoherent is not None and np.any(shadow.noncoherent[place]):
                self._report(FaultKind.READ_ONLY_WRITTEN, shadow.noncoherent[place], None, elements, part)
            shadow.writes[place] = mine.max() if isinstance(place, int) else mine

    def _shadow(self, region: Region) -> Shadow:
        shadow = self._shadows.get(region)
        if shadow is None:
            shadow = self._shadows[region] = Shadow(region)
        return shadow

    def _stamp(self, plain: bool) -> int:
        return self._now << 33 | plain << 32

    def _entries(self, lanes: NDArray[np.uint64], rest: int) -> NDArray[np.uint64]:
        return (lanes << np.uint64(self._shift)) + np.uint64(rest)

    def _number(self, instruction: Instruction) -> int:
        """Returns the number of an instruction in entries; 0 if all numbers are taken."""
        number = self._numbers.get(id(instruction))
        if number is None:
            number = (len(self._instructions) + 1) if len(self._instructions) + 1 < 1 << self._shift else 0
            self._numbers[id(instruction)] = number
            self._instructions.append(instruction)  # kept alive, so that its id is not reused
        return number

    def _settle_log(self, shadow: Shadow) -> None:
        """Moves logged reads into the shadow."""
        log, shadow.log, shadow.logged = shadow.log, [], 0
        for index, size, lanes, stamp, nc in log:
            places = list(shadow.places(index, size))  # first, because it may change the granule
            if shadow.lowest is None or shadow.highest is None:
                shadow.lowest, shadow.highest = np.zeros_like(shadow.writes), np.zeros_like(shadow.writes)
            if nc and shadow.noncoherent is None:
                shadow.noncoherent = np.zeros(len(shadow.writes), np.bool_)
            high = self._entries(lanes, stamp)
            low = high ^ _LANE
            for place in places:
                if nc and shadow.noncoherent is not None:
                    shadow.noncoherent[place] = True
                if isinstance(place, int):
                    shadow.highest[place] = max(shadow.highest[place], high.max())
                    shadow.lowest[place] = max(shadow.lowest[place], low.max())
                    continue
                # If lanes read the same granule, the last assignment wins: the last lane's, then the first lane's.
                shadow.highest[place] = np.maximum(shadow.highest[place], high)
                lowest = np.maximum(shadow.lowest[place], low)
                if isinstance(place, slice):
                    shadow.lowest[place] = lowest
                else:
                    shadow.lowest[place[::-1]] = lowest[::-1]

    def _conflicts(self, entries: Entries, frame: Accessors, plain: bool) -> NDArray[np.bool_] | None:
        """Returns which lanes conflict with the access in their entry; None if none does."""
        if not entries.any():
            return None
        lanes = (entries & _LANE) >> np.uint64(self._shift)
        mine = frame.lanes
        other = (lanes != mine) & (entries != _ZERO)
        if not plain:
            other &= (entries & _PLAIN) != _ZERO
        if not other.any():
            return None
        time = entries >> _TIME_SHIFT
        theirs = (np.maximum(lanes, np.uint64(1)) - np.uint64(1)) // self._threads
        ours = frame.blocks
        together = theirs == ours.astype(np.uint64)
        owners = theirs.astype(np.int64)
        within = self._within[ours] > time
        across = (self._released[owners] > time) & (self._acquired[ours] > time)
        other &= ~np.where(together, within, across)
        return other if other.any() else None

    def _report_race(self, entries: Entries, elements: Elements, part: int, plain: bool) -> None:
        conflict = self._conflicts(entries, elements.frame, plain)
        if conflict is not None:
            self._report(FaultKind.RACE, conflict, entries, elements, part)

    def _report(
        self, kind: FaultKind, hit: NDArray[np.bool_] | np.bool_, entries: Entries | None, elements: Elements, part: int
    ) -> None:
        """Raises the fault of the first conflicting lane.  ``part``: the number of the granule within the element."""
        region, index, size, frame, instruction = elements
        where = int(np.flatnonzero(np.broadcast_to(hit, (frame.size,)))[0])
        element = np.broadcast_to(
            np.arange(*index.indices(1 << 62)) if isinstance(index, slice) else index, (frame.size,)
        )
        address = frame.address(region, int(element[where]) * size + part * self._shadows[region].granule)
        if entries is None:
            raise frame.fault(kind, instruction, where, address)
        other = self._found(int(np.broadcast_to(entries, (frame.size,))[where]))
        line = "" if other.line is None else f", line {other.line}"
        detail = f"with lane {other.lane.global_id}{line}"
        raise frame.fault(kind, instruction, where, address, detail, other)

    def _found(self, entry: int) -> FoundAccess:
        """Returns the access that an entry describes."""
        low = entry & int(_LANE)
        lane, number = low >> self._shift, low & (1 << self._shift) - 1
        if number:
            instruction = self._instructions[number - 1]
            return access_of(self._shape, lane, instruction.opcode, instruction.line)
        return FoundAccess("access", None, lane_place(self._shape, lane))
