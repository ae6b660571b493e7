"""Slots: the prepared commands of one dispatch of a shape, used again by later dispatches.

A dispatch copies what is updated and zeroes what is written, in the caller's output storage, and launches the kernels
there; what is only read is read in place.  These operations are run by one native call each, or all by one call as a
command list, which the decision about replays chooses.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import repeat
from struct import Struct
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from vyre.adapters.cpu.pool.commands import Command, CommandList, Copy, Fill
from vyre.adapters.cpu.pool.layout import COMMAND_WORDS
from vyre.adapters.cpu.runtime.addresses import AddressReader, writable_address
from vyre.adapters.cpu.runtime.device import CpuDevice
from vyre.adapters.cpu.runtime.kernels import KernelModule, LoadedKernels
from vyre.adapters.cpu.runtime.launch import Owner, Placement, StepFrame, run_failed
from vyre.adapters.host.memory import allocate_aligned, array_type
from vyre.adapters.kernel_plan import KernelPlan, command_kernels
from vyre.adapters.replay_decision import ReplayDecision, ReplayPlanner, Verdict, Work
from vyre.domain.binding import BindingPlan
from vyre.domain.launch import Launch

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from vyre.adapters.cpu.pool.job import Job
    from vyre.domain.ir.program import Program
    from vyre.ports.requests import HostBytes

_MOVE: Final = Struct("<3q").pack_into
_NUMBER_BYTES: Final = 8
"""The bytes of the largest number."""
_FIRST_WORD: Final = 8
"""The byte offset in a command of the words that tell where to and from where."""


class SlotSpec(NamedTuple):
    """The purpose of a slot: one launch geometry of a pipeline."""

    id: str
    title: str
    plan: BindingPlan
    launch: Launch
    iterations: int
    step_budget: int | None
    timeout_s: float | None
    kernels: KernelPlan | None = None


class _Place(NamedTuple):
    """A buffer of a dispatch.

    ``word`` is the position of its address in the frame.  ``source`` and ``target`` are positions among inputs and
    outputs, None without one.  ``own`` is memory of the slot for an output of which only the range from ``start`` on is
    returned.  ``command`` is that which fills an output.
    """

    word: int
    size: int
    nbytes: int
    source: int | None
    target: int | None
    own: tuple[npt.NDArray[np.uint8], int] | None
    start: int
    command: int

    @property
    def is_number(self) -> bool:
        """Returns whether it has no more bytes than a number may have."""
        return self.nbytes <= _NUMBER_BYTES


class Slot:
    """Runs one dispatch at a time, on the calling thread if it is ``short``."""

    def __init__(
        self,
        device: CpuDevice,
        planner: ReplayPlanner,
        module: KernelModule,
        spec: SlotSpec,
        placement: Placement,
        *,
        short: bool,
    ) -> None:
        self._device, self._spec, self._now_ns = device, spec, device.counters.now_ns
        self.module: Final = module
        self.placement: Final = placement
        self.short: bool = short
        self.loaded: Final[LoadedKernels] = module.loaded
        self.launched: int = 0
        self.native_ns: int = 0
        self.submit_ns: int | None = None
        """The time of the calls of the last dispatch, which run what they submit; None where one call ran all of it."""
        self._read: Final = AddressReader()
        self._keep: list[object] = []
        self._constants: Final[dict[int, object]] = {}
        self._array: Final = array_type()
        launch = spec.launch
        self._frame: Final = StepFrame(launch, spec.step_budget, spec.kernels)
        self._flat: Final = [word for count in launch.counts for word in (0, count)]
        moves: list[Command] = list(self._frame.clearing())
        places = self._plan_places(moves)
        self._numbers: Final = tuple([place for place in places if place.target is None and place.is_number])
        self._read_only: Final = tuple([place for place in places if place.target is None and not place.is_number])
        self._written: Final = tuple([place for place in places if place.target is not None])
        self._parts: Final = tuple([place for place in self._written if place.own is not None])
        self._prefix: Final = tuple(moves)
        self._kernels: Final = spec.iterations * len(self.loaded.kernels)
        is_open = spec.timeout_s is None and spec.kernels is None
        self._is_apart: Final = is_open and planner.after is None
        decision = planner.decision(work_of(spec, module)) if is_open and planner.after != 0 else None
        self._decision: Final[ReplayDecision | None] = decision
        self._owners: tuple[Owner, ...] = ()
        self._list: Job | None = None
        self._singles: tuple[Job, ...] = ()

    def dispatch(self, inputs: Sequence[HostBytes], views: Sequence[memoryview]) -> None:
        """Runs once on these inputs and outputs.

        Raises ``TrapError``, ``StepBudgetExceeded``, ``DispatchTimeout`` and the errors of ``CpuDevice.run``.
        """
        decision = self._decision
        if decision is None:
            if self._is_apart:
                self._run_apart(inputs, views)
            else:
                self._run_list(inputs, views)
        else:
            listed = decision.verdict() is not Verdict.PLAIN
            now_ns = self._now_ns
            began = now_ns()
            if not listed:
                self._run_apart(inputs, views)
            else:
                if self._list is None:
                    self._record()
                    decision.recorded(now_ns() - began)
                self._run_list(inputs, views)
            decision.took(self.native_ns, now_ns() - began)
        for place in self._parts:
            assert place.own is not None and place.target is not None
            view = views[place.target]
            view[:] = place.own[0][place.start : place.start + view.nbytes].data
        if self._keep:
            self._keep.clear()

    def end(self) -> None:
        """Reports what the decision about replays has seen: the slot is not used any more."""
        if self._decision is not None:
            self._decision.end()

    # ---------------------------------------------------------------- details
    def _is_same(self, one: memoryview, other: memoryview) -> bool:
        """Returns whether two views are known to show the same memory: both show the whole of one array."""
        array: Any = one.obj
        if not isinstance(array, self._array) or one.nbytes != array.nbytes:
            return False
        return array is other.obj and one.nbytes == other.nbytes

    def _plan_places(self, moves: list[Command]) -> list[_Place]:
        """Returns the buffers; appends the copies and fills of outputs to ``moves``, with addresses left open."""
        spec, places = self._spec, []
        for slot, (binding, nbytes) in enumerate(zip(spec.plan.bindings, spec.launch.nbytes, strict=True)):
            own, start, command = None, 0, 0
            if binding.output_index is not None:
                if binding.buffer.output_range is not None:
                    own, start = allocate_aligned(nbytes), spec.launch.output_ranges[binding.output_index][0]
                command = len(moves)
                to = 0 if own is None else own[1]
                moves.append(Fill(to, 0, nbytes) if binding.input_index is None else Copy(to, 0, nbytes))
            size, source, target = binding.element_size, binding.input_index, binding.output_index
            places.append(_Place(2 * slot, size, nbytes, source, target, own, start, command))
        return places

    def _bind(self, inputs: Sequence[HostBytes], views: Sequence[memoryview], jobs: Sequence[Job]) -> None:
        """Sets all addresses; ``jobs`` is the list, or one job for each command of the prefix."""
        flat, read, apart = self._flat, self._read, len(jobs) > 1
        for place in self._numbers:
            self._bind_number(place, inputs)
        for word, size, _, source, _, _, _, _ in self._read_only:
            address = read(inputs[source])  # type: ignore[index]  # what is not returned is passed
            flat[word] = address if address % size == 0 else self._copied(inputs[source])  # type: ignore[index]
        for word, _, nbytes, source, target, own, _, command in self._written:
            view = views[target]  # type: ignore[index]
            address = own[1] if own is not None else writable_address(view) if nbytes else 0
            words, index = (jobs[command], 0) if apart else (jobs[0], command)
            origin = 0
            if source is not None and nbytes:
                data = inputs[source]
                origin = address if own is None and self._is_same(data, view) else read(data)
            moved = 0 if origin == address else nbytes  # the caller's own array is read and written in place
            _MOVE(words.commands.words, index * 8 * COMMAND_WORDS + _FIRST_WORD, address, origin, moved)
            flat[word] = address
        self._frame.bind_flat(flat)

    def _bind_number(self, place: _Place, inputs: Sequence[HostBytes]) -> None:
        """Sets the address of a few bytes, which is known where they are those of a number that is passed again."""
        assert place.source is not None
        view = inputs[place.source]
        if view.obj is self._constants.get(place.word, self):
            return
        self._constants.pop(place.word, None)
        address = self._read(view)
        if address % place.size:
            address = self._copied(view)
        elif type(view.obj) is bytes and len(view.obj) == view.nbytes:
            self._constants[place.word] = view.obj  # where it lies does not change
        self._flat[place.word] = address

    def _copied(self, view: HostBytes) -> int:
        """Copies an input to memory that is aligned, which is kept until the end of the run; returns its address."""
        copy, address = allocate_aligned(view.nbytes)
        copy.data[:] = view
        self._keep.append(copy)
        self._device.counters.copied_bytes += view.nbytes
        return address

    def _commands(self) -> tuple[Command, ...]:
        return self._frame.kernels(self.loaded, self._spec.launch, self.placement)

    def _record(self) -> Job:
        kernels = self._commands()
        job = self._device.job(CommandList(self._prefix, kernels, self._spec.iterations))
        job.set_timeout(self._spec.timeout_s)
        self._owners = owners_of(self._spec, self.module, self._frame, len(self._prefix), len(kernels))
        self._list = job
        return job

    def _run_list(self, inputs: Sequence[HostBytes], views: Sequence[memoryview]) -> None:
        """Runs all operations by one call."""
        job = self._list
        if job is None:
            job = self._record()
        self._bind(inputs, views, (job,))
        self.native_ns = self._run(job)
        counters = self._device.counters
        counters.list_launches += 1
        counters.list_kernels += self._kernels
        # A list in place of possible calls is a replay; where there is no other way, it launches its kernels.
        self.launched = self._kernels if self._decision is None else 0
        self.submit_ns = None

    def _run(self, job: Job, owners: Sequence[Owner] | None = None) -> int:
        """Runs a job; returns its native time in ns."""
        device = self._device
        began = self._now_ns()
        outcome = device.run_short(job) if self.short else device.run(job)
        if outcome:
            raise run_failed(device, job, outcome, self._owners if owners is None else owners)
        return self._now_ns() - began if self.short else job.elapsed_ns

    def _run_apart(self, inputs: Sequence[HostBytes], views: Sequence[memoryview]) -> None:
        """Runs each operation by a call of its own."""
        jobs, kernels = self._singles, self._commands()
        if not jobs:
            commands = (*self._prefix, *kernels)
            jobs = self._singles = tuple(self._device.job(CommandList((command,))) for command in commands)
            self._owners = owners_of(self._spec, self.module, self._frame, len(self._prefix), len(kernels))
        first = len(self._prefix)
        self._bind(inputs, views, jobs)
        ns = 0
        for number in range(first):
            ns += self._run(jobs[number], (self._owners[number],))
        for _ in range(self._spec.iterations):
            for number in range(first, len(jobs)):
                ns += self._run(jobs[number], (self._owners[number],))
        self.native_ns, self.launched, self.submit_ns = ns, self._spec.iterations * len(kernels), ns
        self._device.counters.kernel_launches += self.launched


def work_of(spec: SlotSpec, module: KernelModule) -> Work:
    """Returns the operations of a dispatch."""
    kernels = spec.iterations * len(module.loaded.kernels)
    return Work(spec.id, kernels + len(spec.plan.outputs) + (spec.step_budget is not None), kernels)


def owners_of(
    spec: SlotSpec,
    module: KernelModule,
    frame: StepFrame,
    moves: int,
    kernels: int,
    program: Program | None = None,
) -> tuple[Owner, ...]:
    """Returns the owner of each command of a dispatch: of so many copies and fills, and of the kernels after them.

    ``program`` is the one that is run, which has the locations of its statements; None where the caller has it.
    """
    numbers = range(kernels) if spec.kernels is None else command_kernels(spec.kernels)
    return tuple(
        Owner(spec.id, spec.title, module, spec.launch, number, spec.step_budget, spec.timeout_s, frame.used, program)
        for number in (*repeat(None, moves), *numbers)
    )
