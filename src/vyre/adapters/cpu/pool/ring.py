"""A ring: a queue of jobs of one program, which the pool's workers serve without Python between two jobs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from ctypes import Array, addressof, c_int32, c_int64, c_uint64
from typing import Final, NamedTuple

from vyre.adapters.cpu.pool import layout as at
from vyre.adapters.cpu.pool.commands import CommandList
from vyre.adapters.cpu.pool.job import JobGroup
from vyre.adapters.cpu.pool.layout import Outcome, StopReason
from vyre.adapters.cpu.pool.worker_pool import WorkerPool
from vyre.domain.errors import DeviceOutOfMemory, InvalidResource
from vyre.domain.unique import Unique

MOST_ROWS: Final = at.MOST_ROWS
_WORDS: Final = at.Entry.BYTES // 8
_TABLE: Final = at.Entry.table // 8
_STATUS: Final = at.Entry.status // 8
_ROWS: Final = at.Entry.rows // 8
_DONE: Final = at.Entry.done // 8


class RingSpec(NamedTuple):
    """The properties that all jobs of a ring share.

    ``runners`` workers serve it at once.  ``grid`` is in workgroups, ``counts`` the elements and ``zeroed`` the bytes
    of each buffer that are zero when a job begins.  ``launches`` is how often the kernels run.  ``used_bytes`` is the
    memory of the counts of steps, 0 where they are not counted.  ``steps``: the jobs of the ring are prepared steps
    (``StepTable``), and none of the other properties but ``timeout_s``, which says that some step has one, is theirs.
    """

    capacity: int
    runners: int
    grid: tuple[int, int, int]
    counts: tuple[int, ...]
    zeroed: tuple[int, ...]
    launches: int
    timeout_s: float | None
    step_budget: int | None
    used_bytes: int
    steps: bool = False


class RowStatus(NamedTuple):
    """How a job ended.  ``lane`` is that of a trap or of an exceeded step budget."""

    outcome: Outcome
    reason: StopReason | None
    kernel: int
    tag: int
    lane: int
    address: int
    elapsed_ns: int


class RingCode(NamedTuple):
    """The addresses of the kernels, and the bytes of scratch that they need; ``keep`` owns the code."""

    functions: tuple[int, ...]
    scratch_bytes: int
    keep: object


class Wave(NamedTuple):
    """Steps that may run at once, each the positions of its first command and of the one behind its last, and its
    timeout in seconds.
    """

    steps: tuple[tuple[int, int, float | None], ...]


class StepTable:
    """The steps of a round, in waves, as the runtime reads them; ``commands`` holds what they run."""

    __slots__ = ("_words", "address", "commands", "first_width", "steps")

    def __init__(self, commands: CommandList, waves: Sequence[Wave]) -> None:
        words = [0] * (at.StepTable.steps // 8)
        for wave in waves:
            for back, (begin, end, timeout) in enumerate(wave.steps):
                addresses = [commands.address + at.Command.BYTES * place for place in (begin, end)]
                limit = 0 if timeout is None else max(1, round(timeout * 1e9))
                words += [*addresses, back, len(wave.steps), limit, 0, 0, 0]
        self.steps: Final = sum(len(wave.steps) for wave in waves)
        self.first_width: Final = len(waves[0].steps) if waves else 0
        self.commands: Final = commands
        words[at.StepTable.count // 8] = self.steps
        self._words: Final[Array[c_int64]] = (c_int64 * len(words))(*words)
        self.address: Final = addressof(self._words)


def read_status(words: Sequence[int], place: int = 0) -> RowStatus | None:
    """Returns the status of a job from its words, or None if it has not ended."""
    state = words[place] & 0xFFFF_FFFF_FFFF_FFFF
    if not state:
        return None
    reason = state >> 8 & 0xFF
    return RowStatus(
        Outcome((state & 0xFF) - 1),
        StopReason(reason) if reason else None,
        state >> 16 & 0xFFFF,
        state >> 32,
        words[place + 1] & 0xFFFF_FFFF_FFFF_FFFF,
        words[place + 2],
        words[place + 3],
    )


class Ring(Unique):
    """The native queue.  One thread at a time writes and publishes entries; ``completed`` may be read by any.

    ``entries`` holds the words of all slots.  The memory that an entry names must live until it has ended.
    """

    def __init__(
        self,
        pool: WorkerPool,
        spec: RingSpec,
        code: RingCode,
        group: JobGroup | None,
        told: Callable[[int], object] = int,
    ) -> None:
        """Takes a ring of the pool and lets its workers serve it; ``told`` is called with its jobs when it is closed.

        Raises ``InvalidResource`` where all are in use, and ``DeviceOutOfMemory``.
        """
        entries = pool.entries
        self.pool: Final = pool
        self.block: Final = pool.block
        self.spec: Final = spec
        self._native: Final = entries
        self._told: Final = told
        self._memory: list[int] = []
        self._keep: list[object] = [group, code]
        self._last: dict[str, int] | None = None
        self._is_ending = False
        self.closed: bool = False
        self._frame_words: Final = 6 + 2 * len(spec.counts)
        self._runner_bytes: Final = -(-(at.Runner.frame + 8 * self._frame_words) // at.LINE) * at.LINE
        try:
            first = self._allocate(spec.capacity * at.Entry.BYTES)
            self._runners = self._allocate(spec.runners * self._runner_bytes)
            used = [self._allocate(spec.used_bytes) if spec.used_bytes else 0 for _ in range(spec.runners)]
            address = entries.ring_take(pool.block)
            if not address:
                raise InvalidResource(
                    f"{at.RINGS} persistent engines are open in this process", fix="close one before another is opened."
                )
        except BaseException:
            self._free()
            raise
        self.address: Final[int] = address
        self._door: Final = c_int64(address)
        self.door: Final = addressof(self._door)
        """The address of the word by which submissions find the ring."""
        self.first: Final = first
        self.entries: Final[Array[c_int64]] = (c_int64 * (_WORDS * spec.capacity)).from_address(first)
        for slot in range(spec.capacity):
            self.entries[_WORDS * slot] = slot - spec.capacity + 1
        self._zeroed: Final = (c_int64 * max(1, len(spec.zeroed)))(*spec.zeroed)
        self._write_head(code)
        for number in range(spec.runners):
            self._write_runner(number, used[number], group)
        pool.provide(spec.runners, deadlines=spec.timeout_s is not None)
        pool.rings.add(self)
        entries.ring_open(pool.block, address)

    # ------------------------------------------------------------ entries
    def has_ended(self, number: int) -> bool:
        """Returns whether the entry of this number has ended."""
        return self.entries[_WORDS * (number & (self.spec.capacity - 1))] > number

    def write(self, number: int, rows: int, table: int, status: int) -> None:
        """Writes the fields of an entry whose slot is free; ``table`` and ``status`` are addresses."""
        place = _WORDS * (number & (self.spec.capacity - 1))
        words = self.entries
        words[place + _ROWS], words[place + _STATUS], words[place + _TABLE] = rows, status, table
        words[place + _DONE] = 0

    def publish(self, rows: int) -> None:
        """Lets workers begin the entry that was written behind the published ones."""
        self._native.ring_submit(self.address, rows)

    def wait(self, number: int, timeout_ns: int, status: int = 0) -> bool:
        """Waits at most so long for the end of an entry, or of the job of it whose status is at this address."""
        entry = self.first + at.Entry.BYTES * (number & (self.spec.capacity - 1))
        word, above = (status, 0) if status else (entry + at.Entry.completed, number)
        return bool(self._native.ring_wait(self.block, entry, word, above, timeout_ns))

    # ------------------------------------------------------------ state
    @property
    def progress(self) -> tuple[int, int]:
        """Returns the number of published entries and the cursor, which grows with every job that is begun."""
        if self.closed:
            return 0, 0
        return self._head(at.Ring.head), self._head(at.Ring.cursor)

    @property
    def waits(self) -> bool:
        """Returns whether a published job has not begun, and no worker is there to begin it when its time has come."""
        published, cursor = self.progress
        if cursor >> at.ROW_BITS == published:
            return False
        return not self.spec.steps or not self._head(at.Ring.gate) & at.GATE_ACTIVE

    @property
    def counts(self) -> dict[str, int]:
        """Returns the jobs that have ended, how often waiting threads were woken, and descriptors written to."""
        if self._last is not None:
            return self._last
        jobs = wakes = 0
        for number in range(self.spec.runners):
            runner = self._runners + self._runner_bytes * number
            jobs += c_int64.from_address(runner + at.Runner.jobs).value
            wakes += c_int64.from_address(runner + at.Runner.wakes).value
        return {"jobs": jobs, "wakes": wakes, "signals": self._head(at.Ring.signals)}

    def use_code(self, code: RingCode) -> None:
        """Replaces the code; jobs that run go on with the one that they began with."""
        self._keep.append(code)
        block = (c_uint64 * (2 + len(code.functions)))(code.scratch_bytes, len(code.functions), *code.functions)
        self._keep.append(block)
        self._set(at.Ring.code, addressof(block))

    def use_steps(self, tables: Sequence[StepTable]) -> None:
        """Prepares the ring for entries of these tables, which it keeps.  No entry may be under way."""
        self._keep.extend(tables)
        scratch = max((table.commands.scratch_bytes for table in tables), default=0)
        threads = max((table.commands.threads for table in tables), default=1)
        for number in range(self.spec.runners):
            job = (c_int64 * (at.Job.BYTES // 8)).from_address(self._runners + self._runner_bytes * number)
            job[at.Job.scratch // 8] = scratch
            job[at.Job.threads // 8] = max(1, min(threads, at.MOST_WORKERS))

    # ------------------------------------------------------------ descriptors
    def add_fd(self, fd: int) -> bool:
        """Has workers write 8 bytes to a descriptor when jobs end; returns False where there is no room for it."""
        for place in range(at.MOST_FDS):
            word = c_int32.from_address(self.address + at.Ring.fds + 4 * place)
            if not word.value:
                word.value = fd + 1
                return True
        return False

    def drop_fd(self, fd: int) -> None:
        """Ends what ``add_fd`` began; afterwards the descriptor may be closed."""
        if not self.closed:
            self._native.ring_drop_fd(self.address, fd)

    def notify(self, wanted: bool) -> None:
        """Sets whether descriptors are written to at all."""
        c_int32.from_address(self.address + at.Ring.notify).value = int(wanted)

    def rearm(self) -> None:
        """Has the next end of a job written to the descriptors again; look for ended jobs afterwards."""
        c_int32.from_address(self.address + at.Ring.signalled).value = 0

    # ------------------------------------------------------------ the end
    def shut(self) -> None:
        """Has submissions refused from now on."""
        self._door.value = 0

    def stop(self, reason: StopReason) -> None:
        """Stops every job that runs or waits, and every later one."""
        if not self._is_ending:
            self._native.ring_stop(self.block, self.address, reason)

    def close(self) -> None:
        """Ends the service.  Jobs that have not ended must have been stopped; afterwards all have ended."""
        if self._is_ending:
            return
        self.shut()
        self._is_ending = True  # before: who was interrupted must not stop or give back the ring of a later engine
        try:
            self._native.ring_close(self.block, self.address)
        finally:
            self.closed = True
        self._last = self.counts
        self._told(self._last["jobs"])
        self.pool.rings.discard(self)

    def __del__(self) -> None:
        if not hasattr(self, "address"):
            return
        if self.pool.block == self.block:  # else it is the parent's, whose memory this fork has a copy of
            self.stop(StopReason.REQUESTED)
            self.close()
            if self.closed:  # else workers may still use the memory
                self._free()

    # ------------------------------------------------------------ details
    def _allocate(self, nbytes: int) -> int:
        address: int = self._native.allocate(nbytes)
        if not address:
            raise DeviceOutOfMemory(requested=nbytes)
        self._memory.append(address)
        return address

    def _free(self) -> None:
        while self._memory:
            self._native.release(self._memory.pop())

    def _head(self, offset: int) -> int:
        return c_int64.from_address(self.address + offset).value

    def _set(self, offset: int, value: int) -> None:
        c_int64.from_address(self.address + offset).value = value

    def _write_head(self, code: RingCode) -> None:
        spec = self.spec
        self.use_code(code)
        timeout = 0 if spec.timeout_s is None else max(1, round(spec.timeout_s * 1e9))
        for offset, value in (
            (at.Ring.pool, self.block),
            (at.Ring.entries, self.first),
            (at.Ring.mask, spec.capacity - 1),
            (at.Ring.runners, self._runners),
            (at.Ring.runner_bytes, self._runner_bytes),
            (at.Ring.runner_count, spec.runners),
            (at.Ring.buffers, len(spec.counts)),
            (at.Ring.zeroed, addressof(self._zeroed)),
            (at.Ring.groups, spec.grid[0] * spec.grid[1] * spec.grid[2]),
            (at.Ring.launches, spec.launches),
            (at.Ring.timeout, timeout),
            (at.Ring.used_bytes, spec.used_bytes),
            (at.Ring.steps, int(spec.steps)),
        ):
            self._set(offset, value)

    def _write_runner(self, number: int, used: int, group: JobGroup | None) -> None:
        address = self._runners + self._runner_bytes * number
        job = (c_int64 * (at.Job.BYTES // 8)).from_address(address)
        job[at.Job.pool // 8] = self.block
        job[at.Job.group // 8] = 0 if group is None else group.address
        frame = (c_uint64 * self._frame_words).from_address(address + at.Runner.frame)
        frame[:3] = list(self.spec.grid)
        frame[3] = address
        frame[4] = min(self.spec.step_budget or 0, 0xFFFF_FFFF_FFFF_FFFF)
        frame[5] = used
        for buffer, count in enumerate(self.spec.counts):
            frame[7 + 2 * buffer] = count
