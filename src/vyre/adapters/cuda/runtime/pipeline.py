"""Dispatch by loaded kernels: from input bytes to output bytes through the slots of a device.

The kernels may be compiled here or come from a bundle.  A pipeline has one shape per combination of input lengths, with
the module for its launch and the slots that are idle between dispatches.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Collection, Sequence
from math import prod
from typing import TYPE_CHECKING, Final, NamedTuple

from vyre.adapters.cuda.runtime.device import CudaDevice
from vyre.adapters.cuda.runtime.host_slot import HostSlot, SlotPool, SlotSpec
from vyre.adapters.cuda.runtime.loaded import LoadedModule
from vyre.adapters.cuda.runtime.slot import Resources
from vyre.adapters.cuda.runtime.waiting import DeadlinePassed, deadline_after
from vyre.adapters.forks import process_lock
from vyre.domain.binding import BindingPlan
from vyre.domain.dispatch import DispatchConfig, DispatchTiming, refuse_unsupported
from vyre.domain.errors import DispatchTimeout, TrapError, UnsupportedFeature
from vyre.domain.geometry import LaunchLimits
from vyre.domain.launch import Launch
from vyre.ports.interrupts import undisturbed, whole
from vyre.ports.support import Profiler

if TYPE_CHECKING:
    from vyre.ports.requests import HostBytes, OutputStorage

SHAPES: Final = 64
_INSTEAD: Final = {
    "step_budget": "count steps on `reference`, or bound the time by timeout_s.",
    "race_check": "look for races on `reference` or `cuda-machine`.",
}


class Shape(NamedTuple):
    """A pipeline at certain input lengths: its launch, the source of its module, and its idle slots.

    ``module`` is called inside ``device.calls``.  ``lanes`` is the number of lanes of the whole grid; ``returned`` is
    the number of bytes of all outputs.
    """

    launch: Launch
    module: Callable[[], LoadedModule]
    idle: list[HostSlot]
    lanes: int
    returned: int


class Running(NamedTuple):
    """A dispatch that was enqueued.  Times are in ns of the device's clock."""

    slot: HostSlot
    shape: Shape
    started_ns: int
    enqueued_ns: int


class KernelPipeline(ABC):
    """One piece of work under one config; ``dispatch`` is re-entrant.

    ``begin`` and ``complete`` are its halves: between them the device works and the caller need not wait.
    """

    def __init__(
        self,
        resources: Resources,
        slots: SlotPool,
        profiler: Profiler,
        *,
        id: str,
        title: str,
        plan: BindingPlan,
        config: DispatchConfig,
    ) -> None:
        """Makes a pipeline without a shape; ``title`` names it in messages."""
        self.id = id
        self._title = title
        self._resources = resources
        self._slots = slots
        self._profiler = profiler
        self._config = config
        self._plan = plan
        self._shapes: OrderedDict[tuple[int, ...], Shape] = OrderedDict()
        self._lock = process_lock()

    @abstractmethod
    def _resolve(self, input_nbytes: tuple[int, ...]) -> Launch:
        """Returns the launch for inputs of these lengths.  Raises as ``launch_of`` does."""

    @abstractmethod
    def _select(self, launch: Launch) -> Callable[[], LoadedModule]:
        """Returns a function that returns the module for ``launch``.  Called inside ``device.calls``."""

    def dispatch(self, inputs: Sequence[HostBytes], outputs: OutputStorage, /) -> DispatchTiming:
        """Runs once and fills ``outputs``; on an error ``outputs`` is cleared."""
        with self._profiler.range("vyre.cuda.host_dispatch"):
            deadline = deadline_after(self._resources.device.clock, self._config.timeout_s)
            return self.complete(self.begin(inputs, deadline), outputs, deadline, at_once=True)

    def begin(self, inputs: Sequence[HostBytes], deadline_ns: int | None) -> Running:
        """Enqueues one dispatch; the inputs have been read when this returns.  ``complete`` must follow."""
        device = self._resources.device
        started = device.clock.now_ns()
        shape = self.shape(tuple([view.nbytes for view in inputs]))
        slot = None
        try:
            slot = self._slot(shape)
            slot.active = True  # before the device is entered: ``close`` waits for it, or refuses this thread
            device.call(slot.start, inputs, deadline_ns)
            slot.active = False
            return Running(slot, shape, started, device.clock.now_ns())
        except BaseException as error:
            if slot is not None:
                self._failed(slot, error)
            raise

    @whole
    def done(self, running: Running) -> bool:
        """Returns whether ``complete`` would return without waiting."""
        with self._resources.device.calls:
            return running.slot.done()

    @whole
    def wait(self, running: Running, deadline_ns: int | None) -> bool:
        """Waits until ``complete`` would return without waiting; returns False if the deadline passed first.

        The dispatch is not given up then.
        """
        device = self._resources.device
        with device.calls:
            return device.waiter.event(running.slot.lease.done, deadline_ns)

    def complete(
        self, running: Running, outputs: OutputStorage, deadline_ns: int | None, *, at_once: bool = False
    ) -> DispatchTiming:
        """Waits for a dispatch and fills ``outputs``; on an error ``outputs`` is cleared.  Call it once per dispatch.

        ``at_once`` tells that the caller did nothing between ``begin`` and this call, so that the time between them is
        the dispatch's.
        """
        device, slot, launch = self._resources.device, running.slot, running.shape.launch
        kept = False
        try:
            slot.active = True
            views = outputs.begin(launch.output_nbytes)
            device_ns, launches = device.call(slot.finish, views, deadline_ns), slot.launches
            now = device.clock.now_ns()
            slot.took(device_ns, now - running.started_ns if at_once else None)
            idle = self._slots.home_of(slot)
            # One statement without a call, in which no signal is handled: until then the slot is this thread's.
            kept, slot.active, idle[:0] = True, False, (slot,)
        except BaseException as error:
            if not kept:
                outputs.clear()
                self._failed(slot, error)
            raise
        self._slots.trim()
        timing = DispatchTiming(
            now - running.started_ns,
            device_ns,
            running.enqueued_ns - running.started_ns,
            now - running.enqueued_ns,
            launches,
        )
        self._count(running.shape, timing)
        return timing

    def shape(self, input_nbytes: tuple[int, ...]) -> Shape:
        """Returns the shape for inputs of these lengths.  Raises as ``launch_of`` does."""
        return self._shapes.get(input_nbytes) or undisturbed(self._new_shape, input_nbytes)

    def _new_shape(self, input_nbytes: tuple[int, ...]) -> Shape:
        launch = self._resolve(input_nbytes)
        with self._resources.device.calls:
            module = self._select(launch)
        shape = Shape(launch, module, [], prod(launch.grid) * prod(launch.workgroup), sum(launch.output_nbytes))
        with self._lock:
            shape = self._shapes.setdefault(input_nbytes, shape)
            if len(self._shapes) > SHAPES:
                self._shapes.popitem(last=False)
        return shape

    def is_prepared(self, input_nbytes: tuple[int, ...], /) -> bool:
        """Returns whether a slot is ready for a dispatch of inputs of these lengths."""
        found = self._shapes.get(input_nbytes)
        return found is not None and bool(found.idle)

    @whole
    def prepare(self, input_nbytes: tuple[int, ...], /) -> None:
        """Resolves the shape, loads its module and makes a slot ready; launches nothing."""
        shape = self.shape(input_nbytes)
        if shape.idle:
            return
        device, slot = self._resources.device, self._slot(shape)
        try:
            with device.calls:
                device.waiter.stream(slot.lease.stream, None)  # its memory may go to another stream before it is used
        except BaseException as error:
            self._failed(slot, error)
            raise
        self._slots.put(slot)

    # ---------------------------------------------------------------- details
    def _slot(self, shape: Shape) -> HostSlot:
        """Returns an idle slot, or else a new one.  It is dropped with the last reference to it."""
        try:
            slot, shape.idle[:1] = shape.idle[0], ()  # one statement without a call, as in ``complete``
            return slot
        except IndexError:
            pass  # no error of the new one is told as one that came while this was handled
        return undisturbed(self._new_slot, shape)

    def _new_slot(self, shape: Shape) -> HostSlot:
        with self._resources.device.calls:
            return self._slots.make(shape.module(), self._spec(shape.launch), shape.idle)

    def _spec(self, launch: Launch) -> SlotSpec:
        config = self._config
        return SlotSpec(self.id, self._plan, launch, config.launches, config.cooperative, config.race_check)

    def _failed(self, slot: HostSlot, error: BaseException) -> None:
        """Keeps or drops the slot, depending on ``error``; raises ``DispatchTimeout`` if a deadline passed."""
        slot.active = False
        if isinstance(error, TrapError):  # the dispatch ran to its end
            self._slots.put(slot)
            return
        undisturbed(self._slots.drop, slot, error)
        if isinstance(error, DeadlinePassed):
            device = self._resources.device
            device.counters.timeouts += 1
            name = self._config.label or self._title
            raise DispatchTimeout(
                f"dispatch `{name}` ({self.id}) did not finish on backend `{device.backend}` within "
                f"{self._config.timeout_s} s; it may still run, and its memory is set aside until it ends"
            ) from None

    def _count(self, shape: Shape, timing: DispatchTiming) -> None:
        counters, device_ns = self._resources.device.counters, timing.device_ns or 0
        counters.scheduled_thread_slots += shape.lanes
        counters.launched_elements += shape.launch.element_count
        counters.readback_bytes += shape.returned
        counters.dispatches += 1
        counters.timed_wall_ns += timing.wall_ns
        counters.timed_device_ns += device_ns
        counters.timed_enqueue_ns += timing.enqueue_ns or 0
        counters.timed_wait_ns += timing.wait_ns or 0
        if device_ns > counters.timed_device_max_ns:
            counters.timed_device_max_ns = device_ns


def launch_limits(device: CudaDevice, *, folds: bool = False) -> LaunchLimits:
    """Returns the limits of one launch on the device; ``folds``: of programs whose grid is folded where it must be."""
    facts = device.facts
    grid = facts.folded_grid if folds else facts.max_grid
    return LaunchLimits(
        device.backend,
        facts.max_threads_per_block,
        facts.max_block,
        grid,
        facts.max_grid,
        facts.max_shared,
        facts.total_memory,
    )


def refuse_on(device: CudaDevice, config: DispatchConfig, profiles: Collection[str] = ()) -> None:
    """Raises ``UnsupportedFeature`` for a field that is set and that the backend cannot honour.

    ``profiles`` are the names of the existing profiles.
    """
    honoured = {"timeout_s", "cooperative"}
    if device.driver.checks_races:
        honoured.add("race_check")
    if config.profile in profiles:
        honoured.add("profile")
    refuse_unsupported(config, device.backend, honoured, _INSTEAD)
    if config.cooperative and not device.facts.cooperative_launch:
        feature = f"cooperative launches on {device.facts.name}"
        raise UnsupportedFeature(feature=feature, backend=device.backend)
