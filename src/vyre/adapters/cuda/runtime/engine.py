"""A persistent engine: a kernel that stays on the device and takes jobs from a mailbox in mapped host memory.

Between two jobs nothing is launched, and no Python runs.  A launch leaves after some time without a job, so that
nothing that waits for the whole device waits for ever; the next submission launches again, and a caller who waits finds
out whether that is needed.  Nobody tells of a lost device but the driver: callers ask it while they wait.
"""

from __future__ import annotations

import copy
import os
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final
from weakref import ref

from vyre.adapters.cuda.ptx.mailbox_layout import MOST_ROWS, ROW_BITS, Control, Descriptor, Row, State
from vyre.adapters.cuda.runtime.arena import plan_arena
from vyre.adapters.cuda.runtime.device import release_all
from vyre.adapters.cuda.runtime.executor import CudaPipeline
from vyre.adapters.cuda.runtime.launch import (
    PreparedLaunch,
    ScratchAddresses,
    plan_scratch,
    read_trap,
    resident_blocks,
    resident_per_multiprocessor,
)
from vyre.adapters.cuda.runtime.mailbox import (
    RowLayout,
    RowMemory,
    Rows,
    Submission,
    Words,
    frees,
    read_outputs,
    write_inputs,
)
from vyre.adapters.cuda.runtime.notices import Notices
from vyre.adapters.cuda.runtime.slot import Resources
from vyre.adapters.cuda.runtime.waiting import deadline_after
from vyre.adapters.cuda.seam import CudaCallError
from vyre.adapters.forks import process_lock, refuse_within
from vyre.domain.dispatch import DispatchTiming
from vyre.domain.errors import (
    BackendError,
    DispatchFailed,
    DispatchTimeout,
    InvalidInput,
    InvalidResource,
)
from vyre.domain.shared_dicts import entries_of
from vyre.domain.unique import Unique, used_in_a_fork
from vyre.policies.arith import next_power_of_two
from vyre.ports.interrupts import sealed, undisturbed, whole
from vyre.ports.persistent import EndedJobs, JobMemory
from vyre.ports.requests import HostBytes

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from vyre.adapters.cuda.runtime.streams import StreamLease

LEASE_NS: Final = 200_000_000
"""How long a launch stays without a job, in ns of the device's clock."""
_ENDLESS_NS: Final = 1 << 62
_ALIGNMENT: Final = 256
_WAITING, _COMPLETED = int(State.WAITING), int(State.COMPLETED)
"""Numbers that NumPy compares: of a member of an enumeration it asks attributes, and swallows what a handler raises."""


class CudaEngine(Unique):
    """``PersistentEngine`` of the backend."""

    def __init__(
        self,
        resources: Resources,
        pipeline: CudaPipeline,
        input_nbytes: tuple[int, ...],
        capacity: int,
        ended: Callable[[CudaEngine], None],
    ) -> None:
        """Makes everything ready; ``ended`` is called when the engine has.

        Call it inside ``device.calls``; it raises ``CudaCallError``.
        """
        self._tell_ended: Final = ended
        self._resources: Final = resources
        self._device: Final = self._resources.device
        self._pipeline = pipeline
        self._input_nbytes: Final = input_nbytes
        self._launch: Final = pipeline.launch_of(input_nbytes)
        self.capacity: Final = next_power_of_two(capacity)
        self.most_jobs: Final = MOST_ROWS
        self.output_nbytes: Final = self._launch.output_nbytes
        self._mask: Final = self.capacity - 1
        self._module: Final = pipeline.staying_module()
        self._kernel: Final = self._module.kernels[0].emitted
        self._lock: Final = process_lock()
        self._pid: Final = os.getpid()
        self._number = 0
        self._launched = 0
        self._jobs = self._full = self._waits = 0
        self._open: deque[Submission] = deque()
        """Entries of which not all jobs are known to have ended, in order."""
        self._ended_singles: deque[Submission] = deque()
        """Entries of one job that have ended, since results were copied aside."""
        self._entries: dict[int, Submission] = {}
        self._forgotten: deque[Submission] = deque()
        """Entries that nobody wants any more, whose memory is taken back with the next use of the engine."""
        self._closed = False
        self._error: BackendError | None = None
        self._words: Words | None = None
        self._undo: list[Callable[[], None]] = []
        self._notices: Final = Notices(partial(_ended_of, ref(self)))
        try:
            self._prepare()
            self._launcher()
        except BaseException as error:
            self._words = None  # nothing is left to close
            if isinstance(error, CudaCallError):
                self._device.roll_back(error, reversed(self._undo))
            else:
                release_all(reversed(self._undo))
            raise
        self._launched = 1
        self._device.counters.persistent_launches += 1

    def _prepare(self) -> None:
        resources, device, launch = self._resources, self._device, self._launch
        driver, plan, config = device.driver, self._pipeline.plan, self._pipeline.config
        scratch = plan_scratch(self._module)
        arena = plan_arena(plan, launch, (), table=0, traps=scratch.looked_at, scratch=0)
        self._layout = RowLayout(arena)
        stride = max(_ALIGNMENT, _aligned(arena.nbytes))
        loaded = self._module.kernels[0]
        fits = resident_per_multiprocessor(device, loaded) * device.facts.multiprocessors
        blocks = resident_blocks(fits, stride, device.facts.total_memory)
        self.lease: StreamLease = resources.streams.acquire()
        stream = self.lease.stream
        self._undo.append(partial(resources.streams.free, self.lease))
        control = Control.ROWS + 4 * self.capacity
        described = _aligned(control)
        first = described + _aligned(Descriptor.NBYTES)
        self._memory = resources.memory.allocate(first + blocks * stride, stream)
        self._undo.append(partial(resources.memory.free, self._memory, stream))
        base = self._memory.address
        self._words = Words(self.capacity, driver)
        self._undo += frees(driver, [self._words.block])
        self._rows = RowMemory(self._layout)
        limit = _ENDLESS_NS if config.timeout_s is None else min(_ENDLESS_NS, int(config.timeout_s * 1e9))
        x, y, z = launch.grid
        source, nbytes = self._words.describe(
            {
                Descriptor.CONTROL: base,
                Descriptor.MASK: self._mask,
                Descriptor.ARENA: base + first,
                Descriptor.ARENA_STRIDE: stride,
                Descriptor.ROW_NBYTES: self._layout.nbytes,
                Descriptor.UPLOAD_END: self._layout.upload_end,
                Descriptor.ZERO: self._layout.upload_end,  # gaps, too: they are copied back
                Descriptor.ZERO_END: stride,
                Descriptor.READ: self._layout.read.start,
                Descriptor.READ_END: self._layout.read.end,
                Descriptor.LIMIT: limit,
                Descriptor.LEASE: LEASE_NS,
                Descriptor.GRID: x,
                Descriptor.GRID + 8: y,
                Descriptor.GRID + 16: z,
                Descriptor.REPEATS: config.launches,
            }
        )
        driver.memset8(base, 0, control, stream)
        driver.copy_to_device(base + described, source, nbytes, stream)
        self._launcher = PreparedLaunch(
            device, self._module, plan, (blocks, 1, 1), stream, cooperative=False, sink=resources.decisions
        )
        addresses = [0 if offset is None else base + first + offset for offset in arena.offsets]
        self._launcher.bind(
            addresses, launch.counts, ScratchAddresses(trap=base + first + arena.traps.start, mailbox=base + described)
        )

    # ------------------------------------------------------------ submitting
    def memory(self) -> JobMemory:
        """Implements ``PersistentEngine.memory``: ordinary memory, so that results take none that is mapped."""
        sizes = self._input_nbytes, self.output_nbytes
        inputs, outputs = (tuple([memoryview(bytearray(nbytes)) for nbytes in each]) for each in sizes)
        return JobMemory(inputs, outputs)

    def give_back(self, memory: JobMemory, /) -> None:
        """Implements ``PersistentEngine.give_back``: nothing is used again."""

    def take_back(self, memory: JobMemory, /) -> None:
        self._take_back(memory.outputs)

    def _take_back(self, into: Sequence[memoryview]) -> None:
        with self._lock, sealed:
            numbers = [number for number, entry in entries_of(self._entries) if entry.into is into]
        for number in numbers:
            self.forget(number << ROW_BITS)

    def submit(self, memory: JobMemory, /) -> int | None:
        return self._submit(memory.inputs, 1, memory.outputs)

    def submit_many(self, columns: Sequence[HostBytes], jobs: int, into: Sequence[memoryview], /) -> int | None:
        if not 1 <= jobs <= MOST_ROWS:
            raise InvalidInput(f"{jobs} jobs in one submission", fix=f"submit 1 to {MOST_ROWS} at once.")
        fit = len(columns) == len(self._input_nbytes) and all(
            view.nbytes in (nbytes, jobs * nbytes) for view, nbytes in zip(columns, self._input_nbytes, strict=True)
        )
        if not fit:
            lengths = tuple(view.nbytes for view in columns)
            raise InvalidInput(
                f"inputs of {lengths} bytes for a persistent engine of inputs of {self._input_nbytes} bytes",
                fix="open an engine for these lengths.",
            )
        try:
            return self._submit(columns, jobs, into)
        except BaseException:  # an interrupt of a caller who then has no ticket
            self._take_back(into)
            raise

    def _submit(self, columns: Sequence[HostBytes], jobs: int, into: Sequence[memoryview]) -> int | None:
        self._check_process()
        refuse_within(self._lock, "the persistent engine")
        with self._lock, sealed:
            self._check()
            room = self._has_room()
            if room:
                number, words, rows = self._number, self._words, self._take(jobs)
                assert words is not None
                before = self._open[-1].before + self._open[-1].count if self._open else self._jobs
                entry = Submission(number, before, rows, into)
                self._open.append(entry)
                write_inputs(self._layout, rows, columns)
                self._entries[number] = entry
                words.describe_entry(number & self._mask, rows)
                # One statement without a call, in which no signal is handled; before it, the next one drops the entry.
                words.tail.value, self._number = number + 1, number + 1
        if not room:
            self._full += 1
            self.look()  # so that whoever tries until there is room learns of a lost device
            return None
        with self._lock, sealed:  # the processor has stored what was published before it reads what the kernel wrote
            has_left = self._words is not None and self._words.left == self._launched
        if has_left:
            self._drive(self._start)
        return number << ROW_BITS

    def _has_room(self) -> bool:
        last = self._number - self.capacity
        assert self._words is not None
        return last < 0 or self._words.end_of(last & self._mask) > last

    def _take(self, jobs: int) -> Rows:
        """Returns memory for an entry; results that nobody has collected yet are copied aside before more is taken."""
        self._drop_interrupted()
        self._sweep()
        if jobs == 1 and not self._rows.has_single:
            while self._ended_singles:
                self._settle(self._ended_singles[0])
                self._ended_singles.popleft()
        while (rows := self._rows.take(jobs)) is None:
            try:
                undisturbed(self._provide, jobs)
            except CudaCallError as error:
                raise self._device.fault(error) from error
        return rows

    def _provide(self, jobs: int) -> None:
        """Makes memory.  It neither enters the device nor loses it: that may need the lock, which the caller holds."""
        driver = self._device.driver
        driver.set_current(self._device.context)
        self._rows.provide(jobs, driver)

    def _drop_interrupted(self) -> None:
        """Takes back what a submission made that was interrupted before the kernel knew of it."""
        while self._open and self._open[-1].number >= self._number:
            self._entries.pop(self._open[-1].number, None)
            self._rows.give_back(self._open[-1])
            self._open.pop()

    def _drive(self, calls: Callable[[], object]) -> None:
        """Makes calls of the driver under the lock, unless the engine has ended.  An error ends it, and is raised."""
        try:
            self._device.enter()  # without the lock, which what is released there may need
            try:
                with self._lock, sealed:
                    if self._words is not None and not self._closed:
                        calls()
            except CudaCallError as error:
                raise self._device.fault(error) from error
        except BackendError as error:
            undisturbed(self.failed, error)
            raise

    def _start(self) -> None:
        """Launches the kernel, which begins when an earlier launch of it has left."""
        self._launcher()
        self._launched += 1
        self._device.counters.persistent_launches += 1

    # ------------------------------------------------------------ ends of jobs
    def done(self, ticket: int, /) -> bool:
        """Implements ``PersistentEngine.done``.  A job that has not ended makes it look at the device, too."""
        self._check_process()
        if self._has_ended(ticket):
            return True
        self.look()
        return self._has_ended(ticket)

    def wait(self, ticket: int, /, *, timeout: float | None = None) -> DispatchTiming:
        self._check_process()
        self._await(partial(self._has_ended, ticket), "the job", timeout)
        row = ticket & MOST_ROWS
        with self._lock, sealed:
            entry = self._entry(ticket)
            state = entry.state(row)
            if state is not State.COMPLETED:
                raise self._error_of(entry, row)
            elapsed = int.from_bytes(self._heads(entry)[row, Row.ELAPSED : Row.ELAPSED + 8].tobytes(), "little")
            if entry.rows is not None:
                read_outputs(self._layout, entry.rows, entry.into, slice(row, row + 1))
        return DispatchTiming(elapsed, elapsed, None, None, 0)

    def wait_many(self, first: int, jobs: int, /, *, timeout: float | None = None) -> EndedJobs:
        self._check_process()
        self._await(lambda: self._is_over(first), "the jobs", timeout)
        with self._lock, sealed:
            entry = self._entry(first)
            self._settle(entry)
            heads = self._heads(entry)
            failed = (heads[:, Row.STATE] != _COMPLETED).nonzero()[0]
            elapsed = heads[:, Row.ELAPSED : Row.ELAPSED + 8].copy().view("<u8")
            return EndedJobs(int(elapsed.sum()), tuple([first + row for row in failed.tolist()]))

    def wait_room(self, timeout: float | None = None, /) -> bool:
        self._check_process()

        def has_room() -> bool:
            with self._lock, sealed:
                return self._words is None or self._has_room()

        try:
            self._await(has_room, "a place", timeout)
        except TimeoutError:
            return False
        return True

    def forget(self, ticket: int, /) -> None:
        if os.getpid() != self._pid:
            return
        entry = self._entries.pop(ticket >> ROW_BITS, None)  # without the lock: a finalizer may call it at any moment
        if entry is not None:
            entry.is_wanted = False
            self._forgotten.append(entry)

    def drain(self, timeout: float | None = None, /) -> bool:
        self._check_process()
        head = self._number

        def drained() -> bool:
            with self._lock, sealed:
                self._sweep()
                return self._words is None or not self._open or self._open[0].number >= head

        try:
            self._await(drained, "the jobs", timeout)
        except TimeoutError:
            return False
        return True

    def look(self) -> None:
        """Asks the driver whether the kernel is well, and launches it if it has left jobs behind.

        Raises nothing: jobs of a lost device have ended.
        """
        if self._words is not None:
            with suppress(BackendError):  # which is raised to who waits for a job
                self._drive(self._look)

    def _look(self) -> None:
        idle = self._device.driver.stream_ready(self.lease.stream)
        self._sweep()
        if idle and self._open:
            self._start()

    def ended(self) -> int:
        """Looks, and returns how many jobs have ended."""
        self.look()
        with self._lock, sealed:
            return self._ended()

    # ------------------------------------------------------------ descriptors
    def subscribe(self) -> int:
        """Implements ``PersistentEngine.subscribe``: a thread looks at the words as long as there are descriptors."""
        self._check_process()
        with self._lock, sealed:
            self._check()
        return self._notices.subscribe()

    def unsubscribe(self, descriptor: int, /) -> None:
        self._notices.unsubscribe(descriptor)

    def rearm(self, descriptor: int, /) -> None:
        self._notices.rearm(descriptor)

    # ------------------------------------------------------------ the end
    def counters(self) -> Mapping[str, int]:
        """Implements ``PersistentEngine.counters``; callers poll, so that nobody is woken."""
        with self._lock, sealed:
            return {
                "launches": self._launched,
                "jobs": self._ended(),
                "submissions": self._number,
                "waits": self._waits,
                "wakes": 0,
                "full": self._full,
            }

    @whole
    def close(self) -> None:
        """Implements ``PersistentEngine.close``: jobs that run are stopped, and given up if they do not stop."""
        if os.getpid() != self._pid:
            return
        self.stop()
        try:
            with self._lock, sealed:
                if self._closed:
                    return
                self._closed = True
                self._end(ended=self._has_left())
        finally:
            self._notices.end()

    def __del__(self) -> None:
        if getattr(self, "_words", None) is not None:
            self._device.discard(self.close)

    def _has_left(self) -> bool:
        """Waits until the kernel has left; returns whether it has."""
        if self._words is None:
            return True
        deadline = deadline_after(self._device.clock, self._device.options.close_timeout_s)
        try:
            with self._device.calls:
                return self._device.waiter.stream(self.lease.stream, deadline)
        except BackendError as error:
            self.failed(error)
            return False

    def stop(self) -> None:
        """Tells the kernel to leave."""
        with self._lock, sealed:
            if self._words is not None:
                self._words.stop()

    def release(self) -> None:
        """Frees everything, because the device is being closed: the kernel has left.  Raises ``CudaCallError``."""
        with self._lock, sealed:
            self._closed = True
            releases = self._detach()
        self._notices.end()
        release_all(releases)

    def abandon(self, error: BackendError | None = None) -> None:
        """Drops everything without a driver call, and gives all jobs that have not ended this error."""
        with self._lock, sealed:
            self._error = self._error or error
            self._detach()
        self._notices.end()

    def _end(self, *, ended: bool) -> None:
        """Frees what the engine has, or has it freed once the kernel has left."""
        releases = self._detach()
        self._tell_ended(self)
        if not releases or not self._device.reachable:
            return
        if not ended:
            self._resources.quarantine.hold(self.lease.stream, partial(release_all, releases))
            return
        with self._device.calls:
            release_all(releases)

    def _detach(self) -> list[Callable[[], None]]:
        """Copies what somebody may ask for out of the memory of the engine; returns the calls that free it."""
        words = self._words
        if words is None:
            return []
        self._drop_interrupted()
        self._sweep()
        self._jobs += sum(entry.count for entry in self._open)
        for entry in (*(entry for _, entry in entries_of(self._entries)), *self._open):
            self._settle(entry)
        self._device.counters.persistent_jobs += self._jobs
        self._open.clear()
        self._ended_singles.clear()
        self._words = None
        undo, self._undo = self._undo, []
        return [*frees(self._device.driver, self._rows.drop()), *reversed(undo)]

    # ------------------------------------------------------------ details
    def _sweep(self) -> None:
        """Takes back the memory of the oldest jobs, as far as they have ended and nobody wants their results."""
        while self._forgotten:
            entry = self._forgotten.popleft()
            if self._is_complete(entry):
                self._rows.give_back(entry)
        while self._open and self._is_complete(self._open[0]):
            entry = self._open[0]
            if not entry.is_wanted:
                self._rows.give_back(entry)
            elif entry.count == 1:
                self._ended_singles.append(entry)
            self._jobs = entry.before + entry.count  # also if an interrupt has this done again
            self._open.popleft()

    def _is_complete(self, entry: Submission) -> bool:
        """Returns whether all jobs of an entry have ended, and the kernel has done with its place in the ring."""
        return self._words is None or self._words.end_of(entry.number & self._mask) > entry.number

    def _ended(self) -> int:
        """Returns how many jobs have ended."""
        self._sweep()
        return self._jobs + sum(self._ended_of(entry) for entry in self._open)

    def _ended_of(self, entry: Submission) -> int:
        if entry.rows is None or self._is_complete(entry):
            return entry.count
        return 0 if entry.count == 1 else int((entry.rows.states != _WAITING).sum())

    def _settle(self, entry: Submission) -> None:
        """Copies the heads and the outputs of an entry, so that its memory can be used again."""
        rows = entry.rows
        if rows is None:
            return
        entry.heads = rows.bytes[:, : Row.BODY].copy()
        read_outputs(self._layout, rows, entry.into, slice(None))
        self._rows.give_back(entry)

    @staticmethod
    def _heads(entry: Submission) -> npt.NDArray[np.uint8]:
        if entry.rows is not None:
            return entry.rows.bytes[:, : Row.BODY]
        assert entry.heads is not None
        return entry.heads

    def _entry(self, ticket: int) -> Submission:
        entry = self._entries.get(ticket >> ROW_BITS)
        if entry is None:
            raise InvalidResource("the ticket was forgotten", fix="keep the result.")
        return entry

    def _has_ended(self, ticket: int) -> bool:
        with self._lock, sealed:
            return self._words is None or self._entry(ticket).state(ticket & MOST_ROWS) is not State.WAITING

    def _is_over(self, ticket: int) -> bool:
        with self._lock, sealed:
            entry = self._entry(ticket)
            return entry.rows is None or self._is_complete(entry)

    def _await(self, holds: Callable[[], bool], what: str, timeout: float | None) -> None:
        """Waits, and asks the driver meanwhile.  Raises ``TimeoutError``, and what a signal handler raises."""
        if holds():
            return
        self._waits += 1

        def looked() -> bool:
            self.look()
            return holds()

        if not self._device.waiter.condition(looked, deadline_after(self._device.clock, timeout)):
            raise TimeoutError(f"{what} did not finish within {timeout} s")

    def failed(self, error: BackendError) -> None:
        """Ends the engine after a failed call: jobs that have not ended raise this error.

        What the kernel may still use is freed when it has left.
        """
        with self._lock, sealed:
            if self._words is None:
                return
            self._error = error
            self._words.stop()
            releases = self._detach()
        self._tell_ended(self)
        if self._device.reachable:
            self._resources.quarantine.hold(self.lease.stream, partial(release_all, releases))

    def _error_of(self, entry: Submission, row: int) -> BackendError:
        """Returns the error of a job that has not completed."""
        device, counters = self._device, self._device.counters
        title, state = self._pipeline.title, entry.state(row)
        if state is State.TRAPPED:
            counters.traps += 1
            record = self._heads(entry)[row, Row.TRAP : Row.TRAP + 32].tobytes()
            trap = read_trap(memoryview(record), self._kernel)
            assert trap is not None
            return trap
        if state is State.LATE:
            counters.timeouts += 1
            name = self._pipeline.config.label or title
            return DispatchTimeout(
                f"a job of `{name}` ({self._pipeline.id}) did not finish on backend `{device.backend}` within "
                f"{self._pipeline.config.timeout_s} s"
            )
        if self._error is not None:
            return copy.copy(self._error)
        return DispatchFailed(
            f"a job of `{title}` was stopped because its persistent engine was closed",
            fix="collect results before the engine is closed.",
        )

    def _check_process(self) -> None:
        if os.getpid() != self._pid:
            raise used_in_a_fork("the persistent engine", self._pid, os.getpid())
        self._device.check_idle_here()

    def _check(self) -> None:
        if self._error is not None:
            raise copy.copy(self._error)
        if self._closed or self._words is None:
            self._device.enter()
            raise InvalidResource("the persistent engine is closed", fix="open another.")


def _ended_of(engine: ref[CudaEngine]) -> int:
    alive = engine()
    return 0 if alive is None else alive.ended()


def _aligned(nbytes: int) -> int:
    return -(-nbytes // _ALIGNMENT) * _ALIGNMENT
