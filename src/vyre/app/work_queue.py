"""Work queues: a program that runs once for each item on the device, items that it adds included, with one wait."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from vyre.adapters.forks import process_lock, refuse_within
from vyre.app.host_memory import bytes_of, host_memory
from vyre.app.resident import ResidentArray, make_resident
from vyre.app.resident_dispatch import host_arrays_of
from vyre.app.sequences.sequence import WorkServices
from vyre.app.sequences.steps import Step
from vyre.domain.arguments import expect, member, whole
from vyre.domain.dispatch import DispatchConfig, DispatchTiming, ReadableBuffer
from vyre.domain.errors import BackendError, InvalidInput, WorkQueueOverflow
from vyre.domain.ir.program import Program, ProgramLike, program_of
from vyre.domain.program_report import InvalidProgram
from vyre.domain.record import U32_MAX, U64_MAX
from vyre.domain.unique import Closing
from vyre.domain.work_queues.forms import MOST_SLOTS, TOTALS, DrainForm
from vyre.domain.work_queues.programs import drain_program
from vyre.domain.work_queues.roles import CannotDrain, QueueRoles
from vyre.policies.journal import decide
from vyre.policies.launching.queueing import (
    DrainPlan,
    DrainProfile,
    HostSync,
    QueueDiscipline,
    QueueGrid,
    QueueGridInputs,
    plan_backpressure,
    plan_queue_grid,
)
from vyre.ports.interrupts import sealed
from vyre.ports.requests import Readback, ResidentSequence, ResidentStep, Upload

if TYPE_CHECKING:
    from pathlib import Path

    from vyre.domain.evidence.records import Evidence

_Words = npt.NDArray[Any]
DisciplineName: TypeAlias = QueueDiscipline | Literal["phased", "ring"]
"""A discipline of a queue, or its value."""
TOTALS_FIELDS: Final = {name: place for place, name in enumerate(TOTALS)}
"""The place of each number of a drain."""


class WorkQueueResult(NamedTuple):
    """The result of draining a queue.

    ``processed``: the items that were processed, each exactly once.  ``pushed``: the items that entered the queue, with
    the initial ones; the two are equal.  ``phases``: the times that the grid took items, all of which were in the queue
    before; for a ring the rounds between barriers, whose number differs from run to run on a device whose lanes run in
    any order.  ``launches``: the launches of the drain, for each of which ``plan`` allows so many items.
    """

    processed: int
    pushed: int
    phases: int
    launches: int
    plan: DrainPlan
    timing: DispatchTiming

    def __repr__(self) -> str:
        return (
            f"<WorkQueueResult {self.processed} item(s) in {self.phases} phase(s) and {self.launches} launch(es), "
            f"{self.plan.strategy.value} of {self.plan.queue.queue_capacity} slots>"
        )


class WorkQueue(Closing):
    """A queue of u32 items on the device, with the program that processes them: call it with the initial items.

    ``grid`` tells how many workgroups drain it, and why.  Calls run one after the other, from any thread.  The memory
    of the queue is freed by ``close``, at the end of a ``with`` block, or with the session.
    """

    def __init__(
        self,
        services: WorkServices,
        program: ProgramLike,
        inputs: Mapping[str, Any],
        roles: QueueRoles,
        capacity: int,
        items_per_launch: int | None,
        total_items: int | None,
        discipline: DisciplineName,
    ) -> None:
        self._lease, self._sink, self._services = services.lease, services.decisions, services
        services.lease.check_open()
        backend = services.lease.backend
        backend.require_resident_executor()
        self._discipline = member("discipline", discipline, QueueDiscipline)
        self._form = form_of(program, roles, self._discipline)
        self._program, self._roles = program_of(program), roles
        self._capacity = bounded("capacity", capacity, MOST_SLOTS)
        self._most = None if items_per_launch is None else bounded("items_per_launch", items_per_launch, U32_MAX)
        self._total = None if total_items is None else bounded("total_items", total_items, U64_MAX)
        self._lock = process_lock()
        values = _given(inputs, roles)
        self._planned(0)  # refuses what cannot be planned, before memory is allocated
        self._arrays: dict[str, ResidentArray] = {}
        self._used = 0
        for name, nbytes in self._form.sizes(self._capacity).items():
            array = make_resident(backend.require_memory(), nbytes, f"work queue {name}")
            array.buffer.quiet()
            services.lease.adopt(array)
            self._arrays[name] = array
        budget = U32_MAX if self._most is None else self._most
        bound = {**values, **self._arrays, self._form.budget: budget}

        def step(groups: int) -> ResidentStep:
            return services.bind(Step(self._form.program, bound, DispatchConfig(grid=(groups, 1, 1)))).step

        self.grid: Final[QueueGrid] = self._grid(step(1))
        self._drain = step(self.grid.groups)
        loops = backend.loops
        own = loops is not None and bool(loops.loop_executors((self._drain,)))
        self._all_chunks = self._total is not None and not own
        """Whether all launches that the plan allows are enqueued at once, because the host would look between them."""

    def __call__(self, items: ReadableBuffer) -> WorkQueueResult:
        """Processes these items, u32, and all items that they lead to, until none is left.

        Raises ``WorkQueueOverflow`` where an item found no room, ``PlanError`` for more initial items than there are
        slots or than ``total_items``, ``InvalidInput`` for other data, and what a dispatch raises.  After a failure the
        arrays hold what was processed until then.
        """
        self._lease.check_open()
        words = host_items(items)
        plan = self._planned(words.size)
        refuse_within(self._lock, repr(self))
        try:
            with self._lock, sealed:
                return self._drained(words, plan)
        except BackendError as error:
            self._lease.failed(error, f"work queue={self!r}")
            raise

    def write_evidence(self, path: Path | str, items: ReadableBuffer) -> Evidence:
        """Processes items as a call does, and writes a file by which others can do it again and compare; returns its
        manifest.

        The file holds the items that were processed and pushed, and of memory the arrays that ``inputs`` bound: what is
        the queue's own depends on the schedule.  Else as ``StepSequence.write_evidence``.
        """
        from vyre.app.evidence.work_recording import LAUNCHED, BoundParts, record_work
        from vyre.domain.evidence.records import QueueCall

        words, roles = host_items(items), self._roles
        own = frozenset((roles.items, roles.pushed, roles.count))
        named = dict(zip([b.name for b in self._form.program.abi_buffers], self._drain.resources, strict=True))
        resources = tuple([named[b.name] for b in self._program.abi_buffers if b.name not in own])

        how = self._capacity, self._most, self._total, self._discipline.value
        parts: BoundParts = [([], 1), ([(ResidentStep(self._program, resources), (), LAUNCHED)], 1)]
        return record_work(
            path, self._lease, self._services.journal, parts, lambda: self(words),
            lambda recording, _: QueueCall(
                roles.items, roles.pushed, roles.count, *how, recording.part(memoryview(words.tobytes()))
            ), own=own,
        )  # fmt: skip

    def plan(self, initial_items: int) -> DrainPlan:
        """Returns the plan of a call with so many initial items; ``print`` shows it.  Raises ``PlanError``."""
        return self._planned(bounded("initial_items", initial_items, U64_MAX, least=0))

    def close(self) -> None:
        """Frees the memory of the queue; calling it afterwards raises ``InvalidResource``."""
        with self._lock, sealed:
            for array in self._arrays.values():
                array.close()

    def __repr__(self) -> str:
        name, kind, reads = self._form.program.name, self._discipline.value, host_arrays_of([self._drain])
        return f"<WorkQueue of {name}, {kind}, capacity={self._capacity} groups={self.grid.groups}{reads}>"

    # ---------------------------------------------------------------- planning
    def _planned(self, initial: int) -> DrainPlan:
        nbytes = self._form.sizes(self._capacity)
        profile = DrainProfile(
            initial_items=initial,
            entry_bytes=self._form.slot_bytes,
            control_bytes=sum(nbytes.values()) - nbytes[self._form.queue],
            budget_bytes=U64_MAX,
            host_sync=HostSync.FINAL_ONLY,
            discipline=self._discipline,
            queue_capacity=self._capacity,
            max_items_per_drain_launch=U64_MAX if self._most is None else self._most,
            total_items=U64_MAX if self._total is None else self._total,
        )
        return decide(self._sink, plan_backpressure, profile)

    def _grid(self, step: ResidentStep) -> QueueGrid:
        """Decides how many workgroups drain the queue, from what the device holds of a step with one."""
        loops = self._lease.backend.loops
        device = None if loops is None else loops.grid_sync(step)
        inputs = QueueGridInputs(
            capacity=self._capacity,
            lanes=self._form.program.workgroup_size[0],
            multiprocessors=0 if device is None else device.multiprocessors,
            resident_per_multiprocessor=0 if device is None else device.resident_per_multiprocessor,
        )
        return decide(self._sink, plan_queue_grid, inputs)

    # ---------------------------------------------------------------- running
    def _drained(self, items: _Words, plan: DrainPlan) -> WorkQueueResult:
        form, arrays = self._form, self._arrays
        start = form.start(items, self._capacity, self._used)
        self._used = self._capacity  # until the drain has ended well
        uploads = [(name, words) for name, words in start.items() if words.size]
        memory = self._lease.backend.require_memory()
        memory.upload([Upload(arrays[name].buffer, bytes_of(words)) for name, words in uploads])
        totals, control = np.zeros(len(TOTALS), np.uint64), np.zeros(form.left_over + 1, np.uint32)
        reads = (
            Readback(arrays[form.totals].buffer, bytes_of(totals)),
            Readback(arrays[form.control].buffer, bytes_of(control)),
        )
        if self._most is None:
            timing, launches = self._ran(ResidentSequence(prefix=(self._drain,), reads=reads)), 1
        else:
            flag = None if self._all_chunks else arrays[form.control].buffer
            timing = self._ran(
                ResidentSequence(repeated=(self._drain,), repeat_count=plan.chunks, flag=flag, reads=reads)
            )
            launches = plan.chunks if timing.rounds is None else timing.rounds
        counts = {name: int(totals[place]) for name, place in TOTALS_FIELDS.items()}
        if counts["lost"]:
            raise WorkQueueOverflow(capacity=self._capacity, lost=counts["lost"])
        if left := int(control[form.left_over]):
            self._left_over(left, counts["processed"])
        self._used = min(counts["pushed"], self._capacity)
        return WorkQueueResult(counts["processed"], counts["pushed"], counts["phases"], launches, plan, timing)

    def _ran(self, sequence: ResidentSequence) -> DispatchTiming:
        timing = self._lease.backend.require_resident_executor().run(sequence)
        if timing.launches != 0:
            self._services.remember(timing)
            self._lease.launched()
        return timing

    def _left_over(self, pending: int, processed: int) -> None:
        """Raises for items that are left although no launch will follow."""
        if self._total is not None and processed >= self._total:
            raise InvalidInput(
                f"{processed} items were processed, {pending} are left, and total_items is {self._total}",
                fix="give the number of all items that are ever in the queue, or leave total_items out.",
            )
        raise InvalidProgram(
            f"{pending} item(s) are left: lanes reserved places in the queue and stored nothing there",
            fix="store an item at every place that atomic_add reserves.",
        )


def roles_of(items: str, pushed: str, count: str) -> QueueRoles:
    """Returns the parts that buffers play.  Raises ``InvalidConfig`` for what is no name."""
    for name, value in (("items", items), ("pushed", pushed), ("count", count)):
        expect(name, value, str, "the name of a buffer")
    return QueueRoles(items, pushed, count)


def form_of(program: ProgramLike, roles: QueueRoles, discipline: QueueDiscipline) -> DrainForm:
    """Returns the form of a program that drains a queue.  Raises ``InvalidInput`` with the reason if it cannot."""
    source = program_of(program)
    expect("program", source, Program, "a program, or a kernel", InvalidProgram)
    form = drain_program(source, roles, ring=discipline is QueueDiscipline.RING)
    if isinstance(form, CannotDrain):
        raise InvalidInput(f"the program cannot drain a work queue: {form.reason}", fix=form.fix)
    return form


def _given(inputs: Mapping[str, Any], roles: QueueRoles) -> dict[str, Any]:
    """Returns the inputs of the program beside those of the queue."""
    expect("inputs", inputs, Mapping, "a mapping from names to values", InvalidInput)
    for name in (roles.items, roles.pushed, roles.count):
        if name in inputs:
            raise InvalidInput(f"`{name}` belongs to the queue", fix="leave it out: the queue binds its own memory.")
    return dict(inputs)


def host_items(items: ReadableBuffer) -> _Words:
    """Returns initial items in memory of the host.  Raises ``InvalidInput`` for anything but u32 with one axis."""
    if isinstance(items, ResidentArray):
        raise InvalidInput("the initial items are a resident array", fix="pass a NumPy array of uint32.")
    array = host_memory(items, "items")
    if not isinstance(array, np.ndarray) or array.dtype != np.uint32 or array.ndim != 1:
        told = f"{array.dtype} of shape {array.shape}" if isinstance(array, np.ndarray) else "raw bytes"
        raise InvalidInput(f"items are {told}", fix="pass a NumPy array of uint32 with one axis.")
    return np.ascontiguousarray(array)


def bounded(name: str, value: int, most: int, *, least: int = 1) -> int:
    """Returns ``value``.  Raises ``InvalidConfig`` unless it is an int from ``least`` to ``most``."""
    return whole(name, value, least, most, f"give an int from {least} to {most}.")
