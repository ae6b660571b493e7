"""The part of ``Session`` about queries."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Unpack

from vyre.app.shorthand import Keywords

if TYPE_CHECKING:
    from vyre.app.lease import BackendLease
    from vyre.app.pipeline import Argument, Pipeline
    from vyre.app.queries.queries import Queries
    from vyre.domain.dispatch import DispatchConfig
    from vyre.domain.ir.program import ProgramLike
    from vyre.policies.journal import DecisionSink


class SessionQueries:
    """A mixin for ``Session``."""

    _decisions: DecisionSink | None
    _lease: BackendLease
    compile: Callable[..., Pipeline]

    def queries(
        self,
        program: ProgramLike,
        shared: Mapping[str, Argument],
        config: DispatchConfig | None = None,
        *,
        budget: int | None = None,
        **shorthand: Unpack[Keywords],
    ) -> Queries:
        """Binds what many runs of ``program`` share; calling the result with a row of inputs for each runs them all.

        ``with session.queries(program, {"edges": edges}) as queries: results = queries({"start": rows})``.  ``shared``:
        resident arrays, data of the host, which become resident now, and numbers, by name.  The runs, called queries,
        are one launch wherever that changes no byte; else each is a launch of its own, and the plan of the results says
        why.  ``budget``: the most bytes of device memory that shared arrays, inputs and outputs may take at once; more
        queries than it holds run in several launches.  ``shorthand`` as for ``compile``.

        Raises what ``compile`` raises, ``InvalidInput`` and ``InvalidResource`` for what cannot be shared,
        ``InvalidConfig`` for an invalid budget, and ``UnsupportedFeature`` on a backend without resident memory.
        """
        from vyre.app.queries.queries import Queries

        self._lease.check_open()
        pipeline = self.compile(program, config, **shorthand)
        return Queries(self._lease, pipeline, shared, budget, self._decisions)
