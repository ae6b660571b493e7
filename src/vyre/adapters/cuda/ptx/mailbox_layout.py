"""The words that a host and a kernel that stays share: a mailbox, its jobs, and what the kernel keeps for itself.

The *mailbox* lies in host memory that is mapped: a head, a ring of entries, and a word of the end of each entry.  An
*entry* is a submission of one or more jobs; its *rows* are records of equal size, one for each job, also in mapped
memory: a head, then a copy of the part of a dispatch's arena that is uploaded or read back.  A *claim* is the number of
an entry times 2^16 plus a row; it is kept in device memory, and only grows.  All integers are little-endian.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

ROW_BITS: Final = 16
MOST_ROWS: Final = (1 << ROW_BITS) - 1
"""The most jobs of one entry."""


class Head:
    """Offsets in bytes in the head of a mailbox.

    TAIL: the number of entries that were published, u64.  STOP: not 0 once the kernel has to leave, u32.  LEFT: the
    number of launches that have left because there was nothing to do, u64, written by the kernel.
    """

    TAIL: Final = 0
    STOP: Final = 8
    LEFT: Final = 64
    NBYTES: Final = 128


class Entry:
    """Offsets in bytes in an entry: the address of the first row for kernels, and the number of rows, both u64."""

    ROWS: Final = 0
    COUNT: Final = 8
    NBYTES: Final = 16


class Row:
    """Offsets in bytes in the head of a row.

    STATE: a ``State``, u32, written last.  ELAPSED: the time of the job in ns, u64.  TRAP: the record of a trap.  BODY:
    the copy of the arena.
    """

    STATE: Final = 0
    ELAPSED: Final = 8
    TRAP: Final = 16
    BODY: Final = 64


class State(IntEnum):
    """How a job has ended; 0 as long as it has not."""

    WAITING = 0
    COMPLETED = 1
    TRAPPED = 2
    LATE = 3
    STOPPED = 4


class Control:
    """Offsets in bytes in device memory that only kernels use.

    CLAIM: the next claim, u64.  AWAY: the blocks of a launch that have left, u32.  LAUNCHES: those that have left, u64.
    ROWS: per entry, the jobs that have ended, u32 each.
    """

    CLAIM: Final = 0
    AWAY: Final = 8
    LAUNCHES: Final = 16
    ROWS: Final = 64


class Descriptor:
    """Offsets in bytes in the description of a mailbox, which lies in device memory; every field is an u64.

    HEAD, ENTRIES and ENDS are addresses of parts of the mailbox, CONTROL that of the kernel's own words.  MASK is the
    number of entries less 1.  ARENA is the address of the arena of block 0, and ARENA_STRIDE the distance between those
    of two blocks.  ROW_NBYTES is the distance of two rows.  UPLOAD_END, ZERO, ZERO_END, READ and READ_END are offsets
    in an arena: what is copied in, zeroed and copied out.  LIMIT is the longest time of a job and LEASE the time after
    which an idle launch leaves, in ns.  GRID are the workgroups of a job along x, y and z, and REPEATS tells how often
    they run.
    """

    HEAD: Final = 0
    ENTRIES: Final = 8
    ENDS: Final = 16
    CONTROL: Final = 24
    MASK: Final = 32
    ARENA: Final = 40
    ARENA_STRIDE: Final = 48
    ROW_NBYTES: Final = 56
    UPLOAD_END: Final = 64
    ZERO: Final = 72
    ZERO_END: Final = 80
    READ: Final = 88
    READ_END: Final = 96
    LIMIT: Final = 104
    LEASE: Final = 112
    GRID: Final = 120
    REPEATS: Final = 144
    NBYTES: Final = 152


class Board:
    """Offsets in bytes in the shared memory in which the first lane of a block tells the others what to do.

    ROW: the address of the job, 0 to leave.  DEADLINE: on the device's clock.  STATE: a ``State`` that a lane gives a
    job, else 0; VERDICT: what the first lane has last read there, for all lanes to act on alike.  PULSE: written by
    every look, so that a lane that computes is seen to do so.
    """

    ROW: Final = 0
    DEADLINE: Final = 8
    STATE: Final = 16
    VERDICT: Final = 20
    PULSE: Final = 24
    NBYTES: Final = 32
