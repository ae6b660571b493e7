"""Dispatch on a CUDA device: from a program and its inputs to the bytes of its outputs.

One ``CudaPipeline`` per program and config, as on every backend; below it one shape per combination of input lengths,
with the module chosen for its grid, and the lanes that are idle between dispatches.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from math import prod
from typing import Final, NamedTuple, Protocol

from vyre.adapters.cuda.ptx.kernel import Assumption
from vyre.adapters.cuda.ptx.options import EmitOptions
from vyre.adapters.cuda.runtime.device import CudaDevice
from vyre.adapters.cuda.runtime.kernels import LoadedModule
from vyre.adapters.cuda.runtime.lane import Lane, LanePool, LaneSpec, Resources
from vyre.adapters.cuda.runtime.launch import resident_per_multiprocessor
from vyre.adapters.cuda.runtime.waiting import DeadlinePassed, deadline_after
from vyre.adapters.pipelines import PipelineExecutor
from vyre.domain.binding import BindingPlan, plan_bindings
from vyre.domain.dispatch import DispatchConfig, DispatchTiming, PersistentThreadMode, SpeculationMode
from vyre.domain.errors import DispatchTimeout, TrapError, UnsupportedFeature
from vyre.domain.geometry import LaunchLimits, check_limits
from vyre.domain.grid_sync import plan_grid_sync
from vyre.domain.identity import program_digest
from vyre.domain.interface import resolve_launch
from vyre.domain.ir.expr import Literal
from vyre.domain.ir.program import Dim3, Program
from vyre.domain.launch import Launch
from vyre.domain.specialization import spec_literals
from vyre.policies.emission.grid_sync_mode import GridSyncInputs, GridSyncMode, choose_grid_sync
from vyre.ports.backend import HostBytes, OutputStorage

SHAPES: Final = 64
ARENA_FACTS: Final = frozenset({Assumption.ALIGNED16, Assumption.NOALIAS})
"""What holds of every arena: its parts are aligned to 256 bytes and apart."""


class Profiler(Protocol):
    """Opens a named range around a piece of work."""

    def range(self, name: str, /) -> AbstractContextManager[object]: ...


class Shape(NamedTuple):
    """A pipeline at certain input lengths: its launch, how its module is emitted, and its idle lanes.

    ``lanes``: of the whole grid.  ``returned``: bytes of all outputs.
    """

    launch: Launch
    options: EmitOptions
    idle: list[Lane]
    lanes: int
    returned: int


class Running(NamedTuple):
    """A dispatch on its way.  Times in ns of the device's clock."""

    lane: Lane
    shape: Shape
    started_ns: int
    enqueued_ns: int


class CudaPipeline:
    """One program under one config; ``dispatch`` is re-entrant.

    ``begin`` and ``complete`` are its halves: between them the device works and the caller need not wait.
    """

    def __init__(
        self, resources: Resources, lanes: LanePool, profiler: Profiler, program: Program, config: DispatchConfig
    ) -> None:
        """Compiles the module that most dispatches will use.  Raises what emission, loading and the config raise."""
        device = resources.device
        refuse_unsupported(device, config)
        if config.workgroup is not None and config.workgroup != program.workgroup_size:
            program = replace(program, workgroup_size=config.workgroup)
        limits = launch_limits(device)
        check_limits((1, 1, 1), program.workgroup_size, limits)
        self.id = f"{device.backend}:{program_digest(program).hex()[:16]}"
        self._resources = resources
        self._lanes = lanes
        self._profiler = profiler
        self._program = program
        self._config = config
        self._limits = limits
        self._plan: BindingPlan = plan_bindings(program)
        self._spec: Mapping[str, Literal] = spec_literals(program, config.spec)
        self._grid_barriers = len(plan_grid_sync(program)) > 1
        self._shapes: OrderedDict[tuple[int, ...], Shape] = OrderedDict()
        self._lock = threading.Lock()
        with device.calls:
            self._module(self._options(native=self._native((1, 1, 1))))

    def dispatch(self, inputs: Sequence[HostBytes], outputs: OutputStorage, /) -> DispatchTiming:
        """Run once; on an error ``outputs`` is cleared."""
        with self._profiler.range("vyre.cuda.host_dispatch"):
            deadline = deadline_after(self._resources.device.clock, self._config.timeout_s)
            return self.complete(self.begin(inputs, deadline), outputs, deadline)

    def begin(self, inputs: Sequence[HostBytes], deadline_ns: int | None) -> Running:
        """Enqueue one dispatch; the inputs have been read when this returns.  ``complete`` must follow."""
        device = self._resources.device
        started = device.clock.now_ns()
        shape = self.shape(tuple([view.nbytes for view in inputs]))
        lane = self._lane(shape)
        lane.active = True
        try:
            with device.calls:
                lane.start(inputs, deadline_ns)
        except BaseException as error:
            self._failed(lane, error)
            raise
        lane.active = False
        return Running(lane, shape, started, device.clock.now_ns())

    def done(self, running: Running) -> bool:
        """Whether ``complete`` would not have to wait."""
        with self._resources.device.calls:
            return running.lane.done()

    def wait(self, running: Running, deadline_ns: int | None) -> bool:
        """Wait until ``complete`` would not have to; False if the deadline passed first.  Gives nothing up."""
        device = self._resources.device
        with device.calls:
            return device.waiter.event(running.lane.lease.done, deadline_ns)

    def complete(self, running: Running, outputs: OutputStorage, deadline_ns: int | None) -> DispatchTiming:
        """Wait for a dispatch and fill ``outputs``; on an error ``outputs`` is cleared.  Call once."""
        device, lane, launch = self._resources.device, running.lane, running.shape.launch
        lane.active = True
        try:
            views = outputs.begin(launch.output_nbytes)
            with device.calls:
                device_ns = lane.finish(views, deadline_ns)
        except BaseException as error:
            outputs.clear()
            self._failed(lane, error)
            raise
        lane.active = False
        self._lanes.put(lane)
        now = device.clock.now_ns()
        timing = DispatchTiming(
            now - running.started_ns,
            device_ns,
            running.enqueued_ns - running.started_ns,
            now - running.enqueued_ns,
        )
        self._count(running.shape, timing)
        return timing

    def abandon(self, running: Running, reason: BaseException) -> None:
        """Nobody will ask for this dispatch any more."""
        self._lanes.drop(running.lane, reason)

    def shape(self, input_nbytes: tuple[int, ...]) -> Shape:
        """The shape for inputs of these lengths.  Raises as ``resolve_launch`` does."""
        found = self._shapes.get(input_nbytes)
        if found is not None:
            return found
        launch = resolve_launch(self._program, input_nbytes, self._config, self._limits)
        with self._resources.device.calls:
            options = self._options(native=self._native(launch.grid))
        shape = Shape(launch, options, [], prod(launch.grid) * prod(launch.workgroup), sum(launch.output_nbytes))
        with self._lock:
            shape = self._shapes.setdefault(input_nbytes, shape)
            if len(self._shapes) > SHAPES:
                self._shapes.popitem(last=False)
        return shape

    @property
    def cooperative(self) -> bool:
        """Whether its launches were asked to be cooperative."""
        return self._config.cooperative

    def module_for(self, grid: Dim3, assume: frozenset[Assumption], *, inline_uniforms: bool) -> LoadedModule:
        """The variant for memory of which only ``assume`` is known.  Call inside the door.

        ``inline_uniforms`` False: uniform buffers are resident, so their bytes cannot travel as parameters.
        """
        options = replace(self._options(native=self._native(grid)), assume=assume)
        if not inline_uniforms:
            options = replace(options, switches=replace(options.switches, inline_uniforms=False))
        return self._module(options)

    # ---------------------------------------------------------------- details
    def _native(self, grid: Dim3) -> bool:
        """Whether the grid barriers of this launch run inside one kernel.

        A grid that does not fit although this is asked for is refused when its launch is prepared.
        """
        if not self._grid_barriers:
            return True
        device = self._resources.device
        facts = device.facts
        forced = GridSyncMode.NATIVE if self._config.cooperative else device.options.grid_sync
        undecided = forced is None and facts.cooperative_launch  # then only is the native kernel worth its compilation
        resident = self._resident_natively() if undecided else 0
        asked = GridSyncInputs(facts.cooperative_launch, prod(grid), facts.multiprocessors, resident, forced)
        return choose_grid_sync(asked).mode is GridSyncMode.NATIVE

    def _resident_natively(self) -> int:
        """Workgroups of the native kernel that one multiprocessor holds at once."""
        module = self._module(self._options(native=True))
        return min(resident_per_multiprocessor(self._resources.device, kernel) for kernel in module.kernels)

    def _options(self, *, native: bool) -> EmitOptions:
        facts = self._resources.device.facts
        return EmitOptions(
            target=facts.target,
            assume=ARENA_FACTS,
            native_grid_sync=native,
            parameter_limit=facts.parameter_limit,
        )

    def _module(self, options: EmitOptions) -> LoadedModule:
        return self._resources.kernels.get(self._program, options, self._spec)

    def _lane(self, shape: Shape) -> Lane:
        try:
            return shape.idle.pop()
        except IndexError:
            pass
        config = self._config
        with self._resources.device.calls:
            module = self._module(shape.options)
            spec = LaneSpec(self._plan, shape.launch, config.fixpoint_iterations or 1, config.cooperative)
            return self._lanes.make(module, spec, shape.idle)

    def _failed(self, lane: Lane, error: BaseException) -> None:
        """Put the lane where it belongs after ``error``; raises ``DispatchTimeout`` if a deadline passed."""
        lane.active = False
        if isinstance(error, TrapError):  # the dispatch ran to its end
            self._lanes.put(lane)
            return
        self._lanes.drop(lane, error)
        if isinstance(error, DeadlinePassed):
            device = self._resources.device
            device.counters.timeout_count += 1
            name = self._config.label or self._program.name or "unnamed"
            raise DispatchTimeout(
                f"dispatch `{name}` ({self.id}) did not finish on backend `{device.backend}` within "
                f"{self._config.timeout_s} s; it may still run, and its memory is set aside until it ends"
            ) from None

    def _count(self, shape: Shape, timing: DispatchTiming) -> None:
        counters, device_ns = self._resources.device.counters, timing.device_ns or 0
        counters.scheduled_thread_slots += shape.lanes
        counters.launched_elements += shape.launch.element_count
        counters.readback_bytes += shape.returned
        counters.timed_dispatches += 1
        counters.timed_wall_ns += timing.wall_ns
        counters.timed_device_ns += device_ns
        counters.timed_enqueue_ns += timing.enqueue_ns or 0
        counters.timed_wait_ns += timing.wait_ns or 0
        if device_ns > counters.timed_device_max_ns:
            counters.timed_device_max_ns = device_ns


class CudaExecutor(PipelineExecutor[CudaPipeline]):
    """The executor of one device."""

    def __init__(self, resources: Resources, lanes: LanePool, profiler: Profiler) -> None:
        def make(program: Program, config: DispatchConfig) -> CudaPipeline:
            with profiler.range("vyre.cuda.pipeline.compile"):
                return CudaPipeline(resources, lanes, profiler, program, config)

        super().__init__(make)


def launch_limits(device: CudaDevice) -> LaunchLimits:
    """What the device allows one launch."""
    facts = device.facts
    return LaunchLimits(device.backend, facts.max_threads_per_block, facts.max_block, facts.max_grid)


def refuse_unsupported(device: CudaDevice, config: DispatchConfig) -> None:
    """Raises ``UnsupportedFeature`` for a set field that the backend cannot honour."""
    for wanted, feature, fix in (
        (config.step_budget is not None, "step_budget", "count steps on `reference`, or bound the time by timeout_s."),
        (config.race_check, "race_check", "look for races on `reference`."),
        (config.chunk_workgroups is not None, "chunk_workgroups", None),
        (config.speculation is SpeculationMode.FORCE, "speculation", None),
        (config.persistent_thread is PersistentThreadMode.FORCE, "persistent threads", None),
        (config.profile is not None, f"profile {config.profile!r}", None),
        (
            config.cooperative and not device.facts.cooperative_launch,
            f"cooperative launches on {device.facts.name}",
            None,
        ),
    ):
        if wanted:
            raise UnsupportedFeature(feature=feature, backend=device.backend, fix=fix)
