"""Records sequences, fixed points, queues and speculations as a whole: steps, the memory that they bind, the end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Final, Protocol, TypeAlias, TypeVar

from vyre.adapters.evidence_files import write_bundle as write_file
from vyre.app.evidence.writing import BundleFiles, Noted, evidence_on, run_timing, work_digest
from vyre.app.journal import DecisionJournal
from vyre.app.lease import BackendLease
from vyre.app.sequences.description import Work
from vyre.app.sequences.host_steps import HostCall
from vyre.app.sequences.temporary import TemporaryBuffer
from vyre.domain.arguments import path_of
from vyre.domain.dispatch import DispatchTiming
from vyre.domain.errors import InvalidInput
from vyre.domain.evidence import records
from vyre.domain.evidence.config_fields import config_fields
from vyre.domain.evidence.failures import PROGRAM_ERRORS, failure_of
from vyre.domain.ir.program import Buffer, Program
from vyre.domain.names import Dim3
from vyre.ports.requests import Readback, ResidentStep, Resource
from vyre.ports.resident_buffer import ResidentBuffer

BoundSteps: TypeAlias = "list[tuple[ResidentStep, tuple[int, ...], tuple[str | None, Dim3]]]"
"""Steps, each with the places of those that are stated to run before it, and with what messages call it and its most
workgroups if it finds its grid in memory, else ``LAUNCHED``.
"""
LAUNCHED: Final = None, (0, 0, 0)
BoundParts: TypeAlias = "list[tuple[BoundSteps, int]]"
"""Parts, each with the number of times that it runs: first what runs once, then those of a round."""


class _Ended(Protocol):
    @property
    def timing(self) -> DispatchTiming: ...


E = TypeVar("E", bound=_Ended)


def parts_of(work: Work) -> BoundParts:
    """Returns the parts of described work, without the steps that fill temporary arrays with zeros."""
    counted: dict[int, tuple[str | None, Dim3]] = {}
    for step in work.steps:
        if (excess := step.work.excess) is not None:  # of a grid in memory; what an earlier call left is no part of it
            excess.upload(bytes(excess.nbytes))
            counted[id(excess)] = f"{step.place} (`{step.name}`)", step.work.launch.grid
    parts: BoundParts = []
    for part in (work.first, *work.parts):
        left_out = 0 if parts else work.cleared
        if any(isinstance(step.step, HostCall) for step in part.steps):
            raise InvalidInput(
                "evidence of a sequence with a host step, whose function nobody else can call",
                fix="write the evidence of sequences with the steps before it and behind it.",
            )
        pairs = list(zip(part.steps, part.stated, strict=True))[left_out:]
        listed = [
            (w.step, tuple([n - left_out for n in b]), counted.get(id(w.work.excess), LAUNCHED)) for w, b in pairs
        ]
        parts.append((listed, part.times))
    return parts


class _Bound:
    """Memory that steps bind: the bytes of an allocation from ``begin`` to ``end``, or a temporary array."""

    def __init__(self, number: int, root: ResidentBuffer) -> None:
        self.root, self.begin, self.end = root, root.nbytes, 0
        self.name: Final = f"memory {number}" + (f" ({root.label})" if root.label else "")
        self.number: Final = number
        self.elements: Final[set[str]] = set()
        self.is_written = False
        self.is_kept: Final = not isinstance(root, TemporaryBuffer)

    def content(self, data: bytes) -> tuple[str, str, bytes]:
        """Returns a content as bundles hold it, with the type that all buffers have which are bound to it, or bytes."""
        return self.name, next(iter(self.elements)) if len(self.elements) == 1 else "u8", data


class WorkRecording:
    """The records of what steps run and bind; buffers in ``own`` belong to a queue and are left out.

    ``programs`` has a number for the text of each program, and ``host`` all data of the host, each once, whose memory
    is the last one.
    """

    def __init__(self, parts: BoundParts, flag: ResidentBuffer | None, own: frozenset[str]) -> None:
        self._own = own
        self.programs: Final[dict[str, int]] = {}
        self.host: Final = bytearray()
        self.bound: Final[dict[int, _Bound]] = {}
        self._text: Final = cache(Program.to_text)
        self._begins: Final[dict[bytes, int]] = {}
        for steps, _ in parts:
            for step, *_ in steps:
                for buffer, resource in zip(self._buffers(step.program), step.resources, strict=True):
                    if isinstance(resource, ResidentBuffer):
                        self._bind(resource, buffer.element.text, writes=buffer.is_writable)
        if flag is not None:
            self._bind(flag, "u32", writes=True)

    def _buffers(self, program: Program) -> list[Buffer]:
        return [buffer for buffer in program.abi_buffers if buffer.name not in self._own]

    def _bind(self, buffer: ResidentBuffer, element: str, *, writes: bool) -> None:
        bound = self.bound.setdefault(id(buffer.root), _Bound(len(self.bound), buffer.root))
        bound.begin, bound.end = min(bound.begin, buffer.offset), max(bound.end, buffer.offset + buffer.nbytes)
        bound.elements.add(element)
        bound.is_written |= writes and bound.is_kept

    def part(self, resource: Resource) -> records.MemoryPart:
        """Returns the place of data of the host, or of a part of memory."""
        if isinstance(resource, ResidentBuffer):
            bound = self.bound[id(resource.root)]
            return records.MemoryPart(bound.number, resource.offset - bound.begin, resource.nbytes)
        data = bytes(resource)
        begin = self._begins.setdefault(data, len(self.host))
        if begin == len(self.host):
            self.host.extend(data)
        return records.MemoryPart(len(self.bound), begin, len(data))

    def parts(self, parts: BoundParts) -> tuple[records.RecordedPart, ...]:
        """Returns the records of parts."""
        return tuple([records.RecordedPart(tuple([self._step(*s) for s in steps]), n) for steps, n in parts if steps])

    def _step(
        self, step: ResidentStep, after: tuple[int, ...], counted: tuple[str | None, Dim3]
    ) -> records.RecordedStep:
        number = self.programs.setdefault(self._text(step.program), len(self.programs))
        names = [buffer.name for buffer in self._buffers(step.program)]
        bound = dict(zip(names, map(self.part, step.resources), strict=True))
        return records.RecordedStep(number, config_fields(step.config), bound, after, *counted)


def record_work(
    path: Path | str,
    lease: BackendLease,
    journal: DecisionJournal | None,
    parts: BoundParts,
    run: Callable[[], E],
    call: Callable[[WorkRecording, E | None], records.Call],
    flag: ResidentBuffer | None = None,
    own: frozenset[str] = frozenset(),
) -> records.Evidence:
    """Runs work once by ``run``, and writes what it comes to.

    ``call`` returns how it was called, from what the run has returned, or None where a program ended it.  Raises what
    the run raises, unless the program causes it, ``InvalidInput`` for more bytes than a bundle holds, and
    ``UnreadableFile``.
    """
    path = path_of("path", path)
    lease.check_open()
    lease.wait_for(None)
    recording, files, by = WorkRecording(parts, flag, own), BundleFiles(), str(lease.backend.id)
    bound = list(recording.bound.values())
    kept = [each for each in bound if each.is_kept]
    before, failure, ended = _contents(lease, kept), None, None
    try:
        ended = run()
    except PROGRAM_ERRORS as error:
        failure = failure_of(error)
    first, rounds, called = recording.parts(parts[:1]), recording.parts(parts[1:]), call(recording, ended)
    programs = [files.kept(f"programs/{number}.vyre", text.encode()) for number, text in enumerate(recording.programs)]
    slots = files.slots("memory", [*before, ("host", "u8", bytes(recording.host))])
    places = {each.number: slot for each, slot in zip(kept, slots, strict=False)}
    memory = [records.RecordedMemory(each.end - each.begin, places.get(each.number), each.begin) for each in bound]
    memory += [records.RecordedMemory(len(recording.host), slots[-1])]
    if failure is not None:
        got = files.failed("outputs", by, failure)
    else:
        after = _contents(lease, [each for each in kept if each.is_written])
        got = records.Answer(by, files.slots("outputs", after), None)
    noted = Noted.of(journal)
    work = records.RecordedWork(
        programs=tuple(programs),
        memory=tuple(memory),
        first=first,
        parts=rounds,
        call=called,
        got=got,
        counters={} if ended is None else records.counted(called, ended),
        timings=() if ended is None else (run_timing(ended.timing),),
        decisions=files.decisions(noted),
        dropped=noted.dropped,
        digest="",
    )
    with lease.within():
        evidence = replace(evidence_on(lease.backend, None, None), work=replace(work, digest=work_digest(work)))
    write_file(path, evidence, files)
    return evidence


def _contents(lease: BackendLease, bound: list[_Bound]) -> list[tuple[str, str, bytes]]:
    """Returns the content of memory now."""
    contents = [bytearray(each.end - each.begin) for each in bound]
    reads = [Readback(b.root, memoryview(data), b.begin) for b, data in zip(bound, contents, strict=True) if data]
    if reads:
        lease.backend.require_memory().download(reads)
    return [each.content(bytes(data)) for each, data in zip(bound, contents, strict=True)]
