"""The runtime's functions that serve rings: queues of jobs of one program, which persistent engines fill.

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

from collections.abc import Callable

from vyre.adapters.cpu.pool import layout as at
from vyre.adapters.cpu.pool import ring_layout as ring_at
from vyre.adapters.cpu.pool.building import I1, I32, I64, NULL, PTR, VOID, Body, Value, Variable, constant
from vyre.adapters.cpu.pool.layout import Outcome, StopReason
from vyre.adapters.cpu.pool.primitives import Text, lock, now, reset_failure, sleep_on, unlock, wake
from vyre.adapters.cpu.pool.step_rows import ROW_PARAMETERS, is_early, row_state, tell_of_wave, tell_time, write_steps

_ALL = constant(I32, 0x7FFFFFFF)
_ENDLESS = constant(I64, -1)
_LOOKS = 32
"""Looks at the head of a ring between two looks at the clock."""
_GIVES_WAY = 4
"""Rounds of looks in which workers without work stop to spin for the sake of a thread that waits."""
_TURN = 64
"""Rows that a worker runs before it looks whether another ring or a team waits."""


def write_serving(m: Text) -> None:
    """Writes the functions of a worker."""
    _write_renew(m)
    _write_deadline(m)
    _write_signal(m)
    _write_row(m)
    write_steps(m)
    _write_ended(m)
    _write_poll(m)
    _write_visit(m)
    _write_serve(m)


def write_rings(m: Text) -> None:
    """Writes the functions that the Python side calls."""
    _write_open(m)
    _write_submit(m)
    _write_enter(m)
    _write_wait(m)
    _write_stop(m)
    _write_close(m)
    _write_drop(m)


# ---------------------------------------------------------------- one row
def _write_renew(m: Text) -> None:
    """Takes back the stop flag that a timeout has set, unless the ring or its group stops.  The mutex is held."""
    f = m.function(VOID, "vyre_ring_renew", (PTR, "pool"), (PTR, "ring"), (PTR, "job"))
    pool, ring, job = f.parameters
    with f.unless(f.compare("eq", f.peek(I32, job, at.JOB_STOP), StopReason.TIMEOUT)):
        f.ret()
    reason = f.variable(I32, f.peek(I32, ring, ring_at.RING_STOP))
    group = f.load(PTR, job, at.JOB_GROUP)
    with f.unless(f.compare("eq", group, NULL)):
        closed = f.peek(I32, group, at.GROUP_CLOSED)
        with f.unless(f.compare("eq", closed, 0)):
            reason.set(closed)
    with f.unless(f.compare("eq", f.peek(I32, pool, at.POOL_SHUTDOWN), 0)):
        reason.set(int(StopReason.EXIT))
    f.poke(I32, reason.get(), job, at.JOB_STOP)
    f.ret()


def _write_row(m: Text) -> None:
    """Runs row ``row`` of an entry with a runner, and writes its status."""
    f = m.function(VOID, "vyre_ring_row", *ROW_PARAMETERS)
    pool, ring, job, entry, row, context = f.parameters
    reset_failure(f, job)
    status = f.at(f.load(PTR, entry, ring_at.ENTRY_STATUS), f.mul(row, ring_at.STATUS_BYTES))
    timeout = f.load(I64, ring, ring_at.RING_TIMEOUT)
    started = now(f)
    with f.unless(f.compare("eq", timeout, 0)):
        f.call(VOID, "vyre_ring_deadline", pool, ring, job, f.add(started, timeout))
    outcome, number = f.variable(I64, f.call(I64, "vyre_verdict", job)), f.variable(I64, 0)
    code = f.peek(PTR, ring, ring_at.RING_CODE, order="acquire")
    scratch = f.call(PTR, "vyre_scratch", context, f.load(I64, code, ring_at.CODE_SCRATCH))
    with f.when(f.compare("eq", scratch, NULL)):
        outcome.set(int(Outcome.OUT_OF_MEMORY))
    with f.when(f.compare("eq", outcome.get(), 0)):
        frame = f.at(job, ring_at.RUNNER_FRAME)
        _bind(f, ring, entry, row, frame)
        _run(f, ring, job, code, frame, scratch, outcome, number)
    ended = now(f)
    reason = f.variable(I32, f.peek(I32, job, at.JOB_STOP))
    with f.unless(f.compare("eq", timeout, 0)):
        lock(f, pool)
        f.store(I64, 0, job, at.JOB_DEADLINE)
        reason.set(f.peek(I32, job, at.JOB_STOP))
        f.call(VOID, "vyre_ring_renew", pool, ring, job)
        unlock(f, pool)
    f.store(I64, f.sub(ended, started), status, ring_at.STATUS_NS)
    state = row_state(f, job, status, outcome.get(), number.get(), reason.get())
    state = f.choose(f.compare("eq", outcome.get(), 0), constant(I64, 1), state)
    f.store(I64, f.add(f.load(I64, job, ring_at.RUNNER_JOBS), 1), job, ring_at.RUNNER_JOBS)
    f.poke(I64, state, status, ring_at.STATUS_STATE, order="seq_cst")
    f.ret()


def _write_deadline(m: Text) -> None:
    """Sets the deadline of a runner; the watching thread is woken if it sleeps until later."""
    f = m.function(VOID, "vyre_ring_deadline", (PTR, "pool"), (PTR, "ring"), (PTR, "job"), (I64, "deadline"))
    pool, ring, job, deadline = f.parameters
    lock(f, pool)
    f.call(VOID, "vyre_ring_renew", pool, ring, job)
    f.store(I64, deadline, job, at.JOB_DEADLINE)
    with f.when(f.compare("slt", deadline, f.load(I64, pool, at.POOL_TARGET))):
        f.store(I64, deadline, pool, at.POOL_TARGET)
        f.update("add", I32, 1, pool, at.POOL_WATCH_BELL)
        wake(f, f.at(pool, at.POOL_WATCH_BELL), constant(I32, 1))
    unlock(f, pool)
    f.ret()


def _bind(f: Body, ring: Value, entry: Value, row: Value, frame: Value) -> None:
    """Writes the addresses of the row's buffers into the frame, and sets to zero what begins with zeros."""
    table, zeroed = f.load(PTR, entry, ring_at.ENTRY_TABLE), f.load(PTR, ring, ring_at.RING_ZEROED)
    count = f.load(I64, ring, ring_at.RING_BUFFERS)
    number = f.variable(I64, 0)
    with f.loop() as binding:
        binding.leave_if(f.compare("uge", number.get(), count))
        pair = f.mul(number.get(), 16)
        base, stride = f.load(PTR, table, pair), f.load(I64, table, f.add(pair, 8))
        address = f.at(base, f.mul(row, stride))
        f.store(PTR, address, frame, f.add(pair, at.FRAME_BUFFERS))
        nbytes = f.load(I64, zeroed, f.mul(number.get(), 8))
        with f.unless(f.compare("eq", nbytes, 0)):
            f.call(PTR, "memset", address, constant(I32, 0), nbytes)
        number.set(f.add(number.get(), 1))
    used = f.load(I64, ring, ring_at.RING_USED_BYTES)
    with f.unless(f.compare("eq", used, 0)):
        f.call(PTR, "memset", f.load(PTR, frame, 40), constant(I32, 0), used)


def _run(
    f: Body, ring: Value, job: Value, code: Value, frame: Value, scratch: Value, outcome: Variable, number: Variable
) -> None:
    """Runs the kernels in order, as often as the config says, until one ends the job."""
    groups, kernels = f.load(I64, ring, ring_at.RING_GROUPS), f.load(I64, code, ring_at.CODE_KERNELS)
    left = f.variable(I64, f.load(I64, ring, ring_at.RING_LAUNCHES))
    with f.loop() as launching:
        launching.leave_if(f.compare("eq", left.get(), 0))
        number.set(0)
        with f.loop() as running:
            running.leave_if(f.compare("uge", number.get(), kernels))
            function = f.load(PTR, f.at(code, f.mul(number.get(), 8)), ring_at.CODE_FUNCTIONS)
            f.call_pointer(function, frame, constant(I64, 0), groups, scratch)
            outcome.set(f.call(I64, "vyre_verdict", job))
            running.leave_if(f.compare("ne", outcome.get(), 0))
            number.set(f.add(number.get(), 1))
        launching.leave_if(f.compare("ne", outcome.get(), 0))
        left.set(f.sub(left.get(), 1))


# ---------------------------------------------------------------- the end of a row
def _write_signal(m: Text) -> None:
    """Writes to the ring's descriptors, unless that was done since somebody last looked."""
    f = m.function(VOID, "vyre_ring_signal", (PTR, "ring"))
    (ring,) = f.parameters
    with f.unless(f.compare("eq", f.update("xchg", I32, 1, ring, ring_at.RING_SIGNALLED), 0)):
        f.ret()
    mutex, one = f.at(ring, ring_at.RING_SIGNAL_MUTEX), f.space(I64)
    f.store(I64, 1, one)
    lock(f, mutex)  # a descriptor that is closed is removed before, under this lock
    for place in range(ring_at.MOST_FDS):
        found = f.load(I32, ring, ring_at.RING_FDS + 4 * place)
        with f.unless(f.compare("eq", found, 0)):
            f.call(I64, "write", f.sub(found, 1), one, constant(I64, 8))
    f.store(I64, f.add(f.load(I64, ring, ring_at.RING_SIGNALS), 1), ring, ring_at.RING_SIGNALS)
    unlock(f, mutex)
    f.ret()


def _ring_bell(f: Body, runner: Value, entry: Value, waiters: int) -> None:
    """Wakes all that sleep on an entry, if there are any."""
    sleeping = f.peek(I32, entry, waiters, order="seq_cst")
    with f.unless(f.compare("eq", sleeping, 0)):
        f.update("add", I32, 1, entry, ring_at.ENTRY_BELL)
        f.store(I64, f.add(f.load(I64, runner, ring_at.RUNNER_WAKES), 1), runner, ring_at.RUNNER_WAKES)
        wake(f, f.at(entry, ring_at.ENTRY_BELL), _ALL)


def _write_ended(m: Text) -> None:
    """Tells that a row has ended, whose status is written.  Afterwards the entry may belong to another.

    What sleeps is looked at after the word that it waits for was written.  Steps have no status each, so that nobody
    waits for one of them but the workers that would run the next wave.
    """
    f = m.function(
        VOID, "vyre_ring_ended", (PTR, "pool"), (PTR, "ring"), (PTR, "runner"), (PTR, "record"), (I64, "number")
    )
    pool, ring, runner, entry, number = f.parameters
    rows = f.load(I64, entry, ring_at.ENTRY_ROWS)
    ended = f.variable(I64, 1)
    with f.unless(f.compare("eq", rows, 1)):
        ended.set(f.add(f.update("add", I64, 1, entry, ring_at.ENTRY_DONE), 1))
    last = f.compare("eq", ended.get(), rows)
    steps = f.compare("ne", f.load(I64, ring, ring_at.RING_STEPS), 0)
    with f.when(steps):
        with f.unless(last):
            tell_of_wave(f, pool, ring, entry, ended.get())
            f.ret()
        tell_time(f, entry)
    with f.when(last):
        f.poke(I64, f.add(number, 1), entry, ring_at.ENTRY_COMPLETED, order="seq_cst")
        _ring_bell(f, runner, entry, ring_at.ENTRY_WAITERS)
    with f.unless(last):
        _ring_bell(f, runner, entry, ring_at.ENTRY_ROW_WAITERS)
    with f.unless(f.compare("eq", f.peek(I32, ring, ring_at.RING_NOTIFY, order="seq_cst"), 0)):
        f.call(VOID, "vyre_ring_signal", ring)
    f.ret()


# ---------------------------------------------------------------- a worker in a ring
def _open(f: Body, ring: Value) -> Value:
    gate = f.peek(I64, ring, ring_at.RING_GATE, order="seq_cst")
    return f.compare("ne", f.both(gate, at.GATE_OPEN), 0)


def _write_poll(m: Text) -> None:
    """Polls the head of an empty ring.  Returns whether there is an entry behind ``number``."""
    f = m.function(I1, "vyre_ring_poll", (PTR, "pool"), (PTR, "ring"), (I64, "number"), (I32, "bell"))
    pool, ring, number, bell = f.parameters
    limit, cpus, looks = f.load(I64, pool, at.POOL_SPIN), f.load(I32, pool, at.POOL_CPUS), f.variable(I64)
    f.update("add", I32, 1, ring, ring_at.RING_POLLERS)
    f.update("add", I32, 1, pool, at.POOL_SPINNERS)
    start = now(f)
    with f.loop() as polling:
        polling.leave_if(f.compare("sgt", f.peek(I32, pool, at.POOL_BUSY), cpus))
        looks.set(_LOOKS)
        with f.loop() as looking:
            looking.leave_if(f.compare("eq", looks.get(), 0))
            looking.leave_if(f.compare("ne", f.peek(I64, ring, ring_at.RING_HEAD, order="acquire"), number))
            looking.leave_if(f.compare("ne", f.peek(I32, pool, at.POOL_BELL, order="acquire"), bell))
            m.pause(f)
            looks.set(f.sub(looks.get(), 1))
        polling.leave_if(f.compare("ne", looks.get(), 0))
        polling.leave_if(f.negate(_open(f, ring)))
        polling.leave_if(f.compare("sgt", f.sub(now(f), start), limit))
    f.update("sub", I32, 1, pool, at.POOL_SPINNERS)
    f.update("sub", I32, 1, ring, ring_at.RING_POLLERS)
    f.ret(f.compare("ne", f.peek(I64, ring, ring_at.RING_HEAD, order="seq_cst"), number))


def _write_visit(m: Text) -> None:
    """Serves a ring that has work until it is empty, or other work comes first.  Returns whether it was entered.

    Who was in the ring looks at it once more before it sleeps: a host that saw it there has woken nobody.  Who leaves
    because the next step is of a wave that has not begun wakes nobody, and is told to look for other work: whoever ends
    the wave before rings the bell, which the worker has read before it came here.  ``closes`` is 1 for the thread that
    closes the ring; it enters whether the ring is open or not.
    """
    f = m.function(I1, "vyre_ring_visit", (PTR, "pool"), (PTR, "ring"), (PTR, "context"), (I32, "closes"))
    pool, ring, context, closes = f.parameters
    worker = f.compare("eq", closes, 0)
    cursor = f.peek(I64, ring, ring_at.RING_CURSOR, order="seq_cst")
    published = f.peek(I64, ring, ring_at.RING_HEAD, order="seq_cst")
    with f.when(f.compare("eq", f.binary("lshr", cursor, ring_at.ROW_BITS), published)):
        f.ret(0, I1)
    with f.loop() as entering:
        gate = f.peek(I64, ring, ring_at.RING_GATE, order="acquire")
        shut = f.both(worker, f.compare("eq", f.both(gate, at.GATE_OPEN), 0))
        most = f.both(f.binary("lshr", gate, at.GATE_MOST_SHIFT), at.GATE_ACTIVE)
        with f.when(f.either(shut, f.compare("uge", f.both(gate, at.GATE_ACTIVE), most))):
            f.ret(0, I1)
        _, entered = f.exchange(I64, gate, f.add(gate, 1), ring, ring_at.RING_GATE)
        entering.leave_if(entered)
    number = f.call(I64, "vyre_take_bit", f.at(ring, ring_at.RING_FREE_RUNNERS))  # as many as may enter
    runner = f.at(f.load(PTR, ring, ring_at.RING_RUNNERS), f.mul(number, f.load(I64, ring, ring_at.RING_RUNNER_BYTES)))
    entries, mask = f.load(PTR, ring, ring_at.RING_ENTRIES), f.load(I64, ring, ring_at.RING_MASK)
    steps = f.compare("ne", f.load(I64, ring, ring_at.RING_STEPS), 0)
    left, bell, early = f.variable(I64, _TURN), f.variable(I32), f.variable(I32, 0)
    with f.loop() as serving:
        bell.set(f.peek(I32, pool, at.POOL_BELL, order="seq_cst"))
        cursor = f.peek(I64, ring, ring_at.RING_CURSOR, order="acquire")
        place, row = f.binary("lshr", cursor, ring_at.ROW_BITS), f.both(cursor, ring_at.MOST_ROWS)
        published = f.peek(I64, ring, ring_at.RING_HEAD, order="acquire")
        with f.when(f.compare("eq", place, published)):
            serving.leave_if(f.negate(worker))
            serving.leave_if(f.compare("ne", f.peek(I32, pool, at.POOL_QUEUED), 0))
            more = f.call(I1, "vyre_ring_poll", pool, ring, place, bell.get())
            serving.leave_if(f.negate(more))
            serving.next()
        entry = f.at(entries, f.mul(f.both(place, mask), ring_at.ENTRY_BYTES))
        rows = f.peek(I64, entry, ring_at.ENTRY_ROWS)
        with f.when(steps), f.when(is_early(f, entry, row)):
            early.set(1)
            serving.leave()
        within = f.compare("ult", f.add(row, 1), rows)
        following = f.choose(within, f.add(cursor, 1), f.binary("shl", f.add(place, 1), ring_at.ROW_BITS))
        _, claimed = f.exchange(I64, cursor, following, ring, ring_at.RING_CURSOR)
        with f.unless(claimed):
            serving.next()
        with f.when(steps):
            f.call(VOID, "vyre_ring_step", pool, ring, runner, entry, row, context)
        with f.unless(steps):
            f.call(VOID, "vyre_ring_row", pool, ring, runner, entry, row, context)
        f.call(VOID, "vyre_ring_ended", pool, ring, runner, entry, place)
        serving.leave_if(f.both(worker, f.compare("ne", f.peek(I32, pool, at.POOL_QUEUED), 0)))
        left.set(f.sub(left.get(), 1))
        with f.when(f.compare("eq", left.get(), 0)):
            left.set(_TURN)
            serving.leave_if(f.both(worker, _others_wait(f, pool, ring)))
    bit = f.binary("shl", constant(I64, 1), number)
    f.update("or", I64, bit, ring, ring_at.RING_FREE_RUNNERS)
    before = f.update("sub", I64, 1, ring, ring_at.RING_GATE)
    last = f.compare("eq", f.both(before, at.GATE_ACTIVE), 1)
    with f.when(f.both(last, f.compare("ne", f.both(before, at.GATE_WAITING), 0))):
        wake(f, f.at(ring, ring_at.RING_GATE), _ALL)
    place = f.binary("lshr", f.peek(I64, ring, ring_at.RING_CURSOR, order="seq_cst"), ring_at.ROW_BITS)
    waiting = f.compare("ne", place, f.peek(I64, ring, ring_at.RING_HEAD, order="seq_cst"))
    asleep = f.compare("ne", f.peek(I32, pool, at.POOL_SLEEPERS, order="seq_cst"), 0)
    wanted = f.both(f.either(asleep, steps), f.compare("eq", early.get(), 0))
    with f.when(f.both(waiting, wanted)):
        f.call(VOID, "vyre_ring", pool, constant(I32, 1))
    f.ret(f.compare("eq", early.get(), 0))


def _others_wait(f: Body, pool: Value, ring: Value) -> Value:
    """Returns whether a team is open, or any ring but this one."""
    first = f.at(pool, at.POOL_RINGS)
    offset = f.sub(f.convert("ptrtoint", ring, I64), f.convert("ptrtoint", first, I64))
    own = f.binary("shl", constant(I64, 1), f.binary("udiv", offset, at.RING_BYTES))
    rings = f.both(f.peek(I64, pool, at.POOL_OPEN_RINGS), f.binary("xor", own, -1))
    return f.compare("ne", f.either(rings, f.peek(I64, pool, at.POOL_OPEN)), 0)


def _write_serve(m: Text) -> None:
    """Serves the first ring with work behind the one that this worker served last.  Returns whether there was one."""
    f = m.function(I1, "vyre_serve", (PTR, "pool"), (PTR, "context"))
    pool, context = f.parameters
    opened = f.peek(I64, pool, at.POOL_OPEN_RINGS, order="seq_cst")
    with f.when(f.compare("eq", opened, 0)):
        f.ret(0, I1)
    last = f.load(I64, context, at.CONTEXT_RING)
    behind = f.binary("shl", constant(I64, -2), last)
    for bits in (f.both(opened, behind), f.both(opened, f.binary("xor", behind, -1))):
        left = f.variable(I64, bits)
        with f.loop() as looking:
            looking.leave_if(f.compare("eq", left.get(), 0))
            number = f.lowest_bit(left.get())
            left.set(f.both(left.get(), f.sub(left.get(), 1)))
            ring = f.at(pool, f.add(f.mul(number, at.RING_BYTES), at.POOL_RINGS))
            with f.when(f.call(I1, "vyre_ring_visit", pool, ring, context, constant(I32, 0))):
                f.store(I64, number, context, at.CONTEXT_RING)
                f.ret(1, I1)
    f.ret(0, I1)


# ---------------------------------------------------------------- what the Python side calls
def _runners(f: Body, ring: Value) -> tuple[Value, Value, Value]:
    first, count = f.load(PTR, ring, ring_at.RING_RUNNERS), f.load(I64, ring, ring_at.RING_RUNNER_COUNT)
    return first, count, f.load(I64, ring, ring_at.RING_RUNNER_BYTES)


class _Runners:
    """A loop over the runners of a ring."""

    def __init__(self, f: Body, ring: Value) -> None:
        self._f, (self._first, self._count, self._nbytes) = f, _runners(f, ring)
        self._number = f.variable(I64, 0)
        self._loop = f.loop()

    def __enter__(self) -> Value:
        f, loop = self._f, self._loop.__enter__()
        loop.leave_if(f.compare("uge", self._number.get(), self._count))
        return f.at(self._first, f.mul(self._number.get(), self._nbytes))

    def __exit__(self, *error: object) -> None:
        self._number.set(self._f.add(self._number.get(), 1))
        self._loop.__exit__(None, None, None)


def _ring_bit(f: Body, pool: Value, ring: Value) -> Value:
    offset = f.sub(f.convert("ptrtoint", ring, I64), f.convert("ptrtoint", f.at(pool, at.POOL_RINGS), I64))
    return f.binary("shl", constant(I64, 1), f.binary("udiv", offset, at.RING_BYTES))


def _write_open(m: Text) -> None:
    """Returns the address of a ring's head that nobody uses, or 0 where all are in use."""
    f = m.function(I64, "vyre_pool_ring_take", (PTR, "pool"), exported=True)
    (pool,) = f.parameters
    number = f.call(I64, "vyre_take_bit", f.at(pool, at.POOL_FREE_RINGS))
    with f.when(f.compare("slt", number, 0)):
        f.ret(0)
    ring = f.at(pool, f.add(f.mul(number, at.RING_BYTES), at.POOL_RINGS))
    f.call(PTR, "memset", ring, constant(I32, 0), constant(I64, at.RING_BYTES))
    f.ret(f.convert("ptrtoint", ring, I64))

    # Lets the workers serve a ring whose fields are written: its runners become live jobs.
    f = m.function(VOID, "vyre_pool_ring_open", (PTR, "pool"), (PTR, "ring"), exported=True)
    pool, ring = f.parameters
    lock(f, pool)
    with _Runners(f, ring) as runner:
        f.call(VOID, "vyre_register", pool, runner, constant(I32, at.RUNNING))
    unlock(f, pool)
    count = f.load(I64, ring, ring_at.RING_RUNNER_COUNT)
    f.poke(I64, f.binary("lshr", constant(I64, -1), f.sub(64, count)), ring, ring_at.RING_FREE_RUNNERS)
    gate = f.either(f.binary("shl", count, at.GATE_MOST_SHIFT), at.GATE_OPEN)
    f.poke(I64, gate, ring, ring_at.RING_GATE, order="seq_cst")
    f.update("or", I64, _ring_bit(f, pool, ring), pool, at.POOL_OPEN_RINGS)
    f.ret()


def _write_submit(m: Text) -> None:
    """Publishes the entry behind the head, which has so many rows, and wakes workers for what no worker polls for."""
    f = m.function(VOID, "vyre_pool_ring_submit", (PTR, "ring"), (I64, "rows"), exported=True)
    ring, rows = f.parameters
    pool = f.load(PTR, ring, ring_at.RING_POOL)
    head = f.add(f.peek(I64, ring, ring_at.RING_HEAD), 1)
    f.poke(I64, head, ring, ring_at.RING_HEAD, order="seq_cst")
    cursor = f.peek(I64, ring, ring_at.RING_CURSOR, order="seq_cst")
    waiting = f.sub(f.add(f.sub(head, f.binary("lshr", cursor, ring_at.ROW_BITS)), rows), 1)
    pollers = f.convert("zext", f.peek(I32, ring, ring_at.RING_POLLERS, order="seq_cst"), I64)
    gate = f.peek(I64, ring, ring_at.RING_GATE, order="seq_cst")
    most = f.both(f.binary("lshr", gate, at.GATE_MOST_SHIFT), at.GATE_ACTIVE)
    room = f.add(f.sub(most, f.both(gate, at.GATE_ACTIVE)), pollers)
    wanted = f.least(waiting, room)
    with f.when(f.compare("ugt", wanted, pollers)):
        f.call(VOID, "vyre_ring", pool, f.convert("trunc", wanted, I32))
    f.ret()


def _write_enter(m: Text) -> None:
    """Writes and publishes the entry of a submission.  Returns its number above its rows' bits, or why it is refused.

    The caller keeps other threads from publishing meanwhile.
    """
    f = m.function(I64, "vyre_pool_ring_enter", (PTR, "submission"), exported=True)
    (submission,) = f.parameters
    ring = f.load(PTR, f.load(PTR, submission, ring_at.SUBMISSION_DOOR))
    with f.when(f.compare("eq", ring, NULL)):
        f.ret(ring_at.REFUSED_SHUT)
    head, mask = f.peek(I64, ring, ring_at.RING_HEAD), f.load(I64, ring, ring_at.RING_MASK)
    place = f.mul(f.both(head, mask), ring_at.ENTRY_BYTES)
    entry = f.at(f.load(PTR, ring, ring_at.RING_ENTRIES), place)
    completed = f.peek(I64, entry, ring_at.ENTRY_COMPLETED, order="acquire")
    with f.when(f.compare("slt", completed, f.sub(head, mask))):
        f.ret(ring_at.REFUSED_FULL)
    rows, status = f.load(I64, submission, ring_at.SUBMISSION_ROWS), f.load(PTR, submission, ring_at.SUBMISSION_STATUS)
    f.store(I64, 0, status, ring_at.STATUS_STATE)
    f.poke(I64, rows, entry, ring_at.ENTRY_ROWS)
    f.poke(PTR, status, entry, ring_at.ENTRY_STATUS)
    f.poke(PTR, f.load(PTR, submission, ring_at.SUBMISSION_TABLE), entry, ring_at.ENTRY_TABLE)
    f.poke(I64, 0, entry, ring_at.ENTRY_DONE)
    f.call(VOID, "vyre_pool_ring_submit", ring, rows)
    f.ret(f.binary("shl", head, ring_at.ROW_BITS))


def _write_wait(m: Text) -> None:
    """Waits until an entry has ended, or a signal arrives, or the time has passed.  Returns whether it has ended."""
    f = m.function(
        I64, "vyre_pool_ring_wait", (PTR, "pool"), (PTR, "record"), (I64, "number"), (I64, "timeout"), exported=True
    )
    pool, entry, number, timeout = f.parameters
    _wait(m, f, pool, entry, timeout, f.at(entry, ring_at.ENTRY_COMPLETED), number, ring_at.ENTRY_WAITERS)

    # The same for one of its rows, by the address of its status.
    f = m.function(
        I64, "vyre_pool_ring_wait_row", (PTR, "pool"), (PTR, "record"), (PTR, "status"), (I64, "timeout"), exported=True
    )
    pool, entry, status, timeout = f.parameters
    _wait(m, f, pool, entry, timeout, status, constant(I64, 0), ring_at.ENTRY_ROW_WAITERS, ring_at.ENTRY_WAITERS)


def _wait(
    m: Text, f: Body, pool: Value, entry: Value, timeout: Value, word: Value, above: Value, *waiters: int
) -> None:
    """Waits until the i64 at ``word`` is greater than ``above``."""

    def ended() -> Value:
        return f.compare("sgt", f.peek(I64, word, order="seq_cst"), above)

    with f.when(ended()):
        f.ret(1)
    f.update("add", I32, 1, pool, at.POOL_BUSY)
    _spin_for(m, f, pool, ended)
    f.update("sub", I32, 1, pool, at.POOL_BUSY)
    with f.when(ended()):
        f.ret(1)
    for each in waiters:
        f.update("add", I32, 1, entry, each)
    bell = f.peek(I32, entry, ring_at.ENTRY_BELL, order="seq_cst")
    with f.unless(ended()):
        sleep_on(f, f.at(entry, ring_at.ENTRY_BELL), bell, timeout)
    for each in waiters:
        f.update("sub", I32, 1, entry, each)
    f.ret(f.convert("zext", ended(), I64))


def _spin_for(m: Text, f: Body, pool: Value, ended: Callable[[], Value]) -> None:
    """Spins for a condition, as one of the threads that are awake.

    Workers without work, which may spin as well, see that one too many is awake, and go to sleep.  They get
    ``_GIVES_WAY`` rounds of looks for that; then this thread spins no longer either.
    """
    limit, cpus = f.load(I64, pool, at.POOL_SPIN), f.load(I32, pool, at.POOL_CPUS)
    start, looks, grace = now(f), f.variable(I64), f.variable(I64, _GIVES_WAY)
    with f.loop() as spinning:
        with f.when(f.compare("sgt", f.peek(I32, pool, at.POOL_BUSY), cpus)):
            spinning.leave_if(f.compare("eq", grace.get(), 0))
            grace.set(f.sub(grace.get(), 1))
        looks.set(_LOOKS)
        with f.loop() as looking:
            looking.leave_if(f.compare("eq", looks.get(), 0))
            looking.leave_if(ended())
            m.pause(f)
            looks.set(f.sub(looks.get(), 1))
        spinning.leave_if(f.compare("ne", looks.get(), 0))
        spinning.leave_if(f.compare("sgt", f.sub(now(f), start), limit))


def _write_stop(m: Text) -> None:
    """Stops all jobs of a ring, those too that are begun later."""
    f = m.function(VOID, "vyre_pool_ring_stop", (PTR, "pool"), (PTR, "ring"), (I32, "reason"), exported=True)
    pool, ring, reason = f.parameters
    lock(f, pool)
    f.poke(I32, reason, ring, ring_at.RING_STOP)
    with _Runners(f, ring) as runner:
        f.exchange(I32, 0, reason, runner, at.JOB_STOP)
    unlock(f, pool)
    f.ret()


def _write_close(m: Text) -> None:
    """Ends the service of a ring.  What has not begun is ended here: with the ring stopped that runs nothing.

    Afterwards no thread uses the ring's memory, and its head may be taken again.
    """
    f = m.function(VOID, "vyre_pool_ring_close", (PTR, "pool"), (PTR, "ring"), exported=True)
    pool, ring = f.parameters
    bit = _ring_bit(f, pool, ring)
    f.update("and", I64, f.binary("xor", bit, -1), pool, at.POOL_OPEN_RINGS)
    f.update("and", I64, ~at.GATE_OPEN, ring, ring_at.RING_GATE)
    gate = f.at(ring, ring_at.RING_GATE)
    with f.loop() as waiting:
        before = f.update("or", I32, at.GATE_WAITING, gate)
        waiting.leave_if(f.compare("eq", f.both(before, at.GATE_ACTIVE), 0))
        sleep_on(f, gate, f.either(before, at.GATE_WAITING), _ENDLESS)
    number = f.call(I64, "vyre_take_context", pool)
    context = f.at(pool, f.add(f.mul(number, at.CONTEXT_BYTES), at.POOL_CONTEXTS))
    f.call(I1, "vyre_ring_visit", pool, ring, context, constant(I32, 1))
    f.call(VOID, "vyre_give_context", pool, number)
    lock(f, pool)
    with _Runners(f, ring) as runner:
        f.call(I32, "vyre_finish", pool, runner, constant(I64, Outcome.STOPPED))
    unlock(f, pool)
    f.update("or", I64, bit, pool, at.POOL_FREE_RINGS)
    f.ret()


def _write_drop(m: Text) -> None:
    """Forgets a descriptor: it is not written to afterwards."""
    f = m.function(VOID, "vyre_pool_ring_drop_fd", (PTR, "ring"), (I32, "fd"), exported=True)
    ring, fd = f.parameters
    mutex = f.at(ring, ring_at.RING_SIGNAL_MUTEX)
    lock(f, mutex)
    for place in range(ring_at.MOST_FDS):
        found = f.load(I32, ring, ring_at.RING_FDS + 4 * place)
        with f.when(f.compare("eq", found, f.add(fd, 1))):
            f.store(I32, 0, ring, ring_at.RING_FDS + 4 * place)
    unlock(f, mutex)
    f.ret()
