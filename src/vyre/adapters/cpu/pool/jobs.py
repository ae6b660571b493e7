"""The part of the runtime that begins, queues, awaits and stops jobs, and the loops of the pool's own threads.

A job is *live* from its submission until it is done.  The pool's mutex guards the queue, the list of live jobs and the
jobs that wait for others.  A job that is done may be reused at once: nothing is written to it after its state is set.
"""

from __future__ import annotations

from typing import Final

from vyre.adapters.cpu.pool.layout import *
from vyre.adapters.cpu.pool.machine import *
from vyre.adapters.cpu.pool.words import *
from vyre.adapters.cpu.pool.work import give_context, ring_bell, run_commands, take_context

_SPINS: Final = 3
"""How often a waiting thread spins for a job whose state changes without being done."""


@inline
def state_of(job: Job) -> u32:
    """Returns the state of a job."""
    return load(job.state) & STATE_MASK


@inline
def is_live(job: Job) -> bool:
    """Returns whether a run of a job is under way."""
    state = state_of(job)
    return (state == QUEUED) | (state == RUNNING)


# ---------------------------------------------------------------- on the caller's thread
def begin(job: Job) -> None:
    """Clears what an earlier run left in a job."""
    store(job.stop_and_lock, 0, RELAXED)
    reset_failure(job)
    job.executed = 0
    job.last = NULL


def pool_enter(job: Job) -> u64:
    """Runs a job that is proved short on the calling thread.  It is not live: nothing can stop it."""
    begin(job)
    pool = job.pool
    mode = Place()
    default_mode(mode)
    number = take_context(pool)
    outcome = run_commands(pool, job, pool.contexts[number])
    give_context(pool, number)
    restore_mode(mode)
    job.outcome = outcome
    return outcome


# ---------------------------------------------------------------- with the pool's mutex held
def unlink(pool: Pool, head: Pointer[Job], job: Job) -> None:
    """Removes a job from the list of links that begins at an address, if it is there."""
    link = head
    while link[0] != job:
        if not link[0]:
            return
        link = address(link[0].next)
    link[0] = job.next
    if pool.tail == address(job.next):
        pool.tail = link


@inline
def append(pool: Pool, job: Job) -> None:
    """Puts a job at the end of the queue."""
    job.next = NULL
    job.after = NULL
    store(pool.tail[0], job, RELAXED)
    pool.tail = address(job.next)
    fetch_add(pool.queued, 1)


def finish(pool: Pool, job: Job, outcome: u64) -> i32:
    """Ends a live job that is in no queue; the jobs that waited for it are queued.  Returns how many those are."""
    previous, following = job.live_previous, job.live_next
    if previous:
        previous.live_next = following
    else:
        pool.live = following
    if following:
        following.live_previous = previous
    count: i32 = 0
    while job.dependents:
        waiting = job.dependents
        job.dependents = waiting.next
        append(pool, waiting)
        count += 1
    job.outcome = outcome
    job.ended = now()
    before = exchange(job.state, DONE)
    notify = load(job.notify)
    if before & WAITED_FOR != 0:
        wake(job.state, ALL)
    if notify != 0:
        fetch_add(pool.ended_bell, 1)
        wake(pool.ended_bell, 1)
    return count


def expect_until(pool: Pool, deadline: i64) -> None:
    """Wakes the watching thread if it sleeps beyond a deadline.  The mutex is held."""
    if deadline < pool.target:
        pool.target = deadline
        fetch_add(pool.watch_bell, 1)
        wake(pool.watch_bell, 1)


def register(pool: Pool, job: Job, state: u32) -> None:
    """Makes a job live in the given state.

    A job with a timeout gets its deadline.  A job of a closed group has its stop flag set.
    """
    begin(job)
    first = pool.live
    job.live_previous = NULL
    job.live_next = first
    if first:
        first.live_previous = job
    pool.live = job
    job.dependents = NULL
    job.after = NULL
    job.deadline = 0
    job.started = 0
    store(job.state, state)
    group = job.group
    if group:
        store(job.stop, load(group.closed, RELAXED), RELAXED)
    if job.timeout != 0:
        job.deadline = now() + job.timeout
        expect_until(pool, job.deadline)


def pop(pool: Pool) -> Job:
    """Takes the first job from the queue and sets it running, or returns null."""
    if not load(pool.queue):
        return NULL
    lock(pool.mutex)
    job = pool.queue
    if not job:
        unlock(pool.mutex)
        return NULL
    unlink(pool, address(pool.queue), job)
    left = fetch_sub(pool.queued, 1) - 1
    store(pool.begun, load(pool.begun, RELAXED) + 1, RELAXED)
    fetch_add(job.state, RUNNING - QUEUED)
    unlock(pool.mutex)
    if left != 0:
        ring_bell(pool, 1)
    return job


def stop_live(pool: Pool, job: Job, reason: u32) -> None:
    """Sets the stop flag of a live job; one that has not begun is ended, wherever it waits."""
    compare_exchange(job.stop, 0, reason)
    if state_of(job) == QUEUED:
        after = job.after
        if after:
            unlink(pool, address(after.dependents), job)
        else:
            unlink(pool, address(pool.queue), job)
            fetch_sub(pool.queued, 1)
        released = finish(pool, job, Outcome.STOPPED)
        if released != 0:
            ring_bell(pool, released)


# ---------------------------------------------------------------- running
def run_job(pool: Pool, job: Job, context: Context) -> u64:
    """Runs a job that is in the state of running, with the scratch of a context, and ends it.  Returns its outcome."""
    job.started = now()
    outcome = run_commands(pool, job, context)
    lock(pool.mutex)
    released = finish(pool, job, outcome)
    unlock(pool.mutex)
    if released != 0:
        ring_bell(pool, released)
    return outcome


@inline
def refusal(pool: Pool, job: Job) -> i64:
    """Locks the pool's mutex and returns 0, or returns why no run of a job may begin."""
    if load(pool.dead, RELAXED) | load(pool.shutdown, RELAXED) != 0:
        return REFUSED_DEAD
    lock(pool.mutex)
    if is_live(job):
        unlock(pool.mutex)
        return REFUSED_BUSY
    return 0


def pool_lead(job: Job) -> i64:
    """Runs a job on the calling thread, with workers as helpers; returns `DONE` when it has ended, or a refusal."""
    pool = job.pool
    refused = refusal(pool, job)
    if refused != 0:
        return refused
    register(pool, job, RUNNING)
    unlock(pool.mutex)
    fetch_add(pool.busy, 1)
    mode = Place()
    default_mode(mode)
    number = take_context(pool)
    run_job(pool, job, pool.contexts[number])
    give_context(pool, number)
    restore_mode(mode)
    fetch_sub(pool.busy, 1)
    return DONE


def pool_submit(job: Job, after: Job) -> i64:
    """Queues a job, behind the end of job ``after`` unless that is null or done; returns 0, or a refusal."""
    pool = job.pool
    refused = refusal(pool, job)
    if refused != 0:
        return refused
    register(pool, job, QUEUED)
    job.submitted = now()
    if after and is_live(after):
        job.next = after.dependents
        after.dependents = job
        job.after = after
        unlock(pool.mutex)
        return 0
    append(pool, job)
    wanted = load(pool.queued, RELAXED)
    unlock(pool.mutex)
    ring_bell(pool, wanted)
    return 0


def pool_run(job: Job, timeout: i64) -> i64:
    """Queues a job and waits for its end, at most for some time: what ``pool_wait`` returns, or a refusal."""
    refused = pool_submit(job, NULL)
    if refused != 0:
        return refused
    return pool_wait(job, timeout)


# ---------------------------------------------------------------- waiting and stopping
def pool_wait(job: Job, timeout: i64) -> i64:
    """Waits until a job is done, or a signal arrives, or the time (nanoseconds; below 0: no limit) has passed.

    Returns `DONE` where no run of the job is under way.
    """
    pool = job.pool
    if load(pool.dead, RELAXED) != 0:
        return REFUSED_DEAD
    if timeout != 0 and is_live(job) and may_spin(pool.habit):
        for _ in range(_SPINS):
            state = load(job.state, ACQUIRE)
            if is_live(job):
                spin(pool, job.state, state, 1)
        remember(pool.habit, not is_live(job))
    marked = fetch_or(job.state, WAITED_FOR)
    if is_live(job):
        sleep_on(job.state, marked | WAITED_FOR, timeout)
    return STILL_RUNNING if is_live(job) else DONE


def pool_notify(job: Job) -> i64:
    """Asks that the end of a job's run be told to ``pool_ended``; returns `DONE` where no run is under way."""
    exchange(job.notify, 1)
    return STILL_RUNNING if is_live(job) else DONE


def pool_halt(job: Job, reason: u32) -> None:
    """Stops a job and waits until it is done."""
    pool_stop(job, reason)
    while pool_wait(job, ENDLESS) == STILL_RUNNING:
        pass


def pool_stop(job: Job, reason: u32) -> None:
    """Stops a run that is under way."""
    pool = job.pool
    if load(pool.dead, RELAXED) != 0:
        return
    lock(pool.mutex)
    if is_live(job):
        stop_live(pool, job, reason)
    unlock(pool.mutex)


@inline
def stop_every(pool: Pool, group: Group, reason: u32) -> None:
    """Stops every live job, of a group unless that is null."""
    job = pool.live
    while job:
        following = job.live_next  # a job that ends leaves the list
        if not group or job.group == group:
            stop_live(pool, job, reason)
        job = following


def pool_close_group(pool: Pool, group: Group, reason: u32) -> None:
    """Stops the live jobs of a group, and every job of it that is begun later."""
    if load(pool.dead, RELAXED) != 0:
        return
    lock(pool.mutex)
    store(group.closed, reason, RELAXED)
    stop_every(pool, group, reason)
    unlock(pool.mutex)
