"""``Queries``: a program with the memory that many runs of it share."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import prod
from typing import TYPE_CHECKING, Any, Final, Self

from vyre.adapters.forks import process_lock, refuse_within
from vyre.app.queries.inputs import Columns, SharedInputs
from vyre.app.queries.plan import QueriesPlan, QueryResults
from vyre.app.queries.preparing import Group, Prepared, QueryPlanner, Returned
from vyre.domain.arguments import whole
from vyre.domain.errors import BackendError, InvalidResource
from vyre.domain.ir.program import Program
from vyre.domain.record import U64_MAX
from vyre.domain.unique import Closing
from vyre.domain.upload_reuse import UploadReuse
from vyre.ports.interrupts import sealed
from vyre.ports.requests import Readback, ResidentSequence, Upload
from vyre.ports.resident_buffer import ResidentBuffer

if TYPE_CHECKING:
    import numpy.typing as npt

    from vyre.app.lease import BackendLease
    from vyre.app.pipeline import Argument, Pipeline


class Queries(Closing):
    """A program with the memory that many runs of it share: ``queries({"start": rows})`` runs it once for each row.

    A context manager; calls may come from any thread, and run one after the other.
    """

    def __init__(
        self, lease: BackendLease, pipeline: Pipeline, shared: Mapping[str, Argument], budget: int | None
    ) -> None:
        if budget is not None:
            budget = whole("budget", budget, 0, U64_MAX, "give a number of bytes, or None.")
        lease.backend.require_resident_executor()
        program = pipeline.program
        self._lease: Final = lease
        self._program: Final[Program] = program
        self._lock = process_lock()
        self._closed = False
        self._prepared: Prepared | None = None
        self._answered = 0
        self._shared = SharedInputs(lease, program, shared)
        most = U64_MAX if budget is None else budget
        if lease.budget is not None:
            most = min(most, lease.budget.nbytes)
        self._planner = QueryPlanner(lease, program, pipeline.config, self._shared, most)

    def __call__(self, columns: Mapping[str, Argument]) -> QueryResults:
        """Runs the program once for each row of ``columns``, waits, and returns the outputs.

        ``columns``: the inputs that are not shared, by name.  An array has one row for each query along its first axis;
        for a scalar parameter it has one number for each query, and a plain number is taken by all.  The first call
        allocates memory for the queries; later ones with as many queries of the same lengths allocate nothing.

        Raises ``InvalidInput``, ``PlanError`` where the budget does not hold one query, and what a dispatch raises;
        then there are no results.
        """
        started = self._lease.now_ns()
        own = self._shared.columns(columns)
        refuse_within(self._lock, repr(self))
        with self._lock, sealed:
            self._check_open()
            prepared = self._ready(own)
            arrays = self._annotated(prepared, own)
            plan = prepared.planned.plan
            self._answered += plan.queries
        return QueryResults(arrays, plan, self._lease.now_ns() - started)

    def plan(self, columns: Mapping[str, Argument]) -> QueriesPlan:
        """Returns how a call with these columns runs: its launches, its memory, and what it avoids.  Runs nothing.

        Raises what such a call raises before it runs.
        """
        own = self._shared.columns(columns)
        with self._lock, sealed:
            self._check_open()
            prepared = self._prepared
            if prepared is not None and prepared.key == own.key:
                return prepared.planned.plan
            return self._planner.planned(own).plan

    @property
    def reuse(self) -> UploadReuse:
        """The upload of what the queries share, and the uploads that its staying on the device has saved so far."""
        if not self._answered:
            return UploadReuse()
        nbytes, again = self._shared.nbytes, self._answered - 1
        return UploadReuse(1, again, nbytes, again * nbytes)

    # ---------------------------------------------------------------- lifetime
    @property
    def closed(self) -> bool:
        """Whether ``close`` was called, or the session is closed."""
        return self._closed or self._lease.closed

    def close(self) -> None:
        """Frees the memory of the queries; resident arrays that were passed stay open.  Idempotent."""
        with self._lock, sealed:
            self._closed = True
            self._prepared = None
            self._planner.release()
            self._shared.close()

    def __enter__(self) -> Self:
        self._check_open()
        return self

    def __repr__(self) -> str:
        names = ", ".join(f"`{name}`" for name in sorted(self._shared.names))
        return f"<Queries of {self._program.name or 'unnamed'} on {self._lease.backend.id}, sharing {names}>"

    # ---------------------------------------------------------------- details
    def _annotated(self, *arguments: Any) -> dict[str, npt.NDArray[Any]]:
        try:
            return self._run(*arguments)
        except BackendError as error:
            self._lease.failed(error, f"queries={self!r}")
            raise

    def _check_open(self) -> None:
        self._lease.check_open()
        if self._closed:
            raise InvalidResource(f"{self!r} is used after close()", fix="open others with session.queries.")

    def _ready(self, columns: Columns) -> Prepared:
        prepared = self._prepared
        if prepared is None or prepared.key != columns.key:
            self._prepared = None  # whose memory may be freed
            prepared = self._prepared = self._planner.prepare(columns)
        return prepared

    def _run(self, prepared: Prepared, columns: Columns) -> dict[str, npt.NDArray[Any]]:
        planned, queries = prepared.planned, columns.queries
        returned, outputs = planned.returned, planned.outputs
        storage = outputs.storage(
            tuple([(queries, *_row_shape(columns.shapes.get(r.name), r.elements)) for r in returned])
        )
        into = storage.begin(tuple([queries * (r.stop - r.start) for r in returned]))
        for group in prepared.groups:
            self._upload(group, columns)
            reads: list[Readback] = []
            for each, view in zip(returned, into, strict=True):
                width = each.stop - each.start
                part = view[group.start * width : group.stop * width]
                reads += _reads(group.memory[each.name], part, planned.nbytes[each.name], each)
            self._launch(prepared, group, columns, tuple(reads))
        return dict(zip(outputs.names, outputs.arrays(storage), strict=True))

    def _upload(self, group: Group, columns: Columns) -> None:
        uploads: list[Upload] = []
        for name, view in columns.own.items():
            nbytes = view.nbytes // columns.queries
            if nbytes:
                uploads.append(Upload(group.memory[name], view[group.start * nbytes : group.stop * nbytes]))
        if uploads:
            self._lease.backend.require_memory().upload(uploads)

    def _launch(self, prepared: Prepared, group: Group, columns: Columns, reads: tuple[Readback, ...]) -> None:
        backend, launched = self._lease.backend, self._lease.launched
        executor = backend.require_resident_executor()
        if group.steps is not None:
            executor.run(ResidentSequence(prefix=group.steps, reads=reads))
            launched()
            return
        for query in range(group.start, group.stop):
            step = self._planner.step(prepared.planned, columns, group, query)
            try:
                executor.run(ResidentSequence(prefix=(step,)))
            except BackendError as error:
                error.add_note(f"query {query} of {columns.queries}")
                raise
            launched()
        backend.require_memory().download(reads)


def _row_shape(shape: tuple[int, ...] | None, count: int) -> tuple[int, ...]:
    """Returns the shape of a row of ``count`` elements: the one that was passed, or one axis."""
    return shape if shape is not None and prod(shape) == count else (count,)


def _reads(slab: ResidentBuffer, into: memoryview, nbytes: int, returned: Returned) -> Iterator[Readback]:
    """Yields the copies to the host of what is returned of each row, of ``nbytes`` bytes, of a slab."""
    width = returned.stop - returned.start
    if width == nbytes:
        yield Readback(slab, into)
    elif width:
        for row in range(slab.nbytes // nbytes):
            yield Readback(slab, into[row * width : (row + 1) * width], row * nbytes + returned.start)
