"""The part of the runtime that is the loops of the pool's own threads."""

from __future__ import annotations

from typing import Final

from vyre.adapters.cpu.pool.jobs import pop, run_job, stop_every, stop_live
from vyre.adapters.cpu.pool.layout import *
from vyre.adapters.cpu.pool.machine import *
from vyre.adapters.cpu.pool.serving import serve
from vyre.adapters.cpu.pool.words import *
from vyre.adapters.cpu.pool.work import help_others

_KEPT_SCRATCH: Final = 1 << 24
"""A worker that falls asleep frees scratch of more bytes than this."""
_NEVER: Final = (1 << 63) - 1


def pool_worker(pool: Pool, index: u64) -> None:
    """Runs jobs, serves rings, helps others where no job is queued, and sleeps, until the pool is shut down."""
    context = pool.contexts[index + CALLER_CONTEXTS]
    mode = Place()
    default_mode(mode)
    fetch_add(pool.busy, 1)
    while True:
        bell = load(pool.bell)
        if load(pool.shutdown) != 0:
            break
        job = pop(pool)
        if job:
            run_job(pool, job, context)
            serve(pool, context)  # else jobs that are queued all the time would starve the rings
            continue
        if serve(pool, context) or help_others(pool, context):
            continue
        if may_spin(context.habit):
            fetch_add(pool.spinners, 1)
            spin(pool, pool.bell, bell, 0)
            fetch_sub(pool.spinners, 1)
            remember(context.habit, load(pool.bell, ACQUIRE) != bell)
        if load(pool.bell, ACQUIRE) != bell:
            continue
        if context.size > _KEPT_SCRATCH:
            free_scratch(context)
        fetch_sub(pool.busy, 1)
        fetch_add(pool.sleepers, 1)
        sleep_on(pool.bell, bell, ENDLESS)
        fetch_sub(pool.sleepers, 1)
        fetch_add(pool.busy, 1)
    fetch_sub(pool.busy, 1)
    free_scratch(context)
    restore_mode(mode)


def pool_watch(pool: Pool) -> None:
    """Stops jobs at their deadlines, until the pool is shut down."""
    while True:
        lock(pool.mutex)
        if load(pool.shutdown, RELAXED) != 0:
            break
        time = now()
        nearest: i64 = _NEVER
        job = pool.live
        while job:
            following = job.live_next
            if job.deadline > time:
                nearest = min(nearest, job.deadline)
            elif job.deadline != 0:
                stop_live(pool, job, StopReason.TIMEOUT)
            job = following
        pool.target = nearest
        seen = load(pool.watch_bell, RELAXED)
        unlock(pool.mutex)
        sleep_on(pool.watch_bell, seen, ENDLESS if nearest == _NEVER else nearest - time)
    unlock(pool.mutex)


def pool_ended(pool: Pool, seen: u32, timeout: i64) -> u32:
    """Sleeps until more than ``seen`` jobs with a notification have ended, or for a time; returns how many have."""
    if load(pool.ended_bell) == seen:
        sleep_on(pool.ended_bell, seen, timeout)
    return load(pool.ended_bell)


def pool_shutdown(pool: Pool) -> None:
    """Stops every live job and lets the pool's threads leave."""
    lock(pool.mutex)
    store(pool.shutdown, 1)
    stop_every(pool, NULL, StopReason.EXIT)
    unlock(pool.mutex)
    ring_all(pool.bell)
    ring_all(pool.watch_bell)
    ring_all(pool.ended_bell)


@inline
def ring_all(bell: Shared[u32]) -> None:
    """Wakes all that sleep on a bell, now and in the next moment."""
    fetch_add(bell, 1)
    wake(bell, ALL)
