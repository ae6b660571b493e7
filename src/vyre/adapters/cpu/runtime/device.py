"""The processor as a device: its worker threads, the way to run jobs on them, and the end of a backend.

All backends of a process share the workers.  The jobs of one backend are a group, so that closing it stops them, also
those of kernels that would never end.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Final, Protocol
from weakref import WeakSet

from vyre.adapters.cpu.pool.options import default_threads
from vyre.adapters.cpu.runtime.counters import Counters
from vyre.adapters.cpu.runtime.options import CpuOptions
from vyre.adapters.forks import process_lock
from vyre.domain.cached import cached_property
from vyre.domain.errors import DispatchFailed
from vyre.domain.names import BackendId
from vyre.domain.shared_dicts import members_of
from vyre.domain.unique import Unique, used_in_a_fork
from vyre.ports.interrupts import sealed, undisturbed

if TYPE_CHECKING:
    from collections.abc import Callable

    from vyre.adapters.cpu.pool.commands import CommandList
    from vyre.adapters.cpu.pool.job import Job, JobGroup
    from vyre.adapters.cpu.pool.layout import Outcome
    from vyre.adapters.cpu.pool.ring import Ring, RingCode, RingSpec
    from vyre.adapters.cpu.pool.worker_pool import WorkerPool
    from vyre.ports.cancellation import Cancellation


class Engine(Protocol):
    """Work that goes on between calls, which a device ends with its backend."""

    def drain(self) -> object:
        """Waits until all work that was begun has ended."""

    def close(self) -> None:
        """Stops all work, and refuses any other from then on."""


class CpuDevice(Unique):
    """The processor for one backend.

    ``find_pool`` returns the pool of worker threads; it is called when the first job is made.  All methods may be
    called from any thread.
    """

    def __init__(
        self, backend: BackendId, options: CpuOptions, counters: Counters, find_pool: Callable[[], WorkerPool]
    ) -> None:
        self.backend: Final = backend
        self.options: Final = options
        self.counters: Final = counters
        self._find_pool = find_pool
        self._pool: WorkerPool | None = None
        self._group: JobGroup | None = None
        self._lock = process_lock()
        self._pid = os.getpid()
        self._running: set[Job] = set()
        self._engines: WeakSet[Engine] = WeakSet()
        self._rings: WeakSet[Ring] = WeakSet()
        counters.jobs_of_open_rings = self._jobs_of_rings
        self.closed: bool = False

    @property
    def is_inherited(self) -> bool:
        """Returns whether this process is a fork of the one that the backend belongs to."""
        return os.getpid() != self._pid

    @cached_property
    def threads(self) -> int:
        """Returns how many threads take part in a launch at most."""
        return self.options.threads or default_threads(self.options.affinity)

    @property
    def handoff_ns(self) -> int | None:
        """Returns the measured time from handing work to a worker until it runs; None if it was not measured yet.

        Raises what ``pool`` raises: all sessions of a process share what was measured, so the pool is found first.
        """
        return self.pool.handoff_ns

    @property
    def pool(self) -> WorkerPool:
        """Returns the pool of worker threads.  Raises ``BackendUnavailable`` where its code cannot be had."""
        pool = self._pool
        return self.open() if pool is None else pool

    def open(self) -> WorkerPool:
        """Finds the pool, unless that was done before, and returns it.

        Raises ``BackendUnavailable`` where its code cannot be had, and ``DispatchFailed`` if the backend is closed, or
        belongs to the process that this one was forked from.
        """
        self.check()
        with self._lock, sealed:
            if self._pool is None:
                pool = self._find_pool()
                self._group = pool.group()
                self._pool = pool
            return self._pool

    def check(self) -> None:
        """Raises ``DispatchFailed`` if nothing may run any more."""
        if self.closed:
            raise DispatchFailed(f"backend `{self.backend}` is closed", fix="open a new session.")
        if os.getpid() != self._pid:
            raise used_in_a_fork(f"backend `{self.backend}`", self._pid, os.getpid())
        if sys.is_finalizing():
            raise DispatchFailed(
                f"backend `{self.backend}` is used while the interpreter exits",
                fix="close sessions before the program ends.",
            )

    def job(self, commands: CommandList) -> Job:
        """Returns a job of this backend."""
        pool = self.pool
        return pool.job(commands, group=self._group)

    def run_short(self, job: Job) -> Outcome:
        """Runs a job on the calling thread.  Nothing can stop it, so it must take little time.

        Raises ``DispatchFailed`` as ``check`` does, and ``DeviceOutOfMemory``.
        """
        if self.closed or os.getpid() != self._pid:
            self.check()
        self.counters.caller_runs += 1
        return (self._pool or self.open()).run_short(job)

    def run(self, job: Job) -> Outcome:
        """Runs a job and waits for its end.  Raises as ``run_short`` does, and what a signal handler raises."""
        if self.closed or os.getpid() != self._pid:
            self.check()
        self.counters.worker_runs += 1
        self._running.add(job)
        try:
            return (self._pool or self.open()).run(job)
        except KeyboardInterrupt:
            self.counters.interrupts += 1
            raise
        finally:
            self._running.discard(job)

    def run_until(self, job: Job, cancellation: Cancellation) -> Outcome:
        """Runs a job and waits for its end, which ``cancellation`` may ask for.  Raises as ``run`` does."""
        self.check()
        self.counters.worker_runs += 1
        self.pool.submit(job)
        try:
            with cancellation.stops(job.stop):
                self.pool.wait(job)
        except BaseException:
            job.halt()
            raise
        finally:
            self.ended(job)
        return self.pool.checked(job)

    def submit(self, job: Job) -> None:
        """Queues a job.  Raises as ``run`` does."""
        self.check()
        self.pool.submit(job)

    def ended(self, job: Job) -> None:
        """Releases a submitted job if it has ended; else the pool keeps it, and what it uses, until then."""
        self.pool.forget(job)

    # ---------------------------------------------------------------- persistent engines
    def ring(self, spec: RingSpec, code: RingCode) -> Ring:
        """Returns an open ring, whose jobs are stopped with this backend."""
        from vyre.adapters.cpu.pool.ring import Ring

        ring = undisturbed(Ring, self.pool, spec, code, self._group, self._closed_ring)
        with self._lock, sealed:
            self._rings.add(ring)
            self.counters.persistent_launches += 1
        return ring

    def _closed_ring(self, jobs: int) -> None:
        self.counters.persistent_jobs += jobs  # without the lock: a ring may be dropped while a thread holds it

    def _jobs_of_rings(self) -> int:
        with self._lock, sealed:
            return sum(ring.counts["jobs"] for ring in members_of(self._rings) if not ring.closed)

    def opened_engine(self, engine: Engine) -> None:
        """Has a persistent engine flushed and closed with the backend."""
        with self._lock, sealed:
            refused = self.closed
            if not refused:
                self._engines.add(engine)
        if refused:
            engine.close()
            self.check()

    def closed_engine(self, engine: Engine) -> None:
        """Forgets a persistent engine."""
        with self._lock, sealed:
            self._engines.discard(engine)

    # ---------------------------------------------------------------- the end
    def flush(self) -> None:
        """Waits until all work that was begun before this call has ended."""
        if os.getpid() == self._pid and self._pool is not None:
            for job in (*tuple(self._running), *self._pool.submitted(self._group)):
                self._pool.wait(job)
            for engine in members_of(self._engines):
                engine.drain()

    def close(self) -> None:
        """Stops all work of this backend and waits for its end.  Later work is refused.  Idempotent."""
        if os.getpid() != self._pid:
            self.closed = True
            return
        with self._lock, sealed:
            self.closed = True
            group = self._group
        if group is not None:
            group.close()
        for engine in members_of(self._engines):
            engine.close()
        self.flush()
