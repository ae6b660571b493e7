"""Dispatch on a CUDA device: from a program and its inputs to the bytes of its outputs.

There is one ``CudaPipeline`` per program and config, as on every backend; below it one shape per combination of input
lengths, with the module chosen for its grid, and the slots that are idle between dispatches.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from math import prod
from typing import TYPE_CHECKING, Final, NamedTuple

from vyre.adapters.cuda.ptx.abi import inlined_uniforms, uses_table
from vyre.adapters.cuda.ptx.kernel import Assumption
from vyre.adapters.cuda.ptx.options import PROFILES, USUAL_PROFILE, EmitOptions
from vyre.adapters.cuda.runtime.arena import ARENA_FACTS
from vyre.adapters.cuda.runtime.device import CudaDevice
from vyre.adapters.cuda.runtime.host_slot import HostSlot, SlotPool, SlotSpec, plan_dispatch
from vyre.adapters.cuda.runtime.kernels import KernelCache
from vyre.adapters.cuda.runtime.launch import resident_per_multiprocessor
from vyre.adapters.cuda.runtime.loaded import LoadedModule
from vyre.adapters.cuda.runtime.slot import Resources
from vyre.adapters.cuda.runtime.waiting import DeadlinePassed, deadline_after
from vyre.adapters.forks import process_lock
from vyre.adapters.grid_kernels import kernel_plan
from vyre.adapters.kernel_plan import KernelPlan
from vyre.adapters.kernel_source import KernelSource
from vyre.adapters.optimizing import passes_for
from vyre.adapters.pipelines import Compilation, PipelineExecutor
from vyre.domain.binding import plan_bindings
from vyre.domain.device import EngineKind
from vyre.domain.dispatch import DispatchConfig, DispatchTiming, refuse_unsupported
from vyre.domain.errors import DispatchTimeout, TrapError, UnsupportedFeature
from vyre.domain.geometry import LaunchLimits
from vyre.domain.grid_sync import has_grid_barriers
from vyre.domain.identity import program_digest
from vyre.domain.interface import resolve_launch
from vyre.domain.ir.program import Dim3, Program
from vyre.domain.launch import Launch
from vyre.domain.missing import check_program
from vyre.policies.journal import DecisionSink, decide
from vyre.policies.launching.execution_prices import ExecutionMode
from vyre.policies.launching.grid_sync_mode import GridSyncInputs, GridSyncMode, choose_grid_sync
from vyre.ports.interrupts import undisturbed, whole
from vyre.ports.planning import DispatchWork
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


class CudaPipeline:
    """One program under one config, emitted for the grid that it is launched on; ``dispatch`` is re-entrant.

    ``begin`` and ``complete`` are its halves: between them the device works and the caller need not wait.
    """

    def __init__(
        self,
        resources: Resources,
        kernels: KernelCache,
        slots: SlotPool,
        profiler: Profiler,
        program: Program,
        config: DispatchConfig,
    ) -> None:
        """Compiles the module that most dispatches will use.

        Raises the errors of emission, of loading and of an unsupported config.
        """
        device = resources.device
        _refuse_on(device, config)
        source = KernelSource.of(program, config.spec, config.workgroup)
        if config.race_check:  # the reports of races name locations, which are in no digest
            from vyre.domain.ir.location_table import table_of  # on use

            source = source._replace(locations=str(table_of(program)))
        program = source.sized
        limits = launch_limits(device)
        check_program(program, limits)
        self.id: Final = f"{device.backend}:{program_digest(program).hex()[:16]}"
        self.title: Final = program.name or "unnamed"
        self.plan: Final = plan_bindings(program)
        self.config: Final = config
        self._resources = resources
        self._slots = slots
        self._profiler = profiler
        self._shapes: OrderedDict[tuple[int, ...], Shape] = OrderedDict()
        self._lock = process_lock()
        self._kernels = kernels
        self._program = program
        self._limits = limits
        self._source = source
        self._profile = USUAL_PROFILE if config.profile is None else PROFILES[config.profile]
        self._grid_barriers = has_grid_barriers(program)
        self._passes = passes_for(program, config, EngineKind.DEVICE, kernels.maker.optimizes, kernels.maker.decisions)
        steps: list[Compilation] = []
        with device.calls:
            self._module(self._options(native=self._native((1, 1, 1), steps.append)), steps.append)
        self.compilation: Compilation = _joined(steps)

    # ---------------------------------------------------------------- dispatching
    def dispatch(self, inputs: Sequence[HostBytes], outputs: OutputStorage, /) -> DispatchTiming:
        """Runs once and fills ``outputs``; on an error ``outputs`` is cleared."""
        with self._profiler.range("vyre.cuda.host_dispatch"):
            deadline = deadline_after(self._resources.device.clock, self.config.timeout_s)
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
        launch = self.launch_of(input_nbytes)
        with self._resources.device.calls:
            module = partial(self._module, self.options_for(launch))
        shape = Shape(launch, module, [], prod(launch.grid) * prod(launch.workgroup), sum(launch.output_nbytes))
        with self._lock:
            shape = self._shapes.setdefault(input_nbytes, shape)
            if len(self._shapes) > SHAPES:
                self._shapes.popitem(last=False)
        return shape

    def is_prepared(self, input_nbytes: tuple[int, ...], /) -> bool:
        """Returns whether a slot is ready for a dispatch of inputs of these lengths."""
        shape = self._shapes.get(input_nbytes)
        return shape is not None and bool(shape.idle)

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

    # ---------------------------------------------------------------- what other modules run
    def launch_of(self, input_nbytes: tuple[int, ...]) -> Launch:
        """Returns the launch for inputs of these lengths.  Raises what resolving it raises."""
        return resolve_launch(self._source.program, input_nbytes, self.config, self._limits)

    def module_for(self, grid: Dim3, assume: frozenset[Assumption], *, inline_uniforms: bool) -> LoadedModule:
        """Returns the variant for memory of which only ``assume`` is known.  Call it inside ``device.calls``.

        ``inline_uniforms`` is False if uniform buffers are resident, so that their bytes cannot travel as parameters.
        """
        options = self._options(native=self._native(grid), assume=assume, grid=grid)
        if not inline_uniforms:
            options = replace(options, switches=replace(options.switches, inline_uniforms=False))
        return self._module(options)

    def staying_module(self) -> LoadedModule:
        """Returns the module whose kernel stays and takes jobs from a mailbox.  Call it inside ``device.calls``."""
        return self._module(replace(self._options(native=True), mailbox=True))

    def options_for(self, launch: Launch, sink: DecisionSink | None = None) -> EmitOptions:
        """Returns the options with which the module of a launch is emitted.  Call it inside ``device.calls``.

        ``sink`` receives the decisions instead of the usual sink.
        """
        options = self._options(native=self._native(launch.grid, sink=sink), grid=launch.grid)
        if self._profile.exact_grid and prod(launch.grid) * prod(launch.workgroup) == launch.element_count:
            options = replace(options, assume=options.assume | {Assumption.EXACT_GRID})
        return options

    def resident_lanes(self, launch: Launch) -> int:
        """Returns the lanes of ``launch`` that one multiprocessor holds at once.  Call it inside ``device.calls``."""
        module = self._module(self.options_for(launch))
        blocks = min(resident_per_multiprocessor(self._resources.device, kernel) for kernel in module.kernels)
        return blocks * prod(launch.workgroup)

    @whole
    def planned(self, input_nbytes: tuple[int, ...], sink: DecisionSink | None) -> DispatchWork:
        """Returns the work of a dispatch of inputs of these lengths.  ``sink`` receives the decisions about it."""
        launch = self.launch_of(input_nbytes)
        with self._resources.device.calls:
            options = self.options_for(launch, sink)
            if sink is not None:
                uses_table(self._program, inlined_uniforms(self._program, options, sink), options, sink)
            planned = plan_dispatch(self._module(options), self._spec(launch))
        work, replays = planned.work, self._resources.replays
        if not (planned.recordable and replays.may_record(work)):
            return DispatchWork(work.operations, work.timed, frozenset())
        fixed = "" if replays.after == "costs" else f"replayed as a graph after {replays.after} runs"
        return DispatchWork(work.operations, work.timed, frozenset({ExecutionMode.GRAPH}), fixed)

    def steps(self, module: LoadedModule) -> KernelPlan | None:
        """Returns the order of the kernels of a module if grid loops repeat some of them."""
        return kernel_plan(self._program, len(module.kernels))

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
            name = self.config.label or self.title
            raise DispatchTimeout(
                f"dispatch `{name}` ({self.id}) did not finish on backend `{device.backend}` within "
                f"{self.config.timeout_s} s; it may still run, and its memory is set aside until it ends"
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

    def _spec(self, launch: Launch) -> SlotSpec:
        config, order = self.config, partial(kernel_plan, self._program)
        return SlotSpec(self.id, self.plan, launch, config.launches, config.cooperative, config.race_check, order)

    def _native(
        self, grid: Dim3, told: Callable[[Compilation], object] | None = None, sink: DecisionSink | None = None
    ) -> bool:
        """Returns whether the grid barriers of this launch run inside one kernel.

        If that is demanded, a grid that does not fit is refused when its launch is prepared.
        """
        if not self._grid_barriers:
            return True
        sink = self._kernels.maker.decisions if sink is None else sink
        return decide(sink, choose_grid_sync, self.grid_sync(grid, told)).mode is GridSyncMode.NATIVE

    def grid_sync(self, grid: Dim3, told: Callable[[Compilation], object] | None = None) -> GridSyncInputs:
        """Returns a grid of this program, which has grid barriers, and how much of it the device holds at once.

        Call it inside ``device.calls``.
        """
        device = self._resources.device
        facts = device.facts
        forced = GridSyncMode.NATIVE if self.config.cooperative else device.options.grid_sync
        undecided = forced is None and facts.cooperative_launch  # else the native kernel need not be compiled
        resident = self._resident_natively(told) if undecided else 0
        return GridSyncInputs(facts.cooperative_launch, prod(grid), facts.multiprocessors, resident, forced)

    def _resident_natively(self, told: Callable[[Compilation], object] | None) -> int:
        """Returns the workgroups of the native kernel that one multiprocessor holds at once."""
        module = self._module(self._options(native=True), told)
        return min(resident_per_multiprocessor(self._resources.device, kernel) for kernel in module.kernels)

    def _options(
        self, *, native: bool, assume: frozenset[Assumption] = ARENA_FACTS, grid: Dim3 = (1, 1, 1)
    ) -> EmitOptions:
        facts = self._resources.device.facts
        return self._profile.applied(
            EmitOptions(
                target=facts.target,
                assume=assume,
                native_grid_sync=native,
                parameter_limit=facts.parameter_limit,
                folded=not all(0 < groups <= most for groups, most in zip(grid, facts.max_grid, strict=True)),
                passes=self._passes,
            )
        )

    def _module(self, options: EmitOptions, told: Callable[[Compilation], object] | None = None) -> LoadedModule:
        return self._kernels.get(self._source, options, told)


def launch_limits(device: CudaDevice) -> LaunchLimits:
    """Returns the limits of one launch on the device, whose grid is folded where it must be."""
    facts = device.facts
    return LaunchLimits(
        device.backend,
        facts.max_threads_per_block,
        facts.max_block,
        facts.folded_grid,
        facts.max_grid,
        facts.max_shared,
        facts.total_memory,
    )


def _refuse_on(device: CudaDevice, config: DispatchConfig) -> None:
    """Raises ``UnsupportedFeature`` for a field that is set and that the backend cannot honour."""
    honoured = {"timeout_s", "cooperative"}
    if device.driver.checks_races:
        honoured.add("race_check")
    if config.profile in PROFILES:
        honoured.add("profile")
    refuse_unsupported(config, device.backend, honoured, _INSTEAD)
    if config.cooperative and not device.facts.cooperative_launch:
        feature = f"cooperative launches on {device.facts.name}"
        raise UnsupportedFeature(feature=feature, backend=device.backend)


def _joined(compilations: list[Compilation]) -> Compilation:
    """Returns the steps of all compilations together; nothing was missed if every module existed already."""
    phases: dict[str, int] = {}
    for name, spent_ns in (phase for each in compilations for phase in each.phases):
        phases[name] = phases.get(name, 0) + spent_ns
    missed = next((each.missed for each in compilations if each.missed is not None), None)
    return Compilation(tuple(phases.items()), missed)


class CudaExecutor(PipelineExecutor[CudaPipeline]):
    """``ProgramExecutor`` and ``PipelineCompiler`` of one device."""

    def __init__(self, resources: Resources, kernels: KernelCache, slots: SlotPool, profiler: Profiler) -> None:
        def make(program: Program, config: DispatchConfig) -> tuple[CudaPipeline, Compilation]:
            with profiler.range("vyre.cuda.pipeline.compile"):
                pipeline = CudaPipeline(resources, kernels, slots, profiler, program, config)
            return pipeline, pipeline.compilation

        super().__init__(make, kernels.maker.decisions, kernels.discard, resources.device.clock.now_ns)
