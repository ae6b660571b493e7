"""Offsets, in bytes, and sizes of the records that the runtime and its Python side share.  All words are little-endian.

The first 64 bytes of a job are the control block that its kernels see.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

LINE: Final = 64
"""Bytes of a cache line, and the alignment of every record and of scratch."""

# ---------------------------------------------------------------- command: 16 words
COMMAND_WORDS: Final = 16
COMMAND_BYTES: Final = 8 * COMMAND_WORDS
KERNEL: Final = 1
COPY: Final = 2
FILL: Final = 3
REPEAT: Final = 4
PIECE: Final = 1 << 24
"""Bytes that a copy or a fill moves between two looks at the stop flag."""

# ---------------------------------------------------------------- frame of a kernel
FRAME_CONTROL: Final = 3 * 8
FRAME_BUFFERS: Final = 6 * 8

# ---------------------------------------------------------------- job: 256 bytes
JOB_BYTES: Final = 256
JOB_STOP: Final = 0  # i32
JOB_LOCK: Final = 4  # i32
JOB_TRAP_LANE: Final = 8
JOB_TRAP_ADDRESS: Final = 16  # i32
JOB_TRAP_TAG: Final = 20  # i32
JOB_BUDGET_LANE: Final = 24
JOB_COMMANDS: Final = 64
JOB_PREFIX: Final = 72
JOB_REPEATED: Final = 80
JOB_REPETITIONS: Final = 88
JOB_EXECUTED: Final = 96
JOB_THREADS: Final = 104
JOB_SCRATCH: Final = 112
JOB_TIMEOUT: Final = 120
JOB_STATE: Final = 128  # i32, a futex word
JOB_OUTCOME: Final = 136
JOB_NEXT: Final = 144
JOB_LIVE_NEXT: Final = 152
JOB_LIVE_PREVIOUS: Final = 160
JOB_DEADLINE: Final = 168
JOB_POOL: Final = 176
JOB_AFTER: Final = 184
JOB_DEPENDENTS: Final = 192
JOB_GROUP: Final = 200
JOB_STARTED: Final = 208
JOB_ENDED: Final = 216
JOB_NOTIFY: Final = 224
JOB_SUBMITTED: Final = 232
JOB_LAST: Final = 240  # the address of the command that was begun last

IDLE: Final = 0
QUEUED: Final = 1
RUNNING: Final = 2
DONE: Final = 3
STATE_MASK: Final = 255
WAITED_FOR: Final = 256
"""A bit of the state: a thread sleeps until the state changes."""

# ---------------------------------------------------------------- group: 64 bytes
GROUP_CLOSED: Final = 0  # i32: the stop reason of every job that is begun from now on, or 0

# ---------------------------------------------------------------- pool
POOL_MUTEX: Final = 0  # i32: guards the queue, the list of live jobs, and what follows jobs
POOL_SHUTDOWN: Final = 4  # i32
POOL_DEAD: Final = 8  # i32: the process is a fork of the pool's
POOL_CPUS: Final = 12  # i32: how many threads may be awake for one of them to spin
POOL_SPIN: Final = 16  # nanoseconds
POOL_QUEUE: Final = 24  # first job
POOL_TAIL: Final = 32  # address of the link behind the last job
POOL_LIVE: Final = 40  # first live job
POOL_TARGET: Final = 48  # the deadline until which the watching thread sleeps
POOL_WATCH_BELL: Final = 56  # i32, a futex word
POOL_ENDED_BELL: Final = 60  # i32, a futex word: jobs with a notification that ended
POOL_BELL: Final = 64  # i32, a futex word: rung when there is work
POOL_SLEEPERS: Final = 128  # i32
POOL_SPINNERS: Final = 132  # i32
POOL_BUSY: Final = 136  # i32: threads in here that do not sleep
POOL_QUEUED: Final = 140  # i32
POOL_BEGUN: Final = 144  # i32: how many jobs were taken from the queue
POOL_HABIT: Final = 152  # the habit of the threads that wait for jobs
POOL_OPEN: Final = 192  # bits: teams that may want help
POOL_FREE_TEAMS: Final = 256  # bits
POOL_FREE_CONTEXTS: Final = 320  # bits, of contexts for callers
POOL_OPEN_RINGS: Final = 384  # bits: rings that workers serve
POOL_FREE_RINGS: Final = 448  # bits
POOL_TEAMS: Final = 1024

TEAMS: Final = 64
TEAM_BYTES: Final = 256
TEAM_GATE: Final = 0
TEAM_COUNTER: Final = 64
TEAM_FUNCTION: Final = 128
TEAM_FRAME: Final = 136
TEAM_GROUPS: Final = 144
TEAM_GRAIN: Final = 152
TEAM_SCRATCH: Final = 160
TEAM_TABLE: Final = 168
TEAM_CONTROL: Final = 176
TEAM_MUTEX: Final = 192  # i32
TEAM_OFFSET: Final = 200
TEAM_ZERO: Final = 208  # i32, never written

GATE_ACTIVE: Final = 0x3FF
"""Helpers in the team now."""
GATE_MOST_SHIFT: Final = 10
"""The greatest number of helpers is in ten bits from here."""
GATE_WAITING: Final = 1 << 30
GATE_OPEN: Final = 1 << 31
GATE_EPOCH_SHIFT: Final = 32

MOST_WORKERS: Final = 1023
CALLER_CONTEXTS: Final = 256
CALLER_WORDS: Final = CALLER_CONTEXTS // 64
CONTEXT_BYTES: Final = 64
CONTEXT_SCRATCH: Final = 0
CONTEXT_SIZE: Final = 8
CONTEXT_RING: Final = 16
"""The ring that the worker looked at last."""
CONTEXT_HABIT: Final = 24
"""The habit of a worker that waits for work."""
KEPT_SCRATCH: Final = 1 << 24
"""A worker that falls asleep frees scratch of more bytes than this."""
POOL_CONTEXTS: Final = POOL_TEAMS + TEAMS * TEAM_BYTES
"""Contexts of callers, then those of the workers."""
POOL_RINGS: Final = POOL_CONTEXTS + (CALLER_CONTEXTS + MOST_WORKERS) * CONTEXT_BYTES
RINGS: Final = 64
RING_BYTES: Final = 512
POOL_BYTES: Final = POOL_RINGS + RINGS * RING_BYTES

# ---------------------------------------------------------------- habit: 8 bytes
HABIT_LEFT: Final = 0  # i32: the waits from now on in which nobody spins
HABIT_LENGTH: Final = 4  # i32: how many those were after the last time that somebody spun in vain; 0 if it helped
MOST_SKIPPED: Final = 63
"""The most waits in a row in which nobody spins: one of 64 tries whether it helps again."""

# ---------------------------------------------------------------- privatisation table
TABLE_ENTRIES: Final = 0
TABLE_FRAME_BYTES: Final = 8
TABLE_FIRST: Final = 16
ENTRY_BYTES: Final = 32
ENTRY_PLACE: Final = 0  # byte offset of the buffer's address in the frame
ENTRY_NBYTES: Final = 8
ENTRY_CODE: Final = 16  # the position in `MERGES`
ENTRY_PATTERN: Final = 24  # the identity, in all 64 bits

MERGES: Final = (
    *((32, operation) for operation in ("add", "or", "and", "xor", "umin", "umax", "smin", "smax")),
    *((64, operation) for operation in ("add", "or", "and", "xor", "umin", "umax")),
)
"""Bits of an element and operation of each way to merge a private copy."""

# ---------------------------------------------------------------- functions and what they return
ENTRIES: Final = (
    "vyre_pool_allocate",
    "vyre_pool_release",
    "vyre_pool_enter",
    "vyre_pool_lead",
    "vyre_pool_submit",
    "vyre_pool_run",
    "vyre_pool_wait",
    "vyre_pool_notify",
    "vyre_pool_halt",
    "vyre_pool_stop",
    "vyre_pool_close_group",
    "vyre_pool_worker",
    "vyre_pool_watch",
    "vyre_pool_ended",
    "vyre_pool_shutdown",
    "vyre_pool_ring_take",
    "vyre_pool_ring_open",
    "vyre_pool_ring_submit",
    "vyre_pool_ring_enter",
    "vyre_pool_ring_wait",
    "vyre_pool_ring_wait_row",
    "vyre_pool_ring_stop",
    "vyre_pool_ring_close",
    "vyre_pool_ring_drop_fd",
)
"""The functions that the Python side calls."""
REFUSED_DEAD: Final = -1
REFUSED_BUSY: Final = -2
STILL_RUNNING: Final = 0


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
