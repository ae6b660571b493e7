"""Launches that find their grids in memory of the device when they begin."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar, cast

import numpy as np

from vyre.adapters.forks import process_lock
from vyre.app.host_arrays import HostInputs
from vyre.app.resident import ResidentArray, make_resident
from vyre.app.resident_dispatch import BoundResidentLaunch, BoundWork
from vyre.domain.arguments import expect
from vyre.domain.errors import GridOverflow, InvalidInput
from vyre.domain.indirect_grids import AXES, with_indirect_grid
from vyre.domain.ir.program import Program, ProgramLike, ProgramSource
from vyre.ports.interrupts import sealed
from vyre.ports.requests import Readback, Upload

if TYPE_CHECKING:
    from vyre.app.kernels.launches import KernelSource
    from vyre.app.lease import BackendLease
    from vyre.app.pipeline import Inputs, OutArrays, Pipeline
    from vyre.app.result import Result
    from vyre.app.sequences.description import Work
    from vyre.app.sequences.execution import Ran, WorkExecutor
    from vyre.app.sequences.steps import Step
    from vyre.app.session_core import SessionCore
    from vyre.app.shorthand import Indirect, Keywords
    from vyre.domain.dispatch import DispatchConfig, OutputArena
    from vyre.domain.names import Dim3

T = TypeVar("T")
_NBYTES: Final = 4 * AXES


class IndirectGrids:
    """The launches of a run that find their grids in memory; one run after the other.

    ``launches`` holds what messages call each of them, the array in which it records counts that are too many, and the
    most that it may have.
    """

    def __init__(self, lease: BackendLease, launches: Sequence[tuple[str, ResidentArray, Dim3]]) -> None:
        self._memory = lease.backend.require_memory()
        self._launches: Final = launches
        self._counts: Final = bytearray(_NBYTES * len(launches))
        self._zeros: Final = bytes(self._counts)
        view = memoryview(self._counts)
        self._reads: Final = [
            Readback(array.buffer, view[_NBYTES * n : _NBYTES * (n + 1)]) for n, (_, array, _) in enumerate(launches)
        ]
        self._is_clear = True
        self._turn = process_lock()

    def run(self, launch: Callable[[], T]) -> T:
        """Runs it, and returns its result.  Raises ``GridOverflow`` for the first launch that found too many."""
        with self._turn, sealed:
            return self._run(launch)

    def _run(self, launch: Callable[[], T]) -> T:
        if not self._is_clear:
            zeros = memoryview(self._zeros)[:_NBYTES]
            self._memory.upload([Upload(array.buffer, zeros) for _, array, _ in self._launches])
        self._is_clear = False
        result = launch()
        self._memory.download(self._reads)
        if self._counts != self._zeros:
            counts = np.frombuffer(self._counts, np.uint32).reshape(-1, AXES)
            number = int(counts.any(axis=1).argmax())
            step, _, most = self._launches[number]
            raise GridOverflow(step=step, counts=tuple(counts[number].tolist()), most=most)
        self._is_clear = True
        return result

    def close(self) -> None:
        """Frees the arrays."""
        for _, array, _ in self._launches:
            array.close()


class CheckedExecutor(NamedTuple):
    """``WorkExecutor`` that raises as ``IndirectGrids.run`` does."""

    executor: WorkExecutor
    grids: IndirectGrids

    def run(self, rounds: int, *, first: bool = True) -> Ran:
        """Implements ``WorkExecutor.run``."""
        return self.grids.run(partial(self.executor.run, rounds, first=first))

    def close(self) -> None:
        """Implements ``WorkExecutor.close``."""
        self.executor.close()


class _CheckedStep(NamedTuple):
    """``BoundResidentStep`` that raises as ``IndirectGrids.run`` does."""

    bound: BoundResidentLaunch
    grids: IndirectGrids

    def __call__(self) -> None:
        self.grids.run(self.bound.launch)

    def __repr__(self) -> str:
        return repr(self.bound)

    def close(self) -> None:
        self.bound.close()
        self.grids.close()


class _Launch(NamedTuple):
    """The arguments of a session's methods for a launch, without the buffer ``excess``; the shapes of its outputs, and
    its name.
    """

    program: Program
    inputs: dict[str, Any]
    config: DispatchConfig | None
    shorthand: Keywords
    excess: str
    shapes: Mapping[str, tuple[int, ...]]
    name: str


def grids_of(lease: BackendLease, work: Work) -> IndirectGrids | None:
    """Returns the launches among steps that find their grids in memory; None if there are none."""
    launches = {
        id(excess): (f"{step.place} (`{step.name}`)", excess, step.work.launch.grid)
        for step in work.steps
        if (excess := step.work.excess) is not None
    }
    return IndirectGrids(lease, tuple(launches.values())) if launches else None


def indirect_work(session: SessionCore, step: Step, grid: Indirect) -> BoundWork:
    """Returns the step with all its memory."""
    launch = _launch(session, step.program, step.inputs, step.config, step.shorthand, grid)
    pipeline, inputs, excess = _on_memory(session, launch)
    return pipeline._resident_work(inputs)._replace(excess=excess)


def bind_indirect(
    session: SessionCore,
    program: ProgramLike,
    inputs: Inputs,
    config: DispatchConfig | None,
    shorthand: Keywords,
    grid: Indirect,
) -> BoundResidentLaunch:
    """Returns a prepared launch."""
    launch = _launch(session, program, inputs, config, shorthand, grid)
    pipeline, resident_inputs, excess = _on_memory(session, launch)
    bound = pipeline.bind_resident(resident_inputs)
    grids = IndirectGrids(session._lease, ((f"`{launch.name}`", excess, cast("Dim3", grid.most)),))
    return BoundResidentLaunch(session._lease, _CheckedStep(bound, grids), None)


def dispatch_indirect(
    session: SessionCore,
    dispatch: Callable[..., Result],
    program: ProgramLike,
    inputs: Inputs,
    config: DispatchConfig | None,
    shorthand: Keywords,
    grid: Indirect,
    out: OutArrays | None,
    outputs: OutputArena | None,
    tune: bool,
) -> Result:
    """Runs once, by the method ``dispatch`` of the session.  Raises ``GridOverflow`` for counts above the most."""
    launch = _launch(session, program, inputs, config, shorthand, grid)
    bound = {**launch.inputs, launch.excess: np.zeros(AXES, np.uint32)}
    result = dispatch(launch.program, bound, launch.config, **launch.shorthand, out=out, outputs=outputs, tune=tune)
    if (counts := result[launch.excess]).any():
        most = cast("Dim3", grid.most)
        error = GridOverflow(step=f"`{launch.name}`", counts=tuple(counts.tolist()), most=most)
        session._lease.failed(error, f"program={launch.name}")
        raise error
    return result.without_last().in_shapes(launch.shapes)


def _launch(
    session: SessionCore,
    program: ProgramLike,
    inputs: Inputs,
    config: DispatchConfig | None,
    shorthand: Keywords,
    grid: Indirect,
) -> _Launch:
    shapes: Mapping[str, tuple[int, ...]] = {}
    if isinstance(program, ProgramSource):
        launch = session._launch(cast("KernelSource", program), inputs, config, shorthand)
        program, inputs, config, shorthand = launch.program, launch.inputs, launch.config, launch.shorthand
        shapes = launch.resolved.shapes
    expect("program", program, Program, "a Program, or a kernel", InvalidInput)
    if not isinstance(inputs, Mapping):
        known = HostInputs(program)
        inputs = dict(zip(known.names, cast("Any", known.values(inputs)), strict=True))
    program = with_indirect_grid(program)
    counts, excess = (buffer.name for buffer in program.buffers[-2:])
    inputs = {**inputs, counts: grid.counts}
    return _Launch(program, inputs, config, shorthand, excess, shapes, program.name or "unnamed")


def _on_memory(session: SessionCore, launch: _Launch) -> tuple[Pipeline, dict[str, Any], ResidentArray]:
    """Returns the pipeline of a launch, its inputs, and the new resident array in which it records counts."""
    pipeline, lease = session.compile(launch.program, launch.config, **launch.shorthand), session._lease
    excess = make_resident(lease.backend.require_memory(), _NBYTES, "excess of a grid in memory")
    excess.buffer.quiet()
    lease.adopt(excess)
    return pipeline, {**launch.inputs, launch.excess: excess}, excess
