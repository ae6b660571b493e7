"""The runtime's functions for entries whose rows are prepared steps: commands on memory that is bound already.

The table of an entry holds the steps of a round in *waves*; row r is step ``r mod n`` of a table of n steps.  Rows are
claimed in order, and none of a wave is claimed before all rows of the waves before have ended.  So the count of ended
rows tells whether a wave may begin: it reaches the wave's first row only when no earlier row is left, because no later
one has begun.  Whoever ends the last row of a wave goes on with the next one, and rings the bell for the other workers
if it is wider than one step.

An entry has one status.  Once a step has failed, the rows behind it end without running anything.  A table lives as
long as its ring, so that a worker may look at it before it claims a row.
"""

from __future__ import annotations

from vyre.adapters.cpu.pool import layout as at
from vyre.adapters.cpu.pool import ring_layout as ring_at
from vyre.adapters.cpu.pool.building import I32, I64, NULL, PTR, VOID, Body, Value
from vyre.adapters.cpu.pool.layout import Outcome
from vyre.adapters.cpu.pool.primitives import Text, lock, now, reset_failure, unlock

ROW_PARAMETERS = (
    (PTR, "pool"),
    (PTR, "ring"),
    (PTR, "runner"),
    (PTR, "record"),
    (I64, "row"),
    (PTR, "context"),
)
"""The parameters of a function that runs a row of an entry, whatever its rows are."""
_COMMAND_SHIFT = at.COMMAND_BYTES.bit_length() - 1


def write_steps(m: Text) -> None:
    """Writes the functions of this module."""
    _write_fail(m)
    _write_step(m)


def _step(f: Body, entry: Value, row: Value) -> Value:
    """Returns the address of what the table says about a row."""
    table = f.peek(PTR, entry, ring_at.ENTRY_TABLE)
    number = f.binary("urem", row, f.load(I64, table, ring_at.TABLE_STEPS))
    return f.at(table, f.add(f.mul(number, ring_at.STEP_BYTES), ring_at.TABLE_FIRST_STEP))


def is_early(f: Body, entry: Value, row: Value) -> Value:
    """Returns whether the wave of a row has not begun."""
    begins = f.sub(row, f.load(I64, _step(f, entry, row), ring_at.STEP_BACK))
    return f.compare("ult", f.peek(I64, entry, ring_at.ENTRY_DONE, order="acquire"), begins)


def tell_of_wave(f: Body, pool: Value, ring: Value, entry: Value, ended: Value) -> None:
    """Rings the bell if row ``ended`` begins a wave of several steps; so many rows have ended."""
    step = _step(f, entry, ended)
    width = f.load(I64, step, ring_at.STEP_WIDTH)
    begins = f.compare("eq", f.load(I64, step, ring_at.STEP_BACK), 0)
    with f.when(f.both(begins, f.compare("ugt", width, 1))):
        wanted = f.sub(f.least(width, f.load(I64, ring, ring_at.RING_RUNNER_COUNT)), 1)
        f.call(VOID, "vyre_ring", pool, f.convert("trunc", wanted, I32))


def tell_time(f: Body, entry: Value) -> None:
    """Writes the time from the begin of the first row until now."""
    status = f.load(PTR, entry, ring_at.ENTRY_STATUS)
    f.store(I64, f.sub(now(f), f.load(I64, status, ring_at.STATUS_STARTED)), status, ring_at.STATUS_NS)


def row_state(f: Body, job: Value, status: Value, outcome: Value, number: Value, reason: Value) -> Value:
    """Writes where a row failed into its status, and returns the word that says how the row ended."""
    trap, budget = f.peek(I64, job, at.JOB_TRAP_LANE), f.peek(I64, job, at.JOB_BUDGET_LANE)
    f.store(I64, f.least(trap, budget), status, ring_at.STATUS_LANE)
    f.store(I64, f.convert("zext", f.peek(I32, job, at.JOB_TRAP_ADDRESS), I64), status, ring_at.STATUS_ADDRESS)
    tag = f.convert("zext", f.peek(I32, job, at.JOB_TRAP_TAG), I64)
    state = f.add(outcome, 1)
    for value, shift in ((f.convert("zext", reason, I64), 8), (number, 16), (tag, 32)):
        state = f.either(state, f.binary("shl", value, shift))
    return state


def _write_fail(m: Text) -> None:
    """Writes how a row failed, unless another row has before."""
    f = m.function(
        VOID,
        "vyre_ring_fail",
        (PTR, "pool"),
        (PTR, "job"),
        (PTR, "status"),
        (I64, "row"),
        (I64, "outcome"),
        (I64, "number"),
        (I32, "reason"),
    )
    pool, job, status, row, outcome, number, reason = f.parameters
    lock(f, pool)
    with f.when(f.compare("eq", f.peek(I64, status, ring_at.STATUS_STATE), 0)):
        f.store(I64, row, status, ring_at.STATUS_ROW)
        state = row_state(f, job, status, outcome, number, reason)
        f.poke(I64, state, status, ring_at.STATUS_STATE)
    unlock(f, pool)
    f.ret()


def _write_step(m: Text) -> None:
    """Runs row ``row`` of an entry with a runner, unless a row before it has failed."""
    f = m.function(VOID, "vyre_ring_step", *ROW_PARAMETERS)
    pool, ring, job, entry, row, context = f.parameters
    status, step = f.load(PTR, entry, ring_at.ENTRY_STATUS), _step(f, entry, row)
    with f.when(f.compare("eq", row, 0)):
        f.store(I64, now(f), status, ring_at.STATUS_STARTED)
    f.store(I64, f.add(f.load(I64, job, ring_at.RUNNER_JOBS), 1), job, ring_at.RUNNER_JOBS)
    with f.unless(f.compare("eq", f.peek(I64, status, ring_at.STATUS_STATE), 0)):
        f.ret()
    reset_failure(f, job)
    timeout = f.load(I64, step, ring_at.STEP_TIMEOUT)
    timed = f.compare("ne", timeout, 0)
    with f.when(timed):
        f.call(VOID, "vyre_ring_deadline", pool, ring, job, f.add(now(f), timeout))
    begin = f.load(PTR, step, ring_at.STEP_BEGIN)
    outcome, number = f.variable(I64, f.call(I64, "vyre_verdict", job)), f.variable(I64, 0)
    with f.when(f.compare("eq", outcome.get(), 0)):
        scratch = f.call(PTR, "vyre_scratch", context, f.load(I64, job, at.JOB_SCRATCH))
        with f.when(f.compare("eq", scratch, NULL)):
            outcome.set(int(Outcome.OUT_OF_MEMORY))
        with f.unless(f.compare("eq", scratch, NULL)):
            end = f.load(PTR, step, ring_at.STEP_END)
            outcome.set(f.call(I64, "vyre_span", pool, job, scratch, begin, end))
            last = f.sub(f.load(I64, job, at.JOB_LAST), f.convert("ptrtoint", begin, I64))
            number.set(f.binary("lshr", last, _COMMAND_SHIFT))
    reason = f.variable(I32, f.peek(I32, job, at.JOB_STOP))
    with f.when(timed):
        lock(f, pool)
        f.store(I64, 0, job, at.JOB_DEADLINE)
        reason.set(f.peek(I32, job, at.JOB_STOP))
        f.call(VOID, "vyre_ring_renew", pool, ring, job)
        unlock(f, pool)
    with f.unless(f.compare("eq", outcome.get(), 0)):
        f.call(VOID, "vyre_ring_fail", pool, job, status, row, outcome.get(), number.get(), reason.get())
    f.ret()
