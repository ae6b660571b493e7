"""The part of ``Session`` that keeps programs running, and runs one program over many inputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Unpack

from vyre.app.persistent.jobs import MOST_CAPACITY, USUAL_CAPACITY, PersistentJobs
from vyre.app.shorthand import Keywords
from vyre.domain.arguments import expect
from vyre.domain.errors import InvalidConfig, UnsupportedFeature
from vyre.domain.ir.program import ProgramLike
from vyre.domain.shown import shown

if TYPE_CHECKING:
    from vyre.app.lease import BackendLease
    from vyre.app.pipeline import Inputs, Pipeline
    from vyre.domain.dispatch import DispatchConfig


class SessionPersistence:
    """A mixin for ``Session``."""

    _lease: BackendLease
    compile: Callable[..., Pipeline]

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
        self._lease.check_open()
        if type(capacity) is not int or not 2 <= capacity <= MOST_CAPACITY:
            raise InvalidConfig(f"capacity={shown(capacity)}", fix=f"give an int from 2 to {MOST_CAPACITY}.")
        expect("backpressure", backpressure, bool, "True or False")
        executor = self._lease.backend.persistent
        if executor is None:
            raise UnsupportedFeature(
                feature="persistent engines", backend=self._lease.backend.id, fix="open the backend `cpu`, or dispatch."
            )
        pipeline = self.compile(program, config, **shorthand)
        jobs = PersistentJobs(
            self._lease, executor, pipeline.program, pipeline.config, capacity, backpressure=backpressure
        )
        if inputs is not None:
            jobs.open_for(inputs)
        return jobs
