"""The records that the runtime and its Python side share, and what their words mean.  All words are little-endian."""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from typing import ClassVar, Final, TypeAlias

from vyre.adapters.cpu.pool.words import Field, Inline, Memory, Pointer, Record, at, i32, i64, u32, u64

LINE: Final = 64
"""Bytes of a cache line, and the alignment of every record and of scratch."""


# ---------------------------------------------------------------- commands
KERNEL: Final = 1
COPY: Final = 2
FILL: Final = 3
REPEAT: Final = 4
COMMAND_WORDS: Final = 16


class Command(Record):
    """A command of a list.  ``commands`` says what its words are for each kind."""

    BYTES: ClassVar[int] = 8 * COMMAND_WORDS
    kind: Field[u64] = at(0)
    # kernel
    function: Field[Code] = at(8)
    frame: Field[Frame] = at(16)
    groups: Field[u64] = at(24)
    grain: Field[u64] = at(32)
    threads: Field[u64] = at(40)
    scratch: Field[u64] = at(48)
    table: Field[Table] = at(56)
    counted: Field[u64] = at(64)  # the place in the frame of the buffer that says how many workgroups run, or 0
    # copy and fill
    to: Field[Memory] = at(8)
    source: Field[Memory] = at(16)
    byte: Field[u64] = at(16)
    nbytes: Field[u64] = at(24)
    # repeat
    body: Field[u64] = at(8)
    word: Field[Pointer[u32]] = at(16)
    limit: Field[u64] = at(24)
    rounds: Field[Pointer[u64]] = at(32)
    tested_after: Field[u64] = at(40)


class Frame(Record):
    """The argument of a kernel: the grid, the control block, and its buffers."""

    BYTES: ClassVar[int] = 48
    x: Field[u64] = at(0)  # workgroups along each axis
    y: Field[u64] = at(8)
    z: Field[u64] = at(16)
    control: Field[Job] = at(24)
    used: Field[Memory] = at(40)  # the counts of steps
    buffers: Inline[Buffer] = at(48)


class Buffer(Record):
    """The address of a buffer and its number of elements."""

    BYTES: ClassVar[int] = 16
    address: Field[Memory] = at(0)


Code: TypeAlias = Callable[[Frame, int, int, Memory], None]
"""A kernel: its frame, the first workgroup and the one behind the last, and scratch."""


class Table(Record):
    """The privatisation table of a kernel command."""

    BYTES: ClassVar[int] = 16
    count: Field[u64] = at(0)
    frame_bytes: Field[u64] = at(8)
    entries: Inline[TableEntry] = at(16)


class TableEntry(Record):
    """A buffer of which every thread has a copy."""

    BYTES: ClassVar[int] = 32
    place: Field[u64] = at(0)  # of the buffer's address in the frame, in bytes
    nbytes: Field[u64] = at(8)
    merge: Field[u64] = at(16)  # the position in `MERGES`
    pattern: Field[u64] = at(24)  # the identity, in all 64 bits


MERGES: Final = (
    *((32, operation) for operation in ("add", "or", "and", "xor", "umin", "umax", "smin", "smax")),
    *((64, operation) for operation in ("add", "or", "and", "xor", "umin", "umax")),
)
"""Bits of an element and operation of each way to merge a private copy."""


# ---------------------------------------------------------------- jobs
class Job(Record):
    """A command list and its runs.  The first 64 bytes are the control block that its kernels see."""

    BYTES: ClassVar[int] = 256
    stop: Field[u32] = at(0)
    lock: Field[u32] = at(4)
    stop_and_lock: Field[u64] = at(0)
    trap_lane: Field[u64] = at(8)
    trap_address: Field[u32] = at(16)
    trap_tag: Field[u32] = at(20)
    trap_address_and_tag: Field[u64] = at(16)
    budget_lane: Field[u64] = at(24)
    commands: Field[Command] = at(64)
    prefix: Field[u64] = at(72)
    repeated: Field[u64] = at(80)
    repetitions: Field[u64] = at(88)
    executed: Field[u64] = at(96)
    threads: Field[u64] = at(104)
    scratch: Field[u64] = at(112)
    timeout: Field[i64] = at(120)
    state: Field[u32] = at(128)  # a futex word
    outcome: Field[u64] = at(136)
    next: Field[Job] = at(144)
    live_next: Field[Job] = at(152)
    live_previous: Field[Job] = at(160)
    deadline: Field[i64] = at(168)
    pool: Field[Pool] = at(176)
    after: Field[Job] = at(184)
    dependents: Field[Job] = at(192)
    group: Field[Group] = at(200)
    started: Field[i64] = at(208)
    ended: Field[i64] = at(216)
    notify: Field[u64] = at(224)
    submitted: Field[i64] = at(232)
    last: Field[Command] = at(240)  # the command that was begun last


IDLE: Final = 0
QUEUED: Final = 1
RUNNING: Final = 2
DONE: Final = 3
STATE_MASK: Final = 255
WAITED_FOR: Final = 256
"""A bit of the state: a thread sleeps until the state changes."""


class Group(Record):
    """Jobs that are stopped together."""

    BYTES: ClassVar[int] = 64
    closed: Field[u32] = at(0)  # the stop reason of every job that is begun from now on, or 0


# ---------------------------------------------------------------- the pool
TEAMS: Final = 64
RINGS: Final = 64
MOST_WORKERS: Final = 1023
CALLER_CONTEXTS: Final = 256
CALLER_WORDS: Final = CALLER_CONTEXTS // 64


class Team(Record):
    """A kernel command that several threads run."""

    BYTES: ClassVar[int] = 256
    gate: Field[u64] = at(0)
    gate_word: Field[u32] = at(0)  # its lower half, a futex word
    counter: Field[u64] = at(64)
    function: Field[Code] = at(128)
    frame: Field[Frame] = at(136)
    groups: Field[u64] = at(144)
    grain: Field[u64] = at(152)
    scratch: Field[u64] = at(160)
    table: Field[Table] = at(168)
    control: Field[Job] = at(176)
    mutex: Field[u32] = at(192)
    offset: Field[u64] = at(200)
    zero: Field[i32] = at(208)  # never written


GATE_ACTIVE: Final = 0x3FF
"""Helpers in the team now."""
GATE_MOST_SHIFT: Final = 10
"""The greatest number of helpers is in ten bits from here."""
GATE_WAITING: Final = 1 << 30
GATE_OPEN: Final = 1 << 31
GATE_EPOCH_SHIFT: Final = 32


class Context(Record):
    """The state of a thread that is in the runtime."""

    BYTES: ClassVar[int] = 64
    scratch: Field[Memory] = at(0)
    size: Field[u64] = at(8)
    ring: Field[u64] = at(16)  # the number of the ring that the worker served last
    habit: Inline[Habit] = at(24)  # of a worker that waits for work


MOST_SKIPPED: Final = 63
"""The most waits in a row in which nobody spins: one of 64 tries whether it helps again."""


class Habit(Record):
    """Whether spinning has helped lately."""

    BYTES: ClassVar[int] = 8
    left: Field[u32] = at(0)  # the waits from now on in which nobody spins
    length: Field[u32] = at(4)  # how many those were after the last time that somebody spun in vain; 0 if it helped


class Ring(Record):
    """The head of the queue of a persistent engine, in the pool's memory: a worker may look at it at any time."""

    BYTES: ClassVar[int] = 512
    gate: Field[u64] = at(0)  # as of a team, without an epoch
    gate_word: Field[u32] = at(0)
    cursor: Field[u64] = at(64)  # the next row: entry << ROW_BITS | row
    head: Field[u64] = at(128)  # entries that were published
    pollers: Field[u32] = at(192)  # workers that poll the head
    notify: Field[u32] = at(196)  # how many want to be told of ends through a descriptor
    signalled: Field[u32] = at(200)  # whether they were told since they last looked
    signal_mutex: Field[u32] = at(204)
    signals: Field[u64] = at(208)  # how often they were told
    free_runners: Field[u64] = at(256)  # bits
    pool: Field[Pool] = at(312)
    entries: Field[Entry] = at(320)
    mask: Field[u64] = at(328)  # entries less one
    code: Field[RingCode] = at(336)
    runners: Field[Memory] = at(344)
    runner_bytes: Field[u64] = at(352)
    runner_count: Field[u64] = at(360)
    buffers: Field[u64] = at(368)  # buffers of a job
    zeroed: Field[Pointer[u64]] = at(376)  # for each of them, the bytes that are set to zero first
    groups: Field[u64] = at(384)
    launches: Field[u64] = at(392)
    timeout: Field[i64] = at(400)  # nanoseconds, 0 for none
    used_bytes: Field[u64] = at(408)  # of the counts of steps
    stop: Field[u32] = at(416)  # the stop reason of all jobs from now on, or 0
    fds: Inline[Pointer[i32]] = at(424)  # each a descriptor and one, or 0
    steps: Field[u64] = at(480)  # 1 where rows of entries are prepared steps, 0 where they are jobs with own buffers


MOST_FDS: Final = 14
MOST_RUNNERS: Final = 64
"""Workers that serve one ring at once, at most."""
ROW_BITS: Final = 16
MOST_ROWS: Final = (1 << ROW_BITS) - 1
"""Jobs of one entry, at most."""


_CONTEXTS: Final = 1024 + TEAMS * Team.BYTES
_RINGS: Final = _CONTEXTS + (CALLER_CONTEXTS + MOST_WORKERS) * Context.BYTES


class Pool(Record):
    """The state that all threads of a pool share."""

    BYTES: ClassVar[int] = _RINGS + RINGS * Ring.BYTES
    mutex: Field[u32] = at(0)  # guards the queue, the list of live jobs, and what follows jobs
    shutdown: Field[u32] = at(4)
    dead: Field[u32] = at(8)  # the process is a fork of the pool's
    cpus: Field[i32] = at(12)  # how many threads may be awake for one of them to spin
    spin: Field[i64] = at(16)  # nanoseconds
    queue: Field[Job] = at(24)  # first job
    tail: Field[Pointer[Job]] = at(32)  # the link behind the last job
    live: Field[Job] = at(40)  # first live job
    target: Field[i64] = at(48)  # the deadline until which the watching thread sleeps
    watch_bell: Field[u32] = at(56)  # a futex word
    ended_bell: Field[u32] = at(60)  # a futex word: jobs with a notification that ended
    bell: Field[u32] = at(64)  # a futex word: rung when there is work
    sleepers: Field[i32] = at(128)
    spinners: Field[i32] = at(132)
    busy: Field[i32] = at(136)  # threads in here that do not sleep
    queued: Field[i32] = at(140)
    begun: Field[i32] = at(144)  # how many jobs were taken from the queue
    habit: Inline[Habit] = at(152)  # of the threads that wait for jobs
    open: Field[u64] = at(192)  # bits: teams that may want help
    free_teams: Field[u64] = at(256)  # bits
    free_contexts: Inline[Pointer[u64]] = at(320)  # bits, of contexts for callers
    open_rings: Field[u64] = at(384)  # bits: rings that workers serve
    free_rings: Field[u64] = at(448)  # bits
    teams: Inline[Team] = at(1024)
    contexts: Inline[Context] = at(_CONTEXTS)  # those of callers, then those of the workers
    rings: Inline[Ring] = at(_RINGS)


# ---------------------------------------------------------------- what is in rings
class Entry(Record):
    """A slot of a ring, two lines."""

    BYTES: ClassVar[int] = 128
    completed: Field[i64] = at(0)  # one more than the number of the last entry of this slot that has ended
    waiters: Field[u32] = at(8)  # threads that sleep until the entry has ended
    bell: Field[u32] = at(12)  # a futex word
    row_waiters: Field[u32] = at(16)  # threads that sleep until one of its jobs has ended
    done: Field[u64] = at(24)  # jobs of the entry that have ended
    rows: Field[u64] = at(64)
    status: Field[Status] = at(72)
    table: Field[Memory] = at(80)


class Submission(Record):
    """The argument of ``pool_ring_enter``: the jobs that a host hands over."""

    BYTES: ClassVar[int] = 32
    door: Field[Pointer[Ring]] = at(0)  # a word: the address of the ring's head, or 0 once nothing may enter the ring
    rows: Field[u64] = at(8)
    status: Field[Status] = at(16)
    table: Field[Memory] = at(24)


class Status(Record):
    """How a job of a ring ended."""

    BYTES: ClassVar[int] = 32
    state: Field[i64] = at(0)  # 8 bits outcome + 1, 8 bits stop reason, 16 bits kernel, 32 bits tag
    lane: Field[u64] = at(8)
    address: Field[u64] = at(16)
    ns: Field[i64] = at(24)


class StepsStatus(Status):
    """How an entry of prepared steps ended."""

    BYTES: ClassVar[int] = 64
    row: Field[u64] = at(32)  # the row that failed
    started: Field[i64] = at(40)


class BufferRow(Record):
    """Where a buffer of an entry's jobs begins, and the distance of that of the next job."""

    BYTES: ClassVar[int] = 16
    base: Field[Memory] = at(0)
    stride: Field[u64] = at(8)


class StepTable(Record):
    """The prepared steps of a round: row r of an entry is step r mod ``count``."""

    BYTES: ClassVar[int] = 64
    count: Field[u64] = at(0)
    steps: Inline[Step] = at(64)


class Step(Record):
    """A prepared step."""

    BYTES: ClassVar[int] = 64
    begin: Field[Command] = at(0)  # its first command
    end: Field[Command] = at(8)  # the one behind its last
    back: Field[u64] = at(16)  # how many steps of its wave are before it
    width: Field[u64] = at(24)  # steps of its wave
    timeout: Field[i64] = at(32)  # nanoseconds, 0 for none


class Runner(Job):
    """The state of a worker that serves a ring: a live job, counters, a frame."""

    jobs: Field[u64] = at(Job.BYTES)
    wakes: Field[u64] = at(Job.BYTES + 8)
    frame: Inline[Frame] = at(Job.BYTES + 64)


class RingCode(Record):
    """The kernels that a ring runs."""

    BYTES: ClassVar[int] = 16
    scratch: Field[u64] = at(0)
    kernels: Field[u64] = at(8)
    functions: Inline[Pointer[Code]] = at(16)


# ---------------------------------------------------------------- what functions return
REFUSED_DEAD: Final = -1
REFUSED_BUSY: Final = -2
STILL_RUNNING: Final = 0
RING_IS_FULL: Final = -1
RING_IS_SHUT: Final = -2


class StopReason(IntEnum):
    """The value of the stop flag, by who set it."""

    REQUESTED = 1
    TIMEOUT = 2
    INTERRUPTED = 3
    CLOSED = 4
    EXIT = 5


class Outcome(IntEnum):
    """The end of a run."""

    COMPLETED = 0
    STOPPED = 1
    TRAPPED = 2
    OVER_BUDGET = 3
    OUT_OF_MEMORY = 4
