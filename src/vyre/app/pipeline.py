"""Pipelines: a program prepared for one backend under one config, with everything that a dispatch needs."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from vyre.app.foreign_arrays import ForeignArray, Numbers
from vyre.app.gated import GatedPipeline
from vyre.app.host_arrays import HostInputs, HostOutputs, Shapes, is_value, reading
from vyre.app.launches import Launches
from vyre.app.lease import BackendLease
from vyre.app.output_shapes import OutputShapes
from vyre.app.resident import ResidentArray
from vyre.app.resident_dispatch import (
    Arguments,
    BoundResidentLaunch,
    BoundWork,
    arguments_of,
    bind_resident,
    bound_work,
    detached,
    has_resident,
    resident_accesses,
    run_for_bytes,
    run_resident,
)
from vyre.app.resident_plans import ResidentPlans
from vyre.app.result import Result
from vyre.domain.arguments import expect
from vyre.domain.dispatch import REMEMBERED_TIMINGS, DispatchConfig, DispatchTiming, OutputArena, ReadableBuffer
from vyre.domain.errors import BackendError, DataRaceError, DispatchFailed, InvalidInput, StepBudgetExceeded
from vyre.domain.interface import interface_of
from vyre.domain.ir.buffers import outputs_of
from vyre.domain.ir.program import Program
from vyre.domain.ir.size_parameters import size_parameters, sizes_of_axes
from vyre.domain.recursion import telling_of_depth
from vyre.domain.unique import Unique
from vyre.ports.backend import Backend
from vyre.ports.execution import CacheOutcome, CompiledPipeline, CompileResult, PendingDispatch, Phases, ProgramExecutor
from vyre.ports.requests import DispatchRequest, HostBytes, OutputStorage

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from vyre.app.asynchrony.futures import Submitted
    from vyre.app.asynchrony.order import Accesses
    from vyre.ports.cancellation import Cancellation

Argument: TypeAlias = "ReadableBuffer | ForeignArray | Numbers | ResidentArray | np.generic | float"
"""Arrays or bytes for a buffer, arrays of other libraries, lists of numbers, resident memory, or a number for a scalar
parameter (``float`` covers int and bool).
"""
Inputs: TypeAlias = "Mapping[str, Argument] | Sequence[Argument]"
OutArrays: TypeAlias = "Mapping[str, npt.NDArray[Any]]"


class UncompiledPipeline:
    """``CompiledPipeline`` of a backend without a compiler: every dispatch passes the program to the executor."""

    __slots__ = ("_config", "_executor", "_program", "id")

    def __init__(self, backend: str, executor: ProgramExecutor, program: Program, config: DispatchConfig) -> None:
        self.id: str = f"{backend}:uncompiled"
        self._executor = executor
        self._program = program
        self._config = config

    def dispatch(self, inputs: Sequence[HostBytes], outputs: OutputStorage, /) -> DispatchTiming:
        """Implements ``CompiledPipeline.dispatch``."""
        return self._executor.execute(DispatchRequest(self._program, tuple(inputs), self._config), outputs)


@telling_of_depth
def compile_on(backend: Backend, program: Program, config: DispatchConfig) -> CompileResult:
    """Compiles ``program`` with the compiler of the backend, if it has one."""
    if backend.compiler is not None:
        return backend.compiler.compile(program, config)
    return CompileResult(UncompiledPipeline(backend.id, backend.executor, program, config), CacheOutcome.UNKNOWN)


class Pipeline(Unique):
    """A compiled program; call it with inputs, from any thread: ``pipeline({"x": xs})``.

    The results are bit for bit those of ``Session.dispatch`` with the same config.  Input lengths may differ between
    calls.  ``cache`` says whether the backend had compiled the program before, ``reason`` why it had to compile it now;
    ``phases`` are the steps of preparing this pipeline, as names and nanoseconds, in order.  ``timings`` holds the
    timings of the last dispatches, ``resident_timings`` those with resident memory, and ``launch_timings`` those that
    were not replayed from a graph.
    """

    __slots__ = (
        "__weakref__",
        "_compiled",
        "_gated",
        "_inputs",
        "_is_certain",
        "_launches",
        "_lease",
        "_outputs",
        "_resident_plans",
        "_shapes",
        "backend",
        "cache",
        "config",
        "launch_timings",
        "phases",
        "program",
        "reason",
        "resident_timings",
        "timings",
    )

    _is_certain: bool
    _outputs: HostOutputs
    _shapes: OutputShapes
    _launches: Launches
    _resident_plans: ResidentPlans

    def __init__(self, lease: BackendLease, program: Program, config: DispatchConfig, before: Phases = ()) -> None:
        compiled = compile_on(lease.backend, program, config)
        self._lease = lease
        self._compiled: CompiledPipeline = compiled.pipeline
        self._gated = compiled.pipeline if isinstance(compiled.pipeline, GatedPipeline) else None
        self._inputs = HostInputs(program)
        self.backend: str = str(lease.backend.id)
        self.cache: CacheOutcome = compiled.cache
        self.config: DispatchConfig = config
        self.phases: tuple[tuple[str, int], ...] = before + compiled.phases
        self.program: Program = program
        self.reason: str = compiled.reason
        self.timings: deque[DispatchTiming] = deque(maxlen=REMEMBERED_TIMINGS)
        self.resident_timings: deque[DispatchTiming] = deque(maxlen=REMEMBERED_TIMINGS)
        self.launch_timings: deque[DispatchTiming] = deque(maxlen=REMEMBERED_TIMINGS)

    if not TYPE_CHECKING:  # type checkers know the slots

        def __getattr__(self, name: str) -> object:
            """Makes what only some dispatches need when the first of them does, and fills its slot."""
            if name == "_outputs":
                value = HostOutputs(outputs_of(self.program.abi_buffers))
            elif name == "_shapes":
                value = OutputShapes(self.program, self.config)
            elif name == "_resident_plans":
                value = ResidentPlans()
            elif name == "_is_certain":
                from vyre.domain.tiles import may_fail  # runs into arrays of the caller alone need it

                limits = self.config.race_check, self.config.step_budget, self.config.timeout_s, self._gated
                value = not any(limits) and not may_fail(self.program)
            elif name == "_launches":
                value = Launches(self.program.abi_buffers, partial(interface_of, self.program), self.config)
            else:
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)
            setattr(self, name, value)
            return value

    @property
    def id(self) -> str:
        """The backend's name of the compiled program."""
        return self._compiled.id

    def __call__(
        self, inputs: Inputs = (), *, out: OutArrays | None = None, outputs: OutputArena | None = None
    ) -> Result:
        """Runs once.  ``out`` and ``outputs`` as for ``Session.dispatch``."""
        return self.dispatch(inputs, out, outputs)

    def dispatch(
        self, inputs: Inputs, out: OutArrays | None, outputs: OutputArena | None, shapes: Shapes | None = None
    ) -> Result:
        """Does what a call does.  ``shapes`` are those of the outputs; None: they follow from the inputs."""
        if self._lease.has_residents and has_resident(inputs):
            if out is not None or outputs is not None:
                raise InvalidInput(
                    "out and outputs take no part in a dispatch on resident memory",
                    fix="read host results from the Result, or bind the outputs to resident arrays.",
                )
            if self._lease.order.under_way:
                self._lease.wait_for(resident_accesses(self._lease, self.program, self._inputs, inputs))
            return self._run_resident(inputs, shapes)
        views = self._inputs.views(inputs)
        return self.run(views, out, outputs, self._shapes.of(inputs) if shapes is None else shapes)

    def run(
        self,
        views: tuple[HostBytes, ...],
        out: OutArrays | None,
        outputs: OutputArena | None,
        shapes: Shapes | None = None,
    ) -> Result:
        """Runs on converted inputs; ``shapes`` is what ``shapes`` returns for them, None means one axis.

        The arrays of ``out`` are written only once the dispatch has succeeded, so that a failure leaves them unchanged,
        unless the program has none: then they are written at once, and lost devices and interrupts leave something.
        Those that are inputs too are updated in place, and a failure leaves something in them.
        """
        if self._lease.closed:
            self._lease.check_open()
        try:
            if outputs is not None:
                return self._run_arena(views, out, outputs, shapes)
            if out is None:
                storage = self._outputs.storage(shapes)
            else:
                names, is_certain = self._inputs.names, self._is_certain
                storage = self._outputs.storage_in(out, views, shapes, names, direct=is_certain)
            gated = self._gated
            try:
                if gated is None:
                    timing = self._compiled.dispatch(views, storage)
                elif (number := next((gate := gated.gate).numbers)) < gate.at:
                    timing = gated.usual(views, storage)
                else:
                    timing = gated.looked(views, storage, number)
            except BaseException as error:
                if storage.updating:
                    arrays_of = ", ".join(f"`{name}`" for name in sorted(storage.updating))
                    error.add_note(
                        f"{arrays_of} was updated in place: its contents are unspecified now. Fix: pass a copy as the "
                        "input where it must outlive a failure."
                    )
                raise
            self._noted(timing)
            launches = self._launches
            lengths = launches.fixed if launches.fixed is not None else tuple(map(len, views))
            arrays = self._outputs.arrays(storage)
            if out is not None:
                arrays = storage.delivered(arrays, out)
            return Result(self._outputs.names, arrays, timing, self.backend, launches, lengths)
        except BackendError as error:
            self._annotate(error, views)
            raise

    def fill(self, views: Sequence[HostBytes], storage: OutputStorage) -> None:
        """Runs on converted inputs, and writes the outputs to ``storage``."""
        if self._lease.closed:
            self._lease.check_open()
        try:
            timing = self._compiled.dispatch(views, storage)
        except BackendError as error:
            self._annotate(error, views)
            raise
        self._noted(timing)

    @property
    def on(self) -> Backend:
        """The backend that compiled the program and runs it."""
        return self._lease.backend

    def check_open(self) -> None:
        """Raises ``InvalidResource`` if its session is closed, and ``DispatchFailed`` in a forked process."""
        self._lease.check_open()

    def _takes_resident(self, inputs: Inputs) -> bool:
        """Returns whether any of these arguments is a ``ResidentArray``."""
        return has_resident(inputs)

    def views(self, inputs: Inputs) -> tuple[HostBytes, ...]:
        """Returns converted inputs over the caller's own memory (scalars and ``bool_`` arrays are copies)."""
        return self._inputs.views(inputs)

    def shapes(self, inputs: Inputs) -> Shapes | None:
        """Returns the shapes of the outputs of a dispatch with ``inputs``, which ``views`` has accepted."""
        return self._shapes.of(inputs)

    def __repr__(self) -> str:
        return f"<Pipeline {self.program.name or 'unnamed'} on {self.backend}>"

    def _result(
        self, arrays: tuple[npt.NDArray[Any], ...], timing: DispatchTiming, views: tuple[HostBytes, ...]
    ) -> Result:
        launches = self._launches
        return Result(self._outputs.names, arrays, timing, self.backend, launches, launches.lengths(views))

    def _run_arena(
        self, views: tuple[HostBytes, ...], out: OutArrays | None, arena: OutputArena, shapes: Shapes | None
    ) -> Result:
        if out is not None:
            raise InvalidInput("both out and outputs are given", fix="pass arrays in out, or an arena in outputs.")
        expect("outputs", arena, OutputArena, "an OutputArena", InvalidInput)
        timing = self._noted(self._compiled.dispatch(views, arena))
        slots = [arena[slot] for slot in range(len(arena))]
        return self._result(self._outputs.from_bytes(slots, shapes), timing, views)

    def _run_resident(self, inputs: Inputs, shapes: Shapes | None, cancellation: Cancellation | None = None) -> Result:
        try:
            self._lease.check_open()
            result = run_resident(
                self._lease,
                self.program,
                self.config,
                self._inputs,
                self._resident_plans,
                inputs,
                self._shapes,
                shapes,
                cancellation,
            )
        except BackendError as error:
            self._annotate(error)
            if cancellation is not None and cancellation.requested and isinstance(error, DispatchFailed):
                self._tell_unspecified(error, inputs)
            raise
        self._note_resident(result.timing)
        return result

    def _arguments(self, inputs: Inputs) -> Arguments:
        """Returns copies of the host data of a dispatch, and the resident arrays that it binds, by buffer name."""
        self._lease.check_open()
        return arguments_of(self._lease, self.program, self._inputs, inputs)

    def _run_for_bytes(self, arguments: Arguments) -> dict[str, bytes]:
        """Runs on resident memory, and returns the bytes of what is read back to the host, by buffer name."""
        self._lease.check_open()
        inputs = {**arguments.host, **arguments.resident}
        if self._lease.order.under_way:
            self._lease.wait_for(resident_accesses(self._lease, self.program, self._inputs, inputs))
        try:
            timing, contents = run_for_bytes(self._lease, self.program, self.config, self._inputs, inputs)
        except BackendError as error:
            self._annotate(error)
            raise
        self._note_resident(timing)
        return contents

    def _note_resident(self, timing: DispatchTiming) -> None:
        self.resident_timings.append(timing)
        if timing.launches != 0:
            self._launched(timing)

    def _tell_unspecified(self, error: BackendError, inputs: Inputs) -> None:
        """Adds which resident arrays a run that was stopped has left in an unspecified state."""
        by_name = inputs if isinstance(inputs, Mapping) else {}
        written = [
            f"`{buffer.name}`"
            for buffer in self.program.abi_buffers
            if buffer.is_writable and isinstance(by_name.get(buffer.name), ResidentArray)
        ]
        if written:
            error.add_note(
                f"the dispatch was cancelled while it ran: the contents of {', '.join(written)} are unspecified now. "
                "Fix: upload them again before they are read."
            )

    def _resident_operation(
        self, inputs: Inputs, shapes: Shapes | None = None
    ) -> tuple[Accesses, Callable[[Cancellation], Result]]:
        """Returns what a dispatch on resident memory reads and writes, and what runs it until its end is asked for;
        host data in it is copied.  ``shapes`` as for ``dispatch``.
        """
        self._lease.check_open()
        accesses = resident_accesses(self._lease, self.program, self._inputs, inputs)
        copied = detached(self.program, self._inputs, inputs)
        return accesses, partial(self._run_resident, cast("Inputs", copied), shapes)

    def bind_resident(self, inputs: Inputs) -> BoundResidentLaunch:
        """Returns a prepared launch on resident memory."""
        if self._lease.closed:
            self._lease.check_open()
        try:
            return bind_resident(self._lease, self.program, self.config, self._inputs, self._resident_plans, inputs)
        except BackendError as error:
            self._annotate(error)
            raise

    def _resident_work(self, inputs: Inputs) -> BoundWork:
        """Returns a launch on resident or temporary memory, for a sequence."""
        self._lease.check_open()
        try:
            return bound_work(self._lease, self.program, self.config, self._inputs, inputs, temporaries=True)
        except BackendError as error:
            self._annotate(error)
            raise

    def _submit(self, views: tuple[HostBytes, ...], future: Submitted[Result], shapes: Shapes | None = None) -> bool:
        """Passes inputs to the backend's async executor, which copies them and completes ``future``.

        Returns False if it has none.  ``views`` and ``shapes`` as for ``run``.
        """
        executor = self._lease.backend.async_executor
        if executor is None:
            return False
        pending = executor.submit(DispatchRequest(self.program, views, self.config))
        future.begin(pending, partial(self._collect, self._launches.lengths(views), shapes))
        return True

    def _collect(self, lengths: tuple[int, ...], shapes: Shapes | None, pending: PendingDispatch) -> Result:
        storage = self._outputs.storage(shapes)
        try:
            timing = pending.wait(storage)
        except BackendError as error:
            self._annotate(error)
            raise
        # The dispatch may have ended long before, so the time of this wait measures nothing.
        self._noted(timing if timing.wait_ns is None else timing._replace(wait_ns=None))
        arrays = self._outputs.arrays(storage)
        return Result(self._outputs.names, arrays, timing, self.backend, self._launches, lengths)

    def _noted(self, timing: DispatchTiming) -> DispatchTiming:
        self.timings.append(timing)
        if timing.launches:
            self._launched(timing)
        return timing

    def _launched(self, timing: DispatchTiming) -> None:
        """Keeps the timing of a dispatch that launched, for the review of costs if it tells the time of something."""
        self.launch_timings.append(timing)
        if timing.enqueue_ns is not None or timing.launch_ns is not None:
            self._lease.launched()

    def _annotate(self, error: BackendError, views: Sequence[HostBytes] = ()) -> None:
        """Adds where an error came from; ``views`` are the inputs of a run on host data."""
        if isinstance(error, DataRaceError) and views:
            sizes = size_parameters(self.program)
            named = zip(self._inputs.names, views, strict=True)
            values = {name: int.from_bytes(view, "little") for name, view in named if name in sizes}
            error.place(sizes_of_axes(self.program, values))
        self._lease.failed(
            error, f"program={self.program.name or 'unnamed'} label={self.config.label or '-'}", self.program
        )
        if isinstance(error, StepBudgetExceeded):
            from vyre.domain.analysis.waiting_loops import waiting_loops  # imported on use

            for waits in waiting_loops(self.program):
                error.add_note(f"{waits}. Fix: have lanes of a workgroup wait for each other at barriers alone.")


class BoundLaunch(Unique):
    """A pipeline with bound inputs; every call is one launch, and reads the arrays as they are then."""

    __slots__ = ("_shapes", "_views", "pipeline")

    def __init__(self, pipeline: Pipeline, views: tuple[memoryview, ...], shapes: Shapes | None) -> None:
        """``shapes`` is what ``pipeline.shapes`` returns for the bound inputs."""
        self.pipeline: Pipeline = pipeline
        self._views = views
        self._shapes = shapes

    def __call__(self, *, out: OutArrays | None = None, outputs: OutputArena | None = None) -> Result:
        return self.pipeline.run(self._views, out, outputs, self._shapes)

    def __repr__(self) -> str:
        inputs = zip(self.pipeline._inputs.names, self._views, strict=True)
        reads = reading(name for name, view in inputs if not is_value(view))
        return f"<BoundLaunch {self.pipeline.program.name or 'unnamed'} on {self.pipeline.backend}{reads}>"
