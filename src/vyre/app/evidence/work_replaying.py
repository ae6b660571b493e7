"""Runs recorded sequences, fixed points, work queues and speculations again, on memory with the recorded content."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from functools import cache
from typing import Any, Final, cast

import numpy as np

from vyre.app.evidence.bundle import EvidenceBundle
from vyre.app.evidence.writing import Outcome
from vyre.app.resident import ResidentArray
from vyre.app.sequences.steps import Repeat, Step
from vyre.app.session import Session
from vyre.domain.dispatch import DEFAULT_CONFIG, SpeculationMode
from vyre.domain.errors import GridOverflow, PlanError, UnsupportedFeature
from vyre.domain.evidence import records
from vyre.domain.evidence.config_fields import config_of
from vyre.domain.evidence.failures import PROGRAM_ERRORS, failure_of
from vyre.policies.prediction.confirming import ConfirmWay

ALIGNED: Final = 256
"""Resident memory is made anew at the same place modulo so many bytes; no load is wider."""


def run_again(session: Session, bundle: EvidenceBundle) -> tuple[Outcome, Mapping[str, int]]:
    """Runs the work of a bundle once, and returns what it comes to and what it has counted.

    On the recorded backend it is submitted and repeated as it was, where that can be; else as the planner decides.
    """
    with ExitStack() as stack:
        again = _WorkAgain(session, bundle, stack)
        try:
            try:
                counters = again.ran(as_recorded=str(session.backend) == bundle.work.got.by)
            except (PlanError, UnsupportedFeature):  # it has run nothing
                counters = again.ran(as_recorded=False)
        except PROGRAM_ERRORS as error:
            failure = failure_of(error)
            assert failure is not None
            return failure, {}
        return again.contents(), counters


def memory_at(session: Session, content: bytes, place: int, label: str, stack: ExitStack) -> ResidentArray:
    """Returns memory with this content, which begins at the place of an allocation modulo ``ALIGNED``."""
    begin = place % ALIGNED
    memory = stack.enter_context(session.resident(begin + len(content), label=label))
    part = memory.view(begin, len(content), np.uint8)
    part.upload(content)
    return part


class _WorkAgain:
    """The work of a bundle on memory of a session, which lasts as long as ``stack``."""

    def __init__(self, session: Session, bundle: EvidenceBundle, stack: ExitStack) -> None:
        work = bundle.work
        self._session, self._bundle, self._work, self._stack = session, bundle, work, stack
        self._memory: Final = list(map(self._made, work.memory))
        self._part: Final = cache(self._made_part)
        """The array of a part, the same for equal parts, or the data of the host."""

    def contents(self) -> dict[str, bytes]:
        """Returns the content of the memory that steps write now."""
        names = {slot.name for slot in self._work.got.slots}
        pairs = zip(self._memory, [each.before for each in self._work.memory], strict=True)
        return {slot.name: array.download().tobytes() for array, slot in pairs if slot and slot.name in names}

    def ran(self, *, as_recorded: bool) -> Mapping[str, int]:
        """Runs once, in the recorded modes or as the planner decides, and returns what was counted."""
        session, work = self._session, self._work
        first, steps = ([self._repeated(part) for part in parts] for parts in (work.first, work.parts))
        match call := work.call:
            case records.SequenceCall():
                graph = session.sequence(steps, first=first, modes=call.modes if as_recorded else None)
                ended: object = self._stack.enter_context(graph)(call.rounds)
            case records.FixedPointCall():
                loop = session.fixpoint(
                    steps, first=first, changed=self._part(call.changed).view(dtype=np.uint32), limit=call.limit,
                    executor=call.executor if as_recorded and call.early_exit else None, early_exit=call.early_exit,
                )  # fmt: skip
                ended = loop()
            case records.QueueCall():
                ((only,),) = (part.steps for part in work.parts)
                queue = session.work_queue(
                    self._bundle.programs[only.program], self._inputs(only),
                    items=call.items, pushed=call.pushed, count=call.count, capacity=call.capacity,
                    items_per_launch=call.items_per_launch, total_items=call.total_items,
                    discipline=call.discipline,  # type: ignore[arg-type]  # a text, which is checked
                )  # fmt: skip
                ended = self._stack.enter_context(queue)(np.frombuffer(self._part(call.initial), np.uint32))

            case records.SpeculationCall():
                mode = SpeculationMode.FORCE if call.way == ConfirmWay.EVERY.value else SpeculationMode.DISABLE
                before, confirm, commit = (cast("Step", step) for part in steps for step in part.steps)
                confirm = replace(confirm, config=replace(confirm.config or DEFAULT_CONFIG, speculation=mode))
                passed, confirmed = (self._part(flags).view(dtype=np.uint32) for flags in (call.passed, call.confirmed))
                tried = session.speculate(before, confirm, commit, passed=passed, confirmed=confirmed)
                ended = self._stack.enter_context(tried)()
        self._check_grids()
        return records.counted(call, ended)

    def _check_grids(self) -> None:
        """Raises ``GridOverflow`` for the first step whose grid in memory had more workgroups than it may have."""
        for step in (step for part in (*self._work.first, *self._work.parts) for step in part.steps):
            if step.counted is not None:
                excess = self._bundle.programs[step.program].abi_buffers[-1].name
                counts = self._part(step.bound[excess]).download().view(np.uint32)
                if counts.any():
                    raise GridOverflow(step=step.counted, counts=tuple(counts.tolist()), most=step.most)

    def _repeated(self, part: records.RecordedPart) -> Repeat:
        steps: list[Step] = []
        for each in part.steps:
            program, config = self._bundle.programs[each.program], config_of(each.config)
            steps.append(Step(program, self._inputs(each), config, after=[steps[number] for number in each.after]))
        return Repeat(steps, part.times)

    def _inputs(self, step: records.RecordedStep) -> dict[str, Any]:
        return {name: self._part(part) for name, part in step.bound.items()}

    def _made(self, memory: records.RecordedMemory) -> Any:
        if memory.before is None:
            return self._session.temporary(np.uint8, memory.nbytes)
        content, name = self._bundle.bytes_of(memory.before), memory.before.name
        return content if memory.place is None else memory_at(self._session, content, memory.place, name, self._stack)

    def _made_part(self, part: records.MemoryPart) -> Any:
        memory, recorded = self._memory[part.memory], self._work.memory[part.memory]
        if recorded.before is None:
            return memory
        if recorded.place is None:
            return memory[part.begin : part.begin + part.nbytes]
        return memory.view(part.begin, part.nbytes, np.uint8)
