"""Launches on resident memory: a sequence is one native command list, and a bound step is prefilled.

Sequences that were run lately keep their lists: a front end runs the same steps again and again.  What is kept has weak
references to the steps; it goes with the first of them that is dropped, and so does the memory that they bind.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import suppress
from ctypes import addressof, c_uint64
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias
from weakref import ref

from vyre.adapters.cpu.pool.commands import Command, CommandList, Fill, Repeat, flat
from vyre.adapters.cpu.runtime.addresses import AddressReader
from vyre.adapters.cpu.runtime.device import CpuDevice
from vyre.adapters.cpu.runtime.kernels import LoadedKernels
from vyre.adapters.cpu.runtime.launch import Owner, StepFrame, run_failed
from vyre.adapters.cpu.runtime.memory_pool import MemoryPool
from vyre.adapters.cpu.runtime.pipeline import Choice, CpuExecutor, CpuPipeline, Shape
from vyre.adapters.cpu.runtime.shapes import runs_here
from vyre.adapters.cpu.runtime.slot import owners_of
from vyre.adapters.host.memory import (
    HostBuffer,
    HostMemory,
    allocate_aligned,
    arrays_of,
    counted_buffers,
    in_turn,
    turns_of,
)
from vyre.domain.dispatch import DispatchTiming
from vyre.domain.errors import InvalidResource
from vyre.domain.interface import grid_counts
from vyre.domain.shared_dicts import entries_of
from vyre.policies.frontiers.fixpoint import FixpointExecutor
from vyre.policies.launching.grid_sync_mode import GridSyncInputs
from vyre.ports.requests import FLAG_BYTES, HostBytes, Readback, ResidentSequence, ResidentStep, Upload
from vyre.ports.resident_buffer import ResidentBuffer

if TYPE_CHECKING:
    from vyre.adapters.cpu.pool.job import Job
    from vyre.domain.ir.program import Program
    from vyre.ports.cancellation import Cancellation

UNROLLED: Final = 16
"""The iterations of one step that are written out among the steps of a sequence; more are one repeat."""
PREPARED: Final = 32
"""Sequences whose lists are kept."""
IDLE: Final = 8
"""Closed bound steps of which the commands are kept."""
MEASURED_EACH: Final = 64
"""The launches of a short bound step of which one is measured, after the first few."""


class PreparedStep(NamedTuple):
    """A step bound to memory, with its commands: ``first`` once, then ``kernels`` as often as ``iterations`` says.

    ``in_place`` holds the host bytes that are read in place, with their addresses.  ``copied``: some host bytes are
    read from a copy.  ``counted`` holds the buffers with atomics, and ``keep`` all memory.
    """

    program: Program
    pipeline: CpuPipeline
    shape: Shape
    frame: StepFrame
    first: tuple[Command, ...]
    kernels: tuple[Command, ...]
    iterations: int
    choice: Choice
    loaded: LoadedKernels
    buffers: tuple[HostBuffer, ...]
    in_place: tuple[tuple[HostBytes, int], ...]
    copied: bool
    counted: tuple[HostBuffer, ...]
    keep: tuple[object, ...]

    @property
    def launches(self) -> int:
        """Returns the number of kernels that a run launches."""
        return self.iterations * len(self.kernels)

    @property
    def expected_ns(self) -> float:
        """Returns the time of a run by the times measured of its launches; infinite before one was measured."""
        return self.pipeline.expected_ns(self.shape)

    @property
    def short(self) -> bool:
        """Returns whether a run takes so little time that the calling thread runs it."""
        timeout_s = self.pipeline.config.timeout_s
        return runs_here(self.shape.steps, self.launches, timeout_s, lambda: self.expected_ns)

    @property
    def commands(self) -> tuple[Command, ...]:
        """Returns every command of one run, in order."""
        if self.iterations > UNROLLED:
            return (*self.first, Repeat(self.kernels, 0, self.iterations))
        return (*self.first, *(self.kernels * self.iterations))

    @property
    def owners(self) -> tuple[Owner, ...]:
        """Returns the owner of each command of ``first`` and of ``kernels``, which errors name."""
        spec = self.pipeline.spec(self.shape.launch)
        return owners_of(spec, self.choice.module, self.frame, len(self.first), len(self.kernels), self.program)

    @property
    def all_owners(self) -> tuple[Owner, ...]:
        """Returns the owner of each of ``commands``, and of those within repeats."""
        first, owners = len(self.first), self.owners
        if self.iterations > UNROLLED:
            return (*owners[:first], owners[0]._replace(kernel=None), *owners[first:])
        return (*owners[:first], *(owners[first:] * self.iterations))

    @property
    def is_current(self) -> bool:
        """Returns whether it has the code and the placement that a new step would have."""
        choice = self.shape.choice
        return choice is self.choice and choice.module.loaded is self.loaded

    @property
    def is_closed(self) -> bool:
        """Returns whether some of its memory was closed."""
        return any(buffer.closed for buffer in self.buffers)

    def renewed(self) -> PreparedStep:
        """Returns the step with the code and the placement that a new one would have, on the same memory."""
        choice = self.shape.choice
        loaded = choice.module.loaded
        kernels = self.frame.kernels(loaded, self.shape.launch, choice.placement)
        return self._replace(kernels=kernels, choice=choice, loaded=loaded)


class CpuMemory(HostMemory):
    """``ResidentMemory``, ``ResidentExecutor``, ``ResidentBinder`` and ``LoopSupport`` of the backend."""

    def __init__(self, device: CpuDevice, executor: CpuExecutor) -> None:
        super().__init__(device.backend)
        self._device = device
        self._executor = executor
        self._prepared: OrderedDict[int, _PreparedSequence] = OrderedDict()
        self._by_steps: dict[tuple[int, ...], tuple[int, ref[ResidentStep]]] = {}
        self._by_sequence: dict[int, tuple[int, ref[ResidentSequence]]] = {}
        self._idle: Idle = OrderedDict()
        self._numbers = count()
        self.pool: Final = MemoryPool()
        """The blocks of resident memory."""

    def allocate(self, nbytes: int, /, *, label: str | None = None) -> ResidentBuffer:
        self._device.check()
        if nbytes <= 0:
            return super().allocate(nbytes, label=label)
        for number, idle in entries_of(self._idle):
            if idle.prepared.is_closed:  # its memory is free from now on
                self._idle.pop(number, None)
        for number, kept in entries_of(self._prepared):
            if not kept.is_usable():
                self._prepared.pop(number, None)
        data, address = self.pool.take(nbytes)
        counters = self._device.counters
        counters.resident_allocations += 1
        counters.resident_bytes += nbytes
        counters.pool_reuses = self.pool.reused
        return HostBuffer(self.backend, nbytes, address, label, data=data)

    def upload(self, uploads: Sequence[Upload], /) -> None:
        super().upload(uploads)
        self._device.counters.uploads += len(uploads)
        self._device.counters.uploaded_bytes += sum([each.data.nbytes for each in uploads])

    def download(self, reads: Sequence[Readback], /) -> None:
        super().download(reads)
        self._count(reads)

    def _count(self, reads: Sequence[Readback]) -> None:
        self._device.counters.downloads += len(reads)
        self._device.counters.downloaded_bytes += sum([each.into.nbytes for each in reads])

    # ---------------------------------------------------------------- sequences
    def run(self, sequence: ResidentSequence, /) -> DispatchTiming:
        started = self._device.counters.now_ns()
        reads = sequence.reads
        sources = self.sources(reads) if reads else ()
        prepared = self._take(sequence)
        if prepared is None:
            native_ns, launches, rounds, converged = 0, 0, None, None
        else:
            native_ns, launches, rounds, converged = prepared.run(sequence.repeat_count, sequence.cancellation)
            if prepared.reusable:
                self._give(prepared)
        if reads:
            for source, read in zip(sources, reads, strict=True):
                read.into[:] = source.data
            self._count(reads)
        wall_ns = self._device.counters.now_ns() - started
        # By position and at once: a list is run in the time of a few of these objects.
        return DispatchTiming._make((wall_ns, native_ns, None, None, launches, None, rounds, converged))

    def loop_executors(self, steps: Sequence[ResidentStep], /) -> frozenset[FixpointExecutor]:
        return frozenset({FixpointExecutor.COMMAND_LIST})

    def grid_sync(self, step: ResidentStep, /) -> GridSyncInputs:
        """Implements ``LoopSupport.grid_sync``: the kernels between barriers are commands of one list."""
        return GridSyncInputs(False, self.prepare_step(step, copy=False).shape.groups, 0, 0)

    def bind(self, step: ResidentStep, /) -> BoundStep:
        idle = self._idle.pop(id(step), None)
        if idle is not None and idle.prepared.is_current and not idle.prepared.is_closed:
            return BoundStep(self._device, self._idle, step, idle.prepared, idle.job, idle.step)
        return BoundStep(self._device, self._idle, step, self.prepare_step(step, copy=True))

    def prepare_step(self, step: ResidentStep, *, copy: bool) -> PreparedStep:
        """Returns a step with everything resolved.  ``copy``: its host bytes are copied, unless they are those of a
        ``bytes``, else they are read in place.

        Raises the errors of ``step_memory`` and those that a dispatch raises before its launch.
        """
        bound = self.resolve(step)
        pipeline, _ = self._executor.pipeline(step.program, bound.sized)
        shape = pipeline.shape(bound.input_nbytes)
        launch = shape.launch
        bound.check(launch)
        arrays = arrays_of(bound)
        read, keep = AddressReader(), list[object](arrays)
        in_place: list[tuple[HostBytes, int]] = []
        copied = False
        addresses: list[int] = []
        clear: list[Command] = []
        for binding, host, data, nbytes in zip(bound.plan.bindings, bound.memory, arrays, launch.nbytes, strict=True):
            if isinstance(host, HostBuffer):
                address = host.address
                if binding.input_index is None:
                    clear.append(Fill(address, 0, nbytes))
            else:
                address = read(host)
                fixed = type(host.obj) is bytes  # neither its bytes nor its place change
                if nbytes and ((copy and not fixed) or address % binding.element_size):
                    own_bytes, address = allocate_aligned(nbytes)
                    own_bytes[:] = data[:nbytes]
                    keep.append(own_bytes)
                    copied = True
                else:
                    in_place.append((host, address))
            addresses.append(address)
        frame = StepFrame(launch, pipeline.config.step_budget, pipeline.kernels, grid_counts(step.program))
        frame.bind(addresses)
        choice = shape.choice
        loaded = choice.module.loaded
        first = (*frame.clearing(), *clear)
        kernels = frame.kernels(loaded, launch, choice.placement)
        buffers = tuple([host for host in bound.memory if isinstance(host, HostBuffer)])
        return PreparedStep(
            step.program,
            pipeline,
            shape,
            frame,
            first,
            kernels,
            pipeline.config.launches,
            choice,
            loaded,
            buffers,
            tuple(in_place),
            copied,
            counted_buffers(step.program, bound),
            tuple(keep),
        )

    # ---------------------------------------------------------------- details
    def _take(self, sequence: ResidentSequence) -> _PreparedSequence | None:
        """Returns the prepared form of a sequence, which no other thread uses meanwhile; None if it has no step.

        It is found at once for a sequence that the caller ran before, else by the steps in it.  Both are told apart by
        their identities, which no other object has while they live, and what is kept of them ends with them: functions
        of C forget it, which swallow no interrupt.
        """
        same = self._by_sequence.get(id(sequence))
        if same is not None and (kept := self._prepared.pop(same[0], None)) is not None and kept.is_usable():
            return kept
        prefix, flag = sequence.prefix, sequence.flag
        steps = (*prefix, *sequence.repeated)
        if not steps:
            return None
        key = (len(prefix), id(flag), *map(id, steps))
        alike = self._by_steps.get(key)
        kept = None if alike is None else self._prepared.pop(alike[0], None)
        if kept is None or not kept.is_usable():
            if flag is not None:
                self.range(flag, 0, FLAG_BYTES)
            prepared = [self.prepare_step(step, copy=False) for step in steps]
            own, number = None if flag is None else self.own(flag), next(self._numbers)
            kept = _PreparedSequence(self._device, number, steps, len(prefix), prepared, own)
            if not kept.reusable:
                return kept
            ended = partial(self._prepared.pop, number)  # its second argument, the reference, is the default
            kept.living = tuple([ref(step, ended) for step in steps])
            self._by_steps[key] = number, ref(steps[0], partial(self._by_steps.pop, key))
        if sequence.cancellation is None and (alike is None or not sequence.reads):  # else it is run once
            dropped = partial(self._by_sequence.pop, id(sequence))
            self._by_sequence[id(sequence)] = kept.number, ref(sequence, dropped)
        return kept

    def _give(self, prepared: _PreparedSequence) -> None:
        self._prepared[prepared.number] = prepared
        if len(self._prepared) > PREPARED:
            with suppress(KeyError):  # other threads have evicted all
                self._prepared.popitem(last=False)

    def release(self) -> None:
        """Forgets every prepared sequence, and gives up memory that nobody uses."""
        self._prepared.clear()
        self._by_steps.clear()
        self._by_sequence.clear()
        self._idle.clear()
        self.pool.trim()


Ran: TypeAlias = "tuple[int, int, int | None, bool | None]"
"""The run of a sequence: its native time in ns, its launches, and for one with a flag how its rounds ended."""


class _PreparedSequence:
    """Steps as a command list, in order.

    ``number`` is that of the list.  The first ``once`` of the steps run once, the others in each round, and ``living``
    are weak references to all of them.  ``flag`` is the flag.
    """

    def __init__(
        self,
        device: CpuDevice,
        number: int,
        steps: tuple[ResidentStep, ...],
        once: int,
        prepared: Sequence[PreparedStep],
        flag: HostBuffer | None,
    ) -> None:
        self._device = device
        self.number: Final = number
        self.living: tuple[ref[ResidentStep], ...] = ()
        self.flag: Final = flag
        self._rounds: Final = c_uint64()
        self._prepared, self._once = tuple(prepared), once
        self._read: Final = AddressReader()
        limits = [step.config.timeout_s for step in steps if step.config.timeout_s is not None]
        self._timeout: Final = min(limits, default=None)
        self._steps_once: Final = _sum_of_steps(prepared[:once])
        self._steps_again: Final = _sum_of_steps(prepared[once:])
        codes = [(step.shape, step.choice, step.choice.module, step.loaded) for step in prepared]
        self._codes: Final = tuple({tuple(map(id, code)): code for code in codes}.values())
        buffers = [buffer for step in prepared for buffer in step.buffers] + ([] if flag is None else [flag])
        # with their bytes, which so outlive a buffer that is closed during a run
        self._buffers: Final = tuple({id(buffer): (buffer, buffer.data) for buffer in buffers}.values())
        self.reusable: Final = not any(step.copied for step in prepared) and not any(b.closed for b in buffers)
        self._in_place: Final = tuple(
            {id(view): (view, address) for step in prepared for view, address in step.in_place}.values()
        )
        self._launched_once: Final = sum(step.launches for step in prepared[:once])
        self._launched_again: Final = sum(step.launches for step in prepared[once:])
        self._shortest: int | None = None
        """The most rounds that were found to take little time."""
        self._job: Job | None = None
        self._position = 0
        self._owners: tuple[Owner, ...] = ()
        self._turns: Final = turns_of(buffer for step in prepared for buffer in step.counted)

    def is_usable(self) -> bool:
        """Returns whether it can still be run.  What many steps have in common is looked at once."""
        for shape, choice, module, loaded in self._codes:
            if shape.choice is not choice or module.loaded is not loaded:
                return False
        for buffer, _ in self._buffers:
            if buffer.closed:
                return False
        return not self._in_place or all(self._read(view) == address for view, address in self._in_place)

    def run(self, repeat_count: int, cancellation: Cancellation | None = None) -> Ran:
        """Runs the steps, until ``cancellation`` asks for their end unless they take little time.

        Raises as ``CpuDevice.run`` does, and the error of a run that did not complete.
        """
        counters = self._device.counters
        counters.resident_runs += 1
        counters.list_launches += 1
        job = self._job
        if job is None:
            job = self._job = self._made(repeat_count)
        elif self.flag is not None:
            job.commands.set_limit(self._position, repeat_count)
        elif job.commands.repetitions != repeat_count:
            job.set_repetitions(repeat_count)
        short = self._is_short(repeat_count)
        turns, timed = self._turns, self._timed
        native = in_turn(turns, timed, job, short, cancellation) if turns else timed(job, short, cancellation)
        if self.flag is None:
            launched = self._launched_once + repeat_count * self._launched_again
            counters.list_kernels += launched
            return native, launched, None, None
        rounds = self._rounds.value
        launched = self._launched_once + rounds * self._launched_again
        counters.list_kernels += launched
        return native, launched, rounds, rounds > 0 and not self.flag.data[:FLAG_BYTES].any()

    def _made(self, repeat_count: int) -> Job:
        """Makes the command list and the job of it."""
        once, rest = self._prepared[: self._once], self._prepared[self._once :]
        prefix = [command for step in once for command in step.commands]
        repeated = [command for step in rest for command in step.commands]
        owners = [owner for step in self._prepared for owner in step.all_owners]
        if self.flag is None:
            commands = CommandList(prefix, repeated, repeat_count)
        else:
            self._position = len(flat(prefix))
            owners.insert(self._position, rest[0].owners[0]._replace(kernel=None))
            rounds = addressof(self._rounds)
            repeat = Repeat(tuple(repeated), self.flag.address, repeat_count, rounds, cleared=True)
            commands = CommandList([*prefix, repeat])
        self._owners = tuple(owners)
        job = self._device.job(commands)
        job.set_timeout(self._timeout)
        job.keep = self._prepared, self.flag, self._rounds
        return job

    def _is_short(self, repeat_count: int) -> bool:
        """Returns whether that many rounds take so little time that the calling thread runs them."""
        if self._shortest is not None and repeat_count <= self._shortest:
            return True
        once, again = self._steps_once, self._steps_again
        if once is None or again is None:
            return False
        is_short = runs_here(
            once + repeat_count * again,
            self._launched_once + repeat_count * self._launched_again,
            self._timeout,
            lambda: self._expected_ns(repeat_count),
        )
        if is_short:
            self._shortest = repeat_count
        return is_short

    def _expected_ns(self, repeat_count: int) -> float:
        """Returns the time of that many rounds by the times measured of their launches; infinite if one has none."""
        prepared, once = self._prepared, self._once
        total = sum(step.expected_ns for step in prepared[:once])
        if repeat_count:
            total += repeat_count * sum(step.expected_ns for step in prepared[once:])
        return total

    def _timed(self, job: Job, short: bool, cancellation: Cancellation | None) -> int:
        device = self._device
        began = device.counters.now_ns()
        if short:
            outcome = device.run_short(job)
        elif cancellation is None:
            outcome = device.run(job)
        else:
            outcome = device.run_until(job, cancellation)
        if outcome:
            raise run_failed(self._device, job, outcome, self._owners)
        ns = device.counters.now_ns() - began if short else job.elapsed_ns
        if len(self._prepared) == 1:
            runs = 1 if self._once else job.commands.repetitions if self.flag is None else self._rounds.value
            if runs:
                step = self._prepared[0]
                step.pipeline.learn(step.shape, ns // runs, runs)
        return ns


def _sum_of_steps(prepared: Sequence[PreparedStep]) -> int | None:
    """Returns a bound of the work of these steps, as of ``Shape.steps``; None where none is proved."""
    total = 0
    for step in prepared:
        if step.shape.steps is None:
            return None
        total += step.shape.steps
    return total


class _IdleStep(NamedTuple):
    """The commands that a bound step prepared for ``step`` before it was closed, for as long as that lives."""

    step: ref[ResidentStep]
    prepared: PreparedStep
    job: Job


Idle: TypeAlias = "OrderedDict[int, _IdleStep]"
"""The commands of closed bound steps, by the identities of their steps, the oldest first."""


class BoundStep:
    """``BoundResidentStep``: a command list, prepared once.  One thread at a time may use it.

    What a closed one had prepared is left in ``idle`` for whoever binds the same step next.
    """

    active: bool = False  # as ``Expiring``: the job keeps its memory

    def __init__(
        self,
        device: CpuDevice,
        idle: Idle,
        step: ResidentStep,
        prepared: PreparedStep,
        job: Job | None = None,
        dropped: ref[ResidentStep] | None = None,
    ) -> None:
        self._device: Final = device
        self._step: Final = step
        self._dropped: Final = dropped or ref(step, partial(idle.pop, id(step)))
        self._idle: Final = idle
        self._counters: Final = device.counters
        self._ended = ""
        self._left = self._every = 1
        self._short: bool = False
        self._use(prepared, job)
        device.counters.open_steps.add(self)
        for buffer in prepared.buffers:
            buffer.expires(self)

    def uncounted(self) -> tuple[int, int]:
        """Returns the launches since the last one that was measured, and their kernels, which no counter has yet."""
        runs = self._every - self._left
        return runs, runs * self._prepared.launches

    def __call__(self) -> None:
        """Launches and waits.  Raises as ``ResidentExecutor.run`` does, and ``InvalidResource`` once it was closed."""
        prepared = self._prepared
        if self._ended or self._device.closed or prepared.choice.module.loaded is not prepared.loaded:
            self._renew()
        self._left -= 1
        if not self._short or not self._left:
            self._measured()
        elif self._enter(self._address):
            self._failed()

    def _measured(self) -> None:
        """Launches, waits, and records the time, which stands for the launches since the last time."""
        runs = self._every
        if self._short:
            self._every = min(2 * runs, MEASURED_EACH)
        self._left = self._every
        prepared = self._prepared
        self._counters.ran_bound(runs, runs * prepared.launches)
        ns = in_turn(self._turns, self._timed)
        prepared.pipeline.learn(prepared.shape, ns, runs)
        if not prepared.is_current:
            self._renew()
        elif not self._short:
            self._short = prepared.short

    def close(self) -> None:
        """Releases the commands.  Idempotent."""
        self.expire("it was closed")

    def expire(self, why: str, /) -> None:
        """Implements ``Expiring.expire``."""
        if not self._ended:
            self._ended = why
            self._counters.ran_bound(*self.uncounted())
            self._counters.open_steps.discard(self)
            self._idle[id(self._step)] = _IdleStep(self._dropped, self._prepared, self._job)
            if len(self._idle) > IDLE:
                self._idle.popitem(last=False)

    # ---------------------------------------------------------------- details
    def _timed(self) -> int:
        """Launches, waits, and returns the nanoseconds that it took."""
        job, began = self._job, self._counters.now_ns()
        if self._device.run_short(job) if self._short else self._device.run(job):
            self._failed()
        return self._counters.now_ns() - began if self._short else job.elapsed_ns

    def _use(self, prepared: PreparedStep, job: Job | None = None) -> None:
        """Takes a step into use, with the job of its commands if there is one already."""
        if job is None:
            job = self._device.job(CommandList(prepared.first, prepared.kernels, prepared.iterations))
            job.keep = prepared
            job.set_timeout(prepared.pipeline.config.timeout_s)
        self._prepared = prepared
        self._short = prepared.short
        self._job = job
        self._address = job.address
        turns = self._turns = turns_of(prepared.counted)
        enter: Callable[[int], int] = job.entries.enter
        self._enter = (lambda address: in_turn(turns, enter, address)) if turns else enter

    def _renew(self) -> None:
        """Refuses a closed step; prepares it anew if better code is there."""
        if self._ended:
            raise InvalidResource(f"the bound launch cannot run: {self._ended}", fix="bind it again.")
        self._device.check()
        self._use(self._prepared.renewed())

    def _failed(self) -> None:
        raise run_failed(self._device, self._job, self._job.outcome, self._prepared.owners)
