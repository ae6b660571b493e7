"""The worker threads, in one pool for each set of CPUs that all sessions share, and the ways to run a job."""

from __future__ import annotations

import atexit
import os
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from ctypes import c_int32, c_int64, c_uint64
from itertools import count
from queue import Empty, SimpleQueue
from typing import Final, Protocol, TypeAlias
from weakref import ReferenceType, WeakSet, finalize, ref

from vyre.adapters.callbacks import call_back
from vyre.adapters.cpu.pool import layout as at
from vyre.adapters.cpu.pool.commands import CommandList
from vyre.adapters.cpu.pool.entries import Entries
from vyre.adapters.cpu.pool.job import Job, JobGroup
from vyre.adapters.cpu.pool.layout import Outcome, StopReason
from vyre.adapters.cpu.pool.options import default_threads
from vyre.adapters.forks import process_lock, tell_in_forks
from vyre.domain.errors import BackendError, DeviceOutOfMemory, DispatchFailed, InvalidResource
from vyre.domain.float_mode import in_default_mode
from vyre.domain.shared_dicts import entries_of, members_of
from vyre.domain.unique import Unique, used_in_a_fork
from vyre.ports.interrupts import leave_signals, sealed, undisturbed

SLICE_NS: Final = 50_000_000
"""How long the main thread waits natively before it lets Python handle signals that arrived on other threads."""
SPIN_NS: Final = 20_000
"""How long a thread spins for the next work, or for the end of a job or a team, before it sleeps."""
STALL_S: Final = 0.1
"""The time between two looks at the queue while jobs wait in it."""
RELIEF: Final = 64
"""How many workers are started, at most, because every other one is busy and no queued job begins."""
HANDOFFS: Final = 15
"""Hand-offs of which the median is taken."""
LEAVE_S: Final = 5.0
"""How long closing a pool waits for its threads."""
_RECORDS: Final = 64
"""Records in a slab of memory."""
_REAP: Final = 8
"""Submitted jobs that are kept, at least, before those that have ended are looked for."""
_ALL_BITS: Final = (1 << 64) - 1

_Called: TypeAlias = "tuple[Job, Callable[[], object]]"
"""A job, and a function that is called when it is done."""


class Ring(Protocol):
    """A ring of jobs that the workers of a pool serve, as the pool sees it."""

    @property
    def progress(self) -> tuple[int, int]:
        """Returns the number of published entries and the cursor, which grows with every job that is begun."""

    @property
    def waits(self) -> bool:
        """Returns whether a published job has not begun, and no worker is there to begin it when its time has come."""

    def shut(self) -> None:
        """Has submissions refused from now on."""


class WorkerPool(Unique):
    """Worker threads, which run jobs of all sessions without the interpreter lock.

    ``size`` workers are started when the first job needs them, more when a job asks for more threads, and one at a time
    (``relief`` in all) when no queued job begins because all workers run kernels that do not end.  ``cpus`` is how
    many threads may be awake while one of them spins.  ``affinity`` is the set of CPUs on which the workers run.
    All methods may be called from any thread.  A fork of the process has a pool without workers, which starts its own;
    jobs of the parent are refused there.
    """

    def __init__(
        self,
        entries: Entries,
        *,
        size: int,
        cpus: int,
        affinity: frozenset[int] | None = None,
        spin_ns: int = SPIN_NS,
        relief: int = RELIEF,
    ) -> None:
        self.entries: Final = entries
        self.size: Final = size
        self.cpus: Final = cpus
        self.affinity: Final = affinity
        self._spin_ns: Final = spin_ns
        self._most_relief: Final = relief
        self._parent = 0
        self._open()
        _POOLS.add(self)
        tell_in_forks(self)

    def _open(self) -> None:
        """Makes everything that a process has of its own."""
        self._pid = os.getpid()
        self._main = threading.main_thread().ident
        self._lock = process_lock()
        self._blocks = [_allocate(self.entries, at.Pool.BYTES)]
        self.block: int = self._blocks[0]
        _prepare(self.block, self.cpus, self._spin_ns)
        self._free: list[int] = []
        self._in_flight: dict[int, Job] = {}
        self._reap_at = _REAP
        self._handoffs: deque[int] = deque(maxlen=HANDOFFS)
        self._called: dict[int, _Called] = {}
        self._threads: list[threading.Thread] = []
        self._workers = 0
        self._numbers = count()
        self.rings: WeakSet[Ring] = WeakSet()
        self._watching = self._calling = self._relieving = self._closed = False
        self._relief = Relief()
        self._release = finalize(self, _dispose, self.entries, self.block, self._blocks, self._threads, self._relief)
        self._release.atexit = False

    # ------------------------------------------------------------ records
    def job(self, commands: CommandList, *, group: JobGroup | None = None) -> Job:
        """Returns a job that runs ``commands``.  The memory that these name must live until its last run has ended."""
        return Job(self.entries, self.block, self._record(), self._recycle, commands, group)

    def group(self) -> JobGroup:
        """Returns a new group of jobs."""
        address = self._record()
        c_int64.from_address(address).value = 0
        return JobGroup(self.entries, self.block, address, self._recycle)

    def _record(self) -> int:
        while True:
            try:
                return self._free.pop()
            except IndexError:
                with self._lock, sealed:
                    if not self._free:
                        slab = _allocate(self.entries, _RECORDS * at.Job.BYTES)
                        self._blocks.append(slab)
                        self._free.extend(slab + at.Job.BYTES * number for number in range(_RECORDS))

    def _recycle(self, block: int, address: int) -> None:
        """Takes back the record of a job or group that no thread knows any longer."""
        if block == self.block:
            self._free.append(address)

    # ------------------------------------------------------------ runs
    def run_short(self, job: Job) -> Outcome:
        """Runs a job on the calling thread, whatever it is.  Nothing can stop it, so it must take little time.

        Raises ``DeviceOutOfMemory``, before anything has run, where there is no memory for scratch.
        """
        outcome = self.entries.enter(job.address)
        return self.checked(job) if outcome else Outcome.COMPLETED

    def run(self, job: Job) -> Outcome:
        """Runs a job, waits for its end, and returns how it ended.

        The main thread leaves the job to the workers; an exception that a signal handler raises, such as
        ``KeyboardInterrupt``, stops the run, waits for its end and is raised.  Another thread leads the run itself.

        Raises ``DeviceOutOfMemory``, before anything has run, where there is no memory for scratch; ``InvalidResource``
        if a run of the job is under way; ``DispatchFailed`` after ``close`` and in a fork of the job's process.
        """
        self._provide(job)
        entries, address = self.entries, job.address
        if threading.get_ident() != self._main:
            code = entries.lead(address)
        else:
            ran = True
            try:
                code = entries.run(address, SLICE_NS)
                if code == at.STILL_RUNNING:
                    self.await_begin()
                while code == at.STILL_RUNNING:
                    code = entries.wait(address, SLICE_NS)
                ran = code != at.REFUSED_BUSY
            except BaseException:
                if ran:
                    entries.halt(address, StopReason.INTERRUPTED)
                raise
            if code == at.DONE and (took := job.handoff_ns) is not None:
                self._handoffs.append(took)
        if code < 0:
            raise self._refused(job, code)
        return self.checked(job)

    @property
    def handoff_ns(self) -> int | None:
        """Returns the measured time from handing a job to a worker until the worker runs it: the median of the last
        ``HANDOFFS`` runs that the main thread awaited.  None before there are so many.
        """
        if len(self._handoffs) < HANDOFFS:
            return None
        return sorted(self._handoffs.copy())[HANDOFFS // 2]

    def submit(self, job: Job, *, after: Job | None = None) -> None:
        """Queues a job, and returns.  It begins when the run of ``after`` that is under way, if any, has ended.

        ``job.done`` and ``wait`` tell when it has ended, and ``outcome`` says how.  Raises as ``run`` does, except
        that a lack of memory is told by ``outcome``.
        """
        self._provide(job)
        flying = self._in_flight
        if len(flying) >= self._reap_at:
            self._reap()
        flying[job.address] = job
        code = self.entries.submit(job.address, 0 if after is None else after.address)
        if code < 0:
            raise self._refused(job, code)
        if self.is_unwatched():
            self.await_begin()

    def wait(self, job: Job, timeout_s: float | None = None) -> bool:
        """Waits until a submitted run has ended, at most so many seconds; returns whether it has.

        An exception of a signal handler, such as ``KeyboardInterrupt``, ends the waiting and leaves the run under way.
        """
        wait, address = self.entries.wait, job.address
        code = wait(address, 0) if timeout_s is not None and timeout_s <= 0 else at.STILL_RUNNING
        end = None if timeout_s is None else time.monotonic_ns() + round(timeout_s * 1e9)
        while code == at.STILL_RUNNING:
            left = SLICE_NS if end is None else min(SLICE_NS, end - time.monotonic_ns())
            if left <= 0:
                return job.done
            code = wait(address, left)
        if code < 0:
            raise self._refused(job, code)
        self._in_flight.pop(address, None)
        return True

    def checked(self, job: Job) -> Outcome:
        """Returns how the last run of a job ended; raises ``DeviceOutOfMemory`` for a lack of memory."""
        outcome = job.outcome
        if outcome is Outcome.OUT_OF_MEMORY:
            raise DeviceOutOfMemory(requested=job.commands.scratch_bytes)
        return outcome

    def _refused(self, job: Job, code: int) -> BackendError:
        if code == at.REFUSED_BUSY:
            return InvalidResource(
                "the job is run while a run of it is under way", fix="make a job for each run at a time."
            )
        self._in_flight.pop(job.address, None)
        if job.block != self.block:
            return used_in_a_fork("the pool of the job", self._parent, self._pid)
        return DispatchFailed("the pool of worker threads is closed", fix="run nothing while the interpreter exits.")

    def forget(self, job: Job) -> None:
        """Releases a submitted job, with the memory that it keeps, if its run has ended."""
        if job.done:
            self._in_flight.pop(job.address, None)

    def submitted(self, group: JobGroup | None) -> list[Job]:
        """Returns the submitted jobs of a group whose runs are under way, after releasing all that have ended."""
        return [job for job in self._reap() if job.group is group]

    def _reap(self) -> list[Job]:
        """Releases the jobs whose runs have ended; returns the others, each of which is looked at once."""
        running: list[Job] = []
        for address, job in entries_of(self._in_flight):
            if job.done:
                self._in_flight.pop(address, None)
            else:
                running.append(job)
        self._reap_at = max(_REAP, 2 * len(self._in_flight))
        return running

    # ------------------------------------------------------------ threads
    def _provide(self, job: Job) -> None:
        """Starts the threads that the run of ``job`` needs, unless a fork of its process runs it."""
        if job.block != self.block:
            raise self._refused(job, at.REFUSED_DEAD)
        self.provide(job.threads, deadlines=bool(job.timeout_ns))

    def provide(self, threads: int, *, deadlines: bool) -> None:
        """Starts so many workers, and the thread that watches deadlines, unless they have been started."""
        if self._workers < self.size or self._workers < threads:
            undisturbed(self._start_workers, max(self.size, threads))
        if not self._watching and deadlines:
            undisturbed(self._start_watching)

    def _start_watching(self) -> None:
        with self._lock, sealed:
            if not self._watching and not self._closed:
                self._start("deadlines", _watch, self.entries, self.block)
                self._watching = True

    def _start_workers(self, wanted: int) -> None:
        with self._lock, sealed:
            while self._workers < min(wanted, at.MOST_WORKERS) and not self._closed:
                try:
                    self._start(str(self._workers), _work, self.entries, self.block, self._workers, self.affinity)
                except DispatchFailed:
                    if not self._workers:
                        raise
                    return  # with fewer threads everything runs, only slower
                self._workers += 1

    @property
    def is_unwatched(self) -> Callable[[], bool]:
        """Returns a function that tells whether no thread is about to look whether queued jobs begin."""
        return self._relief.wanted.empty

    def await_begin(self) -> None:
        """Has a thread look whether queued jobs begin, and start workers while they do not."""
        if not self._relieving:
            undisturbed(self._start_relief)
        if self.is_unwatched():
            self._relief.wanted.put(None)

    def _start_relief(self) -> None:
        with self._lock, sealed:
            if not self._relieving and not self._closed:
                self._start("relief", _relieve, ref(self), self._relief)
                self._relieving = True

    def relieve(self, stalls: int, begun: int) -> tuple[int, int] | None:
        """Starts a worker if no queued job has begun for long enough.

        ``begun`` counts the jobs that had been taken from the queue and from rings at the last look, ``stalls`` looks
        in a row found no other number; returns both as they are now, or None if no job waits.  Each further worker
        takes one look more.
        """
        rings = members_of(self.rings)
        if not c_int32.from_address(self.block + at.Pool.queued).value and not any(ring.waits for ring in rings):
            return None
        now = c_int32.from_address(self.block + at.Pool.begun).value + sum(ring.progress[1] for ring in rings)
        if now != begun:
            return 0, now
        if stalls + 1 > self._relief.started and self._relief.started < self._most_relief:
            with suppress(DispatchFailed):
                self._start_workers(self._workers + 1)
            self._relief.started += 1
            return 0, now
        return stalls + 1, now

    @in_default_mode
    def _start(self, name: str, target: Callable[..., None], *arguments: object) -> None:
        thread = threading.Thread(target=target, args=arguments, name=f"vyre-cpu-{name}", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:
            raise DispatchFailed(
                f"a worker thread cannot be started: {error}", fix="raise the limit of threads, or use threads=1."
            ) from error
        self._threads.append(thread)

    def call_when_done(self, job: Job, callback: Callable[[], object]) -> None:
        """Calls ``callback`` once when the run has ended, on a thread of the pool, or at once if none is under way."""
        number = next(self._numbers)
        self._called[number] = job, callback
        if self.entries.notify(job.address) == at.DONE:
            self._call(number)
            return
        if not self._calling:
            undisturbed(self._start_calling)

    def _start_calling(self) -> None:
        with self._lock, sealed:
            if not self._calling and not self._closed:
                self._start("callbacks", _call_back, ref(self), self.entries, self.block)
                self._calling = True

    def call_ended(self) -> None:
        """Calls the callbacks of the jobs that have ended."""
        for number in [number for number, (job, _) in entries_of(self._called) if job.done]:
            self._call(number)

    def _call(self, number: int) -> None:
        entry = self._called.pop(number, None)
        if entry is not None:  # else another thread calls it
            call_back(entry[1])

    # ------------------------------------------------------------ the end
    def close(self, wait_s: float = LEAVE_S) -> bool:
        """Stops every run, and waits at most so many seconds for the threads.  Returns whether all have ended.

        Later runs are refused.
        """
        with self._lock, sealed:
            self._closed = True
        self._relief.end()
        if self._pid == os.getpid():
            self.entries.shutdown(self.block)
        ended = _join(self._threads, wait_s)
        self.call_ended()
        return ended

    @property
    def closed(self) -> bool:
        """Returns whether ``close`` was called."""
        return self._closed

    def inherited(self) -> None:
        """Begins the pool anew in a forked child; jobs of the parent are refused there."""
        self._release.detach()
        self._parent = self._pid
        for ring in members_of(self.rings):
            ring.shut()
        c_int32.from_address(self.block + at.Pool.dead).value = 1
        self._open()

    @property
    def counts(self) -> dict[str, int]:
        """Returns how many workers, records of jobs, free records and submitted jobs the pool has."""
        slabs = len(self._blocks) - 1
        return {
            "workers": self._workers,
            "records": slabs * _RECORDS,
            "free_records": len(self._free),
            "in_flight": len(self._in_flight),
        }

    @property
    def scratch_bytes(self) -> int:
        """Returns the bytes of scratch that all threads have now."""
        first = self.block + at.Pool.contexts + at.Context.size
        contexts = at.CALLER_CONTEXTS + self._workers
        return sum(c_int64.from_address(first + at.Context.BYTES * number).value for number in range(contexts))


def _allocate(entries: Entries, nbytes: int) -> int:
    address: int = entries.allocate(nbytes)
    if not address:
        raise DeviceOutOfMemory(requested=nbytes)
    return address


def _prepare(block: int, cpus: int, spin_ns: int) -> None:
    """Writes the fields of a new pool that are not zero."""
    c_int32.from_address(block + at.Pool.cpus).value = cpus
    c_int64.from_address(block + at.Pool.spin).value = spin_ns
    c_int64.from_address(block + at.Pool.tail).value = block + at.Pool.queue
    c_uint64.from_address(block + at.Pool.free_teams).value = _ALL_BITS
    c_uint64.from_address(block + at.Pool.free_rings).value = _ALL_BITS
    for word in range(at.CALLER_WORDS):
        c_uint64.from_address(block + at.Pool.free_contexts + 8 * word).value = _ALL_BITS


# ---------------------------------------------------------------- what the threads do
def _work(entries: Entries, block: int, index: int, affinity: frozenset[int] | None) -> None:
    leave_signals()
    if affinity is not None and hasattr(os, "sched_setaffinity"):
        with suppress(OSError):  # where the CPUs were taken from the process after the option was checked
            os.sched_setaffinity(0, affinity)
    entries.worker(block, index)


def _watch(entries: Entries, block: int) -> None:
    leave_signals()
    entries.watch(block)


def _call_back(known: ReferenceType[WorkerPool], entries: Entries, block: int) -> None:
    """Calls back until the pool is closed or nobody knows it any longer."""
    leave_signals()
    seen, closed = entries.ended(block, 0, 0), False
    while not closed:
        pool = known()
        if pool is None:
            return
        closed = pool.closed  # before the last look at what has ended
        pool.call_ended()
        del pool
        if not closed:
            seen = entries.ended(block, seen, -1)


class Relief:
    """The state that the pool and the thread that starts further workers share.

    ``wanted`` has an entry if jobs may be queued, ``ended`` if the thread shall leave.  Their methods are functions of
    C, which no handler interrupts.  ``started``: how many workers it has started.
    """

    def __init__(self) -> None:
        self.wanted: Final[SimpleQueue[None]] = SimpleQueue()
        self.ended: Final[SimpleQueue[None]] = SimpleQueue()
        self.started: int = 0

    def end(self) -> None:
        """Lets the thread leave."""
        self.ended.put(None)
        self.wanted.put(None)


def _relieve(known: ReferenceType[WorkerPool], relief: Relief) -> None:
    """Looks at the queue as long as jobs wait in it, until the pool is closed or nobody knows it any longer."""
    leave_signals()
    look: tuple[int, int] | None = None
    while True:
        if look is None:
            relief.wanted.get()  # before the look: who queues a job after it wakes this thread again
        with suppress(Empty):
            relief.ended.get(timeout=STALL_S)
            return
        pool = known()
        if pool is None:
            return
        look = pool.relieve(*(look or (0, -1)))
        del pool


def _join(threads: list[threading.Thread], wait_s: float) -> bool:
    end = time.monotonic() + wait_s
    for thread in threads:
        if thread is not threading.current_thread():
            thread.join(max(0.0, end - time.monotonic()))
    return not any(thread.is_alive() for thread in threads)


def _dispose(entries: Entries, block: int, blocks: list[int], threads: list[threading.Thread], relief: Relief) -> None:
    """Frees the memory of a pool that nobody knows any longer, unless one of its threads does not end."""
    relief.end()
    entries.shutdown(block)
    if not _join(threads, LEAVE_S):
        return
    for number in range(at.CALLER_CONTEXTS):
        entries.release(c_int64.from_address(block + at.Pool.contexts + at.Context.BYTES * number).value)
    for address in blocks:
        entries.release(address)


_POOLS: Final[WeakSet[WorkerPool]] = WeakSet()


@atexit.register
def _close_all() -> None:
    for pool in members_of(_POOLS):
        pool.close()


_SHARED: Final[dict[frozenset[int] | None, WorkerPool]] = {}
"""The pools that the process shares.  A fork keeps them, and they begin anew by themselves."""
_LOCK: Final = process_lock()


def shared_pool(load: Callable[[], Entries], affinity: frozenset[int] | None = None) -> WorkerPool:
    """Returns the pool of the process for these CPUs; the first call makes it, with the runtime that ``load`` returns.

    It has as many workers as ``options.default_threads`` says, and more once a job asks for them.
    """
    pool = _SHARED.get(affinity)
    return undisturbed(_made, load, affinity) if pool is None else pool


def _made(load: Callable[[], Entries], affinity: frozenset[int] | None) -> WorkerPool:
    with _LOCK, sealed:
        pool = _SHARED.get(affinity)
        if pool is None:
            threads = default_threads(affinity)
            pool = _SHARED[affinity] = WorkerPool(load(), size=threads, cpus=threads, affinity=affinity)
        return pool
