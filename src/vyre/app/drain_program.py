"""``vyre.drain_program``: the program of a work queue as an ordinary one, for a single dispatch on data of the host."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from vyre.app.result import Result
from vyre.app.work_queue import TOTALS_FIELDS, DisciplineName, bounded, form_of, host_items, roles_of
from vyre.domain.arguments import expect, member
from vyre.domain.dispatch import ReadableBuffer
from vyre.domain.errors import InvalidInput, WorkQueueOverflow
from vyre.domain.ir.program import Program, ProgramLike
from vyre.domain.record import U32_MAX, U64_MAX
from vyre.domain.work_queues.forms import MOST_SLOTS, DrainForm
from vyre.policies.launching.queueing import HostSync, QueueDiscipline, QueueProfile, plan_queue

_Words = npt.NDArray[Any]


class DrainProgram:
    """A program that drains a work queue, with the arrays of the queue among its buffers.

    ``program`` is an ordinary program, which any number of workgroups along x may run:
    ``session.dispatch(drain.program, {**inputs, **drain.inputs(items, capacity)}, grid=2)``.
    """

    __slots__ = ("_discipline", "_form", "program")

    def __init__(self, form: DrainForm, discipline: QueueDiscipline) -> None:
        self._form: Final = form
        self._discipline: Final = discipline
        self.program: Final[Program] = form.program

    @property
    def names(self) -> frozenset[str]:
        """The names of the buffers of the queue, which ``inputs`` fills."""
        return self._form.names

    def inputs(self, items: ReadableBuffer, capacity: int) -> dict[str, _Words | int]:
        """Returns what the buffers of the queue hold before the launch, by name.

        ``items``: the initial items, an array of uint32.  ``capacity``: the most items that wait or are being processed
        at once, or wait in a ring.  Raises ``InvalidInput`` for other items and for more than the capacity,
        ``InvalidConfig`` for a capacity out of range, and ``PlanError`` for one that the discipline does not have.
        """
        slots = bounded("capacity", capacity, MOST_SLOTS)
        words = host_items(items)
        if words.size > slots:
            raise InvalidInput(f"{words.size} items exceed the capacity of {slots}", fix="raise the capacity.")
        form = self._form
        nbytes = form.sizes(slots)
        profile = QueueProfile(
            initial_items=words.size,
            entry_bytes=form.slot_bytes,
            control_bytes=sum(nbytes.values()) - nbytes[form.queue],
            budget_bytes=U64_MAX,
            host_sync=HostSync.FINAL_ONLY,
            discipline=self._discipline,
            queue_capacity=slots,
        )
        plan_queue(profile)  # refuses capacities that the discipline does not have
        contents = form.start(words, slots, slots)
        whole = np.zeros(slots, contents[form.queue].dtype)
        whole[: contents[form.queue].size] = contents[form.queue]
        return {**contents, form.queue: whole, form.budget: U32_MAX}

    def totals(self, result: Result | Mapping[str, _Words]) -> dict[str, int]:
        """Returns the numbers of a drain from the result of its dispatch: ``processed``, ``pushed`` and ``phases``, as
        ``WorkQueueResult`` has them.

        Raises ``WorkQueueOverflow`` if items found no room, and ``InvalidInput`` for another result.
        """
        form = self._form
        expect("result", result, (Result, Mapping), "the result of the dispatch", InvalidInput)
        try:
            words, slots = result[form.totals], len(result[form.queue])
        except KeyError:
            raise InvalidInput(
                f"the result is not one of {self!r}", fix="pass what dispatching its program returned."
            ) from None
        counts = {name: int(words[place]) for name, place in TOTALS_FIELDS.items()}
        if lost := counts.pop("lost"):
            raise WorkQueueOverflow(capacity=slots, lost=lost)
        return counts

    def __repr__(self) -> str:
        return f"<DrainProgram {self.program.name or 'unnamed'}>"


def drain_program(
    program: ProgramLike, *, items: str, pushed: str, count: str, discipline: DisciplineName = "phased"
) -> DrainProgram:
    """Returns the program that ``Session.work_queue`` launches, for a dispatch of one's own.

    ``items``, ``pushed`` and ``count`` name the buffers of ``program`` that belong to the queue, as for ``work_queue``,
    and ``discipline`` says when an item may be processed.
    Raises ``InvalidInput`` for a program that cannot drain a queue, and for one whose results depend on the order of
    the items, with the reason, and ``InvalidProgram``.
    """
    chosen = member("discipline", discipline, QueueDiscipline)
    return DrainProgram(form_of(program, roles_of(items, pushed, count), chosen), chosen)
