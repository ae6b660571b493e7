"""A job: a command list and the record with which the runtime runs it."""

from __future__ import annotations

from collections.abc import Callable
from ctypes import c_int32, c_int64
from typing import Final, NamedTuple

from vyre.adapters.cpu.pool import layout as at
from vyre.adapters.cpu.pool.commands import CommandList
from vyre.adapters.cpu.pool.entries import Entries
from vyre.adapters.cpu.pool.layout import Outcome, StopReason
from vyre.domain.unique import Unique

_I32: Final = c_int32 * (at.Job.BYTES // 4)
_I64: Final = c_int64 * (at.Job.BYTES // 8)
_STATE: Final = at.Job.state // 4
_OUTCOME: Final = at.Job.outcome // 8
_ALL_ONES: Final = -1


class Trap(NamedTuple):
    """The trap of a run: the lane's linear global id, the trap's address and the number of its tag in the kernel."""

    lane: int
    address: int
    tag: int


class PoolRecord(Unique):
    """A record in the native memory of a pool, which ``recycle(block, address)`` takes back when nobody knows it any
    longer.
    """

    __slots__ = ("__weakref__", "_recycle", "address", "block", "entries")

    def __init__(self, entries: Entries, block: int, address: int, recycle: Callable[[int, int], None]) -> None:
        self.entries: Final = entries
        self.block: Final = block
        self.address: Final = address
        self._recycle: Final = recycle  # from now on the record is this object's

    def __del__(self) -> None:
        if hasattr(self, "_recycle"):
            self._recycle(self.block, self.address)


class JobGroup(PoolRecord):
    """Jobs that are stopped together, such as those of one session.  ``WorkerPool.group`` makes one."""

    __slots__ = ()

    def close(self, reason: StopReason = StopReason.CLOSED) -> None:
        """Stops every job of the group that runs or is queued, and every one that is begun later."""
        self.entries.close_group(self.block, self.address, reason)


class Job(PoolRecord):
    """A command list that can be run any number of times, by one run at a time.  ``WorkerPool.job`` makes one.

    A job that was dropped while it runs is kept by the pool until its end; ``keep`` holds what must live as long.
    """

    __slots__ = ("_halves", "_words", "commands", "group", "keep")

    def __init__(
        self,
        entries: Entries,
        block: int,
        address: int,
        recycle: Callable[[int, int], None],
        commands: CommandList,
        group: JobGroup | None,
    ) -> None:
        super().__init__(entries, block, address, recycle)
        self.keep: object = None
        self._words = _I64.from_address(address)
        self._halves = _I32.from_address(address)
        self.group: Final = group
        words = self._words
        words[at.Job.pool // 8] = block
        words[at.Job.group // 8] = 0 if group is None else group.address
        words[at.Job.notify // 8] = 0
        words[at.Job.timeout // 8] = 0
        self._halves[_STATE] = at.IDLE
        self.set_commands(commands)

    def set_commands(self, commands: CommandList) -> None:
        """Replaces the command list.  No run of the job may be under way."""
        self.commands: CommandList = commands
        words = self._words
        words[at.Job.commands // 8] = commands.address
        words[at.Job.prefix // 8] = commands.prefix
        words[at.Job.repeated // 8] = commands.repeated
        words[at.Job.repetitions // 8] = commands.repetitions
        words[at.Job.scratch // 8] = commands.scratch_bytes
        words[at.Job.threads // 8] = max(1, min(commands.threads, at.MOST_WORKERS))

    def set_repetitions(self, repetitions: int) -> None:
        """Sets how often the repeated part of the command list runs.  No run of the job may be under way."""
        self.commands.repetitions = repetitions
        self._words[at.Job.repetitions // 8] = repetitions

    def set_timeout(self, seconds: float | None) -> None:
        """Sets how long a run may take from its submission on; its stop flag is set then."""
        self._words[at.Job.timeout // 8] = 0 if seconds is None else max(1, round(seconds * 1e9))

    # ------------------------------------------------------------ facts
    @property
    def threads(self) -> int:
        """Returns how many threads take part in a run at most."""
        return self._words[at.Job.threads // 8]

    @property
    def timeout_ns(self) -> int:
        """Returns the timeout in nanoseconds, 0 for none."""
        return self._words[at.Job.timeout // 8]

    @property
    def done(self) -> bool:
        """Returns whether no run of the job is under way."""
        return self._halves[_STATE] & at.STATE_MASK not in (at.QUEUED, at.RUNNING)

    @property
    def outcome(self) -> Outcome:
        """Returns how the last run ended."""
        return Outcome(self._words[_OUTCOME])

    @property
    def stop_reason(self) -> StopReason | None:
        """Returns why the last run was stopped, or None."""
        reason = self._halves[at.Job.stop // 4]
        return StopReason(reason) if reason else None

    @property
    def handoff_ns(self) -> int | None:
        """Returns the time from the submission of the last run until a thread began it; None if none began it.

        The run must have been submitted, not led by the calling thread.
        """
        started = self._words[at.Job.started // 8]
        return started - self._words[at.Job.submitted // 8] if started else None

    @property
    def executed(self) -> int:
        """Returns how many commands the last run has begun, repeats counted once each time they are met."""
        return self._words[at.Job.executed // 8]

    @property
    def last(self) -> int:
        """Returns the position in the list of the command that the last run began last; it trapped if the run did.

        0 where no command was begun.
        """
        address = self._words[at.Job.last // 8]
        return (address - self.commands.address) // at.Command.BYTES if address else 0

    @property
    def trap(self) -> Trap | None:
        """Returns the trap of the lowest lane that trapped, or None."""
        lane = self._words[at.Job.trap_lane // 8]
        if lane == _ALL_ONES:
            return None
        return Trap(lane, self._halves[at.Job.trap_address // 4] & 0xFFFF_FFFF, self._halves[at.Job.trap_tag // 4])

    @property
    def budget_lane(self) -> int | None:
        """Returns the lowest linear global id of a lane that exceeded its step budget, or None."""
        lane = self._words[at.Job.budget_lane // 8]
        return None if lane == _ALL_ONES else lane

    @property
    def elapsed_ns(self) -> int:
        """Returns the time in nanoseconds from the begin to the end of the last run, without its time in the queue.

        It is not measured for ``run_short``; it is 0 for a run that was stopped before it began.
        """
        started = self._words[at.Job.started // 8]
        return self._words[at.Job.ended // 8] - started if started else 0

    # ------------------------------------------------------------ runs
    def stop(self, reason: StopReason = StopReason.REQUESTED) -> None:
        """Stops a run that is under way: it ends at its next loop back edge, or at once if it has not begun."""
        self.entries.stop(self.address, reason)

    def halt(self, reason: StopReason = StopReason.REQUESTED) -> None:
        """Stops a run that is under way, and waits until it has ended."""
        self.entries.halt(self.address, reason)
