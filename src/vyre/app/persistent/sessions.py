"""The part of ``Session`` that keeps programs running, and runs one program over many inputs."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, Final, Unpack, cast

from vyre.app.asynchrony.sessions import SessionAsynchrony
from vyre.app.shorthand import Keywords
from vyre.domain.arguments import expect, items_of, whole
from vyre.domain.dispatch import DispatchConfig, PersistentThreadMode, without_mode
from vyre.domain.errors import UnsupportedFeature, VyreError
from vyre.domain.ir.program import Program, ProgramLike, ProgramSource

if TYPE_CHECKING:
    from concurrent.futures import Future

    from vyre.app.host_arrays import Shapes
    from vyre.app.kernels.launches import KernelSource
    from vyre.app.persistent.jobs import PersistentJobs
    from vyre.app.persistent.many import ItemTimes
    from vyre.app.pipeline import Inputs, Pipeline
    from vyre.app.result import Result
    from vyre.ports.persistent import PersistentExecutor

USUAL_CAPACITY: Final = 1024


class SessionPersistence(SessionAsynchrony):
    """Programs that a session keeps running, and many dispatches of one program."""

    def persistent(
        self,
        program: ProgramLike,
        inputs: Inputs | None = None,
        config: DispatchConfig | None = None,
        *,
        capacity: int = USUAL_CAPACITY,
        backpressure: bool = False,
        **shorthand: Unpack[Keywords],
    ) -> PersistentJobs:
        """Keeps ``program`` running, so that jobs are handed to it without a launch each; close what it returns.

        ``with session.persistent(program) as jobs: ticket = jobs.submit(inputs)``.  ``inputs``: an example whose
        lengths make everything ready now instead of with the first job.  ``capacity``: submissions that may be under
        way at once, 2 to 2^20; ``backpressure``: whether ``submit`` waits where the queue is full, and raises
        ``QueueFull`` else.  ``timeout_s`` of the config bounds each job from its begin.  ``shorthand`` as for
        ``compile``.

        Raises what ``compile`` raises, and ``UnsupportedFeature`` on a backend without persistent engines.
        """
        from vyre.ports.persistent import MOST_CAPACITY

        self._lease.check_open()
        capacity = whole("capacity", capacity, 2, MOST_CAPACITY, f"give an int from 2 to {MOST_CAPACITY}.")
        expect("backpressure", backpressure, bool, "True or False")
        executor = self._lease.backend.persistent
        if executor is None:
            raise UnsupportedFeature(
                feature="persistent engines", backend=self._lease.backend.id, fix="open the backend `cpu`, or dispatch."
            )
        _, config = _forced(config)
        open_jobs = partial(self._jobs_of, executor, capacity, backpressure=backpressure)
        if type(program) is Program or not isinstance(program, ProgramSource):
            jobs = open_jobs(self.compile(program, config, **shorthand), None)
        else:
            from vyre.app.kernels.launches import program_of
            from vyre.app.persistent.kernel_jobs import KernelJobs

            plan, source = partial(self._compiled_launch, program, config=config, shorthand=shorthand), program
            if inputs is None:
                program, config, shorthand = program_of(cast("KernelSource", source), config, shorthand)
                usual = self.compile(program, config, **shorthand)
            else:
                usual = plan(inputs)[0]
            arguments = cast("KernelSource", source)._parameters
            jobs = KernelJobs(open_jobs(usual, None), arguments, plan, open_jobs)
        if inputs is not None:
            jobs.open_for(inputs)
        return jobs

    def dispatch_many(
        self,
        program: ProgramLike,
        batch: Iterable[Inputs],
        config: DispatchConfig | None = None,
        **shorthand: Unpack[Keywords],
    ) -> list[Result]:
        """Runs ``program`` once for each item of ``batch``; returns the results in the order of the batch.

        On a backend with an async executor the dispatches overlap; on one with persistent engines the items become
        jobs of one where that is predicted to take less time; ``persistent_thread`` of the config forces or disables
        that.  The engines of the last few programs are kept open until the session is closed, where they take little
        memory.  The first failure is raised after all dispatches that were started have ended.  Items of a kernel
        become jobs where they are of one kind (shapes, types, static values).  ``shorthand`` as for ``compile``.

        Raises what ``dispatch`` raises, and ``UnsupportedFeature`` for forced items that cannot be jobs of one engine.
        """
        from vyre.app.asynchrony.futures import Submitted
        from vyre.app.persistent.many import LEAST_ITEMS, no_times, run_all  # imported on use
        from vyre.app.persistent.tickets import Ticket

        items = list(items_of("batch", batch))
        forced, config = _forced(config)
        launches: list[tuple[Pipeline, Inputs, Shapes | None]]
        if type(program) is Program:
            pipeline = self.compile(program, config, **shorthand)
            launches = [(pipeline, inputs, None) for inputs in items]
        else:
            launches = [self._compiled_launch(program, inputs, config, shorthand) for inputs in items]
        backend, now_ns = self._lease.backend, self._lease.now_ns
        if forced and items and not (backend.persistent and self._are_jobs(launches)):
            raise UnsupportedFeature(
                feature="persistent threads for these items",
                backend=backend.id,
                fix="use a backend with persistent engines, and give a program without grid loops items of one kind on "
                "host data; or leave it to the session.",
            )
        if backend.async_executor is None:
            return [pipeline.dispatch(inputs, None, None, shapes) for pipeline, inputs, shapes in launches]

        def submit(launch: tuple[Pipeline, Inputs, Shapes | None]) -> Future[Result]:
            self._lease.check_open()
            future: Submitted[Result] = Submitted(lambda _: None)
            try:
                return self._begin_launch(future, *launch)
            except BaseException:
                future.drop()
                raise

        if backend.persistent is None or len(items) < (1 if forced else LEAST_ITEMS) or not self._are_jobs(launches):
            return run_all(launches, submit, _failure_of_future, no_times().dispatched, now_ns=now_ns)
        pipeline, first, shapes = launches[0]
        times = self._item_times.setdefault(pipeline, no_times())
        if not forced and not self._keeps(pipeline, shapes, len(items), times):
            return run_all(launches, submit, _failure_of_future, times.dispatched, now_ns=now_ns)
        executor = backend.persistent
        opened = partial(self._jobs_of, executor, USUAL_CAPACITY, pipeline, shapes, backpressure=True, replaces=True)
        with self._kept_jobs.taken((pipeline, shapes), opened) as jobs:
            jobs.open_for(first)  # what opening takes is no part of the time of an item
            inputs_of_jobs = [inputs for _, inputs, _ in launches]
            return run_all(inputs_of_jobs, jobs.submit, Ticket.exception, times.kept, times.waking, now_ns)

    # ---- details
    def _are_jobs(self, launches: list[tuple[Pipeline, Inputs, Shapes | None]]) -> bool:
        """Returns whether the launches could be jobs of one engine: those of one pipeline without grid loops, whose
        rounds it does not repeat, on host data.
        """
        from vyre.domain.grid_sync import has_grid_loops

        pipeline, _, shapes = launches[0]
        if any(other is not pipeline or others != shapes for other, _, others in launches):
            return False
        if has_grid_loops(pipeline.program):
            return False
        return not (self._lease.has_residents and any(pipeline._takes_resident(inputs) for _, inputs, _ in launches))

    def _jobs_of(
        self,
        executor: PersistentExecutor,
        capacity: int,
        pipeline: Pipeline,
        shapes: Shapes | None,
        *,
        backpressure: bool,
        replaces: bool = False,
    ) -> PersistentJobs:
        from vyre.app.persistent.jobs import PersistentJobs

        return PersistentJobs(
            self._lease, executor, pipeline.program, pipeline.config, capacity,
            backpressure=backpressure, replaces=replaces, shapes=shapes, journal=self._journal,
        )  # fmt: skip

    def _keeps(self, pipeline: Pipeline, shapes: Shapes | None, items: int, times: ItemTimes) -> bool:
        """Decides whether so many items become jobs of an engine."""
        if pipeline.config.persistent_thread is PersistentThreadMode.DISABLE:
            return False
        from vyre.app.persistent.many import pays, plan_items
        from vyre.app.tuning.keys import time_kind
        from vyre.domain.launch_costs import ASSUMED, Provenance

        try:
            costs = self._calibration().load()
        except VyreError:
            costs = ASSUMED
        kernel_ns = [timing.device_ns for timing in tuple(pipeline.timings) if timing.device_ns is not None]
        measured = time_kind(self._lease.backend).is_measured
        provenance = Provenance.MEASURED if measured else Provenance.EMULATED
        is_open = self._kept_jobs.has((pipeline, shapes))
        return pays(plan_items(items, times, kernel_ns, costs, provenance, self._decisions, is_open=is_open))


def _forced(config: DispatchConfig | None) -> tuple[bool, DispatchConfig | None]:
    """Returns whether a config forces persistent threads, and the config for those who heed that."""
    if isinstance(config, DispatchConfig) and config.persistent_thread is PersistentThreadMode.FORCE:
        return True, without_mode(config, "persistent_thread")
    return False, config


def _failure_of_future(future: Future[Result]) -> BaseException | None:
    return future.exception()
