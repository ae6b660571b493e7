"""The reference backend around an engine: binding, allocation, grid-barrier segments, errors.

One ``ReferencePipeline`` per program and config resolves everything that does not depend on input lengths; launches are
cached by input lengths.  Inputs are read in place; buffers passed in and returned are copied once, into the caller's
output storage, and changed there.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

from vyre.adapters.host.memory import aligned, allocate
from vyre.adapters.optimizing import optimized, passes_for
from vyre.adapters.pipelines import Compilation, PipelineExecutor
from vyre.adapters.reference.engine import Engine, Kernel, RunOptions
from vyre.domain.binding import plan_bindings
from vyre.domain.device import EngineKind
from vyre.domain.dispatch import DispatchConfig, DispatchTiming, refuse_unsupported
from vyre.domain.errors import BackendError, DeviceOutOfMemory, DispatchTimeout
from vyre.domain.float_mode import in_default_mode
from vyre.domain.geometry import LaunchLimits
from vyre.domain.grid_sync import Rounds, Step, grid_control, plan_grid_sync, plan_programs
from vyre.domain.identity import program_digest
from vyre.domain.interface import resolve_launch
from vyre.domain.ir.program import Buffer, Program
from vyre.domain.launch import Launch
from vyre.domain.missing import check_program
from vyre.domain.optimize.dialect_laws import keep_stated_laws, stated_laws
from vyre.domain.recursion import telling_of_depth
from vyre.domain.sites import with_sites
from vyre.domain.specialization import spec_literals
from vyre.domain.validation.validator import check_rules
from vyre.policies.journal import DecisionSink
from vyre.ports.requests import HostBytes, OutputStorage

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from vyre.domain.ir.expr import Literal
    from vyre.ports.device_passes import DevicePassesOf

LAUNCHES: Final = 64
HONOURED: Final = frozenset({"step_budget", "race_check", "chunk_workgroups", "timeout_s"})
"""The fields of a config that the reference honours, of those that a backend need not."""


class _Prepared(NamedTuple):
    """A program that is ready to run: its steps, the hidden buffer of its grid loops, and its kernels.

    ``kernels`` holds the number and the kernel of each part, by its identity.
    """

    steps: Sequence[Step]
    control: Buffer | None
    kernels: dict[int, tuple[int, Kernel]]

    def run(
        self, steps: Sequence[Step], memory: dict[str, npt.NDArray[np.uint8]], launch: Launch, options: RunOptions
    ) -> None:
        """Runs some of the steps."""
        for step in steps:
            if isinstance(step, Rounds):
                assert self.control is not None
                word = memory[self.control.name].view("<u4")
                self._run_part(step.enter, memory, launch, options)
                while word[step.word]:
                    if options.is_late is not None and options.is_late():
                        raise DispatchTimeout("the deadline passed between rounds of a grid loop")
                    self.run(step.body, memory, launch, options)
                    self._run_part(step.advance, memory, launch, options)
            else:
                self._run_part(step, memory, launch, options)

    @telling_of_depth
    def _run_part(
        self, part: Program, memory: dict[str, npt.NDArray[np.uint8]], launch: Launch, options: RunOptions
    ) -> None:
        number, kernel = self.kernels[id(part)]
        try:
            kernel.run(memory, launch, options)
        except BackendError as error:
            if len(self.kernels) > 1:
                error.add_note(f"segment {number + 1} of {len(self.kernels)}, cut at grid barriers")
            raise


class ReferencePipeline:
    """One program under one config on one engine; ``dispatch`` is re-entrant."""

    def __init__(
        self,
        limits: LaunchLimits,
        engine: Engine,
        program: Program,
        config: DispatchConfig,
        optimizing: Optimizing | None = None,
        now_ns: Callable[[], int] = time.perf_counter_ns,
    ) -> None:
        """``optimizing`` is None for programs that run as they are written."""
        backend = limits.backend
        refuse_unsupported(config, backend, HONOURED)
        self.id: str = f"{backend}:{program_digest(program).hex()[:16]}"
        self._program = program
        self._config = config
        self._limits = limits
        self._plan = plan_bindings(program)
        self._spec = spec_literals(program, config.spec)
        self._engine = _race_checking() if config.race_check else engine
        self._optimizing, self._now_ns = optimizing, now_ns
        self._sized = program if config.workgroup is None else replace(program, workgroup_size=config.workgroup)
        if self._sized is not program:
            check_rules(self._sized).raise_if_invalid()
        check_program(self._sized, limits)
        keep_stated_laws(self._sized, stated_laws(program))
        self._runs, self._passes = 0, ""
        self._prepared = self._prepare(self._sited(program))
        self._launches: OrderedDict[tuple[int, ...], Launch] = OrderedDict()
        self._slots = tuple(
            (b.buffer.name, b.element_size, b.input_index, b.output_index, b.buffer.output_range is None)
            for b in self._plan.bindings
        )
        self._options = RunOptions(config.step_budget, config.chunk_workgroups)
        self._plain = config.step_budget is None and config.timeout_s is None

    def launch(self, input_nbytes: tuple[int, ...]) -> Launch:
        """Returns the launch for inputs of these lengths."""
        launch = self._launches.get(input_nbytes)
        if launch is None:
            launch = resolve_launch(self._program, input_nbytes, self._config, self._limits)
            if len(self._launches) >= LAUNCHES:
                self._launches.clear()
            self._launches[input_nbytes] = launch
        return launch

    def dispatch(self, inputs: Sequence[HostBytes], outputs: OutputStorage, /) -> DispatchTiming:
        """Runs once; on an error ``outputs`` is cleared."""
        import numpy as np

        started = self._now_ns()
        launch = self.launch(tuple([view.nbytes for view in inputs]))
        try:
            views = outputs.begin(launch.output_nbytes)
            memory: dict[str, npt.NDArray[np.uint8]] = {}
            ranged: list[tuple[npt.NDArray[np.uint8], memoryview, int]] = []
            for (name, size, source, result, whole), nbytes in zip(self._slots, launch.nbytes, strict=True):
                if result is None:
                    assert source is not None
                    memory[name] = aligned(np.frombuffer(inputs[source], np.uint8), size)
                    continue
                if whole:
                    data = np.frombuffer(views[result], np.uint8)
                else:
                    data = np.empty(nbytes, np.uint8)
                    ranged.append((data, views[result], launch.output_ranges[result][0]))
                if source is None:
                    data.fill(0)
                else:
                    data[:] = np.frombuffer(inputs[source], np.uint8)
                memory[name] = data
            self.run(memory, launch)
            for data, view, start in ranged:
                view[:] = data[start : start + len(view)].data
        except MemoryError as error:
            outputs.clear()
            raise DeviceOutOfMemory(requested=sum(launch.nbytes)) from error
        except BaseException:
            outputs.clear()
            raise
        return DispatchTiming(self._now_ns() - started)

    @in_default_mode
    def run(self, memory: dict[str, npt.NDArray[np.uint8]], launch: Launch) -> None:
        """Runs every segment on ``memory``, ``fixpoint_iterations`` times."""
        prepared = self._next_prepared() if self._optimizing is not None else self._prepared
        options = self._options if self._plain else self._measured_options(launch, len(prepared.kernels))
        if prepared.control is not None:
            memory = {**memory, prepared.control.name: allocate(prepared.control.static_nbytes or 0)}
        for _ in range(self._config.launches):
            prepared.run(prepared.steps, memory, launch, options)

    def _sited(self, program: Program) -> Program:
        return with_sites(program, self._program, loops=self._config.step_budget is not None)

    def _prepare(self, program: Program) -> _Prepared:
        steps = plan_grid_sync(program)
        kernels = {
            id(part): (number, self._engine(part, self._spec)) for number, part in enumerate(plan_programs(steps))
        }
        return _Prepared(steps, grid_control(program), kernels)

    def _next_prepared(self) -> _Prepared:
        """Counts a run, and decides anew about the optimizer whenever their number has doubled."""
        assert self._optimizing is not None
        runs, self._runs = self._runs, self._runs + 1  # a run lost between two threads delays a decision
        if runs & (runs - 1) == 0:
            passes = self._optimizing.passes(self._program, self._config, runs)
            if passes and passes != self._passes:
                self._prepared = self._prepare(self._optimizing.program(self._sited(self._sized), self._spec, passes))
                self._passes = passes
        return self._prepared

    def _measured_options(self, launch: Launch, kernels: int) -> RunOptions:
        import numpy as np

        config = self._config
        used = is_late = None
        if config.timeout_s is not None:
            now_ns, deadline_ns = self._now_ns, self._now_ns() + int(config.timeout_s * 1e9)
            is_late = lambda: now_ns() > deadline_ns  # noqa: E731
        if config.step_budget is not None and (kernels > 1 or config.launches > 1):
            lanes = 1
            for groups, size in zip(launch.grid, launch.workgroup, strict=True):
                lanes *= groups * size
            used = allocate(8 * lanes).view(np.uint64)
        return RunOptions(config.step_budget, config.chunk_workgroups, is_late, used)


class Optimizing(NamedTuple):
    """How an executor optimizes programs: whether the session wants it, the sink of the decisions about it, and the
    passes that run on a device.
    """

    wanted: bool
    sink: DecisionSink | None = None
    device_passes: DevicePassesOf | None = None

    def passes(self, program: Program, config: DispatchConfig, runs: int) -> str:
        """Returns the passes for a program that has run so often."""
        return passes_for(program, config, EngineKind.INTERPRETER, self.wanted, self.sink, runs)

    def program(self, program: Program, literals: Mapping[str, Literal], passes: str) -> Program:
        """Returns a program after passes."""
        return optimized(program, literals, passes, self.device_passes).program


class ReferenceExecutor(PipelineExecutor[ReferencePipeline]):
    """The reference over one engine, within the limits of a backend.

    ``sink`` receives the evictions of pipelines.  ``optimizing`` is None for an engine that runs programs as they are
    written, which the oracle does.
    """

    def __init__(
        self,
        limits: LaunchLimits,
        engine: Engine,
        sink: DecisionSink | None = None,
        optimizing: Optimizing | None = None,
        now_ns: Callable[[], int] = time.perf_counter_ns,
    ) -> None:
        def make(program: Program, config: DispatchConfig) -> tuple[ReferencePipeline, Compilation]:
            return ReferencePipeline(limits, engine, program, config, optimizing, now_ns), Compilation()

        super().__init__(make, sink, now_ns=now_ns)
        self.now_ns: Final = now_ns


def _race_checking() -> Engine:
    from vyre.adapters.reference.races import RaceCheckKernel

    return RaceCheckKernel
