"""The part of the runtime that serves rings: queues of jobs of one program, which persistent engines fill.

An *entry* of a ring is one job, or a batch of up to ``MOST_ROWS`` jobs (its *rows*), whose buffers lie at equal
distances.  Entries are numbered from 0; entry e is in slot ``e mod N`` of a ring of N slots.  Protocol:

    host    writes an entry, then raises the head (release).  A slot is written again only when its ``completed`` word
            (acquire) says that the entry in it has ended.
    worker  reads the head (acquire) and claims one row by a compare-and-exchange of the cursor, which holds the number
            of the next entry and its next row; runs it; writes its status, whose first word is last (release); counts
            it; whoever ends the last row writes ``completed`` = e + 1 (release).

Numbers of entries are 48 bits and never repeat, so that nothing is confused with what was in a slot before: a claim
that read the fields of an entry that was replaced meanwhile fails, as the cursor has moved.

A worker that has found an empty ring polls its head for ``SPIN_NS``, as long as no more threads are awake than there
are CPUs, and then goes back to the pool, where it sleeps.  A host that publishes an entry wakes a worker only where
fewer poll than there are entries.  Each of the two writes its own word before it reads the other's, in one total order,
so that one of them sees the other.

The rows of a ring of prepared steps (``step_rows``) are commands on memory that is bound already.

A *runner* is what one worker has of a ring while it serves it: the record of a job, whose stop flag and traps kernels
use, and a frame.  Runners are live jobs of the pool as long as the ring is open, so that closing a session, a timeout
and the end of the process stop them like all others.
"""

from __future__ import annotations

from typing import Final

from vyre.adapters.cpu.pool.jobs import finish, register
from vyre.adapters.cpu.pool.layout import *
from vyre.adapters.cpu.pool.machine import *
from vyre.adapters.cpu.pool.step_rows import drop_deadline, failure, is_early, run_step, set_deadline, tell_of_wave
from vyre.adapters.cpu.pool.words import *
from vyre.adapters.cpu.pool.work import give_context, most_helpers, ring_bell, take_bit, take_context, verdict

_GIVES_WAY: Final = 4
"""Rounds of looks in which workers without work stop to spin for the sake of a thread that waits."""
_TURN: Final = 64
"""Rows that a worker runs before it looks whether another ring or a team waits."""


class One(Record):
    """The number that is written to descriptors."""

    BYTES = 8
    number: Field[u64] = at(0)


# ---------------------------------------------------------------- one row
def run_row(pool: Pool, ring: Ring, runner: Runner, entry: Entry, row: u64, context: Context) -> None:
    """Runs row ``row`` of an entry with a runner, and writes its status."""
    reset_failure(runner)
    status = entry.status[row]
    started = now()
    if ring.timeout != 0:
        set_deadline(pool, ring, runner, started + ring.timeout)
    outcome = verdict(runner)
    number: u64 = 0
    code = load(ring.code, ACQUIRE)
    scratch = scratch_of(context, code.scratch)
    if not scratch:
        outcome = Outcome.OUT_OF_MEMORY
    if outcome == 0:
        bind(ring, entry, row, runner)
        left = ring.launches
        while left != 0 and outcome == 0:
            number = 0
            while number < code.kernels:
                code.functions[number](runner.frame, 0, ring.groups, scratch)
                outcome = verdict(runner)
                if outcome != 0:
                    break
                number += 1
            left -= 1
    ended = now()
    reason = load(runner.stop, RELAXED)
    if ring.timeout != 0:
        reason = drop_deadline(pool, ring, runner)
    status.ns = ended - started
    state = failure(runner, status, outcome, number, reason)
    runner.jobs += 1
    store(status.state, 1 if outcome == 0 else state)


@inline
def bind(ring: Ring, entry: Entry, row: u64, runner: Runner) -> None:
    """Writes the addresses of the row's buffers into the frame, and sets to zero what begins with zeros."""
    frame = runner.frame
    places = cast(BufferRow, entry.table)
    for number in range(ring.buffers):
        buffer = places[number].base[row * places[number].stride]
        frame.buffers[number].address = buffer
        if ring.zeroed[number] != 0:
            memset(buffer, 0, ring.zeroed[number])
    if ring.used_bytes != 0:
        memset(frame.used, 0, ring.used_bytes)


# ---------------------------------------------------------------- the end of a row
def signal(ring: Ring) -> None:
    """Writes to the ring's descriptors, unless that was done since somebody last looked."""
    if exchange(ring.signalled, 1) != 0:
        return
    one = One()
    one.number = 1
    lock(ring.signal_mutex)  # a descriptor that is closed is removed before, under this lock
    for place in range(MOST_FDS):
        if ring.fds[place] != 0:
            write(ring.fds[place] - 1, cast(Memory, one), 8)
    ring.signals += 1
    unlock(ring.signal_mutex)


@inline
def wake_waiting(runner: Runner, entry: Entry, waiters: Shared[u32]) -> None:
    """Wakes all that sleep on an entry, if there are any."""
    if load(waiters) != 0:
        fetch_add(entry.bell, 1)
        runner.wakes += 1
        wake(entry.bell, ALL)


def row_ended(pool: Pool, ring: Ring, runner: Runner, entry: Entry, number: u64) -> None:
    """Tells that a row has ended, whose status is written.  Afterwards the entry may belong to another.

    What sleeps is looked at after the word that it waits for was written.  Steps have no status each, so that nobody
    waits for one of them but the workers that would run the next wave.
    """
    rows = entry.rows
    ended: u64 = 1
    if rows != 1:
        ended = fetch_add(entry.done, 1) + 1
    if ring.steps != 0:
        if ended != rows:
            tell_of_wave(pool, ring, entry, ended)
            return
        status = cast(StepsStatus, entry.status)
        status.ns = now() - status.started
    if ended == rows:
        store(entry.completed, cast(i64, number + 1))
        wake_waiting(runner, entry, entry.waiters)
    else:
        wake_waiting(runner, entry, entry.row_waiters)
    if load(ring.notify) != 0:
        signal(ring)


# ---------------------------------------------------------------- a worker in a ring
def poll(pool: Pool, ring: Ring, number: u64, bell: u32) -> bool:
    """Polls the head of an empty ring.  Returns whether there is an entry behind ``number``."""
    fetch_add(ring.pollers, 1)
    fetch_add(pool.spinners, 1)
    limit, cpus, start = pool.spin, pool.cpus, now()
    while load(pool.busy, RELAXED) <= cpus:
        looks: u64 = LOOKS
        while looks != 0 and load(ring.head, ACQUIRE) == number and load(pool.bell, ACQUIRE) == bell:
            pause()
            looks -= 1
        if looks != 0 or load(ring.gate) & GATE_OPEN == 0 or now() - start > limit:
            break
    fetch_sub(pool.spinners, 1)
    fetch_sub(ring.pollers, 1)
    return load(ring.head) != number


@inline
def enter(ring: Ring, worker: bool) -> bool:
    """Enters a ring that is open and not full, or one that is being closed by this thread, which is no worker."""
    while True:
        gate = load(ring.gate, ACQUIRE)
        if (worker and gate & GATE_OPEN == 0) or gate & GATE_ACTIVE >= most_helpers(gate):
            return False
        if compare_exchange(ring.gate, gate, gate + 1):
            return True


def visit(pool: Pool, ring: Ring, context: Context, worker: bool) -> bool:
    """Serves a ring that has work until it is empty, or other work comes first.  Returns whether it was entered.

    Who was in the ring looks at it once more before it sleeps: a host that saw it there has woken nobody.  Who leaves
    because the next step is of a wave that has not begun wakes nobody, and is told to look for other work: whoever ends
    the wave before rings the bell, which the worker has read before it came here.  The thread that closes the ring is
    no ``worker``; it enters whether the ring is open or not.
    """
    if load(ring.cursor) >> ROW_BITS == load(ring.head) or not enter(ring, worker):
        return False
    number = cast(u64, take_bit(ring.free_runners))  # as many as may enter
    early = serve_runner(pool, ring, runner_of(ring, number), context, worker)
    fetch_or(ring.free_runners, 1 << number)
    before = fetch_sub(ring.gate, 1)
    if before & GATE_ACTIVE == 1 and before & GATE_WAITING != 0:
        wake(ring.gate_word, ALL)
    waiting = load(ring.cursor) >> ROW_BITS != load(ring.head)
    asleep = load(pool.sleepers) != 0
    if waiting and (asleep or ring.steps != 0) and not early:
        ring_bell(pool, 1)
    return not early


@inline
def runner_of(ring: Ring, number: u64) -> Runner:
    """Returns a runner of a ring."""
    return cast(Runner, ring.runners[number * ring.runner_bytes])


@inline
def serve_runner(pool: Pool, ring: Ring, runner: Runner, context: Context, worker: bool) -> bool:
    """Runs rows; returns whether it ends because the next one is of a wave that has not begun."""
    left: u64 = _TURN
    while True:
        bell = load(pool.bell)
        cursor = load(ring.cursor, ACQUIRE)
        place, row = cursor >> ROW_BITS, cursor & MOST_ROWS
        if place == load(ring.head, ACQUIRE):
            if not worker or load(pool.queued, RELAXED) != 0 or not poll(pool, ring, place, bell):
                return False
            continue
        entry = ring.entries[place & ring.mask]
        rows = load(entry.rows, RELAXED)
        if ring.steps != 0 and is_early(entry, row):
            return True
        following = cursor + 1 if row + 1 < rows else place + 1 << ROW_BITS
        if not compare_exchange(ring.cursor, cursor, following):
            continue
        if ring.steps != 0:
            run_step(pool, ring, runner, entry, row, context)
        else:
            run_row(pool, ring, runner, entry, row, context)
        row_ended(pool, ring, runner, entry, place)
        if worker and load(pool.queued, RELAXED) != 0:
            return False
        left -= 1
        if left == 0:
            left = _TURN
            others = load(pool.open_rings, RELAXED) & ~bit_of(pool, ring) | load(pool.open, RELAXED)
            if worker and others != 0:
                return False


@inline
def bit_of(pool: Pool, ring: Ring) -> u64:
    """Returns the bit of a ring in the words of the pool."""
    return 1 << (cast(u64, ring) - cast(u64, pool.rings)) // Ring.BYTES


def serve(pool: Pool, context: Context) -> bool:
    """Serves the first ring with work behind the one that this worker served last.  Returns whether there was one."""
    opened = load(pool.open_rings)
    if opened == 0:
        return False
    behind = -2 << context.ring
    for left in (opened & behind, opened & ~behind):
        while left != 0:
            number = lowest_bit(left)
            left = left & left - 1
            if visit(pool, pool.rings[number], context, True):
                context.ring = number
                return True
    return False


# ---------------------------------------------------------------- what the Python side calls
def pool_ring_take(pool: Pool) -> Ring:
    """Returns the head of a ring that nobody uses, or null where all are in use."""
    number = take_bit(pool.free_rings)
    if number < 0:
        return NULL
    ring = pool.rings[number]
    memset(cast(Memory, ring), 0, Ring.BYTES)
    return ring


def pool_ring_open(pool: Pool, ring: Ring) -> None:
    """Lets the workers serve a ring whose fields are written: its runners become live jobs."""
    lock(pool.mutex)
    for number in range(ring.runner_count):
        register(pool, runner_of(ring, number), RUNNING)
    unlock(pool.mutex)
    store(ring.free_runners, (1 << 64) - 1 >> 64 - ring.runner_count, RELAXED)
    store(ring.gate, ring.runner_count << GATE_MOST_SHIFT | GATE_OPEN)
    fetch_or(pool.open_rings, bit_of(pool, ring))


def pool_ring_submit(ring: Ring, rows: u64) -> None:
    """Publishes the entry behind the head, which has so many rows, and wakes workers for what no worker polls for."""
    head = load(ring.head, RELAXED) + 1
    store(ring.head, head)
    waiting = head - (load(ring.cursor) >> ROW_BITS) + rows - 1
    pollers = cast(u64, load(ring.pollers))
    gate = load(ring.gate)
    wanted = min(waiting, most_helpers(gate) - (gate & GATE_ACTIVE) + pollers)
    if wanted > pollers:
        ring_bell(ring.pool, cast(i32, wanted))


def pool_ring_enter(submission: Submission) -> i64:
    """Writes and publishes the entry of a submission.  Returns its number above its rows' bits, or why it is refused.

    The caller keeps other threads from publishing meanwhile.
    """
    ring = submission.door[0]
    if not ring:
        return RING_IS_SHUT
    head = load(ring.head, RELAXED)
    entry = ring.entries[head & ring.mask]
    if load(entry.completed, ACQUIRE) < cast(i64, head - ring.mask):
        return RING_IS_FULL
    submission.status.state = 0
    store(entry.rows, submission.rows, RELAXED)
    store(entry.status, submission.status, RELAXED)
    store(entry.table, submission.table, RELAXED)
    store(entry.done, 0, RELAXED)
    pool_ring_submit(ring, submission.rows)
    return cast(i64, head << ROW_BITS)


def pool_ring_wait(pool: Pool, entry: Entry, word: Pointer[i64], above: i64, timeout: i64) -> u64:
    """Waits until a word is greater than ``above``, or a signal arrives, or the time has passed.

    Returns whether it is.  The word is that of an entry which says that it has ended, or the state of one of its rows.
    """
    if load(word[0]) > above:
        return 1
    fetch_add(pool.busy, 1)
    spin_until(pool, word[0], above)
    fetch_sub(pool.busy, 1)
    if load(word[0]) > above:
        return 1
    is_row = word != address(entry.completed)
    if is_row:
        fetch_add(entry.row_waiters, 1)
    fetch_add(entry.waiters, 1)
    bell = load(entry.bell)
    if load(word[0]) <= above:
        sleep_on(entry.bell, bell, timeout)
    if is_row:
        fetch_sub(entry.row_waiters, 1)
    fetch_sub(entry.waiters, 1)
    return 1 if load(word[0]) > above else 0


@inline
def spin_until(pool: Pool, word: Shared[i64], above: i64) -> None:
    """Spins while a word is not greater, as one of the threads that are awake.

    Workers without work, which may spin as well, see that one too many is awake, and go to sleep.  They get
    ``_GIVES_WAY`` rounds of looks for that; then this thread spins no longer either.
    """
    limit, cpus, start = pool.spin, pool.cpus, now()
    grace: u64 = _GIVES_WAY
    while True:
        if load(pool.busy, RELAXED) > cpus:
            if grace == 0:
                break
            grace -= 1
        looks: u64 = LOOKS
        while looks != 0 and load(word) <= above:
            pause()
            looks -= 1
        if looks != 0 or now() - start > limit:
            break


def pool_ring_stop(pool: Pool, ring: Ring, reason: u32) -> None:
    """Stops all jobs of a ring, those too that are begun later."""
    lock(pool.mutex)
    store(ring.stop, reason, RELAXED)
    for number in range(ring.runner_count):
        compare_exchange(runner_of(ring, number).stop, 0, reason)
    unlock(pool.mutex)


def pool_ring_close(pool: Pool, ring: Ring) -> None:
    """Ends the service of a ring.  What has not begun is ended here: with the ring stopped that runs nothing.

    Afterwards no thread uses the ring's memory, and its head may be taken again.
    """
    fetch_and(pool.open_rings, ~bit_of(pool, ring))
    fetch_and(ring.gate, ~GATE_OPEN)
    while True:
        before = fetch_or(ring.gate_word, GATE_WAITING)
        if before & GATE_ACTIVE == 0:
            break
        sleep_on(ring.gate_word, before | GATE_WAITING, ENDLESS)
    number = take_context(pool)
    visit(pool, ring, pool.contexts[number], False)
    give_context(pool, number)
    lock(pool.mutex)
    for each in range(ring.runner_count):
        finish(pool, runner_of(ring, each), Outcome.STOPPED)
    unlock(pool.mutex)
    fetch_or(pool.free_rings, bit_of(pool, ring))


def pool_ring_drop_fd(ring: Ring, fd: i32) -> None:
    """Forgets a descriptor: it is not written to afterwards."""
    lock(ring.signal_mutex)
    for place in range(MOST_FDS):
        if ring.fds[place] == fd + 1:
            ring.fds[place] = 0
    unlock(ring.signal_mutex)
