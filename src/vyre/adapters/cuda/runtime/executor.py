"""Dispatch on a CUDA device: from a program and its inputs to the bytes of its outputs.

There is one ``CudaPipeline`` per program and config, as on every backend; below it one shape per combination of input
lengths, with the module chosen for its grid, and the slots that are idle between dispatches.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from math import prod

from vyre.adapters.cuda.ptx.abi import inlined_uniforms, uses_table
from vyre.adapters.cuda.ptx.kernel import Assumption
from vyre.adapters.cuda.ptx.options import PROFILES, USUAL_PROFILE, EmitOptions
from vyre.adapters.cuda.runtime.arena import ARENA_FACTS
from vyre.adapters.cuda.runtime.host_slot import SlotPool, SlotSpec, plan_dispatch
from vyre.adapters.cuda.runtime.kernels import KernelCache
from vyre.adapters.cuda.runtime.launch import resident_per_multiprocessor
from vyre.adapters.cuda.runtime.loaded import LoadedModule
from vyre.adapters.cuda.runtime.pipeline import KernelPipeline, launch_limits, refuse_on
from vyre.adapters.cuda.runtime.slot import Resources
from vyre.adapters.grid_kernels import kernel_plan
from vyre.adapters.kernel_plan import KernelPlan
from vyre.adapters.kernel_source import KernelSource
from vyre.adapters.optimizing import passes_for
from vyre.adapters.pipelines import Compilation, PipelineExecutor
from vyre.domain.binding import BindingPlan, plan_bindings
from vyre.domain.device import EngineKind
from vyre.domain.dispatch import DispatchConfig
from vyre.domain.grid_sync import has_grid_barriers
from vyre.domain.identity import program_digest
from vyre.domain.interface import resolve_launch
from vyre.domain.ir.program import Dim3, Program
from vyre.domain.launch import Launch
from vyre.domain.missing import check_program
from vyre.policies.journal import DecisionSink, decide
from vyre.policies.launching.execution_prices import ExecutionMode
from vyre.policies.launching.grid_sync_mode import GridSyncInputs, GridSyncMode, choose_grid_sync
from vyre.ports.interrupts import whole
from vyre.ports.planning import DispatchWork
from vyre.ports.support import Profiler


class CudaPipeline(KernelPipeline):
    """One program under one config, emitted for the grid that it is launched on."""

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
        refuse_on(device, config, PROFILES)
        source = KernelSource.of(program, config.spec, config.workgroup)
        program = source.sized
        limits = launch_limits(device, folds=True)
        check_program(program, limits)
        super().__init__(
            resources,
            slots,
            profiler,
            id=f"{device.backend}:{program_digest(program).hex()[:16]}",
            title=program.name or "unnamed",
            plan=plan_bindings(program),
            config=config,
        )
        self._kernels = kernels
        self._program = program
        self._limits = limits
        self._source = source
        self._profile = USUAL_PROFILE if config.profile is None else PROFILES[config.profile]
        self._grid_barriers = has_grid_barriers(program)
        self._passes = passes_for(program, config, EngineKind.DEVICE, kernels.optimizes, kernels.decisions)
        steps: list[Compilation] = []
        with device.calls:
            self._module(self._options(native=self._native((1, 1, 1), steps.append)), steps.append)
        self.compilation: Compilation = _joined(steps)

    @property
    def cooperative(self) -> bool:
        """Whether the config demands cooperative launches."""
        return self._config.cooperative

    @property
    def race_check(self) -> bool:
        """Whether its launches are watched for data races."""
        return self._config.race_check

    def module_for(self, grid: Dim3, assume: frozenset[Assumption], *, inline_uniforms: bool) -> LoadedModule:
        """Returns the variant for memory of which only ``assume`` is known.  Call it inside ``device.calls``.

        ``inline_uniforms`` is False if uniform buffers are resident, so that their bytes cannot travel as parameters.
        """
        options = self._options(native=self._native(grid), assume=assume, grid=grid)
        if not inline_uniforms:
            options = replace(options, switches=replace(options.switches, inline_uniforms=False))
        return self._module(options)

    @property
    def plan(self) -> BindingPlan:
        """Returns the bindings of the program."""
        return self._plan

    @property
    def config(self) -> DispatchConfig:
        """Returns the config."""
        return self._config

    @property
    def title(self) -> str:
        """Returns the name of the program in messages."""
        return self._title

    def launch_of(self, input_nbytes: tuple[int, ...]) -> Launch:
        """Returns the launch for inputs of these lengths.  Raises what resolving it raises."""
        return self._resolve(input_nbytes)

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
        launch = self._resolve(input_nbytes)
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
    def _spec(self, launch: Launch) -> SlotSpec:
        return super()._spec(launch)._replace(order=partial(kernel_plan, self._program))

    def _resolve(self, input_nbytes: tuple[int, ...]) -> Launch:
        return resolve_launch(self._source.program, input_nbytes, self._config, self._limits)

    def _select(self, launch: Launch) -> Callable[[], LoadedModule]:
        return partial(self._module, self.options_for(launch))

    def _native(
        self, grid: Dim3, told: Callable[[Compilation], object] | None = None, sink: DecisionSink | None = None
    ) -> bool:
        """Returns whether the grid barriers of this launch run inside one kernel.

        If that is demanded, a grid that does not fit is refused when its launch is prepared.
        """
        if not self._grid_barriers:
            return True
        sink = self._kernels.decisions if sink is None else sink
        return decide(sink, choose_grid_sync, self.grid_sync(grid, told)).mode is GridSyncMode.NATIVE

    def grid_sync(self, grid: Dim3, told: Callable[[Compilation], object] | None = None) -> GridSyncInputs:
        """Returns a grid of this program, which has grid barriers, and how much of it the device holds at once.

        Call it inside ``device.calls``.
        """
        device = self._resources.device
        facts = device.facts
        forced = GridSyncMode.NATIVE if self._config.cooperative else device.options.grid_sync
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


def _joined(made: list[Compilation]) -> Compilation:
    """Returns the steps of all compilations together; nothing was missed if every module existed already."""
    phases: dict[str, int] = {}
    for name, spent_ns in (phase for each in made for phase in each.phases):
        phases[name] = phases.get(name, 0) + spent_ns
    return Compilation(tuple(phases.items()), next((each.missed for each in made if each.missed is not None), None))


class CudaExecutor(PipelineExecutor[CudaPipeline]):
    """``ProgramExecutor`` and ``PipelineCompiler`` of one device."""

    def __init__(self, resources: Resources, kernels: KernelCache, slots: SlotPool, profiler: Profiler) -> None:
        def make(program: Program, config: DispatchConfig) -> tuple[CudaPipeline, Compilation]:
            with profiler.range("vyre.cuda.pipeline.compile"):
                pipeline = CudaPipeline(resources, kernels, slots, profiler, program, config)
            return pipeline, pipeline.compilation

        super().__init__(make, kernels.decisions, kernels.discard, resources.device.clock.now_ns)
