"""The runtime's functions that run commands, alone or with the help of workers.

A *team* is a kernel command whose groups several threads take, in chunks from a counter.  The thread that runs the
command list leads it.  Teams are in the pool's own memory, so that a helper may look at one at any time.  The *gate* of
a team is one 64-bit word: an epoch, whether the team is open, the most helpers, and the helpers in it.  A helper enters
by a compare-and-exchange of the gate, and only then reads what the team does; the leader closes the gate, and waits
until the last helper has left.  No leader waits for a helper that has not entered.

A helper of a command with a privatisation table has a copy of the frame, in which private buffers replace those in the
table; it merges them into the buffers before it leaves, one helper at a time.
"""

from __future__ import annotations

from vyre.adapters.cpu.pool import layout as at
from vyre.adapters.cpu.pool.building import I1, I32, I64, NULL, PTR, VOID, Body, Value, constant
from vyre.adapters.cpu.pool.layout import Outcome
from vyre.adapters.cpu.pool.primitives import Text, lock, sleep_on, spin, unlock, wake

_ENDLESS = constant(I64, -1)


def write_work(m: Text) -> None:
    """Writes the functions of this module."""
    _write_ring(m)
    _write_private(m)
    _write_merge(m)
    _write_take(m)
    _write_team_part(m)
    _write_help(m)
    _write_kernel(m)
    _write_copies(m)
    _write_verdict(m)
    _write_span(m)
    _write_repeat(m)
    _write_commands(m)
    _write_contexts(m)


# ---------------------------------------------------------------- private copies of buffers
def _write_private(m: Text) -> None:
    """Returns a frame, in ``space``, with an own buffer that holds the identity for every entry of the table."""
    f = m.function(PTR, "vyre_private", (PTR, "table"), (PTR, "frame"), (PTR, "space"))
    table, frame, space = f.parameters
    nbytes = f.load(I64, table, at.TABLE_FRAME_BYTES)
    f.call(PTR, "memmove", space, frame, nbytes)
    cursor = f.variable(PTR, f.at(space, f.up_to(nbytes, at.LINE)))
    with _Entries(f, table) as entry:
        f.store(PTR, cursor.get(), f.at(space, f.load(I64, entry, at.ENTRY_PLACE)))
        size, pattern = f.up_to(f.load(I64, entry, at.ENTRY_NBYTES), at.LINE), f.load(I64, entry, at.ENTRY_PATTERN)
        with _Offsets(f, size, at.LINE) as offset:
            for part in range(0, at.LINE, 8):
                f.store(I64, pattern, f.at(cursor.get(), part), offset)
        cursor.set(f.at(cursor.get(), size))
    f.ret(space)


def _write_merge(m: Text) -> None:
    """Merges the buffers of a private frame into those of the frame, while it holds the mutex."""
    f = m.function(VOID, "vyre_merge", (PTR, "table"), (PTR, "frame"), (PTR, "private"), (PTR, "mutex"))
    table, frame, private, mutex = f.parameters
    lock(f, mutex)
    with _Entries(f, table) as entry:
        place, nbytes = f.load(I64, entry, at.ENTRY_PLACE), f.load(I64, entry, at.ENTRY_NBYTES)
        into, copy = f.load(PTR, frame, place), f.load(PTR, private, place)
        code = f.load(I64, entry, at.ENTRY_CODE)
        for number, (bits, operation) in enumerate(at.MERGES):
            kind, whole = f"i{bits}", f.both(nbytes, -at.LINE)
            with f.when(f.compare("eq", code, number)):
                for type, start, end, step in (
                    (f"<{8 * at.LINE // bits} x {kind}>", constant(I64, 0), whole, at.LINE),
                    (kind, whole, nbytes, bits // 8),
                ):
                    with _Offsets(f, end, step, start) as offset:
                        old, new = f.load(type, into, offset), f.load(type, copy, offset)
                        f.store(type, _merged(f, operation, old, new), into, offset)
    unlock(f, mutex)
    f.ret()


def _merged(f: Body, operation: str, a: Value, b: Value) -> Value:
    predicate = {"umin": "ult", "umax": "ugt", "smin": "slt", "smax": "sgt"}.get(operation)
    return f.binary(operation, a, b) if predicate is None else f.choose(f.compare(predicate, a, b), a, b)


class _Entries:
    """A loop over the entries of a privatisation table."""

    def __init__(self, f: Body, table: Value) -> None:
        self._rounds = _Offsets(f, f.mul(f.load(I64, table, at.TABLE_ENTRIES), at.ENTRY_BYTES), at.ENTRY_BYTES)
        self._f, self._first = f, f.at(table, at.TABLE_FIRST)

    def __enter__(self) -> Value:
        return self._f.at(self._first, self._rounds.__enter__())

    def __exit__(self, *error: object) -> None:
        self._rounds.__exit__(*error)


class _Offsets:
    """A loop from ``start`` in steps of ``step`` as long as it is below ``end``."""

    def __init__(self, f: Body, end: Value, step: int, start: Value | int = 0) -> None:
        self._f, self._end, self._step = f, end, step
        self._offset = f.variable(I64, start)
        self._loop = f.loop()

    def __enter__(self) -> Value:
        loop, offset = self._loop.__enter__(), self._offset.get()
        loop.leave_if(self._f.compare("uge", offset, self._end))
        return offset

    def __exit__(self, *error: object) -> None:
        self._offset.set(self._f.add(self._offset.get(), self._step))
        self._loop.__exit__(None, None, None)


# ---------------------------------------------------------------- teams
def _write_ring(m: Text) -> None:
    """Tells the workers that there is work for ``wanted`` of them.

    A worker reads the bell before it looks for work, and sleeps only while the bell is as it was then.
    """
    f = m.function(VOID, "vyre_ring", (PTR, "pool"), (I32, "wanted"))
    pool, wanted = f.parameters
    f.update("add", I32, 1, pool, at.POOL_BELL)
    sleepers = f.peek(I32, pool, at.POOL_SLEEPERS, order="seq_cst")
    with f.unless(f.compare("eq", sleepers, 0)):
        missing = f.sub(wanted, f.peek(I32, pool, at.POOL_SPINNERS))
        with f.when(f.compare("sgt", missing, 0)):
            wake(f, f.at(pool, at.POOL_BELL), missing)
    f.ret()


def _write_take(m: Text) -> None:
    """Runs the chunk that begins with group ``first``, and then chunk after chunk from the team's counter.

    A helper takes no further chunk while the i32 at ``queued`` is not 0: jobs that have not begun come first.
    """
    f = m.function(VOID, "vyre_take", (PTR, "team"), (PTR, "frame"), (PTR, "scratch"), (I64, "first"), (PTR, "queued"))
    team, frame, scratch, first, queued = f.parameters
    function, control = f.load(PTR, team, at.TEAM_FUNCTION), f.load(PTR, team, at.TEAM_CONTROL)
    groups, grain = f.load(I64, team, at.TEAM_GROUPS), f.load(I64, team, at.TEAM_GRAIN)
    begin = f.variable(I64, first)
    with f.loop() as taking:
        start = begin.get()
        taking.leave_if(f.compare("uge", start, groups))
        taking.leave_if(f.compare("ne", f.peek(I32, control, at.JOB_STOP), 0))
        end = f.add(start, f.least(grain, f.sub(groups, start)))
        f.call_pointer(function, frame, start, end, scratch)
        taking.leave_if(f.compare("ne", f.peek(I32, queued), 0))
        begin.set(f.update("add", I64, grain, team, at.TEAM_COUNTER, order="monotonic"))
    f.ret()


def _write_team_part(m: Text) -> None:
    """Takes part in a team, as its leader or as a helper that has entered."""
    f = m.function(VOID, "vyre_take_part", (PTR, "team"), (PTR, "scratch"), (PTR, "queued"))
    team, scratch, queued = f.parameters
    grain = f.load(I64, team, at.TEAM_GRAIN)
    first = f.update("add", I64, grain, team, at.TEAM_COUNTER, order="monotonic")
    with f.when(f.compare("uge", first, f.load(I64, team, at.TEAM_GROUPS))):
        f.ret()
    frame, table = f.load(PTR, team, at.TEAM_FRAME), f.load(PTR, team, at.TEAM_TABLE)
    with f.when(f.compare("eq", table, NULL)):
        f.call(VOID, "vyre_take", team, frame, scratch, first, queued)
        f.ret()
    space = f.at(scratch, f.load(I64, team, at.TEAM_OFFSET))
    private = f.call(PTR, "vyre_private", table, frame, space)
    f.call(VOID, "vyre_take", team, private, scratch, first, queued)
    f.call(VOID, "vyre_merge", table, frame, private, f.at(team, at.TEAM_MUTEX))
    f.ret()


def _write_help(m: Text) -> None:
    """Enters an open team that has groups left, helps, and leaves it.  Returns whether there was such a team."""
    f = m.function(I1, "vyre_help", (PTR, "pool"), (PTR, "context"))
    pool, context = f.parameters
    left = f.variable(I64, f.peek(I64, pool, at.POOL_OPEN, order="seq_cst"))
    with f.loop() as looking:
        bits = left.get()
        looking.leave_if(f.compare("eq", bits, 0))
        left.set(f.both(bits, f.sub(bits, 1)))
        team = f.at(pool, f.add(f.mul(f.lowest_bit(bits), at.TEAM_BYTES), at.POOL_TEAMS))
        with f.loop() as entering:
            gate = f.peek(I64, team, at.TEAM_GATE, order="acquire")
            entering.leave_if(f.compare("eq", f.both(gate, at.GATE_OPEN), 0))
            most = f.both(f.binary("lshr", gate, at.GATE_MOST_SHIFT), at.GATE_ACTIVE)
            entering.leave_if(f.compare("uge", f.both(gate, at.GATE_ACTIVE), most))
            taken, groups = f.peek(I64, team, at.TEAM_COUNTER), f.peek(I64, team, at.TEAM_GROUPS)
            entering.leave_if(f.compare("uge", taken, groups))
            _, entered = f.exchange(I64, gate, f.add(gate, 1), team, at.TEAM_GATE)
            with f.when(entered):
                scratch = f.call(PTR, "vyre_scratch", context, f.load(I64, team, at.TEAM_SCRATCH))
                with f.unless(f.compare("eq", scratch, NULL)):
                    f.call(VOID, "vyre_take_part", team, scratch, f.at(pool, at.POOL_QUEUED))
                before = f.update("sub", I64, 1, team, at.TEAM_GATE)
                last = f.compare("eq", f.both(before, at.GATE_ACTIVE), 1)
                awaited = f.compare("ne", f.both(before, at.GATE_WAITING), 0)
                with f.when(f.both(last, awaited)):
                    wake(f, f.at(team, at.TEAM_GATE), constant(I32, 1))
                f.ret(f.compare("ne", scratch, NULL))
    f.ret(0, I1)


def _write_kernel(m: Text) -> None:
    """Runs a kernel command with the help of as many workers as it and its job allow."""
    f = m.function(VOID, "vyre_kernel", (PTR, "pool"), (PTR, "job"), (PTR, "command"), (PTR, "scratch"))
    pool, job, command, scratch = f.parameters
    function, frame = f.load(PTR, command, 8), f.load(PTR, command, 16)
    groups, grain = f.load(I64, command, 24), f.most(f.load(I64, command, 32), 1)
    f.store(PTR, job, frame, at.FRAME_CONTROL)
    with f.when(f.compare("eq", groups, 0)):
        f.ret()
    threads = f.least(f.load(I64, command, 40), f.load(I64, job, at.JOB_THREADS))
    threads = f.least(threads, at.MOST_WORKERS)
    alone = f.either(f.compare("ule", threads, 1), f.compare("ule", groups, grain))
    with f.when(alone):
        f.call_pointer(function, frame, constant(I64, 0), groups, scratch)
        f.ret()
    chunks = f.add(f.binary("udiv", f.sub(groups, 1), grain), 1)
    helpers = f.sub(f.least(threads, chunks), 1)
    number = f.call(I64, "vyre_take_bit", f.at(pool, at.POOL_FREE_TEAMS))
    with f.when(f.compare("slt", number, 0)):  # every team is in use: this thread does all of it
        f.call_pointer(function, frame, constant(I64, 0), groups, scratch)
        f.ret()
    team = f.at(pool, f.add(f.mul(number, at.TEAM_BYTES), at.POOL_TEAMS))
    table = f.load(PTR, command, 56)
    f.store(PTR, function, team, at.TEAM_FUNCTION)
    f.store(PTR, frame, team, at.TEAM_FRAME)
    f.store(I64, grain, team, at.TEAM_GRAIN)
    f.store(I64, f.load(I64, job, at.JOB_SCRATCH), team, at.TEAM_SCRATCH)
    f.store(PTR, table, team, at.TEAM_TABLE)
    f.store(PTR, job, team, at.TEAM_CONTROL)
    f.store(I64, f.up_to(f.load(I64, command, 48), at.LINE), team, at.TEAM_OFFSET)
    f.poke(I64, groups, team, at.TEAM_GROUPS)
    f.poke(I64, 0, team, at.TEAM_COUNTER)
    epoch = f.add(f.both(f.peek(I64, team, at.TEAM_GATE), -1 << at.GATE_EPOCH_SHIFT), 1 << at.GATE_EPOCH_SHIFT)
    opened = f.either(f.either(epoch, at.GATE_OPEN), f.binary("shl", helpers, at.GATE_MOST_SHIFT))
    f.poke(I64, opened, team, at.TEAM_GATE, order="seq_cst")
    bit = f.binary("shl", constant(I64, 1), number)
    f.update("or", I64, bit, pool, at.POOL_OPEN)
    f.call(VOID, "vyre_ring", pool, f.convert("trunc", helpers, I32))
    f.call(VOID, "vyre_take_part", team, scratch, f.at(team, at.TEAM_ZERO))
    f.update("and", I64, f.binary("xor", bit, -1), pool, at.POOL_OPEN)
    f.update("and", I64, ~at.GATE_OPEN, team, at.TEAM_GATE)
    _wait_for_helpers(f, pool, team)
    f.update("or", I64, bit, pool, at.POOL_FREE_TEAMS)
    f.ret()


def _wait_for_helpers(f: Body, pool: Value, team: Value) -> None:
    gate = f.at(team, at.TEAM_GATE)
    with f.loop() as waiting:
        now = f.peek(I32, gate, order="seq_cst")
        waiting.leave_if(f.compare("eq", f.both(now, at.GATE_ACTIVE), 0))
        with f.when(spin(f, pool, gate, now)):
            waiting.next()
        before = f.update("or", I32, at.GATE_WAITING, gate)
        waiting.leave_if(f.compare("eq", f.both(before, at.GATE_ACTIVE), 0))
        f.update("sub", I32, 1, pool, at.POOL_BUSY)
        sleep_on(f, gate, f.either(before, at.GATE_WAITING), _ENDLESS)
        f.update("add", I32, 1, pool, at.POOL_BUSY)


def _write_contexts(m: Text) -> None:
    """Takes the lowest bit that is set in a word, and returns its position, or -1 where none is set."""
    f = m.function(I64, "vyre_take_bit", (PTR, "word"))
    (word,) = f.parameters
    with f.loop() as trying:
        bits = f.peek(I64, word)
        trying.leave_if(f.compare("eq", bits, 0))
        _, taken = f.exchange(I64, bits, f.both(bits, f.sub(bits, 1)), word)
        with f.when(taken):
            f.ret(f.lowest_bit(bits))
    f.ret(-1)

    # Returns the number of a context that no other calling thread uses; waits while there is none.
    f = m.function(I64, "vyre_take_context", (PTR, "pool"))
    (pool,) = f.parameters
    with f.loop():
        for part in range(at.CALLER_WORDS):
            found = f.call(I64, "vyre_take_bit", f.at(pool, at.POOL_FREE_CONTEXTS + 8 * part))
            with f.when(f.compare("sge", found, 0)):
                f.ret(f.add(found, 64 * part))
        f.call(I32, "sched_yield")

    f = m.function(VOID, "vyre_give_context", (PTR, "pool"), (I64, "number"))
    pool, number = f.parameters
    place = f.at(pool, f.add(f.mul(f.binary("lshr", number, 6), 8), at.POOL_FREE_CONTEXTS))
    f.update("or", I64, f.binary("shl", constant(I64, 1), f.both(number, 63)), place)
    f.ret()


# ---------------------------------------------------------------- command lists
def _write_copies(m: Text) -> None:
    f = m.function(VOID, "vyre_copy", (PTR, "job"), (PTR, "command"))
    job, command = f.parameters
    into, source, nbytes = f.load(PTR, command, 8), f.load(PTR, command, 16), f.load(I64, command, 24)
    with _Pieces(f, job, nbytes) as (offset, size):
        f.call(PTR, "memmove", f.at(into, offset), f.at(source, offset), size)
    f.ret()
    f = m.function(VOID, "vyre_fill", (PTR, "job"), (PTR, "command"))
    job, command = f.parameters
    into, byte, nbytes = f.load(PTR, command, 8), f.load(I64, command, 16), f.load(I64, command, 24)
    with _Pieces(f, job, nbytes) as (offset, size):
        f.call(PTR, "memset", f.at(into, offset), f.convert("trunc", byte, I32), size)
    f.ret()


class _Pieces:
    """A loop over the pieces of a long copy, which a stopped job leaves."""

    def __init__(self, f: Body, job: Value, nbytes: Value) -> None:
        self._f, self._job, self._nbytes = f, job, nbytes
        self._offset = f.variable(I64, 0)
        self._loop = f.loop()

    def __enter__(self) -> tuple[Value, Value]:
        f, loop, offset = self._f, self._loop.__enter__(), self._offset.get()
        loop.leave_if(f.compare("uge", offset, self._nbytes))
        loop.leave_if(f.compare("ne", f.peek(I32, self._job, at.JOB_STOP), 0))
        return offset, f.least(f.sub(self._nbytes, offset), at.PIECE)

    def __exit__(self, *error: object) -> None:
        self._offset.set(self._f.add(self._offset.get(), at.PIECE))
        self._loop.__exit__(None, None, None)


def _write_verdict(m: Text) -> None:
    """Returns how the run ends here, or 0 where it goes on."""
    f = m.function(I64, "vyre_verdict", (PTR, "job"))
    (job,) = f.parameters
    with f.unless(f.compare("eq", f.peek(I32, job, at.JOB_STOP), 0)):
        f.ret(Outcome.STOPPED)
    trap, budget = f.peek(I64, job, at.JOB_TRAP_LANE), f.peek(I64, job, at.JOB_BUDGET_LANE)
    nothing = f.compare("eq", f.both(trap, budget), -1)
    which = f.choose(f.compare("ule", trap, budget), Outcome.TRAPPED, Outcome.OVER_BUDGET)
    f.ret(f.choose(nothing, constant(I64, 0), which))


def _write_span(m: Text) -> None:
    """Runs the commands in a range of addresses, until the run ends.  Returns its outcome, or 0 where it goes on."""
    f = m.function(I64, "vyre_span", (PTR, "pool"), (PTR, "job"), (PTR, "scratch"), (PTR, "begin"), (PTR, "end"))
    pool, job, scratch, begin, end = f.parameters
    place = f.variable(PTR, begin)
    with f.loop() as running:
        command = place.get()
        running.leave_if(f.compare("eq", command, end))
        f.store(I64, f.add(f.load(I64, job, at.JOB_EXECUTED), 1), job, at.JOB_EXECUTED)
        f.store(PTR, command, job, at.JOB_LAST)
        kind = f.load(I64, command)
        with f.when(f.compare("eq", kind, at.REPEAT)):
            first = f.at(command, at.COMMAND_BYTES)
            behind = f.at(first, f.mul(f.load(I64, command, 8), at.COMMAND_BYTES))
            ended = f.call(I64, "vyre_repeat", pool, job, scratch, command, behind)
            with f.unless(f.compare("eq", ended, 0)):
                f.ret(ended)
            place.set(behind)
            running.next()
        with f.when(f.compare("eq", kind, at.KERNEL)):
            f.call(VOID, "vyre_kernel", pool, job, command, scratch)
        with f.when(f.compare("eq", kind, at.COPY)):
            f.call(VOID, "vyre_copy", job, command)
        with f.when(f.compare("eq", kind, at.FILL)):
            f.call(VOID, "vyre_fill", job, command)
        ended = f.call(I64, "vyre_verdict", job)
        with f.unless(f.compare("eq", ended, 0)):
            f.ret(ended)
        place.set(f.at(command, at.COMMAND_BYTES))
    f.ret(0)


def _write_repeat(m: Text) -> None:
    """Runs a repeat; its commands end at ``end``.  Returns the outcome of a run that ends in it, or 0."""
    f = m.function(I64, "vyre_repeat", (PTR, "pool"), (PTR, "job"), (PTR, "scratch"), (PTR, "command"), (PTR, "end"))
    pool, job, scratch, command, end = f.parameters
    word, limit = f.load(PTR, command, 16), f.load(I64, command, 24)
    counted = f.load(PTR, command, 32)
    tested = f.compare("ne", word, NULL)
    after = f.both(tested, f.compare("ne", f.load(I64, command, 40), 0))
    before = f.both(tested, f.negate(after))
    begin = f.at(command, at.COMMAND_BYTES)
    rounds = f.variable(I64, 0)
    with f.loop() as repeating:
        begun = rounds.get()
        with f.unless(f.compare("eq", counted, NULL)):
            f.store(I64, begun, counted)
        repeating.leave_if(f.compare("uge", begun, limit))
        with f.when(before):
            repeating.leave_if(f.compare("eq", f.peek(I32, word), 0))
        with f.when(after):
            f.poke(I32, 0, word)
        rounds.set(f.add(begun, 1))
        with f.unless(f.compare("eq", counted, NULL)):
            f.store(I64, rounds.get(), counted)
        ended = f.call(I64, "vyre_span", pool, job, scratch, begin, end)
        with f.unless(f.compare("eq", ended, 0)):
            f.ret(ended)
        with f.when(f.compare("eq", begin, end)):  # no command has looked at the stop flag
            ended = f.call(I64, "vyre_verdict", job)
            with f.unless(f.compare("eq", ended, 0)):
                f.ret(ended)
        with f.when(after):
            repeating.leave_if(f.compare("eq", f.peek(I32, word), 0))
    f.ret(0)


def _write_commands(m: Text) -> None:
    """Runs the command list of a job with the scratch of a context, and returns the outcome."""
    f = m.function(I64, "vyre_commands", (PTR, "pool"), (PTR, "job"), (PTR, "context"))
    pool, job, context = f.parameters
    stopped = f.call(I64, "vyre_verdict", job)
    with f.unless(f.compare("eq", stopped, 0)):
        f.ret(stopped)
    scratch = f.call(PTR, "vyre_scratch", context, f.load(I64, job, at.JOB_SCRATCH))
    with f.when(f.compare("eq", scratch, NULL)):
        f.ret(Outcome.OUT_OF_MEMORY)
    begin = f.load(PTR, job, at.JOB_COMMANDS)
    middle = f.at(begin, f.mul(f.load(I64, job, at.JOB_PREFIX), at.COMMAND_BYTES))
    end = f.at(middle, f.mul(f.load(I64, job, at.JOB_REPEATED), at.COMMAND_BYTES))
    ended = f.call(I64, "vyre_span", pool, job, scratch, begin, middle)
    with f.unless(f.compare("eq", ended, 0)):
        f.ret(ended)
    left = f.variable(I64, f.load(I64, job, at.JOB_REPETITIONS))
    with f.unless(f.compare("eq", middle, end)), f.loop() as rounds:
        rounds.leave_if(f.compare("eq", left.get(), 0))
        ended = f.call(I64, "vyre_span", pool, job, scratch, middle, end)
        with f.unless(f.compare("eq", ended, 0)):
            f.ret(ended)
        left.set(f.sub(left.get(), 1))
    f.ret(0)
