"""The part of the runtime that runs commands, alone or with the help of workers.

A *team* is a kernel command whose groups several threads take, in chunks from a counter.  The thread that runs the
command list leads it.  Teams are in the pool's own memory, so that a helper may look at one at any time.  The *gate* of
a team is one 64-bit word: an epoch, whether the team is open, the most helpers, and the helpers in it.  A helper enters
by a compare-and-exchange of the gate, and only then reads what the team does; the leader closes the gate, and waits
until the last helper has left.  No leader waits for a helper that has not entered.

A helper of a command with a privatisation table has a copy of the frame, in which private buffers replace those in the
table; it merges them into the buffers before it leaves, one helper at a time.
"""

from __future__ import annotations

from typing import Final

from vyre.adapters.cpu.pool.layout import *
from vyre.adapters.cpu.pool.machine import *
from vyre.adapters.cpu.pool.words import *

PIECE: Final = 1 << 24
"""Bytes that a copy or a fill moves between two looks at the stop flag."""


def ring_bell(pool: Pool, wanted: i32) -> None:
    """Tells the workers that there is work for so many of them.

    A worker reads the bell before it looks for work, and sleeps only while the bell is as it was then.
    """
    fetch_add(pool.bell, 1)
    if load(pool.sleepers) != 0:
        missing = wanted - load(pool.spinners, RELAXED)
        if missing > 0:
            wake(pool.bell, missing)


# ---------------------------------------------------------------- private copies of buffers
@inline
def buffer_of(frame: Frame, entry: TableEntry) -> Buffer:
    """Returns where a frame has the address of the buffer of an entry."""
    return cast(Buffer, cast(Memory, frame)[entry.place])


def private_frame(table: Table, frame: Frame, space: Memory) -> Frame:
    """Returns a frame, in ``space``, with an own buffer that holds the identity for every entry of the table."""
    memmove(space, cast(Memory, frame), table.frame_bytes)
    private = cast(Frame, space)
    copy = space[rounded_up(table.frame_bytes, LINE)]
    for number in range(table.count):
        entry = table.entries[number]
        buffer_of(private, entry).address = copy
        size, pattern = rounded_up(entry.nbytes, LINE), entry.pattern
        for offset in range(0, size, LINE):
            words = cast(Pointer[u64], copy[offset])
            for word in range(LINE // 8):
                words[word] = pattern
        copy = copy[size]
    return private


def merge(table: Table, frame: Frame, private: Frame, mutex: Shared[u32]) -> None:
    """Merges the buffers of a private frame into those of the frame, while it holds the mutex."""
    lock(mutex)
    for number in range(table.count):
        entry = table.entries[number]
        into, copy = buffer_of(frame, entry).address, buffer_of(private, entry).address
        nbytes, whole = entry.nbytes, entry.nbytes & -LINE
        for position, (bits, operation) in enumerate(MERGES):
            if entry.merge == position:
                for offset in range(0, whole, LINE):
                    combine(f"<{8 * LINE // bits} x i{bits}>", operation, into[offset], copy[offset])
                for offset in range(whole, nbytes, bits // 8):
                    combine(f"i{bits}", operation, into[offset], copy[offset])
    unlock(mutex)


# ---------------------------------------------------------------- teams
def take(team: Team, frame: Frame, scratch: Memory, first: u64, queued: Shared[i32]) -> None:
    """Runs the chunk that begins with group ``first``, and then chunk after chunk from the team's counter.

    A helper takes no further chunk while ``queued`` is not 0: jobs that have not begun come first.
    """
    function, control = team.function, team.control
    groups, grain = team.groups, team.grain
    start = first
    while start < groups and load(control.stop, RELAXED) == 0:
        function(frame, start, start + min(grain, groups - start), scratch)
        if load(queued, RELAXED) != 0:
            break
        start = fetch_add(team.counter, grain, RELAXED)


def take_part(team: Team, scratch: Memory, queued: Shared[i32]) -> None:
    """Takes part in a team, as its leader or as a helper that has entered."""
    first = fetch_add(team.counter, team.grain, RELAXED)
    if first >= team.groups:
        return
    frame, table = team.frame, team.table
    if not table:
        take(team, frame, scratch, first, queued)
        return
    private = private_frame(table, frame, scratch[team.offset])
    take(team, private, scratch, first, queued)
    merge(table, frame, private, team.mutex)


@inline
def most_helpers(gate: u64) -> u64:
    """Returns how many may be in at once, as a gate says."""
    return gate >> GATE_MOST_SHIFT & GATE_ACTIVE


def help_others(pool: Pool, context: Context) -> bool:
    """Enters an open team that has groups left, helps, and leaves it.  Returns whether there was such a team."""
    left = load(pool.open)
    while left != 0:
        team = pool.teams[lowest_bit(left)]
        left = left & left - 1
        while True:
            gate = load(team.gate, ACQUIRE)
            if gate & GATE_OPEN == 0 or gate & GATE_ACTIVE >= most_helpers(gate):
                break
            if load(team.counter, RELAXED) >= load(team.groups, RELAXED):
                break
            if compare_exchange(team.gate, gate, gate + 1):
                scratch = scratch_of(context, team.scratch)
                if scratch:
                    take_part(team, scratch, pool.queued)
                before = fetch_sub(team.gate, 1)
                if before & GATE_ACTIVE == 1 and before & GATE_WAITING != 0:
                    wake(team.gate_word, 1)
                return scratch != NULL
    return False


@inline
def groups_of(command: Command, frame: Frame) -> u64:
    """Returns how many workgroups a kernel command runs: those up to the last that memory counts.

    Where that counts more than there are, the first one runs, which records it.
    """
    if command.counted == 0:
        return command.groups
    counts = cast(Pointer[u32], cast(Buffer, cast(Memory, frame)[command.counted]).address)
    x, y, z = cast(u64, counts[0]), cast(u64, counts[1]), cast(u64, counts[2])
    if x > frame.x or y > frame.y or z > frame.z:
        return 1
    if x == 0 or y == 0 or z == 0:
        return 0
    return ((z - 1) * frame.y + y - 1) * frame.x + x


def run_kernel(pool: Pool, job: Job, command: Command, scratch: Memory) -> None:
    """Runs a kernel command with the help of as many workers as it and its job allow."""
    function, frame = command.function, command.frame
    groups, grain = groups_of(command, frame), max(command.grain, 1)
    frame.control = job
    if groups == 0:
        return
    threads = min(min(command.threads, job.threads), MOST_WORKERS)
    if threads <= 1 or groups <= grain:
        function(frame, 0, groups, scratch)
        return
    helpers = min(threads, (groups - 1) // grain + 1) - 1
    number = take_bit(pool.free_teams)
    if number < 0:  # every team is in use: this thread does all of it
        function(frame, 0, groups, scratch)
        return
    team = pool.teams[number]
    team.function = function
    team.frame = frame
    team.grain = grain
    team.scratch = job.scratch
    team.table = command.table
    team.control = job
    team.offset = rounded_up(command.scratch, LINE)
    store(team.groups, groups, RELAXED)
    store(team.counter, 0, RELAXED)
    epoch = (load(team.gate, RELAXED) & -1 << GATE_EPOCH_SHIFT) + (1 << GATE_EPOCH_SHIFT)
    store(team.gate, epoch | GATE_OPEN | helpers << GATE_MOST_SHIFT)
    bit = 1 << cast(u64, number)
    fetch_or(pool.open, bit)
    ring_bell(pool, cast(i32, helpers))
    take_part(team, scratch, team.zero)
    fetch_and(pool.open, ~bit)
    fetch_and(team.gate, ~GATE_OPEN)
    wait_for_helpers(pool, team)
    fetch_or(pool.free_teams, bit)


@inline
def wait_for_helpers(pool: Pool, team: Team) -> None:
    """Waits until no helper is in a team whose gate is closed."""
    while True:
        gate = load(team.gate_word)
        if gate & GATE_ACTIVE == 0:
            break
        if spin(pool, team.gate_word, gate, 0):
            continue
        before = fetch_or(team.gate_word, GATE_WAITING)
        if before & GATE_ACTIVE == 0:
            break
        fetch_sub(pool.busy, 1)
        sleep_on(team.gate_word, before | GATE_WAITING, ENDLESS)
        fetch_add(pool.busy, 1)


# ---------------------------------------------------------------- what threads take for a while
def take_bit(word: Shared[u64]) -> i64:
    """Takes the lowest bit that is set in a word, and returns its position, or -1 where none is set."""
    while True:
        bits = load(word, RELAXED)
        if bits == 0:
            return -1
        if compare_exchange(word, bits, bits & bits - 1):
            return cast(i64, lowest_bit(bits))


def take_context(pool: Pool) -> u64:
    """Returns the number of a context that no other calling thread uses; waits while there is none."""
    while True:
        for part in range(CALLER_WORDS):
            number = take_bit(pool.free_contexts[part])
            if number >= 0:
                return cast(u64, number) + 64 * part
        sched_yield()


def give_context(pool: Pool, number: u64) -> None:
    """Gives a context back."""
    fetch_or(pool.free_contexts[number >> 6], 1 << (number & 63))


# ---------------------------------------------------------------- command lists
def move(job: Job, command: Command) -> None:
    """Runs a copy or a fill, piece by piece; a stopped job leaves it."""
    to, nbytes = command.to, command.nbytes
    for offset in range(0, nbytes, PIECE):
        if load(job.stop, RELAXED) != 0:
            break
        size = min(nbytes - offset, PIECE)
        if command.kind == COPY:
            memmove(to[offset], command.source[offset], size)
        else:
            memset(to[offset], cast(i32, command.byte), size)


def verdict(job: Job) -> u64:
    """Returns how the run ends here, or 0 where it goes on."""
    if load(job.stop, RELAXED) != 0:
        return Outcome.STOPPED
    trap, budget = load(job.trap_lane, RELAXED), load(job.budget_lane, RELAXED)
    which: u64 = Outcome.TRAPPED if trap <= budget else Outcome.OVER_BUDGET
    return 0 if trap & budget == ~0 else which


def span(pool: Pool, job: Job, scratch: Memory, begin: Command, end: Command) -> u64:
    """Runs the commands from ``begin`` to ``end``, until the run ends.  Returns its outcome, or 0 where it goes on."""
    command = begin
    while command != end:
        job.executed += 1
        job.last = command
        if command.kind == REPEAT:
            behind = command[1][command.body]
            ended = repeat(pool, job, scratch, command, behind)
            if ended != 0:
                return ended
            command = behind
            continue
        if command.kind == KERNEL:
            run_kernel(pool, job, command, scratch)
        else:
            move(job, command)
        ended = verdict(job)
        if ended != 0:
            return ended
        command = command[1]
    return 0


def repeat(pool: Pool, job: Job, scratch: Memory, command: Command, end: Command) -> u64:
    """Runs a repeat; its commands end at ``end``.  Returns the outcome of a run that ends in it, or 0."""
    word, counted = command.word, command.rounds
    after = word != NULL and command.tested_after != 0
    before = word != NULL and not after
    begin = command[1]
    rounds: u64 = 0
    while True:
        if counted:
            counted[0] = rounds
        if rounds >= command.limit or (before and load(word[0], RELAXED) == 0):
            break
        if after:
            store(word[0], 0, RELAXED)
        rounds += 1
        if counted:
            counted[0] = rounds
        ended = span(pool, job, scratch, begin, end)
        if ended == 0 and begin == end:  # no command has looked at the stop flag
            ended = verdict(job)
        if ended != 0:
            return ended
        if after and load(word[0], RELAXED) == 0:
            break
    return 0


def run_commands(pool: Pool, job: Job, context: Context) -> u64:
    """Runs the command list of a job with the scratch of a context, and returns the outcome."""
    ended = verdict(job)
    if ended != 0:
        return ended
    scratch = scratch_of(context, job.scratch)
    if not scratch:
        return Outcome.OUT_OF_MEMORY
    begin = job.commands
    middle = begin[job.prefix]
    end = middle[job.repeated]
    ended = span(pool, job, scratch, begin, middle)
    if ended != 0:
        return ended
    left = 0 if middle == end else job.repetitions
    while left != 0 and ended == 0:
        ended = span(pool, job, scratch, middle, end)
        left -= 1
    return ended
