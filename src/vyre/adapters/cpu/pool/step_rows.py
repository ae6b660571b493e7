"""The part of the runtime for entries whose rows are prepared steps: commands on memory that is bound already.

The table of an entry holds the steps of a round in *waves*; row r is step ``r mod n`` of a table of n steps.  Rows are
claimed in order, and none of a wave is claimed before all rows of the waves before have ended.  So the count of ended
rows tells whether a wave may begin: it reaches the wave's first row only when no earlier row is left, because no later
one has begun.  Whoever ends the last row of a wave goes on with the next one, and rings the bell for the other workers
if it is wider than one step.

An entry has one status.  Once a step has failed, the rows behind it end without running anything.  A table lives as
long as its ring, so that a worker may look at it before it claims a row.
"""

from __future__ import annotations

from vyre.adapters.cpu.pool.jobs import expect_until
from vyre.adapters.cpu.pool.layout import *
from vyre.adapters.cpu.pool.machine import *
from vyre.adapters.cpu.pool.words import *
from vyre.adapters.cpu.pool.work import ring_bell, span, verdict


@inline
def step_of(entry: Entry, row: u64) -> Step:
    """Returns what the table says about a row."""
    table = cast(StepTable, load(entry.table, RELAXED))
    return table.steps[row % table.count]


@inline
def is_early(entry: Entry, row: u64) -> bool:
    """Returns whether the wave of a row has not begun."""
    return load(entry.done, ACQUIRE) < row - step_of(entry, row).back


@inline
def tell_of_wave(pool: Pool, ring: Ring, entry: Entry, ended: u64) -> None:
    """Rings the bell if row ``ended`` begins a wave of several steps; so many rows have ended."""
    step = step_of(entry, ended)
    if step.back == 0 and step.width > 1:
        ring_bell(pool, cast(i32, min(step.width, ring.runner_count) - 1))


def renew(pool: Pool, ring: Ring, runner: Runner) -> None:
    """Takes back the stop flag that a timeout has set, unless the ring or its group stops.  The mutex is held."""
    if load(runner.stop, RELAXED) != StopReason.TIMEOUT:
        return
    reason = load(ring.stop, RELAXED)
    group = runner.group
    if group:
        closed = load(group.closed, RELAXED)
        if closed != 0:
            reason = closed
    if load(pool.shutdown, RELAXED) != 0:
        reason = StopReason.EXIT
    store(runner.stop, reason, RELAXED)


def set_deadline(pool: Pool, ring: Ring, runner: Runner, deadline: i64) -> None:
    """Sets the deadline of what a runner begins."""
    lock(pool.mutex)
    renew(pool, ring, runner)
    runner.deadline = deadline
    expect_until(pool, deadline)
    unlock(pool.mutex)


def drop_deadline(pool: Pool, ring: Ring, runner: Runner) -> u32:
    """Takes the deadline of a runner back, and returns why what it ran was stopped, or 0."""
    lock(pool.mutex)
    runner.deadline = 0
    reason = load(runner.stop, RELAXED)
    renew(pool, ring, runner)
    unlock(pool.mutex)
    return reason


@inline
def failure(job: Job, status: Status, outcome: u64, number: u64, reason: u32) -> i64:
    """Writes where a row failed into its status, and returns the word that says how the row ended."""
    status.lane = min(load(job.trap_lane, RELAXED), load(job.budget_lane, RELAXED))
    status.address = cast(u64, load(job.trap_address, RELAXED))
    tag = cast(u64, load(job.trap_tag, RELAXED))
    return cast(i64, outcome + 1 | cast(u64, reason) << 8 | number << 16 | tag << 32)


def run_step(pool: Pool, ring: Ring, runner: Runner, entry: Entry, row: u64, context: Context) -> None:
    """Runs row ``row`` of an entry with a runner, unless a row before it has failed."""
    status, step = cast(StepsStatus, entry.status), step_of(entry, row)
    if row == 0:
        status.started = now()
    runner.jobs += 1
    if load(status.state, RELAXED) != 0:
        return
    reset_failure(runner)
    if step.timeout != 0:
        set_deadline(pool, ring, runner, now() + step.timeout)
    number: u64 = 0
    outcome = verdict(runner)
    if outcome == 0:
        scratch = scratch_of(context, runner.scratch)
        if scratch:
            outcome = span(pool, runner, scratch, step.begin, step.end)
            number = (cast(u64, runner.last) - cast(u64, step.begin)) // Command.BYTES
        else:
            outcome = Outcome.OUT_OF_MEMORY
    reason = load(runner.stop, RELAXED)
    if step.timeout != 0:
        reason = drop_deadline(pool, ring, runner)
    if outcome != 0:
        lock(pool.mutex)
        if load(status.state, RELAXED) == 0:  # no other row has failed before
            status.row = row
            store(status.state, failure(runner, status, outcome, number, reason), RELAXED)
        unlock(pool.mutex)
