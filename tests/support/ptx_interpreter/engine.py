"""A grid of lanes that runs an entry in some schedule (PTX ISA, chapters 2, 3 and 8).

Every lane has a program counter of its own, and the manual promises no order between lanes: a schedule groups lanes
into *gangs* and says how far each runs before the next.  Within a gang the lanes that are furthest back go first,
together, and touch memory in the gang's order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

import numpy as np

from support.ptx_interpreter.memory import Array, GlobalMemory, Space
from support.ptx_interpreter.program import Step, blocks_of
from support.ptx_interpreter.syntax import Entry, PtxError

WARP: Final = 32
SHARED_BASE: Final = 0x1000
LOCAL_BASE: Final = 0x2000
PARAM_BASE: Final = 0x3000
PATIENCE: Final = 16
"""Backward jumps of a lane in one turn of its gang, so that one that waits for another gives way to it."""
MOST_BLOCKS: Final = 4_000_000
"""Basic blocks of one launch, after which it counts as endless."""


class Gang(NamedTuple):
    """Lanes in the order in which they touch memory, and the basic blocks that they run before others have a turn."""

    lanes: Array
    blocks: int = MOST_BLOCKS


class Schedule(NamedTuple):
    """An order of lanes.

    ``gangs`` gives the turns of one pass over a grid, from its lanes by block and a source of random numbers.
    ``whole_warps`` says that lanes of a warp that have not parted go on together.
    """

    name: str
    gangs: Callable[[Array, np.random.Generator], Iterator[Gang]]
    whole_warps: bool = True


def _in_order(blocks: Array, random: np.random.Generator) -> Iterator[Gang]:
    """Block after block, each in lock step: the canonical order of the language's semantics."""
    for block in blocks:
        yield Gang(block)


def _reversed(blocks: Array, random: np.random.Generator) -> Iterator[Gang]:
    """The whole grid in lock step, the last lane first."""
    yield Gang(blocks.reshape(-1)[::-1].copy())


def _shuffled(blocks: Array, random: np.random.Generator) -> Iterator[Gang]:
    """Parts of the grid drawn at random, lane by lane, each for a random number of basic blocks."""
    lanes = random.permutation(blocks.reshape(-1))
    for part in np.array_split(lanes, min(lanes.size, int(random.integers(2, 5)))):
        yield Gang(part, int(random.integers(1, 30)))


SCHEDULES: Final = (
    Schedule("in order", _in_order),
    Schedule("reversed", _reversed),
    Schedule("shuffled", _shuffled, False),
)


class Launch(NamedTuple):
    """A launch of an entry: its grid, the bytes of its parameters, and the schedule with its seed."""

    grid: tuple[int, int, int]
    parameters: bytes
    schedule: Schedule
    seed: int = 0


def run(entry: Entry, launch: Launch, memory: GlobalMemory, constants: dict[str, int]) -> None:
    """Runs one launch to its end.  ``constants`` holds the addresses of the module's variables in global memory.

    Raises ``PtxError`` for an instruction that is not known, a rule that is broken, or lanes that wait for ever.
    """
    with np.errstate(all="ignore"):
        Grid(entry, launch, memory, constants).run()


class Grid:
    """The registers, the memory and the progress of all lanes, numbered block by block."""

    def __init__(self, entry: Entry, launch: Launch, memory: GlobalMemory, constants: dict[str, int]) -> None:
        self.noise = np.random.default_rng(launch.seed)
        self.schedule = launch.schedule
        x, y, z = entry.block
        self.threads = x * y * z
        self.blocks = int(np.prod(launch.grid))
        count = self.threads * self.blocks
        lanes = np.arange(count)
        thread, block = lanes % self.threads, lanes // self.threads
        self.by_block = lanes.reshape(self.blocks, self.threads)
        self.block_of = block
        self.warp_lane = thread % WARP
        warps = -(-self.threads // WARP)
        self.warp_of = block * warps + thread // WARP
        self.special = {"%laneid": self.warp_lane.astype(np.uint32)}
        for name, linear, extent in (("tid", thread, entry.block), ("ctaid", block, launch.grid)):
            for axis, size, inner in zip("xyz", extent, (1, extent[0], extent[0] * extent[1]), strict=True):
                self.special[f"%{name}.{axis}"] = (linear // inner % size).astype(np.uint32)
                self.special[f"%n{name}.{axis}"] = np.full(count, size, np.uint32)
        self.registers = {name: self._noisy(kind, count) for name, kind in entry.registers.items()}
        shared, local = (
            max((v.offset + v.nbytes for v in variables.values()), default=0)
            for variables in (entry.shared, entry.local)
        )
        parameters = Space("param", PARAM_BASE, len(launch.parameters), 1, self.noise)
        parameters.bytes[: len(launch.parameters)] = np.frombuffer(launch.parameters, np.uint8)
        self.spaces: dict[str, Space] = {
            "global": memory,
            "param": parameters,
            "shared": Space("shared", SHARED_BASE, shared, self.blocks, self.noise),
            "local": Space("local", LOCAL_BASE, local, count, self.noise),
        }
        nowhere = np.zeros(count, np.int64)
        self.regions = {"global": nowhere, "param": nowhere, "shared": block, "local": lanes}
        self.symbols = {
            **constants,
            **{v.name: PARAM_BASE + v.offset for v in entry.parameters.values()},
            **{v.name: SHARED_BASE + v.offset for v in entry.shared.values()},
            **{v.name: LOCAL_BASE + v.offset for v in entry.local.values()},
        }
        self.at = np.zeros(count, np.int64)
        self.ready = np.ones(count, np.bool_)
        self.waits_at = np.full(count, -1, np.int64)
        self.gone = np.zeros(count, np.bool_)
        self.patience = np.zeros(count, np.int64)
        self._warp_steps: dict[int, tuple[Callable[[Array], Array], Step]] = {}
        self._blocks_run = 0
        self.code = blocks_of(entry, self)

    def _noisy(self, kind: str, count: int) -> Array:
        bits = self.noise.integers(1 << 63, size=count, dtype=np.uint64)
        if kind == "pred":
            return (bits & 1).astype(np.bool_)
        return bits.astype(f"u{int(kind[1:]) // 8}")

    # ------------------------------------------------------------ running
    def run(self) -> None:
        """Runs all lanes to their ends."""
        while not self.gone.all():
            before = self._blocks_run
            for gang in self.schedule.gangs(self.by_block, self.noise):
                self._turn(gang)
            if self._blocks_run == before:
                raise PtxError(f"lanes wait for ever at instructions {np.unique(self.waits_at[~self.gone]).tolist()}")
            if self._blocks_run > MOST_BLOCKS:
                raise PtxError(f"the launch has not ended after {MOST_BLOCKS} basic blocks")

    def _turn(self, gang: Gang) -> None:
        self.patience[gang.lanes] = PATIENCE
        for _ in range(gang.blocks):
            able = gang.lanes[self.ready[gang.lanes] & (self.patience[gang.lanes] > 0)]
            if not able.size:
                return
            places = self.at[able]
            first = places.min()
            block = self.code[int(first)]
            lanes = able[places == first]
            for step in block.steps:
                step(lanes)
            block.end(lanes)
            self._blocks_run += 1

    # ------------------------------------------------------------ control, called by the ends of blocks
    def jump(self, lanes: Array, to: int, *, back: bool = False) -> None:
        """Sets the program counters of lanes."""
        self.at[lanes] = to
        if back:
            self.patience[lanes] -= 1

    def check_uniform(self, lanes: Array, taken: Array) -> None:
        """Raises ``PtxError`` if lanes of one warp part at a branch that is marked as uniform.

        A schedule that splits warps may bring lanes to a branch together that are in different rounds of a loop; the
        mark tells nothing about them.
        """
        if not self.schedule.whole_warps:
            return
        warps = self.warp_of[lanes]
        if np.intersect1d(warps[taken], warps[~taken]).size:
            raise PtxError("a warp parts at bra.uni")

    def active(self, lanes: Array) -> Array:
        """Returns, for each of these lanes, the mask of those of its warp that execute with it."""
        masks = np.zeros(self.warp_of[-1] + 1, np.uint32)
        np.bitwise_or.at(masks, self.warp_of[lanes], np.uint32(1) << self.warp_lane[lanes].astype(np.uint32))
        found: Array = masks[self.warp_of[lanes]]
        return found

    def leave(self, lanes: Array) -> None:
        """Ends lanes; those of their warps that waited for them only go on."""
        self.ready[lanes], self.gone[lanes] = False, True
        for at in np.unique(self.waits_at[np.isin(self.warp_of, self.warp_of[lanes]) & (self.waits_at >= 0)]):
            if int(at) in self._warp_steps:
                self._complete_warps(int(at), np.unique(self.warp_of[lanes]))

    def arrive_at_barrier(self, lanes: Array, at: int) -> None:
        """Makes lanes wait until all of their block do; the whole warp must wait at one instruction."""
        self.ready[lanes], self.waits_at[lanes] = False, at
        for block in np.unique(self.block_of[lanes]):
            members = self.by_block[block]
            if self.gone[members].any():
                raise PtxError("a lane waits at a barrier that another one of its block never reaches")
            places = self.waits_at[members]
            if (places < 0).any() or not all(self._is_barrier(int(place)) for place in np.unique(places)):
                continue
            heads = places[::WARP].repeat(WARP)[: self.threads]
            if (places != heads).any():
                raise PtxError("the lanes of a warp wait at different barriers")
            self._release(members, places + 1)

    def arrive_in_warp(self, lanes: Array, at: int, members: Callable[[Array], Array], step: Step) -> None:
        """Makes lanes wait until all of their warp do that ``members`` names and that have not left; then does it."""
        self.ready[lanes], self.waits_at[lanes] = False, at
        self._warp_steps[at] = members, step
        self._complete_warps(at, np.unique(self.warp_of[lanes]))

    def _complete_warps(self, at: int, warps: Array) -> None:
        members, step = self._warp_steps[at]
        for warp in warps:
            block, number = divmod(int(warp), -(-self.threads // WARP))
            lanes = self.by_block[block][number * WARP : (number + 1) * WARP]
            here = lanes[self.waits_at[lanes] == at]
            if not here.size:
                continue
            masks = np.broadcast_to(members(here), here.shape)
            named = (int(masks[0]) >> self.warp_lane[lanes] & 1).astype(np.bool_)
            if (masks != masks[0]).any() or not named[self.waits_at[lanes] == at].all():
                raise PtxError("the lanes of a warp name different members, or do not name themselves")
            if (named & ~self.gone[lanes] & (self.waits_at[lanes] != at)).any():
                continue
            step(here)
            self._release(here, at + 1)

    def _is_barrier(self, at: int) -> bool:
        return at not in self._warp_steps

    def _release(self, lanes: Array, to: Array | int) -> None:
        self.waits_at[lanes], self.ready[lanes], self.at[lanes] = -1, True, to
