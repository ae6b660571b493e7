"""``KernelJobs``: a kernel that is kept running; its jobs have the launches and the shapes that its dispatches have."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from vyre.app.persistent.jobs import MOST_LENGTHS, PersistentJobs
from vyre.domain.errors import InvalidInput
from vyre.domain.shared_dicts import entries_of
from vyre.ports.interrupts import sealed

if TYPE_CHECKING:
    from pathlib import Path

    from vyre.app.host_arrays import Shapes
    from vyre.app.kernels.arguments import Arguments
    from vyre.app.persistent.tickets import JobBatch, Ticket
    from vyre.app.pipeline import Inputs, Pipeline
    from vyre.domain.evidence.records import Evidence
    from vyre.ports.persistent import PersistentEngine


class KernelJobs(PersistentJobs):
    """Jobs of a kernel, each of which is planned as a dispatch of its inputs is.

    For each of the first 8 kinds of inputs (shapes, types, static values) a program of its own is kept running.
    ``usual``: jobs of the kernel's program.  ``plan`` returns the launch of a dispatch: a pipeline, the inputs of its
    program, and the shapes of its outputs.  ``opened`` returns jobs of such a pipeline.
    """

    def __init__(
        self,
        usual: PersistentJobs,
        arguments: Arguments,
        plan: Callable[[Inputs], tuple[Pipeline, Inputs, Shapes | None]],
        opened: Callable[[Pipeline, Shapes | None], PersistentJobs],
    ) -> None:
        lease, executor, backpressure = usual._lease, usual._executor, usual._backpressure
        super().__init__(lease, executor, usual.program, usual.config, usual.capacity, backpressure=backpressure)
        self._plan: Final = plan
        self._opened_for: Final = opened
        self._arguments: Final = arguments
        self._axes: Final = {name: array.axes for _, name, array in arguments.arrays}
        self._kinds: dict[tuple[Pipeline, Shapes | None], PersistentJobs] = {}

    def submit(self, inputs: Inputs = ()) -> Ticket:
        """Queues a job, as ``PersistentJobs.submit`` does; raises what a dispatch raises before it runs, too."""
        jobs, inputs = self._planned(inputs)
        return jobs.submit(inputs)

    def try_submit(self, inputs: Inputs = ()) -> Ticket | None:
        """Queues a job as ``submit`` does, or returns None if the queue is full; never waits."""
        jobs, inputs = self._planned(inputs)
        return jobs.try_submit(inputs)

    def submit_many(self, columns: Inputs, jobs: int | None = None) -> JobBatch:
        """Queues many jobs at once, as ``PersistentJobs.submit_many`` does.

        An array with one axis more than the parameter has one row for each job along the first; another one is shared.
        """
        values = zip(self._arguments.names, self._arguments.of_inputs(columns), strict=True)
        named: dict[str, Any] = {name: value for name, value in values if value is not None}
        rows = {name for name, value in named.items() if _axes_of(value) > self._axes.get(name, 0)}
        if any(len(named[name]) == 0 for name in rows):
            return super().submit_many(named, jobs)  # which checks it, and runs nothing
        planned, inputs = self._planned({name: value[0] if name in rows else value for name, value in named.items()})
        assert isinstance(inputs, Mapping)
        flat = {name: value.reshape(-1) for name, value in named.items() if _axes_of(value) > 1 and name not in rows}
        return planned.submit_many({**inputs, **{name: named[name] for name in rows}, **flat}, jobs)

    def write_evidence(self, path: Path | str, inputs: Inputs = ()) -> Evidence:
        """Runs and records a job, as ``PersistentJobs.write_evidence`` does."""
        jobs, inputs = self._planned(inputs)
        return jobs.write_evidence(path, inputs)

    @property
    def engines(self) -> tuple[PersistentEngine, ...]:
        """The engines that are open, of all kinds of inputs."""
        return tuple([engine for _, jobs in entries_of(self._kinds) for engine in jobs.engines])

    @property
    def nbytes(self) -> int:
        """The most memory in bytes that the inputs and outputs of jobs under way take, for all engines."""
        return sum(jobs.nbytes for _, jobs in entries_of(self._kinds))

    def open_for(self, inputs: Inputs) -> None:
        """Opens the engine for inputs of this kind."""
        jobs, inputs = self._planned(inputs)
        jobs.open_for(inputs)

    def drop(self) -> None:
        """Ends the threads that tell of jobs, for finalizers."""
        super().drop()
        for jobs in self._kinds.values():
            jobs.drop()

    def _close(self) -> None:
        super()._close()
        for _, jobs in entries_of(self._kinds):
            jobs.close()

    def _planned(self, inputs: Inputs) -> tuple[PersistentJobs, Inputs]:
        """Returns the jobs for inputs of this kind, and the inputs of their program."""
        pipeline, inputs, shapes = self._plan(inputs)
        jobs = self._kinds.get((pipeline, shapes))
        if jobs is None or self._closed:
            self._check()
        if jobs is None:
            with self._lock, sealed:
                jobs = self._kinds.get((pipeline, shapes))
                if jobs is None:
                    if len(self._kinds) >= MOST_LENGTHS:
                        raise InvalidInput(
                            f"inputs of another kind, after {MOST_LENGTHS} kinds of shapes, types and static values",
                            fix="open another with session.persistent, or dispatch.",
                        )
                    jobs = self._kinds[pipeline, shapes] = self._opened_for(pipeline, shapes)
            if self._closed:
                jobs.close()
        return jobs, inputs


def _axes_of(value: Any) -> int:
    """Returns the number of axes of an array; 0 for anything else."""
    shape = getattr(value, "shape", None)
    return len(shape) if isinstance(shape, tuple) else 0
