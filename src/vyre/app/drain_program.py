"""``vyre.drain_program``: the program of a work queue as an ordinary one, for a single dispatch on data of the host."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from vyre.app.result import Result
from vyre.app.work_queue import TOTALS_FIELDS, bounded, form_of, host_items, roles_of
from vyre.domain.arguments import expect
from vyre.domain.dispatch import ReadableBuffer
from vyre.domain.errors import InvalidInput, WorkQueueOverflow
from vyre.domain.ir.program import Program, ProgramLike
from vyre.domain.record import U32_MAX
from vyre.domain.work_queues.draining import CONTROL_WORDS, INITIAL_ROOM, MOST_SLOTS, TOTALS, DrainForm

_Words = npt.NDArray[Any]


class DrainProgram:
    """A program that drains a work queue, with the arrays of the queue among its buffers.

    ``program`` is an ordinary program, which any number of workgroups along x may run:
    ``session.dispatch(drain.program, {**inputs, **drain.inputs(items, capacity)}, grid=2)``.
    """

    __slots__ = ("_form", "program")

    def __init__(self, form: DrainForm) -> None:
        self._form: Final = form
        self.program: Final[Program] = form.program

    @property
    def names(self) -> frozenset[str]:
        """The names of the buffers of the queue, which ``inputs`` fills."""
        form = self._form
        return frozenset((form.queue, form.control, form.totals, form.more, form.budget, *form.counters))

    def inputs(self, items: ReadableBuffer, capacity: int) -> dict[str, _Words | int]:
        """Returns what the buffers of the queue hold before the launch, by name.

        ``items``: the initial items, an array of uint32.  ``capacity``: the most items that wait or are being processed
        at once.  Raises ``InvalidInput`` for other items and for more than the capacity, and ``InvalidConfig`` for a
        capacity out of range.
        """
        slots = bounded("capacity", capacity, MOST_SLOTS)
        given = host_items(items)
        if given.size > slots:
            raise InvalidInput(f"{given.size} items exceed the capacity of {slots}", fix="raise the capacity.")
        form = self._form
        queue, control = np.zeros(slots, np.uint32), np.zeros(CONTROL_WORDS, np.uint32)
        queue[: given.size] = given
        control[INITIAL_ROOM] = slots
        return {
            form.queue: queue,
            form.control: control,
            form.totals: np.zeros(len(TOTALS), np.uint64),
            form.more: np.zeros(1, np.uint32),
            **{name: np.zeros(1, np.uint32) for name in form.counters[:-1]},
            form.counters[-1]: np.array([given.size], np.uint32),
            form.budget: U32_MAX,
        }

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
        found = {name: int(words[place]) for name, place in TOTALS_FIELDS.items()}
        if lost := found.pop("lost"):
            raise WorkQueueOverflow(capacity=slots, lost=lost)
        return found

    def __repr__(self) -> str:
        return f"<DrainProgram {self.program.name or 'unnamed'}>"


def drain_program(program: ProgramLike, *, items: str, pushed: str, count: str) -> DrainProgram:
    """Returns the program that ``Session.work_queue`` launches, for a dispatch of one's own.

    ``items``, ``pushed`` and ``count`` name the buffers of ``program`` that belong to the queue, as for ``work_queue``.
    Raises ``InvalidInput`` for a program that cannot drain a queue, and for one whose results depend on the order of
    the items, with the reason, and ``InvalidProgram``.
    """
    return DrainProgram(form_of(program, roles_of(items, pushed, count)))
