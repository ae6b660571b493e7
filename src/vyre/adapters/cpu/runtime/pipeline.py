"""One program under one config on the native CPU backend: from input bytes to output bytes."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from functools import cache
from math import inf, prod
from typing import Final, NamedTuple

from vyre.adapters.cpu.llvm.options import EmitOptions
from vyre.adapters.cpu.runtime.device import CpuDevice
from vyre.adapters.cpu.runtime.kernels import KernelCache, KernelModule
from vyre.adapters.cpu.runtime.launch import Placement
from vyre.adapters.cpu.runtime.options import MAX_GRID, MAX_LANES, MAX_WORKGROUP
from vyre.adapters.cpu.runtime.shapes import Estimate, is_short, place, private_buffers, runs_here, steps_at_most
from vyre.adapters.cpu.runtime.slot import Slot, SlotSpec, work_of
from vyre.adapters.cpu.runtime.variants import VariantInputs, variants_of
from vyre.adapters.forks import process_lock
from vyre.adapters.grid_kernels import kernel_plan
from vyre.adapters.kernel_plan import KernelPlan, kernel_runs
from vyre.adapters.kernel_source import KernelSource
from vyre.adapters.optimizing import passes_for
from vyre.adapters.pipelines import Compilation, PipelineExecutor
from vyre.adapters.replay_decision import ReplayPlanner
from vyre.domain.binding import plan_bindings
from vyre.domain.device import EngineKind
from vyre.domain.dispatch import DispatchConfig, DispatchTiming, refuse_unsupported
from vyre.domain.errors import DeviceOutOfMemory
from vyre.domain.geometry import LaunchLimits, check_limits
from vyre.domain.identity import program_digest
from vyre.domain.interface import resolve_launch
from vyre.domain.ir.program import Program
from vyre.domain.launch import Launch
from vyre.domain.names import BackendId
from vyre.domain.validation.known import order_sensitive
from vyre.policies.journal import DecisionSink
from vyre.ports.interrupts import sealed
from vyre.ports.planning import DispatchWork
from vyre.ports.requests import HostBytes, OutputStorage

SHAPES: Final = 64
_timing: Final = DispatchTiming._make
_LISTED: Final = "run as one command list from the first run on"
WIDE_BYTES: Final = 1 << 31
"""From so many bytes of one buffer on, offsets of 32 bits do not suffice."""
_HONOURED: Final = frozenset({"step_budget", "timeout_s"})
"""The fields of a config that the backend honours, of those that a backend need not."""
_INSTEAD: Final = {"race_check": "look for races on `reference`."}


class Choice(NamedTuple):
    """A variant of the code and how it is spread over threads.  They belong together, and are replaced together."""

    module: KernelModule
    placement: Placement


class Shape:
    """A pipeline at certain input lengths.

    ``choice`` is the present one; read it once.  ``planned_ns`` is the time of a workgroup by which it was made, None
    if none was measured.  ``idle`` holds the slots that no dispatch uses.  ``steps`` bounds the work of a dispatch, if
    a bound is proved.
    """

    __slots__ = ("choice", "estimate", "groups", "idle", "launch", "planned_ns", "short", "steps")

    def __init__(self, launch: Launch, choice: Choice, *, steps: int | None) -> None:
        self.launch: Final = launch
        self.groups: Final = prod(launch.grid)
        self.choice: Choice = choice
        self.planned_ns: int | None = None
        self.steps: Final = steps
        self.short: Final = is_short(steps)
        self.estimate: Final = Estimate()
        self.idle: Final[list[Slot]] = []


class CpuPipeline:
    """One program under one config; ``dispatch`` is re-entrant."""

    def __init__(
        self, device: CpuDevice, kernels: KernelCache, planner: ReplayPlanner, program: Program, config: DispatchConfig
    ) -> None:
        """Compiles the variant that most dispatches use.

        Raises the errors of emission, of compilation and of an unsupported config.
        """
        refuse_unsupported(config, device.backend, _HONOURED, _INSTEAD)
        device.check()
        self._source = KernelSource.of(program, config.spec, config.workgroup)
        sized = self._source.sized
        self._limits = launch_limits(device.backend)
        check_limits((1, 1, 1), sized.workgroup_size, self._limits)
        self.id: str = f"{device.backend}:{program_digest(sized).hex()[:16]}"
        self.program: Final = sized
        self.config: Final = config
        self.plan: Final = plan_bindings(sized)
        self._launches: Final = config.launches
        self._device, self._kernels, self._planner = device, kernels, planner
        self._now_ns = device.counters.now_ns
        self._ordered: Final = order_sensitive(sized)
        self._shapes: OrderedDict[tuple[int, ...], Shape] = OrderedDict()
        self._lock = process_lock()
        self._inputs: Final = VariantInputs(
            program=sized,
            features=kernels.maker.tools.features,
            threads=device.threads,
            lanes=device.options.lanes,
            counting=config.step_budget is not None,
            passes=passes_for(sized, config, EngineKind.NATIVE, kernels.maker.optimizes, kernels.maker.decisions),
        )
        self._options, self._apart = variants_of(self._inputs, kernels.maker.decisions)
        steps: list[Compilation] = []
        module = self._kernels.get(self._source, self._options, steps.append)
        count = len(module.loaded.kernels)
        self.kernels: Final[KernelPlan | None] = kernel_plan(sized, count)
        runs = kernel_runs(self.kernels, count)
        self.parts: Final = 1 if runs is None else max(1, sum(runs.whole.values()))
        """The kernels that all workgroups run in a launch, one after the other."""
        self.compilation: Final = steps[0] if steps else Compilation((), None)

    def dispatch(self, inputs: Sequence[HostBytes], outputs: OutputStorage, /) -> DispatchTiming:
        """Runs once and fills ``outputs``; on an error ``outputs`` is cleared."""
        started = self._now_ns()
        lengths = tuple([view.nbytes for view in inputs])
        shape = self._shapes.get(lengths) or self.shape(lengths)
        slot = self._slot(shape)
        if not shape.short:
            slot.short = self._seems_short(shape)
        try:
            slot.dispatch(inputs, outputs.begin(shape.launch.output_nbytes))
        except MemoryError as error:
            outputs.clear()
            raise DeviceOutOfMemory(requested=sum(shape.launch.nbytes)) from error
        except BaseException:
            outputs.clear()
            raise
        native, submitted, launched = slot.native_ns, slot.submit_ns, slot.launched
        shape.idle.append(slot)
        counters = self._device.counters
        counters.dispatches += 1
        counters.workgroups += shape.groups * self._launches
        self.learn(shape, native)
        # By position and at once: a dispatch is run in the time of a few of these objects.
        return _timing((self._now_ns() - started, native, submitted, None, launched, None, None, None))

    def is_prepared(self, input_nbytes: tuple[int, ...], /) -> bool:
        """Returns whether a slot is ready for a dispatch of inputs of these lengths."""
        shape = self._shapes.get(input_nbytes)
        return shape is not None and bool(shape.idle)

    def prepare(self, input_nbytes: tuple[int, ...], /) -> None:
        """Resolves the shape and makes a slot ready; launches nothing."""
        self._device.open()
        shape = self.shape(input_nbytes)
        shape.idle.append(self._slot(shape))

    def planned(self, input_nbytes: tuple[int, ...], sink: DecisionSink | None) -> DispatchWork:
        """Returns the work of a dispatch of inputs of these lengths.  ``sink`` receives the decisions about it."""
        from vyre.policies.launching.execution_prices import ExecutionMode
        from vyre.ports.planning import DispatchWork

        shape = self.shape(input_nbytes)
        if sink is not None:
            self._explain(shape, sink)
        work = work_of(self.spec(shape.launch), shape.choice.module)
        after = self._planner.after
        if self.config.timeout_s is not None:
            fixed = "run as one command list, which a timeout can stop"
            return DispatchWork(work.operations, work.timed, frozenset(), fixed)
        if self.kernels is not None:
            fixed = "run as one command list, which repeats the rounds of its grid loops"
            return DispatchWork(work.operations, work.timed, frozenset(), fixed)
        if not self._planner.may_record(work):
            return DispatchWork(work.operations, work.timed, frozenset())
        fixed = "" if after == "costs" else f"run as one command list after {after} runs" if after else _LISTED
        return DispatchWork(work.operations, work.timed, frozenset({ExecutionMode.GRAPH}), fixed)

    # ---------------------------------------------------------------- for launches on resident memory too
    def launch(self, input_nbytes: tuple[int, ...]) -> Launch:
        """Returns the launch for inputs of these lengths.  Raises as ``launch_of`` does."""
        return resolve_launch(self._source.program, input_nbytes, self.config, self._limits)

    def shape(self, input_nbytes: tuple[int, ...]) -> Shape:
        """Returns the shape for inputs of these lengths.  Raises as ``launch_of`` does."""
        cached = self._shapes.get(input_nbytes)
        if cached is not None:
            return cached
        launch = self.launch(input_nbytes)
        module = self.module_for(launch)
        choice = self._place(module, launch, None, self._kernels.maker.decisions)
        shape = Shape(launch, choice, steps=self._steps(module, launch))
        with self._lock, sealed:
            shape = self._shapes.setdefault(input_nbytes, shape)
            if len(self._shapes) > SHAPES:
                self._shapes.popitem(last=False)
        return shape

    def learn(self, shape: Shape, native_ns: int, runs: int = 1) -> None:
        """Records the time that a run took, which stands for so many, and plans later ones anew if it differs from the
        estimate.
        """
        self._device.counters.native_ns += native_ns * runs
        module, placement = shape.choice
        processor_ns = native_ns * placement.threads
        module.took(processor_ns * runs, runs)
        if shape.estimate.took(processor_ns // (self._launches * self.parts), shape.groups):
            if shape.groups < 2 or self._device.threads == 1:
                return  # one thread runs it, whatever time it takes
            sink = self._kernels.maker.decisions
            launch = shape.launch
            group_ns = shape.estimate.group_ns
            choice = self._place(self.module_for(launch), launch, group_ns, sink)
            shape.planned_ns = group_ns
            if choice != shape.choice:  # else the slots, and the lists that they have recorded, stay in use
                shape.choice = choice

    def expected_ns(self, shape: Shape) -> float:
        """Returns the processor time of a run by the times measured of its launches; infinite before one was
        measured.
        """
        least_ns = shape.estimate.least_ns
        return inf if least_ns is None else self.config.launches * self.parts * shape.groups * least_ns

    def is_brief(self, shape: Shape, most_ns: int) -> bool:
        """Returns whether one thread runs it, proved to end soon, and by the times measured within ``most_ns``."""
        return shape.short and shape.choice.placement.threads == 1 and self.expected_ns(shape) <= most_ns

    def module_for(self, launch: Launch) -> KernelModule:
        """Returns the variant for a launch whose buffers all threads share."""
        return self._kernels.get(self._source, self._sized_options(launch))

    def spec(self, launch: Launch) -> SlotSpec:
        """Returns what a slot of this launch is for."""
        config = self.config
        title = config.label or self.program.name or "unnamed"
        return SlotSpec(
            self.id, title, self.plan, launch, config.launches, config.step_budget, config.timeout_s, self.kernels
        )

    # ---------------------------------------------------------------- details
    def _slot(self, shape: Shape) -> Slot:
        """Returns a slot for the shape's present code and placement."""
        while True:
            try:
                slot = shape.idle.pop()
            except IndexError:
                break
            module, placement = shape.choice
            if slot.module is module and slot.loaded is module.loaded and slot.placement is placement:
                return slot
            slot.end()
        module, placement = shape.choice
        return Slot(self._device, self._planner, module, self.spec(shape.launch), placement, short=shape.short)

    def _seems_short(self, shape: Shape) -> bool:
        """Returns whether measured times say that the calling thread may run a dispatch that one thread runs anyway."""
        if shape.choice.placement.threads > 1:
            return False
        launches = self.config.launches * self.parts
        return runs_here(shape.steps, launches, self.config.timeout_s, lambda: self.expected_ns(shape))

    def _steps(self, module: KernelModule, launch: Launch) -> int | None:
        if self.config.timeout_s is not None:
            return None
        return steps_at_most(module, launch, self.config.launches, self.kernels)

    def _place(self, module: KernelModule, launch: Launch, group_ns: int | None, sink: DecisionSink | None) -> Choice:
        """Returns the variant and the threads of a launch."""
        device = self._device
        placement = place(
            module,
            launch,
            threads=device.threads,
            group_ns=group_ns,
            handoff_ns=device.handoff_ns,
            order_sensitive=self._ordered,
            sink=sink,
            plan=self.kernels,
        )
        table = private_buffers(
            self.program,
            self.plan,
            launch,
            placement.threads,
            order_sensitive=self._ordered,
            sink=sink,
            hidden=self.kernels is not None,
        )
        if table is None:
            return Choice(module, placement)
        options = self._sized_options(launch)._replace(exclusive=True)
        return Choice(self._kernels.get(self._source, options), placement._replace(table=table))

    def _explain(self, shape: Shape, sink: DecisionSink) -> None:
        """Takes the decisions by which the next run of ``shape`` goes again, on the same inputs, for ``sink``."""
        module = shape.choice.module
        self._inputs.width(sink, joined=module.options.joined)
        module.explain_effort(sink)
        self._place(self.module_for(shape.launch), shape.launch, shape.planned_ns, sink)

    def _sized_options(self, launch: Launch) -> EmitOptions:
        options = self._options
        if options.joined and launch.grid[1:] != (1, 1):
            options = self._apart
        return options if max(launch.nbytes, default=0) < WIDE_BYTES else options._replace(wide=True)


class CpuExecutor(PipelineExecutor[CpuPipeline]):
    """``ProgramExecutor`` and ``PipelineCompiler`` of the backend."""

    def __init__(self, device: CpuDevice, kernels: KernelCache, planner: ReplayPlanner) -> None:
        def make(program: Program, config: DispatchConfig) -> tuple[CpuPipeline, Compilation]:
            pipeline = CpuPipeline(device, kernels, planner, program, config)
            return pipeline, pipeline.compilation

        super().__init__(make, kernels.maker.decisions, kernels.discard, device.counters.now_ns)


@cache
def launch_limits(backend: BackendId) -> LaunchLimits:
    """Returns the limits of one launch."""
    return LaunchLimits(str(backend), MAX_LANES, MAX_WORKGROUP, MAX_GRID)
