"""Persistent engines: jobs that wait in a ring, which the pool's workers serve without Python between two of them.

A job of its own has memory that it shares with no other until its ticket is forgotten, so that no result is lost and no
caller has to hurry; afterwards it is used for another job.  The jobs of a batch have memory of the batch, one after the
other, and write their outputs where the caller wants them.

The interpreter lock orders what enters the ring: one native call looks for room, writes the entry and publishes it.
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from ctypes import Array, addressof, c_int64
from math import prod
from typing import TYPE_CHECKING, Final

from vyre.adapters.cpu.native.features import X86_64, host
from vyre.adapters.cpu.pool import layout as at
from vyre.adapters.cpu.pool.layout import ROW_BITS, Entry, Outcome, StopReason
from vyre.adapters.cpu.pool.ring import MOST_ROWS, RingCode, RingSpec, RowStatus, read_status
from vyre.adapters.cpu.pool.worker_pool import SLICE_NS
from vyre.adapters.cpu.runtime.addresses import AddressReader, writable_address
from vyre.adapters.cpu.runtime.device import CpuDevice
from vyre.adapters.cpu.runtime.job_memory import ELAPSED, STATE, STATUS_WORDS, RingMemories, RingMemory
from vyre.adapters.cpu.runtime.kernels import LoadedKernels
from vyre.adapters.cpu.runtime.launch import Owner, ended_error
from vyre.adapters.cpu.runtime.pipeline import CpuExecutor, CpuPipeline
from vyre.adapters.forks import process_lock
from vyre.adapters.host.memory import allocate_aligned
from vyre.domain.dispatch import DispatchConfig, DispatchTiming
from vyre.domain.errors import (
    BackendError,
    DeviceOutOfMemory,
    DispatchFailed,
    InvalidInput,
    InvalidResource,
    UnsupportedFeature,
)
from vyre.domain.ir.program import Program
from vyre.domain.shared_dicts import entries_of
from vyre.domain.unique import Unique, used_in_a_fork
from vyre.policies.arith import next_power_of_two
from vyre.ports.interrupts import sealed
from vyre.ports.persistent import MOST_CAPACITY, EndedJobs, JobMemory, no_descriptor
from vyre.ports.requests import HostBytes

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Bytes = npt.NDArray[np.uint8]

_BLOCK_BYTES: Final = 1 << 16
"""The memory for jobs that is made at once, unless one job needs more."""
_UNTIMED: Final = DispatchTiming(0, 0, None, None, 0)[2:]
_new: Final = tuple.__new__
"""It makes a ``DispatchTiming`` in a third of the time of its constructor."""
_COMPLETED: Final = 1
"""The state of a job that has completed: no error, and nobody has stopped it."""


class _Batch:
    """The memory of the jobs of one entry, which lives until they have ended and nobody asks for them."""

    __slots__ = ("jobs", "keep", "learned", "status", "submission", "table")

    def __init__(self, jobs: int, table: Sequence[int], keep: Sequence[object], door: int) -> None:
        self.jobs: Final = jobs
        self.table: Final[Array[c_int64]] = (c_int64 * max(1, len(table)))(*table)
        self.status, address = allocate_aligned(jobs * at.Status.BYTES)
        self.submission: Final[Array[c_int64]] = (c_int64 * STATE)(door, jobs, address, addressof(self.table))
        self.keep: Final = tuple(keep)
        self.learned: bool = False
        """Whether its ranges were copied, and its times added up."""

    @property
    def status_address(self) -> int:
        """Returns the address of the status of the first job."""
        return self.submission[at.Submission.status // 8]


class CpuEngine(Unique):
    """``PersistentEngine`` of the backend."""

    def __init__(self, device: CpuDevice, pipeline: CpuPipeline, input_nbytes: tuple[int, ...], capacity: int) -> None:
        launch = pipeline.shape(input_nbytes).launch
        config = pipeline.config
        self._device, self._pipeline, self._launch = device, pipeline, launch
        self._plan: Final = pipeline.plan
        self._input_nbytes: Final = input_nbytes
        self.output_nbytes: Final = launch.output_nbytes
        self.most_jobs: Final = MOST_ROWS
        self._module = pipeline.module_for(launch)
        self._loaded: LoadedKernels = self._module.loaded
        self._pid = os.getpid()
        used = 0 if config.step_budget is None else 8 * prod(launch.grid) * prod(launch.workgroup)
        zeroed = [n if b.input_index is None else 0 for b, n in zip(self._plan.bindings, launch.nbytes, strict=True)]
        spec = RingSpec(
            capacity=next_power_of_two(capacity),
            runners=min(device.threads, at.MOST_RUNNERS),
            grid=launch.grid,
            counts=launch.counts,
            zeroed=tuple(zeroed),
            launches=config.launches,
            timeout_s=config.timeout_s,
            step_budget=config.step_budget,
            used_bytes=used,
        )
        self._ring: Final = device.ring(spec, self._code(self._loaded))
        self._pool: Final = self._ring.pool
        self._block: Final = self._ring.block
        self._address: Final = self._ring.address
        self._words: Final = self._ring.entries
        self._head: Final = c_int64.from_address(self._address + at.Ring.head)
        self._enter: Final = self._pool.entries.ring_enter
        self._native_wait: Final = self._pool.entries.ring_wait
        self._first: Final = self._ring.first
        self._is_unwatched: Final = self._pool.is_unwatched
        self.capacity: Final = spec.capacity
        self._mask: Final = spec.capacity - 1
        self._memories: Final = RingMemories(self._plan, launch, self._ring.door)
        self._all: Final[set[RingMemory | _Batch]] = set()
        """All memory of jobs: an interrupt must not free that of a job under way."""
        self._free: Final[list[RingMemory]] = []
        self._jobs: Final[dict[int, RingMemory]] = {}
        """The memory of each job whose ticket is not forgotten, by its number."""
        self._batches: Final[dict[int, _Batch]] = {}
        self._dropped: Final[deque[tuple[int, RingMemory | _Batch]]] = deque()
        """The jobs whose tickets were forgotten before they had ended, by number."""
        self._abandoned: Final[deque[tuple[list[int], RingMemory | _Batch]]] = deque()
        """Memory whose submission was interrupted, with the jobs of which one may be its own."""
        self._lock: Final = process_lock()
        self._descriptors: Final[dict[int, tuple[int, ...]]] = {}
        self._closed = False
        self._waits_natively: Final = host().arch != X86_64
        """Reading a word of Python orders no later read on other processors."""
        self._waits = self._full = self._jobs_seen = self._ns_seen = 0
        self._due = 1
        self._last: Mapping[str, int] = {}

    # ------------------------------------------------------------ submitting
    def memory(self) -> JobMemory:
        """Implements ``PersistentEngine.memory``."""
        try:
            return self._free.pop()
        except IndexError:
            self._sweep()
        try:
            return self._free.pop()
        except IndexError:
            block = self._memories.made(max(1, min(len(self._all), _BLOCK_BYTES // self._memories.stride)))
        self._all.update(block)
        self._free.extend(block[1:])
        return block[0]

    def give_back(self, memory: JobMemory, /) -> None:
        """Implements ``PersistentEngine.give_back``."""
        assert isinstance(memory, RingMemory)
        self._free.append(memory)

    def take_back(self, memory: JobMemory, /) -> None:
        """Implements ``PersistentEngine.take_back``."""
        assert isinstance(memory, RingMemory)
        self._take_back(memory)

    def _take_back(self, memory: RingMemory | _Batch) -> None:
        """Forgets the job of this memory, or keeps it while a job may be under way under a number that nobody knows."""
        for number, own in (*entries_of(self._jobs), *entries_of(self._batches)):
            if own is memory:
                self.forget(number << ROW_BITS)
                return
        head = 0 if self._closed else self._head.value
        numbers = range(max(0, head - self.capacity), head)
        self._abandoned.append(([number for number in numbers if not self._ring.has_ended(number)], memory))

    def submit(self, memory: JobMemory, /) -> int | None:
        """Implements ``PersistentEngine.submit``."""
        ticket: int = self._enter(memory.address)  # type: ignore[attr-defined]  # it is of this engine
        if ticket < 0:
            self._refuse(ticket)
            return None
        self._jobs[ticket >> ROW_BITS] = memory  # type: ignore[assignment]
        if self._is_unwatched():
            self._pool.await_begin()
        return ticket

    def submit_many(self, columns: Sequence[HostBytes], jobs: int, into: Sequence[memoryview], /) -> int | None:
        """Implements ``PersistentEngine.submit_many``."""
        if not 1 <= jobs <= MOST_ROWS:
            raise InvalidInput(f"{jobs} jobs in one submission", fix=f"submit 1 to {MOST_ROWS} at once.")
        if self._closed:
            raise self._refused()
        if not self._has_room():
            self._refuse(at.RING_IS_FULL)
            return None  # before anything is copied
        self._sweep()
        batch = self._batch(columns, jobs, into)
        self._all.add(batch)  # it may be under way from now on, whatever interrupts this
        try:
            ticket: int = self._enter(addressof(batch.submission))
            if ticket >= 0:
                self._batches[ticket >> ROW_BITS] = batch
                if self._is_unwatched():
                    self._pool.await_begin()
                return ticket
        except BaseException:
            self._take_back(batch)
            raise
        self._all.discard(batch)
        self._refuse(ticket)
        return None

    def _has_room(self) -> bool:
        number = self._head.value
        return self._words[(number & self._mask) << 4] > number - self.capacity

    def _refuse(self, reason: int) -> None:
        """Counts a refusal of a full queue.  Raises the error of an engine that is closed."""
        if reason == at.RING_IS_SHUT:
            raise self._refused()
        with self._lock, sealed:
            self._full += 1

    def _batch(self, columns: Sequence[HostBytes], jobs: int, into: Sequence[memoryview]) -> _Batch:
        """Returns the memory of a batch, with its inputs copied."""
        import numpy as np

        if len(columns) != len(self._input_nbytes):
            raise self._unfit(columns)
        read = AddressReader()
        table: list[int] = []
        keep: list[object] = list(into)
        for binding, nbytes in zip(self._plan.bindings, self._launch.nbytes, strict=True):
            column = None if binding.input_index is None else columns[binding.input_index]
            if column is not None and column.nbytes not in (nbytes, jobs * nbytes):
                raise self._unfit(columns)
            if binding.output_index is None:
                assert column is not None
                data, address = allocate_aligned(max(1, column.nbytes))
                data[: column.nbytes] = np.frombuffer(column, np.uint8)
                keep.append(data)
                table += [address, 0 if column.nbytes == nbytes else nbytes]
                continue
            target = into[binding.output_index]
            if binding.buffer.output_range is not None:  # the range is copied out when the jobs have ended
                data, address = allocate_aligned(max(1, jobs * nbytes))
                keep.append(_Part(data, nbytes, self._launch.output_ranges[binding.output_index], target))
                target = data.data
            else:
                address = writable_address(target) if nbytes else 0
            if column is not None and nbytes:
                rows = np.frombuffer(target, np.uint8, jobs * nbytes).reshape(jobs, nbytes)
                rows[:] = np.frombuffer(column, np.uint8).reshape(-1, nbytes)
            table += [address, nbytes]
        del read
        return _Batch(jobs, table, keep, self._ring.door)

    # ------------------------------------------------------------ ends of jobs
    def done(self, ticket: int, /) -> bool:
        """Implements ``PersistentEngine.done``."""
        number = ticket >> ROW_BITS
        if self._words[(number & self._mask) << 4] > number:
            return True
        batch = self._batches.get(number)
        return batch is not None and bool(batch.status[(ticket & MOST_ROWS) * at.Status.BYTES])

    def wait(self, ticket: int, /, *, timeout: float | None = None) -> DispatchTiming:
        """Implements ``PersistentEngine.wait``."""
        number = ticket >> ROW_BITS
        memory = self._jobs.get(number)
        if memory is None:
            return self._wait_row(ticket, timeout)
        place = number & self._mask
        if self._waits_natively or self._words[place << 4] <= number:
            self._waits += 1
            limit = SLICE_NS if timeout is None else 0
            entry = self._first + Entry.BYTES * place
            if not self._native_wait(self._block, entry, entry + Entry.completed, number, limit):
                self._await(ticket, timeout, None)
        words = memory.words
        if words[STATE] != _COMPLETED:
            status = read_status(words[:], STATE)
            if status is None:  # another thread has forgotten the ticket meanwhile
                raise _forgotten()
            raise self._error(status)
        elapsed = words[ELAPSED]
        self._jobs_seen += 1
        self._ns_seen += elapsed
        if self._jobs_seen >= self._due:
            self._learn()
        return _new(DispatchTiming, (elapsed, elapsed, *_UNTIMED))

    def _wait_row(self, ticket: int, timeout: float | None) -> DispatchTiming:
        batch = self._batches.get(ticket >> ROW_BITS)
        if batch is None:
            raise _forgotten()
        if not self.done(ticket):
            self._waits += 1
            self._await(ticket, timeout, batch)
        status = _status_of(batch, ticket & MOST_ROWS)
        self._finish(ticket >> ROW_BITS, batch)
        if status.outcome:
            raise self._error(status)
        return _new(DispatchTiming, (status.elapsed_ns, status.elapsed_ns, *_UNTIMED))

    def wait_many(self, first: int, jobs: int, /, *, timeout: float | None = None) -> EndedJobs:
        """Implements ``PersistentEngine.wait_many``."""
        number = first >> ROW_BITS
        batch = self._batches[number]
        if not self._ring.has_ended(number):
            self._waits += 1
            self._await(first, timeout, None)
        self._finish(number, batch)
        states = batch.status.view("<i8").reshape(jobs, STATUS_WORDS)
        failed = (states[:, 0] & 0xFF) != 1
        tickets = tuple([first + row for row in failed.nonzero()[0].tolist()]) if failed.any() else ()
        return EndedJobs(int(states[:, 3].sum()), tickets)

    def wait_room(self, timeout: float | None = None, /) -> bool:
        """Implements ``PersistentEngine.wait_room``."""
        number = self._head.value
        if self._words[(number & self._mask) << 4] <= number - self.capacity:
            try:
                self._await((number - self.capacity) << ROW_BITS, timeout, None)
            except TimeoutError:
                return False
        return True

    def forget(self, ticket: int, /) -> None:
        """Implements ``PersistentEngine.forget``."""
        number = ticket >> ROW_BITS
        memory = self._jobs.pop(number, None) or self._batches.pop(number, None)
        if memory is None:
            return
        if self._words[(number & self._mask) << 4] <= number:
            self._dropped.append((number, memory))
        else:
            self._let_go(memory)

    def _let_go(self, memory: RingMemory | _Batch) -> None:
        """Takes back memory of which no job is under way."""
        if isinstance(memory, RingMemory) and len(self._free) < self.capacity:
            self._free.append(memory)
        else:
            self._all.discard(memory)

    def _sweep(self) -> None:
        """Takes back the memory of jobs that were forgotten before they had ended."""
        while self._dropped:
            try:
                number, memory = self._dropped.popleft()
            except IndexError:  # another thread took it
                return
            if not self._ring.has_ended(number):
                self._dropped.appendleft((number, memory))
                break
            self._let_go(memory)
        while self._abandoned:
            try:
                numbers, freed = self._abandoned.popleft()
            except IndexError:
                return
            if not all(map(self._ring.has_ended, numbers)):
                self._abandoned.appendleft((numbers, freed))
                return
            self._let_go(freed)

    def drain(self, timeout: float | None = None, /) -> bool:
        """Implements ``PersistentEngine.drain``."""
        end = None if timeout is None else time.monotonic() + timeout
        head = self._head.value if not self._closed else 0
        for number in range(max(0, head - self.capacity), head):
            if not self._ring.has_ended(number):
                try:
                    self._await(number << ROW_BITS, None if end is None else max(0.0, end - time.monotonic()), None)
                except TimeoutError:
                    return False
        return True

    # ------------------------------------------------------------ descriptors
    def subscribe(self) -> int:
        """Implements ``PersistentEngine.subscribe``."""
        if self._closed:
            raise self._refused()
        fds = _descriptors()
        with self._lock, sealed:
            if not self._ring.add_fd(fds[-1]):
                for fd in set(fds):
                    os.close(fd)
                raise UnsupportedFeature(
                    feature=f"more than {at.MOST_FDS} event loops of one engine", backend=self._device.backend
                )
            self._descriptors[fds[0]] = fds
            self._ring.notify(wanted=True)
        return fds[0]

    def unsubscribe(self, descriptor: int, /) -> None:
        """Implements ``PersistentEngine.unsubscribe``."""
        with self._lock, sealed:
            fds = self._descriptors.pop(descriptor, None)
            if fds is None:
                return
            if self._pool.block == self._block:
                self._ring.drop_fd(fds[-1])
                if not self._descriptors and not self._ring.closed:
                    self._ring.notify(wanted=False)
        for fd in set(fds):
            os.close(fd)

    def rearm(self, descriptor: int, /) -> None:
        """Implements ``PersistentEngine.rearm``."""
        with suppress(BlockingIOError):
            os.read(descriptor, 4096)
        if not self._ring.closed:
            self._ring.rearm()

    # ------------------------------------------------------------ the end
    def counters(self) -> Mapping[str, int]:
        """Implements ``PersistentEngine.counters``."""
        return self._last if self._last else self._counts(self._head.value)

    def close(self) -> None:
        """Implements ``PersistentEngine.close``."""
        if self._pool.block != self._block:
            self._closed = True  # the parent's: nothing of it runs here
            return
        with self._lock, sealed:
            if self._closed:
                return
            self._closed = True
        self._ring.shut()
        submissions = self._head.value
        self._ring.stop(StopReason.REQUESTED)
        self._ring.close()
        self._last = self._counts(submissions)
        self._device.closed_engine(self)

    def __del__(self) -> None:
        for fds in getattr(self, "_descriptors", {}).values():
            for fd in set(fds):
                os.close(fd)

    # ------------------------------------------------------------ details
    def _counts(self, submissions: int) -> Mapping[str, int]:
        native = self._ring.counts
        return {"launches": 1, "submissions": submissions, "waits": self._waits, "full": self._full, **native}

    def _code(self, loaded: LoadedKernels) -> RingCode:
        scratch = max((kernel.scratch_for(self._launch.nbytes) for kernel in loaded.kernels), default=0)
        return RingCode(loaded.functions, scratch, loaded)

    def _learn(self) -> None:
        """Tells the module how long its jobs take, and takes better code once it is there."""
        jobs, ns = self._jobs_seen, self._ns_seen
        self._jobs_seen = self._ns_seen = 0
        self._due = min(2 * self._due, 256)
        self._module.took(ns, jobs)
        self._device.counters.native_ns += ns
        if self._module.loaded is not self._loaded:
            with self._lock, sealed:
                if not self._closed:
                    self._loaded = self._module.loaded
                    self._ring.use_code(self._code(self._loaded))

    def _finish(self, number: int, batch: _Batch) -> None:
        """Copies returned ranges out of a batch; learns from it once all of its jobs have ended."""
        if batch.learned:
            return
        ended = self._ring.has_ended(number)
        for part in batch.keep:
            if isinstance(part, _Part):
                part.copy()
        if ended:
            with self._lock, sealed:
                first, batch.learned = not batch.learned, True
            if first:
                self._jobs_seen += batch.jobs
                self._ns_seen += int(batch.status.view("<i8").reshape(batch.jobs, STATUS_WORDS)[:, 3].sum())
                self._learn()

    def _error(self, status: RowStatus) -> BackendError:
        config = self._pipeline.config
        if status.outcome is Outcome.OUT_OF_MEMORY:
            return DeviceOutOfMemory(requested=self._code(self._loaded).scratch_bytes)
        title = self._pipeline.spec(self._launch).title
        if status.outcome is Outcome.STOPPED and status.reason is StopReason.REQUESTED:
            return DispatchFailed(
                f"a job of `{title}` was stopped because its persistent engine was closed",
                fix="collect results before the engine is closed.",
            )
        owner = Owner(
            self._pipeline.id, title, self._module, self._launch, status.kernel, config.step_budget, config.timeout_s
        )
        return ended_error(self._device, owner, status.outcome, status.reason, status.lane, status.address, status.tag)

    def _await(self, ticket: int, timeout: float | None, batch: _Batch | None) -> None:
        """Waits until a job has ended, in slices, so that handlers of signals run.  Raises ``TimeoutError``."""
        number, ring = ticket >> ROW_BITS, self._ring
        status = 0 if batch is None else batch.status_address + (ticket & MOST_ROWS) * at.Status.BYTES
        end = None if timeout is None else time.monotonic_ns() + round(timeout * 1e9)
        while True:
            if self._pool.block != self._block:
                raise self._refused()
            left = SLICE_NS if end is None else max(0, min(SLICE_NS, end - time.monotonic_ns()))
            if ring.wait(number, left, status):
                return
            if self._pool.closed and not (ring.has_ended(number)):
                raise DispatchFailed(
                    "the pool of worker threads is closed", fix="collect results before the interpreter exits."
                )
            if end is not None and time.monotonic_ns() >= end:
                raise TimeoutError(f"the job did not finish within {timeout} s")
            self._pool.await_begin()

    def _unfit(self, inputs: Sequence[HostBytes]) -> InvalidInput:
        lengths = tuple(view.nbytes for view in inputs)
        return InvalidInput(
            f"inputs of {lengths} bytes for a persistent engine of inputs of {self._input_nbytes} bytes",
            fix="open an engine for these lengths.",
        )

    def _refused(self) -> BackendError:
        if self._pool.block != self._block:
            return used_in_a_fork("the persistent engine", self._pid, os.getpid())
        if self._device.closed:
            return DispatchFailed(f"backend `{self._device.backend}` is closed", fix="open a new session.")
        return InvalidResource("the persistent engine is closed", fix="open another.")


class _Part:
    """A range of each job's output that is copied to the caller's memory."""

    __slots__ = ("_data", "_nbytes", "_range", "_target")

    def __init__(self, data: Bytes, nbytes: int, range: tuple[int, int], target: memoryview) -> None:
        self._data, self._nbytes, self._range, self._target = data, nbytes, range, target

    def copy(self) -> None:
        """Copies what the jobs have written."""
        import numpy as np

        start, end = self._range
        if end > start:
            rows = self._data[: self._data.nbytes // self._nbytes * self._nbytes].reshape(-1, self._nbytes)
            np.frombuffer(self._target, np.uint8).reshape(-1, end - start)[:] = rows[:, start:end]


class CpuPersistent:
    """``PersistentExecutor`` of the backend."""

    __slots__ = ("_device", "_executor")

    def __init__(self, device: CpuDevice, executor: CpuExecutor) -> None:
        self._device, self._executor = device, executor

    def open(
        self, program: Program, config: DispatchConfig, input_nbytes: tuple[int, ...], capacity: int, /
    ) -> CpuEngine:
        """Implements ``PersistentExecutor.open``."""
        if not 2 <= capacity <= MOST_CAPACITY:
            raise InvalidResource(
                f"capacity={capacity} of a persistent engine", fix=f"take a number from 2 to {MOST_CAPACITY}."
            )
        pipeline, _ = self._executor.pipeline(program, config)
        if pipeline.kernels is not None:
            raise UnsupportedFeature(
                feature="a grid loop in a persistent engine",
                backend=str(self._device.backend),
                fix="dispatch the program: all of its rounds are one native call.",
            )
        self._device.open()
        engine = CpuEngine(self._device, pipeline, input_nbytes, capacity)
        self._device.opened_engine(engine)
        return engine


def _forgotten() -> InvalidResource:
    return InvalidResource("the ticket was forgotten", fix="keep the result.")


def _status_of(batch: _Batch, row: int) -> RowStatus:
    words = batch.status[row * at.Status.BYTES : (row + 1) * at.Status.BYTES].view("<i8").tolist()
    status = read_status(words)
    assert status is not None
    return status


def _descriptors() -> tuple[int, ...]:
    """Returns a descriptor to read and one to write, which may be the same; neither blocks."""
    try:
        if hasattr(os, "eventfd"):
            return (os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK),)
        ends = os.pipe()
    except OSError as error:
        raise no_descriptor("telling of ended jobs", error) from None
    for end in ends:
        os.set_blocking(end, False)
    return ends
