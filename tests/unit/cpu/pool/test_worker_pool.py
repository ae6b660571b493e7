"""Jobs on worker threads: they are queued, ordered, stopped, timed out, and nested without a deadlock."""

from __future__ import annotations

import gc
import os
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from ctypes import c_int32
from typing import Any
from weakref import finalize, ref

import pytest

from support.collecting import Cycle, eager_collector
from support.cpu.pool import TARGET, Frame, entries, kernels, until
from support.limits import LIMIT_S
from support.llvm import NEEDS_LLVM
from vyre.adapters.cpu.pool import layout as at
from vyre.adapters.cpu.pool.commands import CommandList, Kernel
from vyre.adapters.cpu.pool.job import Job, JobGroup
from vyre.adapters.cpu.pool.layout import Outcome, StopReason
from vyre.adapters.cpu.pool.machine import Target
from vyre.adapters.cpu.pool.options import default_threads
from vyre.adapters.cpu.pool.worker_pool import HANDOFFS, WorkerPool, shared_pool
from vyre.domain.errors import DispatchFailed, InvalidResource

pytestmark = NEEDS_LLVM

SIZE = 2
SUM = 500 * 501 // 2


@pytest.fixture
def pool() -> Iterator[WorkerPool]:
    made = WorkerPool(entries(), size=SIZE, cpus=2, relief=0)
    yield made
    assert made.close()


def adding(pool: WorkerPool, threads: int = 2, *, group: JobGroup | None = None) -> tuple[Job, Frame]:
    """A job that adds ``SUM`` to element 0 of its frame."""
    frame = Frame(1)
    job = pool.job(CommandList([Kernel(kernels()["spread"], frame.address, 500, 3, threads)]), group=group)
    job.keep = frame
    return job, frame


def endless(pool: WorkerPool, threads: int = 1, *, group: JobGroup | None = None) -> tuple[Job, Frame]:
    """A job that runs until it is stopped, and sets element 0 of its frame when it has begun."""
    frame = Frame(1)
    command = Kernel(kernels()["endless"], frame.address, 2 * threads, 1, threads)
    job = pool.job(CommandList([command, Kernel(kernels()["spread"], frame.address, 500)]), group=group)
    job.keep = frame
    return job, frame


def begun(pool: WorkerPool, count: int) -> list[Job]:
    """So many jobs without an end that have begun."""
    made = [endless(pool) for _ in range(count)]
    for job, _ in made:
        pool.submit(job)
    until(lambda: all(frame.data[0] for _, frame in made))
    return [job for job, _ in made]


def elsewhere(run: Callable[[], object]) -> threading.Thread:
    """A started thread other than the main one."""
    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread


# ---------------------------------------------------------------- submitted jobs
def test_a_submitted_job_ends(pool: WorkerPool) -> None:
    job, frame = adding(pool)
    assert job.done
    pool.submit(job)
    assert pool.wait(job, LIMIT_S)
    assert job.done
    assert (job.outcome, job.executed, frame.data[0]) == (Outcome.COMPLETED, 1, SUM)
    assert job.elapsed_ns > 0
    assert pool.wait(job, 0)


def test_waiting_ends_before_the_job(pool: WorkerPool) -> None:
    (job,) = begun(pool, 1)
    assert not job.done
    assert not pool.wait(job, 0)
    assert not pool.wait(job, 0.001)
    job.stop()
    assert pool.wait(job)
    assert job.stop_reason is StopReason.REQUESTED
    assert job.outcome is Outcome.STOPPED
    assert job.executed == 1


def test_jobs_in_an_order(pool: WorkerPool) -> None:
    """Each job of a chain begins when the one before has ended; those that are queued do not wait for the chain."""
    (first,) = begun(pool, 1)
    frames = [Frame(2) for _ in range(4)]
    chain = [pool.job(CommandList([Kernel(kernels()["gated"], frame.address, 1)])) for frame in frames]
    for before, job in zip([first, *chain], chain, strict=False):
        pool.submit(job, after=before)
    free, frame = adding(pool)
    pool.submit(free)
    assert pool.wait(free, LIMIT_S)
    assert frame.data[0] == SUM
    assert [frame.data[1] for frame in frames] == [0, 0, 0, 0]
    first.stop()
    for number, job in enumerate(chain):
        until(lambda number=number: bool(frames[number].data[1]))  # type: ignore[misc]
        assert [frame.data[1] for frame in frames] == [int(i <= number) for i in range(4)]
        frames[number].data[0] = 1
        assert pool.wait(job, LIMIT_S)
    late, frame = adding(pool)
    pool.submit(late, after=chain[0])  # which has ended
    assert pool.wait(late, LIMIT_S)
    assert frame.data[0] == SUM


def test_several_jobs_after_one(pool: WorkerPool) -> None:
    (first,) = begun(pool, 1)
    made = [adding(pool) for _ in range(5)]
    for job, _ in made:
        pool.submit(job, after=first)
    made[2][0].stop()
    assert pool.wait(made[2][0], LIMIT_S)
    assert (made[2][0].outcome, made[2][0].executed) == (Outcome.STOPPED, 0)
    assert not any(job.done for i, (job, _) in enumerate(made) if i != 2)
    first.stop()
    assert all(pool.wait(job, LIMIT_S) for job, _ in made)
    assert [frame.data[0] for _, frame in made] == [SUM, SUM, 0, SUM, SUM]


def test_a_job_that_ends_while_it_is_looked_at_is_among_the_submitted(pool: WorkerPool) -> None:
    class Ending:
        """A job whose run ends between two looks at it."""

        group = None

        def __init__(self) -> None:
            self._looks = 0

        @property
        def done(self) -> bool:
            self._looks += 1
            return self._looks > 1

    job: Any = Ending()
    pool._in_flight[1] = job
    try:
        assert job in pool.submitted(None)  # else nobody waits for it, and nothing releases it
        assert job not in pool.submitted(None) and 1 not in pool._in_flight
    finally:
        pool._in_flight.pop(1, None)


def test_jobs_may_be_released_by_the_collector_while_they_are_looked_at(pool: WorkerPool) -> None:
    class Running:
        group, done = None, False

    jobs: dict[int, Any] = {number: Running() for number in range(1, 200)}
    pool._in_flight.update(jobs)
    try:
        with eager_collector():
            for number in range(1, 100):
                finalize(Cycle(), pool._in_flight.pop, number, None)
                pool.submitted(None)
    finally:
        for number in jobs:
            pool._in_flight.pop(number, None)


def test_dropped_jobs_end_and_their_memory_is_used_again(pool: WorkerPool) -> None:
    def drop() -> None:
        frames = [Frame(1) for _ in range(100)]
        for frame in frames:
            pool.submit(pool.job(CommandList([Kernel(kernels()["spread"], frame.address, 500, 3, 2)])))
        until(lambda: all(frame.data[0] == SUM for frame in frames))

    for _ in range(10):
        drop()
    assert pool.counts["records"] <= 256
    for _ in range(20):
        drop()
    assert pool.counts["records"] <= 256
    assert pool.counts["in_flight"] <= 256


# ---------------------------------------------------------------- the end of a job
@pytest.mark.parametrize("threads", [1, 2, 8])
@pytest.mark.parametrize("main", [True, False])
def test_a_timeout_ends_an_endless_run(pool: WorkerPool, threads: int, main: bool) -> None:
    job, frame = endless(pool, threads)
    for _ in range(2):
        for timeout_s in (0.02, 0.2, 2.0, 20.0):  # a busy machine may not begin in the first one
            job.set_timeout(timeout_s)
            frame.data[0] = 0
            if main:
                assert pool.run(job) is Outcome.STOPPED
            else:
                with ThreadPoolExecutor(1) as executor:
                    assert executor.submit(pool.run, job).result(LIMIT_S) is Outcome.STOPPED
            assert job.stop_reason is StopReason.TIMEOUT
            if job.executed:
                break
        assert (frame.data[0], job.executed) == (1, 1)
    job.set_timeout(None)
    pool.submit(job)
    job.halt()
    assert job.stop_reason is StopReason.REQUESTED


def test_a_timeout_in_the_queue(pool: WorkerPool) -> None:
    running = begun(pool, SIZE)
    job, frame = adding(pool)
    job.set_timeout(0.01)
    later, _ = adding(pool)
    later.set_timeout(3600)
    pool.submit(later)
    assert pool.run(job) is Outcome.STOPPED
    assert (job.stop_reason, job.executed, frame.data[0]) == (StopReason.TIMEOUT, 0, 0)
    assert job.elapsed_ns == 0
    assert not later.done
    for other in running:
        other.halt()
    assert pool.wait(later, LIMIT_S)
    assert later.outcome is Outcome.COMPLETED


def test_a_long_timeout_does_not_end_a_run(pool: WorkerPool) -> None:
    job, frame = adding(pool)
    for timeout in (3600, 1800, 7200):
        job.set_timeout(timeout)
        assert pool.run(job) is Outcome.COMPLETED
    assert frame.data[0] == 3 * SUM
    assert job.stop_reason is None


def test_stopping_a_queued_job(pool: WorkerPool) -> None:
    running = begun(pool, SIZE)
    made = [adding(pool) for _ in range(3)]
    for job, _ in made:
        pool.submit(job)
    for job in (made[2][0], made[0][0]):  # the last in the queue, then the first
        job.stop()
        assert job.done
        assert (job.outcome, job.executed) == (Outcome.STOPPED, 0)
    last, frame = adding(pool)
    pool.submit(last)
    for job in running:
        job.stop()
    assert pool.wait(made[1][0], LIMIT_S) and pool.wait(last, LIMIT_S)
    assert [frame.data[0] for _, frame in made] == [0, SUM, 0]
    assert frame.data[0] == SUM


def test_stopping_what_does_not_run_does_nothing(pool: WorkerPool) -> None:
    job, frame = adding(pool)
    job.stop()
    job.halt()
    assert pool.run(job) is Outcome.COMPLETED
    job.stop()
    assert (job.stop_reason, frame.data[0]) == (None, SUM)


def test_a_closed_group_stops_its_jobs(pool: WorkerPool) -> None:
    group, other = pool.group(), pool.group()
    mine, others = endless(pool, group=group), endless(pool, group=other)
    for job, _ in (mine, others):
        pool.submit(job)
    until(lambda: all(frame.data[0] for _, frame in (mine, others)))
    outcomes: list[Outcome] = []
    led, _ = endless(pool, group=group)
    thread = elsewhere(lambda: outcomes.append(pool.run(led)))
    queued, frame = adding(pool, group=group)
    pool.submit(queued, after=others[0])
    group.close()
    assert pool.wait(mine[0], LIMIT_S)
    assert mine[0].stop_reason is StopReason.CLOSED
    thread.join(LIMIT_S)
    assert outcomes == [Outcome.STOPPED]
    assert queued.done
    assert not others[0].done
    assert pool.run(queued) is Outcome.STOPPED
    assert queued.stop_reason is StopReason.CLOSED
    assert frame.data[0] == 0
    others[0].halt()


def test_a_job_is_run_by_one_run_at_a_time(pool: WorkerPool) -> None:
    (job,) = begun(pool, 1)
    with pytest.raises(InvalidResource, match="under way"):
        pool.run(job)
    with pytest.raises(InvalidResource, match="under way"):
        pool.submit(job)
    with ThreadPoolExecutor(1) as executor, pytest.raises(InvalidResource, match="under way"):
        executor.submit(pool.run, job).result(LIMIT_S)
    assert not job.done
    job.halt()


def test_a_closed_pool_stops_and_refuses(pool: WorkerPool) -> None:
    running = begun(pool, SIZE)
    queued, frame = adding(pool)
    pool.submit(queued)
    assert pool.close()
    assert [job.stop_reason for job in running] == [StopReason.EXIT] * SIZE
    assert queued.done and frame.data[0] == 0
    for run in (pool.run, pool.submit):
        with pytest.raises(DispatchFailed, match="closed"):
            run(queued)
    assert pool.close()


def test_a_forgotten_pool_lets_its_threads_go() -> None:
    before = set(threading.enumerate())  # the shared pool of other tests among them
    pool = WorkerPool(entries(), size=2, cpus=2)
    job, frame = adding(pool)
    job.set_timeout(3600)
    pool.call_when_done(job, lambda: None)
    assert pool.run(job) is Outcome.COMPLETED
    threads = [thread for thread in threading.enumerate() if thread not in before]
    assert len(threads) >= 3  # workers, and those for deadlines and callbacks
    known = ref(pool)
    del pool, job
    gc.collect()
    assert known() is None
    for thread in threads:
        thread.join(LIMIT_S)
        assert not thread.is_alive()
    assert frame.data[0] == SUM


# ---------------------------------------------------------------- callbacks
def test_callbacks(pool: WorkerPool) -> None:
    (job,) = begun(pool, 1)
    called: list[bool] = []
    event = threading.Event()
    pool.call_when_done(job, lambda: called.append(job.done))
    pool.call_when_done(job, event.set)
    assert not event.is_set()
    job.stop()
    assert event.wait(LIMIT_S)
    until(lambda: called == [True])
    pool.call_when_done(job, lambda: called.append(False))
    assert called == [True, False]


def test_many_callbacks_are_called_once_each(pool: WorkerPool) -> None:
    calls: list[int] = []
    done = threading.Event()

    def call(number: int) -> None:
        calls.append(number)
        if len(calls) == 500:
            done.set()

    for number in range(500):
        job, _ = adding(pool)
        pool.submit(job)
        pool.call_when_done(job, lambda number=number: call(number))  # type: ignore[misc]
    assert done.wait(LIMIT_S)
    assert sorted(calls) == list(range(500))


def test_a_callback_may_run_jobs(pool: WorkerPool) -> None:
    results: list[Outcome | bool] = []
    done = threading.Event()

    def callback() -> None:
        results.append(pool.run(adding(pool, 8)[0]))
        submitted, _ = adding(pool)
        pool.submit(submitted)
        results.append(pool.wait(submitted, LIMIT_S))
        pool.call_when_done(submitted, done.set)

    job, _ = adding(pool)
    pool.submit(job)
    pool.call_when_done(job, callback)
    assert done.wait(LIMIT_S)
    assert results == [Outcome.COMPLETED, True]


def test_an_error_in_a_callback_is_told_and_hurts_no_other(pool: WorkerPool, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[object] = []
    monkeypatch.setattr(threading, "excepthook", lambda args: told.append(args.exc_value))
    (job,) = begun(pool, 1)
    event, error = threading.Event(), ValueError("odd")

    def failing() -> None:
        raise error

    pool.call_when_done(job, failing)
    pool.call_when_done(job, event.set)
    job.stop()
    assert event.wait(LIMIT_S)
    assert told == [error]


# ---------------------------------------------------------------- many threads
def test_a_busy_pool_does_not_block_other_threads(pool: WorkerPool) -> None:
    running = begun(pool, SIZE)
    job, frame = adding(pool, 8)
    with ThreadPoolExecutor(1) as executor:
        assert executor.submit(pool.run, job).result(LIMIT_S) is Outcome.COMPLETED
    assert frame.data[0] == SUM
    for other in running:
        other.halt()


def test_queued_jobs_come_before_help(pool: WorkerPool) -> None:
    """The helper of a long run begins a job that is queued as soon as it has finished its groups."""
    frame = Frame(2)
    long = pool.job(CommandList([Kernel(kernels()["gated"], frame.address, 1000, 1, 2)]))
    pool.submit(long)
    until(lambda: frame.data[1] == 2)  # both workers are inside
    job, added = adding(pool)
    pool.submit(job)
    frame.data[0] = 2
    assert pool.wait(job, LIMIT_S)
    assert added.data[0] == SUM
    assert not long.done
    until(lambda: frame.data[1] == 4)  # it helps again
    frame.data[0] = 1000
    assert pool.wait(long, LIMIT_S)
    assert frame.data[1] == 1000


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_no_more_threads_take_part_than_are_allowed(pool: WorkerPool, threads: int) -> None:
    frame = Frame(2)
    job = pool.job(CommandList([Kernel(kernels()["gated"], frame.address, 100, 1, threads)]))
    wide, other = adding(pool, 8)
    assert pool.run(wide) is Outcome.COMPLETED
    assert pool.counts["workers"] == 8
    pool.submit(job)
    until(lambda: frame.data[1] == threads)
    for _ in range(20):
        assert pool.run(wide) is Outcome.COMPLETED  # the others are awake, and do not enter
    assert frame.data[1] == threads
    frame.data[0] = 100
    assert pool.wait(job, LIMIT_S)
    assert frame.data[1] == 100
    assert other.data[0] == 21 * SUM


def test_a_command_begins_when_every_group_of_the_one_before_has_ended(pool: WorkerPool) -> None:
    gates, frame = Frame(2), Frame(1)
    gated = Kernel(kernels()["gated"], gates.address, 2, 1, 2)
    job = pool.job(CommandList([gated, Kernel(kernels()["spread"], frame.address, 500)]))
    for _ in range(5):
        gates.data[:] = [0, 0]
        frame.data[0] = 0
        pool.submit(job)
        until(lambda: gates.data[1] == 2)
        gates.data[0] = 1  # the leader has finished its group, the helper has not
        assert not pool.wait(job, 0.01)
        assert frame.data[0] == 0
        gates.data[0] = 2
        assert pool.wait(job, LIMIT_S)
        assert frame.data[0] == SUM


def test_no_group_begins_after_a_stop(pool: WorkerPool) -> None:
    frame = Frame(2)
    job = pool.job(CommandList([Kernel(kernels()["gated"], frame.address, 100, 1, 2)]))
    pool.submit(job)
    until(lambda: frame.data[1] == 2)
    job.halt()
    assert frame.data[1] == 2
    assert job.outcome is Outcome.STOPPED


def test_more_teams_than_there_are(pool: WorkerPool) -> None:
    """Runs that find no free team run on one thread."""
    count = 70
    frames = [Frame(2) for _ in range(count)]
    jobs = [pool.job(CommandList([Kernel(kernels()["gated"], frame.address, 4, 1, 2)])) for frame in frames]
    with ThreadPoolExecutor(count) as executor:
        results = [executor.submit(pool.run, job) for job in jobs]
        until(lambda: all(frame.data[1] for frame in frames))
        for frame in frames:
            frame.data[0] = 4
        assert {result.result(LIMIT_S) for result in results} == {Outcome.COMPLETED}
    assert [frame.data[1] for frame in frames] == [4] * count


def test_many_runs_from_many_threads_without_growth(pool: WorkerPool) -> None:
    callers, rounds = 16, 400

    def work(number: int) -> int:
        job, frame = adding(pool, 1 + number % 3)
        short, other = adding(pool, 1)
        scratch = Kernel(kernels()["nothing"], frame.address, 4, 1, 2, 10_000)
        big = pool.job(CommandList([scratch]))
        for i in range(rounds):
            assert pool.run(job) is Outcome.COMPLETED
            assert pool.run_short(short) is Outcome.COMPLETED
            assert pool.run_short(big) is Outcome.COMPLETED
            if i % 4 == 0:
                pool.submit(job)
                assert pool.wait(job, LIMIT_S)
        return frame.data[0] + other.data[0]

    def all_work() -> None:
        with ThreadPoolExecutor(callers) as executor:
            assert list(executor.map(work, range(callers))) == [SUM * (2 * rounds + rounds // 4)] * callers

    all_work()
    before, threads = pool.counts, threading.active_count()
    all_work()
    assert pool.counts == before
    assert threading.active_count() == threads
    assert before["records"] == 64
    assert pool.scratch_bytes <= (callers + before["workers"]) * 3 * 4096


# ---------------------------------------------------------------- threads of the pool
def test_workers_are_started_when_they_are_needed() -> None:
    pool = WorkerPool(entries(), size=2, cpus=2)
    job, frame = adding(pool, 1)
    assert pool.run_short(job) is Outcome.COMPLETED
    assert pool.counts["workers"] == 0
    assert pool.run(job) is Outcome.COMPLETED
    assert pool.counts["workers"] == 2
    wide, _ = adding(pool, 5)
    assert pool.run(wide) is Outcome.COMPLETED
    assert pool.counts["workers"] == 5
    assert frame.data[0] == 2 * SUM
    assert pool.close()


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="the system has no affinity of threads")
def test_jobs_begin_while_every_worker_runs_one_that_does_not_end() -> None:
    pool = WorkerPool(entries(), size=SIZE, cpus=2)
    busy = begun(pool, SIZE + 3)
    assert pool.counts["workers"] > SIZE
    job, frame = adding(pool)
    pool.submit(job)
    assert pool.wait(job, LIMIT_S)
    assert pool.run(adding(pool)[0]) is Outcome.COMPLETED
    assert frame.data[0] == SUM
    assert not any(each.done for each in busy)
    assert pool.close()


def test_no_more_workers_are_started_for_queued_jobs_than_are_allowed() -> None:
    pool = WorkerPool(entries(), size=1, cpus=2, relief=2)
    busy = begun(pool, 3)
    waiting, _ = adding(pool)
    pool.submit(waiting)
    seen = -1, -1
    for _ in range(20):  # looks without a pause
        seen = pool.relieve(*seen) or seen
    assert pool.counts["workers"] == 3
    assert not waiting.done
    busy[0].stop()
    assert pool.wait(waiting, LIMIT_S)
    assert pool.relieve(0, 0) is None
    assert pool.close()


def test_handing_a_job_to_a_worker_is_measured(pool: WorkerPool) -> None:
    job, _ = adding(pool)
    for _ in range(HANDOFFS):
        assert pool.handoff_ns is None
        pool.run(job)
        assert job.handoff_ns is not None
    measured = pool.handoff_ns
    assert measured is not None and measured > 0
    (busy, waiting), (last, _) = begun(pool, 2), adding(pool)
    pool.submit(last)
    last.stop()
    assert pool.wait(last, LIMIT_S)
    assert last.handoff_ns is None  # it has not begun
    busy.stop()
    waiting.stop()


def test_the_time_of_a_hand_off_is_the_median_of_the_last(pool: WorkerPool) -> None:
    job, _ = adding(pool)
    for _ in range(3 * HANDOFFS):
        pool.run(job)
    pool._handoffs.extend(range(HANDOFFS, 0, -1))
    assert pool.handoff_ns == 8
    pool._handoffs.extend([10**9] * 7)
    assert pool.handoff_ns == 8


def test_affinity() -> None:
    cpu = frozenset([max(os.sched_getaffinity(0))])
    pool = WorkerPool(entries(), size=2, cpus=1, affinity=cpu)
    job, frame = adding(pool)
    before = set(threading.enumerate())
    assert pool.run(job) is Outcome.COMPLETED
    started = {thread.name: thread for thread in threading.enumerate() if thread not in before}
    started.pop("vyre-cpu-relief", None)  # on a busy machine a thread looks for jobs that do not begin, too
    assert started.keys() == {"vyre-cpu-0", "vyre-cpu-1"}
    for thread in started.values():
        until(lambda thread=thread: os.sched_getaffinity(thread.native_id) == cpu)  # type: ignore[misc]
    assert frame.data[0] == SUM
    assert pool.close()


def test_a_thread_that_cannot_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    pool = WorkerPool(entries(), size=2, cpus=2)
    job, frame = adding(pool)
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        with pytest.raises(DispatchFailed, match="cannot be started") as caught:
            pool.run(job)
        assert "threads=1" in caught.value.fix
    assert pool.run(job) is Outcome.COMPLETED
    wide, _ = adding(pool, 9)
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        assert pool.run(wide) is Outcome.COMPLETED  # with the threads that there are
    assert frame.data[0] == SUM
    assert pool.close()


@pytest.mark.parametrize("spin_ns", [0, 1_000_000])
@pytest.mark.parametrize("cpus", [0, 64])
def test_results_do_not_depend_on_how_threads_wait(spin_ns: int, cpus: int) -> None:
    pool = WorkerPool(entries(), size=3, cpus=cpus, spin_ns=spin_ns)
    frame = Frame(3)
    job = pool.job(CommandList([], [Kernel(kernels()["spread"], frame.address, 30, 1, 3)], 300))
    assert pool.run(job) is Outcome.COMPLETED
    assert sum(frame.data) == 300 * 30 * 31 // 2
    assert pool.close()


def habit(pool: WorkerPool, place: int = at.Pool.habit) -> tuple[int, int]:
    """The waits that will not spin, and their number after the last time that a thread spun in vain."""
    left, length = (c_int32.from_address(pool.block + place + at_word).value for at_word in (0, 4))
    return left, length


def test_a_thread_that_spins_in_vain_sleeps_at_once_the_next_times(pool: WorkerPool) -> None:
    (job,) = begun(pool, 1)
    pool.entries.wait(job.address, 0)  # a look, which never spins
    assert habit(pool) == (0, 0)
    seen = []
    for _ in range(1 + 1 + 1 + 3 + 1):
        pool.entries.wait(job.address, 1)
        seen.append(habit(pool))
    assert seen == [(1, 1), (0, 1), (3, 3), (2, 3), (1, 3), (0, 3), (7, 7)]
    for _ in range(7 + 1 + 15 + 1 + 31 + 1 + 63 + 1):
        pool.entries.wait(job.address, 1)
    assert habit(pool) == (at.MOST_SKIPPED, at.MOST_SKIPPED)
    job.halt()


def test_a_thread_that_spins_until_its_job_has_ended_goes_on_to_spin() -> None:
    pool = WorkerPool(entries(), size=2, cpus=64, spin_ns=LIMIT_S * 10**9)

    def ended_meanwhile() -> bool:
        """Stops a job while this thread waits for it, if it does so already."""
        (job,) = begun(pool, 1)
        c_int32.from_address(pool.block + at.Pool.habit + at.Habit.length).value = 7
        stopping = elsewhere(job.stop)
        assert pool.wait(job, LIMIT_S)
        stopping.join()
        return habit(pool) == (0, 0)

    until(ended_meanwhile)
    assert pool.close()


def test_a_worker_that_spins_in_vain_sleeps_at_once_the_next_time() -> None:
    pool = WorkerPool(entries(), size=1, cpus=64, spin_ns=1)
    of_worker = at.Pool.contexts + at.CALLER_CONTEXTS * at.Context.BYTES + at.Context.habit
    job, _ = adding(pool, 1)
    assert pool.run(job) is Outcome.COMPLETED
    until(lambda: habit(pool, of_worker)[1] > 0)
    assert pool.close()


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere it is what all other tests use")
def test_sleeping_without_a_futex() -> None:
    pool = WorkerPool(entries(Target(TARGET.arch, "darwin")), size=2, cpus=2)
    frame = Frame(3)
    job = pool.job(CommandList([], [Kernel(kernels()["spread"], frame.address, 30, 1, 3)], 50))
    assert pool.run(job) is Outcome.COMPLETED
    assert sum(frame.data) == 50 * 30 * 31 // 2
    job, _ = endless(pool, 2)
    job.set_timeout(0.01)
    assert pool.run(job) is Outcome.STOPPED
    (job,) = begun(pool, 1)
    assert not pool.wait(job, 0.01)
    job.halt()
    assert pool.close()


def test_sessions_share_a_pool() -> None:
    first = shared_pool(entries)
    assert shared_pool(lambda: pytest.fail("it is made once")) is first
    assert first.size == default_threads()
    cpus = frozenset([0])
    assert shared_pool(entries, cpus) is shared_pool(entries, cpus) is not first
