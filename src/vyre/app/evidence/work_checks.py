"""Checks that the parts of recorded work fit together."""

from __future__ import annotations

from collections.abc import Iterator

from vyre.app.evidence.writing import work_digest
from vyre.domain.evidence import records
from vyre.domain.evidence.config_fields import config_of
from vyre.domain.indirect_grids import AXES
from vyre.domain.ir.program import Program
from vyre.domain.ir.types import SCALAR_BY_TEXT

_WORD = SCALAR_BY_TEXT["u32"].size


def problems_of(work: records.RecordedWork, programs: tuple[Program, ...]) -> Iterator[str]:
    """Yields what does not belong together, as sentences.  Raises ``InvalidConfig`` for a config that is none."""
    if work_digest(work) != work.digest:
        yield "the digest of the work is not that of the work in it"
    for part in (*work.first, *work.parts):
        for place, step in enumerate(part.steps):
            yield from _step_problems(work, step, programs)
            if any(not 0 <= before < place for before in step.after):
                yield "a step is to run after one that is not listed before it"
    slots, call = [each.before for each in work.memory if each.before is not None], work.call
    if not all(each.element in SCALAR_BY_TEXT for each in slots) or len({each.name for each in slots}) < len(slots):
        yield "memory holds elements of no type, or has the name of other memory"
    for each in work.memory:
        sized = each.nbytes >= 0 and (each.before is None or each.before.content.nbytes == each.nbytes)
        if not sized or (each.place or 0) < 0:
            yield "memory lies at no place, or has another size than its content"
    if isinstance(call, records.FixedPointCall) and (
        call.changed.nbytes < _WORD or not _lies(work, call.changed, _WORD)
    ):
        yield "the flag is no u32 of the recorded memory"
    if isinstance(call, records.QueueCall):
        if not _lies(work, call.initial, 1, on_host=True) or call.initial.nbytes % _WORD:
            yield "the initial items are no u32 of the recorded data"
        if work.first or [(len(part.steps), part.times) for part in work.parts] != [(1, 1)]:
            yield "a work queue has another number of programs than one"
    if isinstance(call, records.SpeculationCall):
        if not all(_lies(work, flags, _WORD) for flags in (call.passed, call.confirmed)):
            yield "the flags of tiles are no u32 of the recorded memory"
        if work.first or [(len(part.steps), part.times) for part in work.parts] != [(3, 1)]:
            yield "a speculation has another number of steps than three"
    numbers = _written(work, programs) if work.got.error is None else []
    due = [(m.name, m.element, m.content.nbytes) for m in (work.memory[n].before for n in numbers) if m is not None]
    if due != [(slot.name, slot.element, slot.content.nbytes) for slot in work.got.slots]:
        yield "the answer is not that of the memory which the steps write"


def _step_problems(
    work: records.RecordedWork, step: records.RecordedStep, programs: tuple[Program, ...]
) -> Iterator[str]:
    if not 0 <= step.program < len(programs):
        yield "a step runs no program of the bundle"
        return
    call = work.call
    own = {call.items, call.pushed, call.count} if isinstance(call, records.QueueCall) else set()
    buffers = {buffer.name: buffer for buffer in programs[step.program].abi_buffers}
    if step.bound.keys() != buffers.keys() - own or not own <= buffers.keys():
        yield "a step binds other buffers than its program has"
        return
    for name, part in step.bound.items():
        buffer, size = buffers[name], SCALAR_BY_TEXT[buffers[name].element.text].size
        fits = not buffer.is_push and _lies(work, part, size, temporary=not isinstance(call, records.QueueCall))
        if not fits and (buffer.is_writable or not _lies(work, part, 1, on_host=True)):
            yield f"`{name}` of a step is bound to what is not in the bundle, or cannot be bound to it"
    excess = programs[step.program].abi_buffers[-1:]
    if step.counted is not None and not any(
        buffer.is_writable and step.bound[buffer.name].nbytes == AXES * _WORD for buffer in excess
    ):
        yield "a step that finds its grid in memory has no place for what is too many"
    config_of(step.config)


def _lies(
    work: records.RecordedWork, part: records.MemoryPart, size: int, *, on_host: bool = False, temporary: bool = False
) -> bool:
    """Returns whether a part lies in a recorded memory of that kind, and begins at an element of so many bytes."""
    if not 0 <= part.memory < len(work.memory):
        return False
    memory = work.memory[part.memory]
    if memory.before is None and (not temporary or (part.begin, part.nbytes) != (0, memory.nbytes)):
        return False
    begins = (memory.place or 0) + part.begin
    is_inside = part.begin >= 0 and 0 <= part.nbytes <= memory.nbytes - part.begin
    return is_inside and begins % size == 0 and on_host == (memory.before is not None and memory.place is None)


def _written(work: records.RecordedWork, programs: tuple[Program, ...]) -> list[int]:
    """Returns the numbers of the memories that steps write, the flag's among them, in order."""
    memories = {work.call.changed.memory} if isinstance(work.call, records.FixedPointCall) else set[int]()
    for part in (*work.first, *work.parts):
        for step in part.steps:
            written = {buffer.name for buffer in programs[step.program].abi_buffers if buffer.is_writable}
            memories |= {bound.memory for name, bound in step.bound.items() if name in written}
    return sorted(memories)
