"""Running a kernel: which blocks are resident, and which lanes run next.

Lanes of a strand that are at the same basic block execute it together.  Of several groups, one may only run if no other
group can still reach its block, other than by another round of a loop that contains both.  So lanes that diverge meet
again where their paths join (a loop is entered at one place only, and blocks lie in program order), and begin a round
of a loop together.

A loop that polls memory and writes nothing waits for other lanes: it yields to the other groups, strands and batches
until memory has changed.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

import numpy as np

from vyre.adapters.cuda.machine.compilation import END, Block, Code
from vyre.adapters.cuda.machine.faults import FaultKind, KernelFault
from vyre.adapters.cuda.machine.launch import WARP, Batch, Frame, Launch, Parked, Positions, Round, Strand, counted
from vyre.adapters.cuda.machine.options import KernelReport, Progress, RunOptions
from vyre.adapters.cuda.machine.registers import scatter
from vyre.adapters.cuda.machine.resting import IDLE_NANOSECONDS, Rest
from vyre.adapters.lanes.silence import Silence
from vyre.domain.cached import cached_property
from vyre.ports.interrupts import given_up

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from vyre.adapters.cuda.machine.memory import DeviceMemory
    from vyre.adapters.cuda.machine.module import MachineEntry
    from vyre.adapters.cuda.machine.paths import Paths
    from vyre.adapters.cuda.seam import LaunchShape

_LANES_AT_ONCE: Final = 8192
_SHUFFLED_LANES: Final = 2048
_REGISTER_BYTES: Final = 1 << 29
"""Bound on the bytes of registers of the lanes that start together; one block may exceed it."""
_LOCAL_BYTES: Final = 64 << 20
"""Bound on the bytes of local memory of the lanes that start together; one block may exceed it."""
_SHUFFLED_STRANDS: Final = 3
_BURST: Final = 6
_PATIENCE: Final = 64
_ATTEMPTS: Final = 256
_NO_ROUND: Final = Round(0, 0, -1, 0)
_IDLE_ROUNDS: Final = 500
_SLICE: Final = 1 << 12
"""Basic blocks in a row, after which other work may run."""
_POLLING: Final = 8
"""How many times as fast a slice ends for a kernel that polls for the host, which may have something to say."""


class KernelRun:
    """A kernel that runs in slices, between which other work may run and the host may change memory that it shares.

    A slice ends when all lanes of a batch wait for others or have ended, and after some time, which is short if the
    kernel polls memory that the host shares.  If all lanes that are left wait for a change
    of memory, that is a fault, unless one of them has polled memory that the host shares: then the kernel is *idle*.
    While nothing changes that an idle kernel polls, it rests: most slices only let time pass.
    """

    def __init__(
        self,
        entry: MachineEntry,
        shape: LaunchShape,
        parameters: bytes,
        memory: DeviceMemory,
        options: RunOptions,
        given_up: Callable[[], bool] = given_up,
    ) -> None:
        """``given_up`` is asked after each basic block, and ends the kernel."""
        self._memory = memory
        with Silence():
            self._launch = Launch(entry.code.needs, shape, parameters, memory, options)
        self._scheduler = _Scheduler(self._launch, entry.code, given_up)
        self._slices = self._scheduler.slices()

    def advance(self) -> Progress:
        """Runs the next slice.  Raises ``KernelFault``; writes before the fault remain."""
        launch = self._launch
        launch.recent = None  # it may have been freed since
        if self._scheduler.rest.lasts():
            return Progress.IDLE
        try:
            with Silence():
                progress = next(self._slices, Progress.ENDED)
        except BaseException:
            launch.settle()
            raise
        if progress is Progress.ENDED:
            launch.settle()
        return progress

    @property
    def cuts(self) -> int:
        """The number of slices that ended because they took long."""
        return self._scheduler.cuts

    def pass_time(self) -> None:
        """Lets the time pass in which an idle kernel rests: the next slice runs it."""
        self._scheduler.rest.pass_time()

    def finish(self) -> KernelReport:
        """Runs all that is left without a pause, and returns the report.  Raises ``KernelFault``, also if the kernel
        is idle.
        """
        while (progress := self.advance()) is not Progress.ENDED:
            if progress is Progress.IDLE:
                raise self.endless()
        return self.report()

    def report(self) -> KernelReport:
        """Returns the report of a kernel that has ended."""
        launch, races = self._launch, self._launch.races
        regions = self._memory.regions()
        accesses = () if races is None else tuple(a for region in regions for a in races.accesses(region))
        return KernelReport(launch.instructions, launch.lane_instructions, launch.barriers, launch.atomics, accesses)

    def endless(self) -> KernelFault:
        """Returns the fault of a kernel that is idle, and that nobody gives work to any more."""
        fault = self._scheduler.spinning()
        self._launch.settle()
        return fault


class _Scheduler:
    """Runs the blocks of a launch.

    After each basic block this invariant holds for every batch:

    1. each lane of a strand is in one place: it is in one group, parked at one barrier, or has ended;
    2. a group of all lanes of a strand is alone, and nothing is parked beside it;
    3. ``arrived`` counts the parked lanes by barrier and block, and ``live`` the lanes of a block that have not ended;
    4. no block is parked whole: when the last of its living lanes arrives at a barrier or ends, the others go on.
    """

    def __init__(self, launch: Launch, code: Code, given_up: Callable[[], bool]) -> None:
        self._launch = launch
        self._given_up = given_up
        self.rest: Final = Rest(launch)
        self._code = code
        self._blocks = code.blocks
        self._schedule = launch.options.schedule
        self._limit = launch.options.step_limit
        self._ended = 0
        self._waiting: deque[Batch] = deque()
        self._gives_way = False
        """Whether blocks that pass a barrier yield to the blocks before them."""
        self._gave_way = False
        self._polled = 0
        self.cuts = 0
        """Slices that ended because they took long."""

    # ------------------------------------------------------------------------------ batches

    def slices(self) -> Iterator[Progress]:
        """Runs all blocks of the grid; yields after each turn of a batch that got on."""
        launch = self._launch
        coming = self._block_ids()
        waiting = self._waiting
        resident, most = 0, launch.options.resident_blocks or launch.block_count
        idle, times = 0, 0
        first_again = 0
        following = next(coming, None)
        while following is not None or waiting:
            if following is not None and not first_again and (not waiting or resident + len(following) <= most):
                batch = self._start(following)
                following = next(coming, None)
                resident += batch.count
            else:
                batch = waiting.popleft()
                first_again = max(0, first_again - 1)
            self._gives_way = self._schedule == "lockstep" and bool(waiting)
            before = self._progress()
            if self._advance(batch):
                resident -= batch.count
                batch.strands.clear()  # they refer to the batch, and hold the local memory of their lanes
                if launch.races is not None and launch.shared_bytes:
                    launch.races.forget(batch.shared)
            else:
                waiting.append(batch)
            if self._gave_way:
                self._gave_way = False
                waiting = self._waiting = deque(sorted(waiting, key=lambda one: int(one.blocks[0])))
                first_again = len(waiting)
            idle = idle + 1 if before == self._progress() else 0
            if idle > len(waiting):
                launch.nanoseconds += IDLE_NANOSECONDS
            if times != launch.clock_reads:  # a wait that reads the clock ends by itself
                times, idle = launch.clock_reads, min(idle, len(waiting) + 1)
            if launch.host_polls and idle > len(waiting) > 0:
                self.rest.idle((*self._progress(), launch.attempts))
                yield Progress.IDLE
                idle = 0
            elif idle > _IDLE_ROUNDS * len(waiting) > 0:
                raise self.spinning()
            elif not idle:
                launch.seen = None
                yield Progress.MADE

    def _progress(self) -> tuple[int, int, int, int]:
        return self._launch.writes, self._launch.barriers, self._ended, self.cuts

    def _block_ids(self) -> Iterator[NDArray[np.int64]]:
        """Returns the blocks of the grid, grouped by those that start together."""
        launch, options = self._launch, self._launch.options
        count = launch.block_count
        lanes = _SHUFFLED_LANES if self._schedule == "shuffled" else _LANES_AT_ONCE
        lanes = min(lanes, _REGISTER_BYTES // (8 * len(launch.registers) or 1))
        lanes = min(lanes, _LOCAL_BYTES // max(1, launch.local_stride))
        together = options.workgroups_at_once
        if together is None:
            sequential = self._code.order_sensitive and self._schedule != "shuffled"
            together = 1 if sequential else max(1, lanes // launch.threads)
        together = min(together, options.resident_blocks or count)
        if self._schedule == "shuffled":
            order = launch.random.permutation(count)
            return (order[start : start + together] for start in range(0, count, together))
        starts = range(0, count, together)
        if self._schedule == "reverse":
            return (np.arange(count - 1 - start, max(-1, count - 1 - start - together), -1) for start in starts)
        return (np.arange(start, min(count, start + together)) for start in starts)

    def _start(self, blocks: NDArray[np.int64]) -> Batch:
        launch = self._launch
        batch = Batch(launch, blocks)
        lanes = np.arange(len(blocks) * launch.threads)
        if self._schedule == "lockstep":
            batch.strands = [Strand(batch, lanes)]
        elif self._schedule == "reverse":
            batch.strands = [Strand(batch, lanes.reshape(len(blocks), -1)[:, ::-1].ravel())]
        else:
            warps = lanes // launch.threads * launch.warps + lanes % launch.threads // WARP
            strand_of = launch.random.integers(0, _SHUFFLED_STRANDS, len(blocks) * launch.warps)[warps]
            for number in range(_SHUFFLED_STRANDS):
                members = lanes[strand_of == number]
                if len(members):
                    batch.strands.append(Strand(batch, launch.random.permutation(members)))
        return batch

    def _advance(self, batch: Batch) -> bool:
        """Runs the strands of a batch until all have ended (True), or all wait for others or time is up (False)."""
        launch, left = self._launch, _SLICE
        for strand in batch.strands:
            strand.stuck_at = None
        while True:
            ready = [s for s in batch.strands if s.groups and s.stuck_at != launch.writes]
            if not ready:
                break
            if self._schedule == "shuffled":
                strand = ready[int(launch.random.integers(len(ready)))]
                burst = 1 + int(launch.random.integers(_BURST))
            else:
                strand, burst = ready[0], -1
            strand.spinning.clear()
            while burst and strand.groups:
                if self._gave_way:
                    return False
                left -= _POLLING if launch.host_polls else 1
                if left <= 0:
                    self.cuts += 1
                    return False
                burst -= 1
                if not self._execute(strand):
                    strand.idle = strand.idle + 1 if strand.idle_since == launch.writes else 0
                    strand.stuck_at = strand.idle_since = launch.writes
                    break
        if any(strand.groups for strand in batch.strands):
            return False
        for strand in batch.strands:
            for parked in strand.parked:
                raise self._deadlocked(strand, parked)
        return True

    def _deadlocked(self, strand: Strand, parked: Parked) -> Exception:
        block = self._blocks[parked.block]
        frame = strand.frame(parked.positions, ())
        detail = "not all lanes of the block come to this barrier"
        return frame.fault(FaultKind.DEADLOCK, block.last, detail=detail)

    def spinning(self) -> KernelFault:
        """Returns the fault of lanes that all wait for a change of memory."""
        strand = next(one for one in self._waiting[0].strands if one.groups)
        number, positions = next(iter(strand.groups.items()))
        frame = strand.frame(positions, ())
        detail = "all lanes that are left wait for a change of memory"
        return frame.endless(FaultKind.DEADLOCK, self._blocks[number].last, detail)

    # ------------------------------------------------------------------------------ groups

    @cached_property
    def _paths(self) -> Paths:
        return self._code.paths()

    def _take(self, strand: Strand) -> tuple[int, Positions] | None:
        """Takes the next group out of the strand's and returns its basic block and its lanes; None if all groups only
        poll.
        """
        spinning = strand.spinning
        groups = strand.groups
        if len(groups) == 1:
            (number,) = groups
            return None if number in spinning else (number, groups.pop(number))
        paths = self._paths
        loops = paths.loops
        free: list[int] = []
        patient: list[int] = []
        behind, behind_spinning = paths.front(), paths.front()
        for number in sorted(groups):
            if number in spinning:
                behind_spinning.add(number)
                continue
            lingers = False
            if number in loops:
                # A new round begins when all lanes of the last one have returned to the header, or left the loop.
                inside = {other for other in groups if number < other <= loops[number]}
                if not inside <= spinning:
                    continue
                lingers = bool(inside)
            if not behind.may_reach(number):
                (patient if lingers or behind_spinning.may_reach(number) else free).append(number)
            behind.add(number)
        if not free:
            taken = self._apart(strand)
            if taken is not None:
                return taken
            if strand.idle > _PATIENCE:
                # A lane further on may hold the lock that these wait for; but a warp must not be split if it gathers.
                free = [number for number in patient if not self._blocks[number].gathers]
        if not free:
            return None
        if self._schedule == "lockstep":
            number = free[0]
        elif self._schedule == "reverse":
            number = free[-1]
        else:
            number = free[int(self._launch.random.integers(len(free)))]
        return number, groups.pop(number)

    def _apart(self, strand: Strand) -> tuple[int, Positions] | None:
        """Returns the first lanes of warps in which no lane polls: they need not wait for the lanes that do."""
        warps = strand.warp_places // WARP
        spins = np.zeros(len(strand.batch.warp_live), np.bool_)
        for number in strand.spinning & strand.groups.keys():
            spins[warps[strand.groups[number]]] = True
        for number in sorted(strand.groups.keys() - strand.spinning):
            positions = strand.groups[number]
            assert positions is not None, "a group of all lanes is alone"
            waits = spins[warps[positions]]
            if not waits.all():
                if waits.any():
                    strand.groups[number] = positions[waits]
                else:
                    del strand.groups[number]
                return number, positions[~waits]
        return None

    def _execute(self, strand: Strand) -> bool:
        """Runs one basic block of one group; returns False if no group can run."""
        taken = self._take(strand)
        if taken is None:
            return False
        number, positions = taken
        block = self._blocks[number]
        frame = strand.frame(positions, block.reads)
        launch = self._launch
        for step in block.steps:
            step(frame)
        if positions is not None:
            scatter(strand.registers, frame.registers, positions, block.writes, strand.size)
        launch.instructions += block.size
        launch.lane_instructions += block.size * frame.size
        if launch.instructions > self._limit and not self._goes_on():
            detail = f"{launch.options.step_limit} instructions issued"
            raise frame.endless(FaultKind.STEP_LIMIT, block.last, detail)
        if self._given_up():
            raise frame.fault(FaultKind.GIVEN_UP, block.last, detail="its caller was interrupted while it ran")
        if block.barrier is not None:
            self._arrive(strand, number, block, frame)
        elif block.table:
            self._branch_by_table(strand, number, block, frame)
        elif block.guard is None:
            self._go(strand, number, block.then, positions)
        else:
            self._branch(strand, number, block, frame)
        return True

    def _goes_on(self) -> bool:
        """Returns whether a kernel past its limit has polled for the host since the last time, which begins it anew."""
        launch = self._launch
        self._limit = launch.instructions + launch.options.step_limit
        polled, self._polled = self._polled, launch.host_polls
        return polled != launch.host_polls

    def _branch(self, strand: Strand, number: int, block: Block, frame: Frame) -> None:
        assert block.guard is not None
        condition = frame.registers[block.guard]
        positions = frame.positions
        taken = int(np.count_nonzero(condition)) * (frame.size if condition.ndim == 0 else 1)
        if block.negated:
            taken = frame.size - taken
        if taken == frame.size:
            self._go(strand, number, block.then, positions)
        elif not taken:
            self._go(strand, number, block.following, positions)
        else:
            jumps = np.asarray(condition, np.bool_)
            if block.negated:
                jumps = ~jumps
            if block.last.opcode == "bra.uni":
                self._check_uniform(block, frame, jumps)
            for target, mask in ((block.then, jumps), (block.following, ~jumps)):
                where = np.flatnonzero(mask)
                self._go(strand, number, target, where if positions is None else positions[where])

    def _branch_by_table(self, strand: Strand, number: int, block: Block, frame: Frame) -> None:
        """Moves lanes to the blocks that a table holds at their indices."""
        size = frame.size
        chosen = np.broadcast_to(frame.registers[block.selector], (size,))
        taken = np.ones(size, np.bool_)
        if block.guard is not None:
            taken = np.broadcast_to(frame.registers[block.guard], (size,)) != block.negated
        outside = np.flatnonzero(taken & (chosen >= len(block.table)))
        if len(outside):
            where = int(outside[0])
            detail = f"index {int(chosen[where])} of {len(block.table)} branch targets"
            raise frame.fault(FaultKind.BAD_BRANCH, block.last, where, detail=detail)
        goes = np.where(taken, np.array(block.table)[np.where(taken, chosen, 0)], block.following)
        targets = np.unique(goes)
        if block.last.opcode == "brx.idx.uni" and len(targets) > 1:
            for target in targets:
                self._check_uniform(block, frame, goes == target)
        positions = frame.positions
        for target in targets.tolist():
            lanes = np.flatnonzero(goes == target)
            if len(lanes) == size:
                self._go(strand, number, target, positions)
            else:
                self._go(strand, number, target, lanes if positions is None else positions[lanes])

    def _check_uniform(self, block: Block, frame: Frame, jumps: NDArray[np.bool_]) -> None:
        """Checks that the lanes of a warp that take ``bra.uni`` together go to the same block."""
        warps = frame.own(frame.strand.warp_places) // WARP
        count = len(frame.strand.batch.warp_live)
        leaving, here = np.bincount(warps[jumps], minlength=count), np.bincount(warps, minlength=count)
        split = (leaving > 0) & (leaving < here)
        if split.any():
            where = int(np.flatnonzero(split[warps])[0])
            detail = f"{leaving[warps[where]]} of {here[warps[where]]} lanes of the warp jump"
            raise frame.fault(FaultKind.DIVERGENT_UNIFORM_BRANCH, block.last, where, detail=detail)

    def _go(self, strand: Strand, number: int, target: int, positions: Positions) -> None:
        """Moves lanes to a basic block, where they join the lanes that are already there."""
        if target == END:
            self._end(strand, positions)
            return
        if target <= number:
            self._note_back_edge(strand, target)
        groups = strand.groups
        if target not in groups:
            groups[target] = positions
            return
        there = groups[target]
        assert there is not None and positions is not None, "a group of all lanes is alone"
        joined = np.sort(np.concatenate((there, positions)))
        groups[target] = None if len(joined) == strand.size else joined

    def _note_back_edge(self, strand: Strand, target: int) -> None:
        """Detects loops that poll without writing."""
        launch = self._launch
        before = strand.back_edges.get(target, _NO_ROUND)
        failures = 0
        if before.writes == launch.writes:
            failures = before.failures + (before.attempts != launch.attempts)
        strand.back_edges[target] = Round(launch.polls, launch.attempts, launch.writes, failures)
        if before.writes == launch.writes and (before.polls != launch.polls or failures > _ATTEMPTS):
            strand.spinning.add(target)
        else:
            strand.spinning.discard(target)

    # ------------------------------------------------------------------------------ barriers and ends

    def _end(self, strand: Strand, positions: Positions) -> None:
        self._ended += strand.size if positions is None else len(positions)
        batch = strand.batch
        if len(batch.strands) == 1 and positions is None:
            return  # all lanes ended together, so no barrier can be waiting
        batch.end(strand, positions)
        for barrier in list(batch.arrived):
            self._release(batch, barrier)

    def _arrive(self, strand: Strand, number: int, block: Block, frame: Frame) -> None:
        batch, barrier = strand.batch, block.barrier
        assert barrier is not None
        if len(batch.strands) == 1 and frame.positions is None:
            self._passed(batch, slice(None))
            strand.groups[block.following] = None
            return
        positions = np.arange(strand.size) if frame.positions is None else frame.positions
        if block.aligned:
            self._check_warps(strand, block, frame, positions)
        arrived = batch.arrived.setdefault(barrier, np.zeros(batch.count, np.int64))
        arrived += counted(frame.own(strand.slots), batch.count, frame.size)
        strand.parked.append(Parked(barrier, number, block.following, positions))
        self._release(batch, barrier)

    def _check_warps(self, strand: Strand, block: Block, frame: Frame, positions: NDArray[np.int64]) -> None:
        """Checks that all living lanes of a warp arrive at an aligned barrier together."""
        batch = strand.batch
        warps = strand.warp_places[positions] // WARP
        here = np.bincount(warps, minlength=len(batch.warp_live))
        partial = (here > 0) & (here != batch.warp_live)
        if partial.any():
            where = int(np.flatnonzero(partial[warps])[0])
            detail = f"{here[warps[where]]} of {batch.warp_live[warps[where]]} lanes of the warp"
            raise frame.fault(FaultKind.DIVERGENT_BARRIER, block.last, where, detail=detail)

    def _passed(self, batch: Batch, slots: NDArray[np.int64] | slice) -> None:
        """Records that blocks of a batch pass a barrier."""
        launch = self._launch
        blocks = batch.blocks[slots]
        launch.barriers += len(blocks)
        self._gave_way = self._gives_way
        if launch.races is not None:
            launch.races.barrier(blocks)

    def _release(self, batch: Batch, barrier: int) -> None:
        """Releases the blocks whose living lanes have all arrived at a barrier."""
        arrived = batch.arrived[barrier]
        complete = (arrived == batch.live) & (arrived > 0)
        if not complete.any():
            return
        self._passed(batch, np.flatnonzero(complete))
        arrived[complete] = 0
        for strand in batch.strands:
            parked, strand.parked = strand.parked, []
            for one in parked:
                slots = strand.slots[one.positions] if isinstance(strand.slots, np.ndarray) else strand.slots
                goes = np.broadcast_to(complete[slots] if one.barrier == barrier else False, one.positions.shape)
                if not goes.all():
                    strand.parked.append(one._replace(positions=one.positions[~goes]))
                if goes.any():
                    leaving = one.positions[goes]
                    self._go(strand, one.block, one.target, None if len(leaving) == strand.size else leaving)
