"""Offsets, in bytes, of the records of a ring: the queue of a persistent engine, which the pool's workers serve.

The heads of all rings are in the pool's own memory, so that a worker may look at one at any time.
"""

from __future__ import annotations

from typing import Final

from vyre.adapters.cpu.pool.layout import JOB_BYTES, RING_BYTES, RINGS

MOST_RINGS: Final = RINGS
MOST_RUNNERS: Final = 64
"""Workers that serve one ring at once, at most."""

# ---------------------------------------------------------------- head of a ring
RING_GATE: Final = 0  # i64: as of a team, without an epoch
RING_CURSOR: Final = 64  # i64: the next row: entry << ROW_BITS | row
RING_HEAD: Final = 128  # i64: entries that were published
RING_POLLERS: Final = 192  # i32: workers that poll the head
RING_NOTIFY: Final = 196  # i32: how many want to be told of ends through a descriptor
RING_SIGNALLED: Final = 200  # i32: whether they were told since they last looked
RING_SIGNAL_MUTEX: Final = 204  # i32
RING_SIGNALS: Final = 208  # i64: how often they were told
RING_FREE_RUNNERS: Final = 256  # bits
RING_POOL: Final = 312
RING_ENTRIES: Final = 320
RING_MASK: Final = 328  # entries less one
RING_CODE: Final = 336
RING_RUNNERS: Final = 344
RING_RUNNER_BYTES: Final = 352
RING_RUNNER_COUNT: Final = 360
RING_BUFFERS: Final = 368  # buffers of a job
RING_ZEROED: Final = 376  # for each of them, the bytes that are set to zero first
RING_GROUPS: Final = 384
RING_LAUNCHES: Final = 392
RING_TIMEOUT: Final = 400  # nanoseconds, 0 for none
RING_USED_BYTES: Final = 408  # of the counts of steps
RING_STOP: Final = 416  # i32: the stop reason of all jobs from now on, or 0
RING_FDS: Final = 424  # i32 each: a descriptor and one, or 0
MOST_FDS: Final = 14
RING_STEPS: Final = (
    480  # 1 where the rows of entries are prepared steps, 0 where they are jobs with buffers of their own
)
assert RING_FDS + 4 * MOST_FDS <= RING_BYTES

ROW_BITS: Final = 16
MOST_ROWS: Final = (1 << ROW_BITS) - 1
"""Jobs of one entry, at most."""

# ---------------------------------------------------------------- entry: two lines
ENTRY_BYTES: Final = 128
ENTRY_COMPLETED: Final = 0  # i64: one more than the number of the last entry of this slot that has ended
ENTRY_WAITERS: Final = 8  # i32: threads that sleep until the entry has ended
ENTRY_BELL: Final = 12  # i32, a futex word
ENTRY_ROW_WAITERS: Final = 16  # i32: threads that sleep until one of its jobs has ended
ENTRY_DONE: Final = 24  # i64: jobs of the entry that have ended
ENTRY_ROWS: Final = 64
ENTRY_STATUS: Final = 72
ENTRY_TABLE: Final = 80

# ---------------------------------------------------------------- submission: what a host hands over
SUBMISSION_DOOR: Final = 0  # the address of a word: that of the ring's head, or 0 once nothing may enter the ring
SUBMISSION_ROWS: Final = 8
SUBMISSION_STATUS: Final = 16
SUBMISSION_TABLE: Final = 24
SUBMISSION_BYTES: Final = 32
REFUSED_FULL: Final = -1
REFUSED_SHUT: Final = -2

# ---------------------------------------------------------------- status of a job: four words
STATUS_BYTES: Final = 32
STATUS_STATE: Final = 0  # 8 bits outcome + 1, 8 bits stop reason, 16 bits kernel, 32 bits tag
STATUS_LANE: Final = 8
STATUS_ADDRESS: Final = 16
STATUS_NS: Final = 24

# ---------------------------------------------------------------- an entry of steps: one status, and a table of steps
STATUS_ROW: Final = 32  # the row that failed
STATUS_STARTED: Final = 40
STEPS_STATUS_BYTES: Final = 64

TABLE_STEPS: Final = 0  # steps of a round: row r of an entry is step r mod so many
TABLE_FIRST_STEP: Final = 64
STEP_BYTES: Final = 64
STEP_BEGIN: Final = 0  # the address of its first command
STEP_END: Final = 8  # the address behind its last
STEP_BACK: Final = 16  # how many steps of its wave are before it
STEP_WIDTH: Final = 24  # steps of its wave
STEP_TIMEOUT: Final = 32  # nanoseconds, 0 for none

# ---------------------------------------------------------------- runner: a record of a job, counters, a frame
RUNNER_JOBS: Final = JOB_BYTES
RUNNER_WAKES: Final = JOB_BYTES + 8
RUNNER_FRAME: Final = JOB_BYTES + 64

# ---------------------------------------------------------------- code
CODE_SCRATCH: Final = 0
CODE_KERNELS: Final = 8
CODE_FUNCTIONS: Final = 16
