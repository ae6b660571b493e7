"""The runtime's functions that begin, queue, await and stop jobs, and the loops of the pool's own threads.

A job is *live* from its submission until it is done.  The pool's mutex guards the queue, the list of live jobs and the
jobs that wait for others.  A job that is done may be reused at once: nothing is written to
it after its state is set.
"""

from __future__ import annotations

from vyre.adapters.cpu.pool import layout as at
from vyre.adapters.cpu.pool.building import I1, I32, I64, NULL, PTR, VOID, Body, Value, constant
from vyre.adapters.cpu.pool.layout import Outcome, StopReason
from vyre.adapters.cpu.pool.primitives import Text, by_habit, lock, now, reset_failure, sleep_on, spin, unlock, wake

_ENDLESS = constant(I64, -1)
_ALL = constant(I32, 0x7FFFFFFF)
_SPINS = 3
"""How often a waiting thread spins for a job whose state changes without being done."""


def write_jobs(m: Text) -> None:
    """Writes the functions of this module."""
    _write_begin(m)
    _write_enter(m)
    _write_unlink(m)
    _write_finish(m)
    _write_register(m)
    _write_run(m)
    _write_lead(m)
    _write_submit(m)
    _write_pop(m)
    _write_wait(m)
    _write_stop(m)
    _write_stop_group(m)
    _write_worker(m)
    _write_watch(m)
    _write_shutdown(m)


def _pool_of(f: Body, job: Value) -> Value:
    return f.load(PTR, job, at.JOB_POOL)


def _state(f: Body, job: Value) -> Value:
    return f.both(f.peek(I32, job, at.JOB_STATE, order="seq_cst"), at.STATE_MASK)


def _is_live(f: Body, job: Value) -> Value:
    state = _state(f, job)
    return f.either(f.compare("eq", state, at.QUEUED), f.compare("eq", state, at.RUNNING))


# ---------------------------------------------------------------- on the caller's thread
def _write_begin(m: Text) -> None:
    """Clears what an earlier run left in a job."""
    f = m.function(VOID, "vyre_begin", (PTR, "job"))
    (job,) = f.parameters
    f.poke(I64, 0, job, at.JOB_STOP)  # and the lock
    reset_failure(f, job)
    f.store(I64, 0, job, at.JOB_EXECUTED)
    f.store(PTR, NULL, job, at.JOB_LAST)
    f.ret()


def _run_here(m: Text, f: Body, pool: Value, job: Value) -> Value:
    """Runs a job's commands with the scratch of a caller, in the default floating-point mode."""
    saved = m.default_mode(f)
    number = f.call(I64, "vyre_take_context", pool)
    context = f.at(pool, f.add(f.mul(number, at.CONTEXT_BYTES), at.POOL_CONTEXTS))
    outcome = f.call(I64, "vyre_commands", pool, job, context)
    f.call(VOID, "vyre_give_context", pool, number)
    m.restore_mode(f, saved)
    return outcome


def _write_enter(m: Text) -> None:
    """Runs a job that is proved short on the calling thread.  It is not live: nothing can stop it."""
    f = m.function(I64, "vyre_pool_enter", (PTR, "job"), exported=True)
    (job,) = f.parameters
    f.call(VOID, "vyre_begin", job)
    outcome = _run_here(m, f, _pool_of(f, job), job)
    f.store(I64, outcome, job, at.JOB_OUTCOME)
    f.ret(outcome)


# ---------------------------------------------------------------- with the pool's mutex held
def _write_unlink(m: Text) -> None:
    """Removes a job from the list of links that begins at an address.  Returns whether it was there."""
    f = m.function(I1, "vyre_unlink", (PTR, "pool"), (PTR, "head"), (PTR, "job"))
    pool, head, job = f.parameters
    link = f.variable(PTR, head)
    with f.loop() as walking:
        found = f.load(PTR, link.get())
        with f.when(f.compare("eq", found, NULL)):
            f.ret(0, I1)
        walking.leave_if(f.compare("eq", found, job))
        link.set(f.at(found, at.JOB_NEXT))
    f.store(PTR, f.load(PTR, job, at.JOB_NEXT), link.get())
    with f.when(f.compare("eq", f.load(PTR, pool, at.POOL_TAIL), f.at(job, at.JOB_NEXT))):
        f.store(PTR, link.get(), pool, at.POOL_TAIL)
    f.ret(1, I1)


def _append(f: Body, pool: Value, job: Value) -> None:
    f.store(PTR, NULL, job, at.JOB_NEXT)
    f.store(PTR, NULL, job, at.JOB_AFTER)
    f.poke(PTR, job, f.load(PTR, pool, at.POOL_TAIL))
    f.store(PTR, f.at(job, at.JOB_NEXT), pool, at.POOL_TAIL)
    f.update("add", I32, 1, pool, at.POOL_QUEUED)


def _write_finish(m: Text) -> None:
    """Ends a live job that is in no queue; the jobs that waited for it are queued.  Returns how many those are."""
    f = m.function(I32, "vyre_finish", (PTR, "pool"), (PTR, "job"), (I64, "outcome"))
    pool, job, outcome = f.parameters
    before, after = f.load(PTR, job, at.JOB_LIVE_PREVIOUS), f.load(PTR, job, at.JOB_LIVE_NEXT)
    with f.when(f.compare("eq", before, NULL)):
        f.store(PTR, after, pool, at.POOL_LIVE)
    with f.unless(f.compare("eq", before, NULL)):
        f.store(PTR, after, before, at.JOB_LIVE_NEXT)
    with f.unless(f.compare("eq", after, NULL)):
        f.store(PTR, before, after, at.JOB_LIVE_PREVIOUS)
    count = f.variable(I32, 0)
    with f.loop() as releasing:
        waiting = f.load(PTR, job, at.JOB_DEPENDENTS)
        releasing.leave_if(f.compare("eq", waiting, NULL))
        f.store(PTR, f.load(PTR, waiting, at.JOB_NEXT), job, at.JOB_DEPENDENTS)
        _append(f, pool, waiting)
        count.set(f.add(count.get(), 1))
    f.store(I64, outcome, job, at.JOB_OUTCOME)
    f.store(I64, now(f), job, at.JOB_ENDED)
    state = f.at(job, at.JOB_STATE)
    before = f.update("xchg", I32, at.DONE, state)
    notify = f.peek(I64, job, at.JOB_NOTIFY, order="seq_cst")
    with f.unless(f.compare("eq", f.both(before, at.WAITED_FOR), 0)):
        wake(f, state, _ALL)
    with f.unless(f.compare("eq", notify, 0)):
        f.update("add", I32, 1, pool, at.POOL_ENDED_BELL)
        wake(f, f.at(pool, at.POOL_ENDED_BELL), constant(I32, 1))
    f.ret(count.get())


def _write_register(m: Text) -> None:
    """Makes a job live in the given state.

    A job with a timeout gets its deadline; the watching thread is woken if it sleeps until later.  A job of a closed
    group has its stop flag set.
    """
    f = m.function(VOID, "vyre_register", (PTR, "pool"), (PTR, "job"), (I32, "state"))
    pool, job, state = f.parameters
    f.call(VOID, "vyre_begin", job)
    first = f.load(PTR, pool, at.POOL_LIVE)
    f.store(PTR, NULL, job, at.JOB_LIVE_PREVIOUS)
    f.store(PTR, first, job, at.JOB_LIVE_NEXT)
    with f.unless(f.compare("eq", first, NULL)):
        f.store(PTR, job, first, at.JOB_LIVE_PREVIOUS)
    f.store(PTR, job, pool, at.POOL_LIVE)
    f.store(PTR, NULL, job, at.JOB_DEPENDENTS)
    f.store(PTR, NULL, job, at.JOB_AFTER)
    f.store(I64, 0, job, at.JOB_DEADLINE)
    f.store(I64, 0, job, at.JOB_STARTED)
    f.poke(I32, state, job, at.JOB_STATE, order="seq_cst")
    group = f.load(PTR, job, at.JOB_GROUP)
    with f.unless(f.compare("eq", group, NULL)):
        f.poke(I32, f.peek(I32, group, at.GROUP_CLOSED), job, at.JOB_STOP)
    timeout = f.load(I64, job, at.JOB_TIMEOUT)
    with f.unless(f.compare("eq", timeout, 0)):
        deadline = f.add(now(f), timeout)
        f.store(I64, deadline, job, at.JOB_DEADLINE)
        with f.when(f.compare("slt", deadline, f.load(I64, pool, at.POOL_TARGET))):
            f.store(I64, deadline, pool, at.POOL_TARGET)
            f.update("add", I32, 1, pool, at.POOL_WATCH_BELL)
            wake(f, f.at(pool, at.POOL_WATCH_BELL), constant(I32, 1))
    f.ret()


def _write_pop(m: Text) -> None:
    """Takes the first job from the queue and sets it running, or returns null."""
    f = m.function(PTR, "vyre_pop", (PTR, "pool"))
    (pool,) = f.parameters
    with f.when(f.compare("eq", f.peek(PTR, pool, at.POOL_QUEUE, order="seq_cst"), NULL)):
        f.ret(NULL)
    lock(f, pool)
    job = f.load(PTR, pool, at.POOL_QUEUE)
    with f.when(f.compare("eq", job, NULL)):
        unlock(f, pool)
        f.ret(NULL)
    f.call(I1, "vyre_unlink", pool, f.at(pool, at.POOL_QUEUE), job)
    left = f.sub(f.update("sub", I32, 1, pool, at.POOL_QUEUED), 1)
    f.poke(I32, f.add(f.peek(I32, pool, at.POOL_BEGUN), 1), pool, at.POOL_BEGUN)
    f.update("add", I32, at.RUNNING - at.QUEUED, job, at.JOB_STATE)
    unlock(f, pool)
    with f.unless(f.compare("eq", left, 0)):
        f.call(VOID, "vyre_ring", pool, constant(I32, 1))
    f.ret(job)


def _cancel_queued(f: Body, pool: Value, job: Value) -> None:
    """Ends a job that has not begun, wherever it waits."""
    with f.when(f.compare("eq", _state(f, job), at.QUEUED)):
        after = f.load(PTR, job, at.JOB_AFTER)
        with f.when(f.compare("eq", after, NULL)):
            f.call(I1, "vyre_unlink", pool, f.at(pool, at.POOL_QUEUE), job)
            f.update("sub", I32, 1, pool, at.POOL_QUEUED)
        with f.unless(f.compare("eq", after, NULL)):
            f.call(I1, "vyre_unlink", pool, f.at(after, at.JOB_DEPENDENTS), job)
        released = f.call(I32, "vyre_finish", pool, job, constant(I64, Outcome.STOPPED))
        with f.unless(f.compare("eq", released, 0)):
            f.call(VOID, "vyre_ring", pool, released)


def _set_stop(f: Body, job: Value, reason: Value | int) -> None:
    f.exchange(I32, 0, reason, job, at.JOB_STOP)


# ---------------------------------------------------------------- running
def _write_run(m: Text) -> None:
    """Runs a job that is in the state of running, with the scratch of a context, and ends it.  Returns its outcome."""
    f = m.function(I64, "vyre_run_job", (PTR, "pool"), (PTR, "job"), (PTR, "context"))
    pool, job, context = f.parameters
    f.store(I64, now(f), job, at.JOB_STARTED)
    outcome = f.call(I64, "vyre_commands", pool, job, context)
    lock(f, pool)
    released = f.call(I32, "vyre_finish", pool, job, outcome)
    unlock(f, pool)
    with f.unless(f.compare("eq", released, 0)):
        f.call(VOID, "vyre_ring", pool, released)
    f.ret(outcome)


def _refuse(f: Body, pool: Value, job: Value) -> None:
    dead = f.either(f.peek(I32, pool, at.POOL_DEAD), f.peek(I32, pool, at.POOL_SHUTDOWN))
    with f.unless(f.compare("eq", dead, 0)):
        f.ret(at.REFUSED_DEAD)
    lock(f, pool)
    with f.when(_is_live(f, job)):
        unlock(f, pool)
        f.ret(at.REFUSED_BUSY)


def _write_lead(m: Text) -> None:
    """Runs a job on the calling thread, with workers as helpers; returns `DONE` when it has ended, or a refusal."""
    f = m.function(I64, "vyre_pool_lead", (PTR, "job"), exported=True)
    (job,) = f.parameters
    pool = _pool_of(f, job)
    _refuse(f, pool, job)
    f.call(VOID, "vyre_register", pool, job, constant(I32, at.RUNNING))
    unlock(f, pool)
    f.update("add", I32, 1, pool, at.POOL_BUSY)
    saved = m.default_mode(f)
    number = f.call(I64, "vyre_take_context", pool)
    context = f.at(pool, f.add(f.mul(number, at.CONTEXT_BYTES), at.POOL_CONTEXTS))
    f.call(I64, "vyre_run_job", pool, job, context)
    f.call(VOID, "vyre_give_context", pool, number)
    m.restore_mode(f, saved)
    f.update("sub", I32, 1, pool, at.POOL_BUSY)
    f.ret(at.DONE)


def _write_submit(m: Text) -> None:
    """Queues a job, behind the end of job ``after`` unless that is null or done; returns 0, or a refusal."""
    f = m.function(I64, "vyre_pool_submit", (PTR, "job"), (PTR, "after"), exported=True)
    job, after = f.parameters
    pool = _pool_of(f, job)
    _refuse(f, pool, job)
    f.call(VOID, "vyre_register", pool, job, constant(I32, at.QUEUED))
    f.store(I64, now(f), job, at.JOB_SUBMITTED)
    with f.unless(f.compare("eq", after, NULL)), f.when(_is_live(f, after)):
        f.store(PTR, f.load(PTR, after, at.JOB_DEPENDENTS), job, at.JOB_NEXT)
        f.store(PTR, job, after, at.JOB_DEPENDENTS)
        f.store(PTR, after, job, at.JOB_AFTER)
        unlock(f, pool)
        f.ret(0)
    _append(f, pool, job)
    wanted = f.peek(I32, pool, at.POOL_QUEUED)
    unlock(f, pool)
    f.call(VOID, "vyre_ring", pool, wanted)
    f.ret(0)

    # Queues a job and waits for its end, at most for some time: what `vyre_pool_wait` returns, or a refusal.
    f = m.function(I64, "vyre_pool_run", (PTR, "job"), (I64, "timeout"), exported=True)
    job, timeout = f.parameters
    refused = f.call(I64, "vyre_pool_submit", job, NULL)
    with f.unless(f.compare("eq", refused, 0)):
        f.ret(refused)
    f.ret(f.call(I64, "vyre_pool_wait", job, timeout))


# ---------------------------------------------------------------- waiting and stopping
def _write_wait(m: Text) -> None:
    """Waits until a job is done, or a signal arrives, or the time (nanoseconds; below 0: no limit) has passed.

    Returns `DONE` where no run of the job is under way.
    """
    f = m.function(I64, "vyre_pool_wait", (PTR, "job"), (I64, "timeout"), exported=True)
    job, timeout = f.parameters
    pool, word = _pool_of(f, job), f.at(job, at.JOB_STATE)
    with f.unless(f.compare("eq", f.peek(I32, pool, at.POOL_DEAD), 0)):
        f.ret(at.REFUSED_DEAD)
    is_look, is_done = f.compare("eq", timeout, 0), lambda: f.negate(_is_live(f, job))
    with f.unless(is_look), f.when(_is_live(f, job)), by_habit(f, f.at(pool, at.POOL_HABIT), is_done):
        for _ in range(_SPINS):
            found = f.peek(I32, word, order="acquire")
            with f.when(_is_live(f, job)):
                spin(f, pool, word, found, counted=False)
    marked = f.update("or", I32, at.WAITED_FOR, word)
    with f.when(_is_live(f, job)):
        sleep_on(f, word, f.either(marked, at.WAITED_FOR), timeout)
    f.ret(f.convert("zext", f.choose(_is_live(f, job), constant(I32, at.STILL_RUNNING), at.DONE), I64))

    # Asks that the end of a job's run be told to `vyre_pool_ended`; returns `DONE` where no run is under way.
    f = m.function(I64, "vyre_pool_notify", (PTR, "job"), exported=True)
    (job,) = f.parameters
    f.update("xchg", I64, 1, job, at.JOB_NOTIFY)
    f.ret(f.convert("zext", f.choose(_is_live(f, job), constant(I32, at.STILL_RUNNING), at.DONE), I64))

    # Stops a job and waits until it is done.
    f = m.function(VOID, "vyre_pool_halt", (PTR, "job"), (I32, "reason"), exported=True)
    job, reason = f.parameters
    f.call(VOID, "vyre_pool_stop", job, reason)
    with f.loop() as waiting:
        ended = f.call(I64, "vyre_pool_wait", job, _ENDLESS)
        waiting.leave_if(f.compare("ne", ended, at.STILL_RUNNING))
    f.ret()


def _write_stop(m: Text) -> None:
    """Sets the stop flag of a live job; one that has not begun is ended at once."""
    f = m.function(VOID, "vyre_pool_stop", (PTR, "job"), (I32, "reason"), exported=True)
    job, reason = f.parameters
    pool = _pool_of(f, job)
    with f.unless(f.compare("eq", f.peek(I32, pool, at.POOL_DEAD), 0)):
        f.ret()
    lock(f, pool)
    with f.when(_is_live(f, job)):
        _set_stop(f, job, reason)
        _cancel_queued(f, pool, job)
    unlock(f, pool)
    f.ret()


def _stop_every(f: Body, pool: Value, reason: Value | int, group: Value | None = None) -> None:
    """Stops every live job (of a group).  An ended job leaves the list, so that its successor is read before."""
    place = f.variable(PTR, f.load(PTR, pool, at.POOL_LIVE))
    with f.loop() as walking:
        job = place.get()
        walking.leave_if(f.compare("eq", job, NULL))
        place.set(f.load(PTR, job, at.JOB_LIVE_NEXT))
        if group is not None:
            with f.unless(f.compare("eq", f.load(PTR, job, at.JOB_GROUP), group)):
                walking.next()
        _set_stop(f, job, reason)
        _cancel_queued(f, pool, job)


def _write_stop_group(m: Text) -> None:
    """Stops the live jobs of a group, and every job of it that is begun later."""
    f = m.function(VOID, "vyre_pool_close_group", (PTR, "pool"), (PTR, "group"), (I32, "reason"), exported=True)
    pool, group, reason = f.parameters
    with f.unless(f.compare("eq", f.peek(I32, pool, at.POOL_DEAD), 0)):
        f.ret()
    lock(f, pool)
    f.poke(I32, reason, group, at.GROUP_CLOSED)
    _stop_every(f, pool, reason, group)
    unlock(f, pool)
    f.ret()


# ---------------------------------------------------------------- threads of the pool
def _write_worker(m: Text) -> None:
    """Runs jobs, serves rings, helps others where no job is queued, and sleeps, until the pool is shut down."""
    f = m.function(VOID, "vyre_pool_worker", (PTR, "pool"), (I64, "index"), exported=True)
    pool, index = f.parameters
    own = f.add(index, at.CALLER_CONTEXTS)
    context = f.at(pool, f.add(f.mul(own, at.CONTEXT_BYTES), at.POOL_CONTEXTS))
    saved = m.default_mode(f)
    f.update("add", I32, 1, pool, at.POOL_BUSY)
    with f.loop() as working:
        bell = f.peek(I32, pool, at.POOL_BELL, order="seq_cst")
        working.leave_if(f.compare("ne", f.peek(I32, pool, at.POOL_SHUTDOWN, order="seq_cst"), 0))
        job = f.call(PTR, "vyre_pop", pool)
        with f.unless(f.compare("eq", job, NULL)):
            f.call(I64, "vyre_run_job", pool, job, context)
            f.call(I1, "vyre_serve", pool, context)  # else jobs that are queued all the time would starve the rings
            working.next()
        with f.when(f.call(I1, "vyre_serve", pool, context)):
            working.next()
        with f.when(f.call(I1, "vyre_help", pool, context)):
            working.next()
        with by_habit(f, f.at(context, at.CONTEXT_HABIT), lambda: _is_rung(f, pool, bell)):
            f.update("add", I32, 1, pool, at.POOL_SPINNERS)
            spin(f, pool, f.at(pool, at.POOL_BELL), bell)
            f.update("sub", I32, 1, pool, at.POOL_SPINNERS)
        with f.when(_is_rung(f, pool, bell)):
            working.next()
        with f.when(f.compare("ugt", f.load(I64, context, at.CONTEXT_SIZE), at.KEPT_SCRATCH)):
            f.call(VOID, "vyre_free_scratch", context)
        f.update("sub", I32, 1, pool, at.POOL_BUSY)
        f.update("add", I32, 1, pool, at.POOL_SLEEPERS)
        sleep_on(f, f.at(pool, at.POOL_BELL), bell, _ENDLESS)
        f.update("sub", I32, 1, pool, at.POOL_SLEEPERS)
        f.update("add", I32, 1, pool, at.POOL_BUSY)
    f.update("sub", I32, 1, pool, at.POOL_BUSY)
    f.call(VOID, "vyre_free_scratch", context)
    m.restore_mode(f, saved)
    f.ret()


def _is_rung(f: Body, pool: Value, bell: Value) -> Value:
    return f.compare("ne", f.peek(I32, pool, at.POOL_BELL, order="acquire"), bell)


def _write_watch(m: Text) -> None:
    """Stops jobs at their deadlines, until the pool is shut down."""
    f = m.function(VOID, "vyre_pool_watch", (PTR, "pool"), exported=True)
    (pool,) = f.parameters
    place, nearest = f.variable(PTR), f.variable(I64)
    bell = f.at(pool, at.POOL_WATCH_BELL)
    never = (1 << 63) - 1
    with f.loop() as watching:
        lock(f, pool)
        with f.unless(f.compare("eq", f.peek(I32, pool, at.POOL_SHUTDOWN), 0)):
            unlock(f, pool)
            f.ret()
        time = now(f)
        place.set(f.load(PTR, pool, at.POOL_LIVE))
        nearest.set(never)
        with f.loop() as walking:
            job = place.get()
            walking.leave_if(f.compare("eq", job, NULL))
            place.set(f.load(PTR, job, at.JOB_LIVE_NEXT))
            deadline = f.load(I64, job, at.JOB_DEADLINE)
            with f.when(f.compare("eq", deadline, 0)):
                walking.next()
            with f.when(f.compare("sgt", deadline, time)):
                nearest.set(f.least(deadline, nearest.get()))
                walking.next()
            _set_stop(f, job, StopReason.TIMEOUT)
            _cancel_queued(f, pool, job)
        f.store(I64, nearest.get(), pool, at.POOL_TARGET)
        seen = f.peek(I32, bell)
        unlock(f, pool)
        endless = f.compare("eq", nearest.get(), never)
        sleep_on(f, bell, seen, f.choose(endless, _ENDLESS, f.sub(nearest.get(), time)))
        watching.next()
    f.ret()

    # Sleeps until a job with a notification has ended since `seen` such ends, at most for some time; returns the count.
    f = m.function(I32, "vyre_pool_ended", (PTR, "pool"), (I32, "seen"), (I64, "timeout"), exported=True)
    pool, seen, timeout = f.parameters
    bell = f.at(pool, at.POOL_ENDED_BELL)
    with f.when(f.compare("eq", f.peek(I32, bell, order="seq_cst"), seen)):
        sleep_on(f, bell, seen, timeout)
    f.ret(f.peek(I32, bell, order="seq_cst"))


def _write_shutdown(m: Text) -> None:
    """Stops every live job and lets the pool's threads leave."""
    f = m.function(VOID, "vyre_pool_shutdown", (PTR, "pool"), exported=True)
    (pool,) = f.parameters
    lock(f, pool)
    f.poke(I32, 1, pool, at.POOL_SHUTDOWN, order="seq_cst")
    _stop_every(f, pool, StopReason.EXIT)
    unlock(f, pool)
    for bell in (at.POOL_BELL, at.POOL_WATCH_BELL, at.POOL_ENDED_BELL):
        f.update("add", I32, 1, pool, bell)
        wake(f, f.at(pool, bell), _ALL)
    f.ret()
