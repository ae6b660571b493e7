"""What has to hold between the parts of recorded work."""

from __future__ import annotations

from collections.abc import Iterator

from vyre.app.evidence.writing import work_digest
from vyre.domain.evidence.config_fields import config_of
from vyre.domain.evidence.records import (
    BoundPart,
    FixedPointCall,
    HostPart,
    MemoryPart,
    QueueCall,
    RecordedStep,
    RecordedWork,
)
from vyre.domain.ir.buffers import Buffer
from vyre.domain.ir.program import Program
from vyre.domain.ir.types import SCALAR_BY_TEXT

_WORD = SCALAR_BY_TEXT["u32"].size


def problems_of(work: RecordedWork, programs: tuple[Program, ...]) -> Iterator[str]:
    """Yields what does not belong together, as sentences.  Raises ``InvalidConfig`` for a config that is none."""
    if work_digest(work) != work.digest:
        yield "the digest of the work is not that of the work in it"
    for part in (*work.first, *work.parts):
        for place, step in enumerate(part.steps):
            yield from _step_problems(work, step, programs)
            if any(not 0 <= at < place for at in step.after):
                yield "a step is to run after one that is not listed before it"
    memory, call = [each.before for each in work.memory], work.call
    if not all(each.element in SCALAR_BY_TEXT for each in memory) or len({each.name for each in memory}) < len(memory):
        yield "memory holds elements of no type, or has the name of other memory"
    if any(each.place < 0 for each in work.memory) or any(nbytes < 0 for nbytes in work.temporaries):
        yield "memory lies at no place, or a temporary array has no size"
    if isinstance(call, FixedPointCall) and (call.changed.nbytes < _WORD or not _lies(work, call.changed, _WORD)):
        yield "the flag is no u32 of the recorded memory"
    if isinstance(call, QueueCall):
        if not _is_inside(call.initial, work.host.nbytes) or call.initial.nbytes % _WORD:
            yield "the initial items are no u32 of the recorded data"
        if work.first or [(len(part.steps), part.times) for part in work.parts] != [(1, 1)]:
            yield "a work queue has another number of programs than one"
    numbers = _written(work, programs) if work.got.error is None else []
    held = [(each.name, each.element, each.content.nbytes) for each in map(memory.__getitem__, numbers)]
    if held != [(slot.name, slot.element, slot.content.nbytes) for slot in work.got.slots]:
        yield "the answer is not that of the memory which the steps write"


def _step_problems(work: RecordedWork, step: RecordedStep, programs: tuple[Program, ...]) -> Iterator[str]:
    if not 0 <= step.program < len(programs):
        yield "a step runs no program of the bundle"
        return
    call = work.call
    own = {call.items, call.pushed, call.count} if isinstance(call, QueueCall) else set()
    buffers = {buffer.name: buffer for buffer in programs[step.program].abi_buffers}
    if step.bound.keys() != buffers.keys() - own or not own <= buffers.keys():
        yield "a step binds other buffers than its program has"
        return
    for name, part in step.bound.items():
        if not _fits(work, part, buffers[name]):
            yield f"`{name}` of a step is bound to what is not in the bundle, or cannot be bound to it"
    config_of(step.config)


def _fits(work: RecordedWork, part: BoundPart, buffer: Buffer) -> bool:
    """Returns whether a part is inside of what was recorded, and may be bound to a buffer."""
    if isinstance(part, HostPart):
        return not buffer.is_writable and _is_inside(part, work.host.nbytes)
    if isinstance(part, MemoryPart):
        return not buffer.is_push and _lies(work, part, SCALAR_BY_TEXT[buffer.element.text].size)
    return not buffer.is_push and 0 <= part.number < len(work.temporaries) and not isinstance(work.call, QueueCall)


def _lies(work: RecordedWork, part: MemoryPart, size: int) -> bool:
    """Returns whether a part lies in a recorded memory, and begins at an element of so many bytes."""
    if not 0 <= part.memory < len(work.memory):
        return False
    memory = work.memory[part.memory]
    return _is_inside(part, memory.before.content.nbytes) and (memory.place + part.begin) % size == 0


def _is_inside(part: HostPart | MemoryPart, nbytes: int) -> bool:
    return part.begin >= 0 and 0 <= part.nbytes <= nbytes - part.begin


def _written(work: RecordedWork, programs: tuple[Program, ...]) -> list[int]:
    """Returns the numbers of the memories that steps write, the flag's among them, in order."""
    found = {work.call.changed.memory} if isinstance(work.call, FixedPointCall) else set[int]()
    for part in (*work.first, *work.parts):
        for step in part.steps:
            written = {buffer.name for buffer in programs[step.program].abi_buffers if buffer.is_writable}
            found |= {b.memory for name, b in step.bound.items() if name in written and isinstance(b, MemoryPart)}
    return sorted(found)
