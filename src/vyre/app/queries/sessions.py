"""The part of ``Session`` about queries."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Unpack

from vyre.app.session_core import SessionCore
from vyre.app.shorthand import Keywords
from vyre.domain.errors import InvalidConfig

if TYPE_CHECKING:
    from vyre.app.pipeline import Argument
    from vyre.app.queries.cache import ResidentCache
    from vyre.app.queries.queries import Queries
    from vyre.app.residency import ResidencyReport
    from vyre.domain.dispatch import DispatchConfig
    from vyre.domain.ir.program import ProgramLike


class SessionQueries(SessionCore):
    """Queries and the resident memory that they share."""

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
        return Queries(self._lease, pipeline, shared, budget)

    def resident_cache(self, budget: int | None = None) -> ResidentCache:
        """Returns a cache of arrays, of which as many are on the device as ``budget`` bytes hold; None: as many as the
        ``resident_budget`` of the session holds.

        ``cache.add("roads", edges)`` takes an array, and ``with cache.use("roads") as array:`` gives it as resident
        memory for the block.  Where the budget is full, the arrays that are used least, and not now, move to the host,
        and come back with their content when they are used; ``cache.explain()`` tells which, and why.  They also move
        for other arrays of the session where it was opened with a ``resident_budget``; see ``residency``.

        Raises ``InvalidConfig`` for an invalid budget, and ``UnsupportedFeature`` on a backend without device memory.
        """
        from vyre.app.queries.cache import ResidentCache

        self._lease.check_open()
        self._lease.backend.require_memory()
        return ResidentCache(
            self._lease, lambda data, label: self.resident(data, label=label), budget, self._decisions, self._telemetry
        )

    def residency(self) -> ResidencyReport:
        """Returns what the session's arrays take of its ``resident_budget``, what moved to the host, and why.

        ``print`` the result.  Raises ``InvalidConfig`` for a session that was opened without a ``resident_budget``.
        """
        budget = self._lease.budget
        self._lease.check_open()
        if budget is None:
            raise InvalidConfig(
                "the session has no limit on resident memory", fix="open it with vyre.open(resident_budget=...)."
            )
        return budget.report()
