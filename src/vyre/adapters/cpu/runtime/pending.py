"""Asynchronous dispatch: ``submit`` queues a job and returns; a thread of the pool calls the callbacks.

A dispatch takes a *slot*: memory, a frame and a job that were made for an earlier one of the same shape.  The inputs
are copied into the slot, and the outputs out of it; then it is given back, also after a run that failed or was stopped,
of which the next one sees nothing.  A run that takes less time than it takes to hand it to a worker is run by the
thread that submits it.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Final

from vyre.adapters.callbacks import call_back, is_calling_back
from vyre.adapters.cpu.pool.commands import CommandList, Fill
from vyre.adapters.cpu.pool.layout import Outcome
from vyre.adapters.cpu.runtime.device import CpuDevice
from vyre.adapters.cpu.runtime.launch import StepFrame, run_failed
from vyre.adapters.cpu.runtime.pipeline import CpuExecutor, CpuPipeline, Shape
from vyre.adapters.cpu.runtime.slot import owners_of
from vyre.adapters.forks import process_lock
from vyre.adapters.host.memory import ALIGNMENT, allocate_aligned
from vyre.domain.dispatch import DispatchTiming
from vyre.domain.errors import DeviceOutOfMemory
from vyre.domain.unique import Unique
from vyre.ports.interrupts import sealed
from vyre.ports.requests import DispatchRequest, HostBytes, OutputStorage

if TYPE_CHECKING:
    from vyre.adapters.cpu.pool.job import Job

SLOT_BYTES: Final = 1 << 20
"""The most bytes of the memory of a slot that is used again."""
IDLE_BYTES: Final = 16 << 20
"""The most bytes of the slots of a backend that no dispatch uses."""
PIPELINES: Final = 64
"""The programs and configs of which the pipelines are found by identity."""
BRIEF_NS: Final = 20_000
"""The time up to which a run is expected to end before a worker would have begun it, and its caller have noticed."""


class Slot:
    """Memory for all buffers of dispatches of one shape, and the job that runs them there, one at a time.

    ``outputs`` are the bytes that are returned.
    """

    __slots__ = ("_inputs", "choice", "job", "loaded", "nbytes", "outputs", "owners", "shape")

    def __init__(self, device: CpuDevice, pipeline: CpuPipeline, shape: Shape) -> None:
        launch, plan, config = shape.launch, pipeline.plan, pipeline.config
        starts = [0, *accumulate(-(-nbytes // ALIGNMENT) * ALIGNMENT for nbytes in launch.nbytes)]
        self.nbytes: Final = starts[-1]
        data, address = allocate_aligned(self.nbytes)
        memory = [data[start : start + size].data for start, size in zip(starts, launch.nbytes, strict=False)]
        frame = StepFrame(launch, config.step_budget, pipeline.kernels)
        frame.bind([address + start for start in starts[:-1]])
        cleared = [
            Fill(address + starts[place], 0, launch.nbytes[place])
            for place, binding in enumerate(plan.bindings)
            if binding.input_index is None  # an output begins with zeros
        ]
        self.shape: Final = shape
        self.choice: Final = shape.choice
        module, placement = self.choice
        self.loaded: Final = module.loaded
        first = (*frame.clearing(), *cleared)
        kernels = frame.kernels(self.loaded, launch, placement)
        self.owners: Final = owners_of(pipeline.spec(launch), module, frame, len(first), len(kernels))
        self.job: Final[Job] = device.job(CommandList(first, kernels, config.launches))
        self.job.set_timeout(config.timeout_s)
        self.job.keep = frame, data, self.loaded, placement
        self._inputs: Final = tuple([memory[place] for place in plan.inputs])
        ranges = zip(plan.outputs, launch.output_ranges, strict=True)
        self.outputs: Final = tuple([memory[place][start:end] for place, (start, end) in ranges])

    @property
    def is_current(self) -> bool:
        """Returns whether it has the code and the placement that a new one would have."""
        return self.choice is self.shape.choice and self.loaded is self.choice.module.loaded

    def take_in(self, inputs: Sequence[HostBytes]) -> None:
        """Copies the inputs of a dispatch."""
        for memory, data in zip(self._inputs, inputs, strict=True):
            memory[:] = data


class IdleSlots:
    """Slots that no dispatch uses, by their shapes; where they have too many bytes, those of the oldest shape go.

    Every method may be called from any thread.
    """

    def __init__(self, limit: int = IDLE_BYTES) -> None:
        self._limit: Final = limit
        self._slots: OrderedDict[Shape, list[Slot]] = OrderedDict()
        self._lock = process_lock()
        self.nbytes: int = 0
        """The bytes of all slots."""

    def take(self, shape: Shape) -> Slot | None:
        """Returns a slot for a dispatch of this shape, which nobody else has; None if there is none."""
        if shape not in self._slots:
            return None
        with self._lock, sealed:
            while kept := self._slots.get(shape):
                slot = kept[0]
                self.nbytes, kept[:1] = self.nbytes - slot.nbytes, ()  # one statement without a call: both or neither
                if slot.is_current:
                    return slot
        return None

    def give(self, slot: Slot) -> None:
        """Takes a slot back, whose run has ended."""
        if slot.nbytes > SLOT_BYTES:
            return
        with self._lock, sealed:
            kept = self._slots.setdefault(slot.shape, [])
            self._slots.move_to_end(slot.shape)
            self.nbytes, kept[:0] = self.nbytes + slot.nbytes, (slot,)
            while self.nbytes > self._limit:
                shape, kept = next(iter(self._slots.items()))
                if kept:
                    self.nbytes, kept[-1:] = self.nbytes - kept[-1].nbytes, ()
                if not kept:
                    del self._slots[shape]

    def clear(self) -> None:
        """Drops all slots."""
        with self._lock, sealed:
            self._slots, self.nbytes = OrderedDict(), 0


class CpuPending(Unique):
    """A submitted dispatch.  Every method may be called from any thread, and any number of times.

    The run of a dropped handle goes on, and its memory lives until then; it is freed by later submissions, or when the
    backend is flushed or closed.  A handle that is dropped after the end of its run frees the memory at once.
    """

    def __init__(self, device: CpuDevice, pipeline: CpuPipeline, slots: IdleSlots, slot: Slot) -> None:
        self._device, self._pipeline, self._slots = device, pipeline, slots
        self._slot: Slot | None = slot
        self._outputs = slot.outputs
        self._lock = threading.RLock()
        self._outcome: DispatchTiming | Exception | None = None
        self._users: list[object] = []
        """Whoever looks at the job, which no other dispatch may have until they are gone."""
        self._now_ns = device.counters.now_ns
        self._began = self._now_ns()

    def run(self) -> None:
        """Runs it on the calling thread."""
        slot = self._slot
        assert slot is not None
        began = self._now_ns()
        outcome = self._device.run_short(slot.job)
        self._settle(slot, outcome, self._now_ns() - began)

    def done(self) -> bool:
        """Returns whether the run has ended, with or without an error."""
        slot = self._slot
        return self._outcome is not None or slot is None or slot.job.done

    def wait(self, outputs: OutputStorage, /, *, timeout: float | None = None) -> DispatchTiming:
        """Fills ``outputs`` with the results and returns the measured times.

        Raises the error of the run, and ``TimeoutError`` if it still runs after ``timeout`` seconds.
        """
        if self._outcome is None:
            self._await(timeout)
        outcome = self._outcome
        if isinstance(outcome, Exception):
            outputs.clear()
            with self._lock, sealed:
                self._give_back()
            raise outcome
        assert outcome is not None
        views = outputs.begin(tuple([len(data) for data in self._outputs]))
        with self._lock, sealed:
            for view, data in zip(views, self._outputs, strict=True):
                view[:] = data
            slot = self._slot
            if slot is not None and not self._users and slot.nbytes <= SLOT_BYTES:
                self._outputs = tuple([memoryview(bytes(data)) for data in self._outputs])  # for another call
                self._give_back()
        return outcome

    def _give_back(self) -> None:
        """Gives the slot to other dispatches, unless somebody looks at its job."""
        slot = self._slot
        if slot is not None and not self._users:
            self._slot = None
            self._slots.give(slot)

    def add_done_callback(self, callback: Callable[[], object], /) -> None:
        """Has ``callback`` called once the run has ended: now if it has, else in a thread of the pool."""
        with self._lock, sealed:
            slot = None if self._outcome is not None else self._slot
            if slot is not None:
                self._users.append(callback)
        if slot is None:
            call_back(callback)
            return

        def call() -> None:
            self._users.remove(callback)
            callback()

        self._device.pool.call_when_done(slot.job, call)

    def cancel(self) -> bool:
        """Stops the run: before it begins, else at the next look of a lane at the stop flag."""
        with self._lock, sealed:  # so that the job is not another dispatch's
            slot = self._slot
            if self._outcome is not None or slot is None or slot.job.done:
                return False
            slot.job.stop()
            return True

    def _await(self, timeout: float | None) -> None:
        """Waits for the end of the run, and keeps its outcome."""
        with self._lock, sealed:
            slot = self._slot
            if self._outcome is not None or slot is None:
                return
            self._users.append(slot)
        try:
            if not self._device.pool.wait(slot.job, timeout):
                raise TimeoutError(f"{self!r} did not finish within {timeout} s")
        finally:
            self._users.remove(slot)
        with self._lock, sealed:
            if self._outcome is None:
                self._device.ended(slot.job)
                self._settle(slot, slot.job.outcome, slot.job.elapsed_ns)

    def _settle(self, slot: Slot, outcome: Outcome, native_ns: int) -> None:
        """Keeps the outcome of the run."""
        match outcome:
            case Outcome.COMPLETED:
                self._pipeline.learn(slot.shape, native_ns)
                self._outcome = DispatchTiming(self._now_ns() - self._began, native_ns)
            case Outcome.OUT_OF_MEMORY:
                self._outcome = DeviceOutOfMemory(requested=slot.job.commands.scratch_bytes)
            case other:
                self._outcome = run_failed(self._device, slot.job, other, slot.owners)

    def __del__(self) -> None:
        slot = getattr(self, "_slot", None)
        if slot is not None:
            self._device.ended(slot.job)

    def __repr__(self) -> str:
        return f"<CpuPending of {self._pipeline.id}>"


class CpuAsync:
    """``AsyncExecutor`` of the backend."""

    def __init__(self, device: CpuDevice, executor: CpuExecutor) -> None:
        self._device: Final = device
        self._executor: Final = executor
        self.slots: Final = IdleSlots()
        """The slots that no dispatch uses."""
        self._pipelines: dict[tuple[int, int], tuple[DispatchRequest, CpuPipeline]] = {}
        """The pipelines of the last programs and configs, by their identities; a request keeps them alive."""
        self._forgotten = 0

    def submit(self, request: DispatchRequest, /) -> CpuPending:
        """Queues a dispatch and returns its handle; the inputs have been copied when this returns."""
        pipeline = self._pipeline(request)
        shape = pipeline.shape(tuple([view.nbytes for view in request.inputs]))
        slot = self.slots.take(shape) or Slot(self._device, pipeline, shape)
        slot.take_in(request.inputs)
        pending = CpuPending(self._device, pipeline, self.slots, slot)
        if pipeline.is_brief(shape, BRIEF_NS) and not is_calling_back():  # a chain of callbacks is none of calls
            pending.run()
        else:
            self._device.submit(slot.job)
        self._device.counters.submitted += 1
        self._device.counters.dispatches += 1
        return pending

    def _pipeline(self, request: DispatchRequest) -> CpuPipeline:
        if self._forgotten != self._executor.forgotten:
            self._forgotten = self._executor.forgotten
            self._pipelines.clear()
        key = id(request.program), id(request.config)
        known = self._pipelines.get(key)
        if known is not None:
            return known[1]
        pipeline, _ = self._executor.pipeline(request.program, request.config)
        if len(self._pipelines) >= PIPELINES:
            self._pipelines.clear()
        self._pipelines[key] = DispatchRequest(request.program, (), request.config), pipeline
        return pipeline
