"""Records sequences, fixed points and work queues as a whole: their steps, the memory that these bind, and the end."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Final, TypeAlias

from vyre.adapters.evidence_files import write_bundle as write_file
from vyre.app.evidence.writing import BundleFiles, Noted, evidence_on, run_timing, work_digest
from vyre.app.journal import DecisionJournal
from vyre.app.lease import BackendLease
from vyre.app.sequences.description import Work
from vyre.app.sequences.temporary import TemporaryBuffer
from vyre.domain.arguments import path_of
from vyre.domain.dispatch import DispatchTiming
from vyre.domain.evidence import records
from vyre.domain.evidence.config_fields import config_fields
from vyre.domain.evidence.failures import PROGRAM_ERRORS, failure_of
from vyre.domain.ir.program import Buffer, Program
from vyre.ports.requests import Readback, ResidentStep, Resource
from vyre.ports.resident_buffer import ResidentBuffer

BoundSteps: TypeAlias = "list[tuple[ResidentStep, tuple[int, ...]]]"
"""Steps, each with the places of those that are stated to run before it."""
BoundParts: TypeAlias = "list[tuple[BoundSteps, int]]"
"""Parts, each with the number of times that it runs: first what runs once, then those of a round."""


def parts_of(work: Work) -> BoundParts:
    """Returns the parts of described work, without the steps that fill temporary arrays with zeros."""
    for step in work.steps:
        if step.work.excess is not None:  # of a grid in memory; what an earlier call has left is no part of this one
            step.work.excess.upload(bytes(step.work.excess.nbytes))
    found: BoundParts = []
    for part in (work.first, *work.parts):
        left_out = 0 if found else work.cleared
        pairs = list(zip(part.steps, part.stated, strict=True))[left_out:]
        found.append(([(each.step, tuple([at - left_out for at in before])) for each, before in pairs], part.times))
    return found


class _Span:
    """The bytes of an allocation that steps bind: from ``begin`` to ``end``."""

    def __init__(self, number: int, root: ResidentBuffer) -> None:
        self.root, self.begin, self.end = root, root.nbytes, 0
        self.name: Final = f"memory {number}" + (f" ({root.label})" if root.label else "")
        self.number: Final = number
        self.elements: Final[set[str]] = set()
        self.is_written = False

    def content(self, data: bytes) -> tuple[str, str, bytes]:
        """Returns a content as bundles hold it, with the type that all buffers have which are bound to it, or bytes."""
        return self.name, next(iter(self.elements)) if len(self.elements) == 1 else "u8", data


class WorkRecording:
    """The records of what steps run and bind; buffers in ``own`` belong to a queue and are left out.

    ``programs`` has a number for the text of each program, and ``host`` all data of the host, each once.
    """

    def __init__(self, parts: BoundParts, flag: ResidentBuffer | None, own: frozenset[str]) -> None:
        self._own = own
        self.programs: Final[dict[str, int]] = {}
        self.host: Final = bytearray()
        self.temporaries: Final[dict[int, TemporaryBuffer]] = {}
        self.spans: Final[dict[int, _Span]] = {}
        self._text: Final = cache(Program.to_text)
        self._begins: Final[dict[bytes, int]] = {}
        for steps, _ in parts:
            for step, _ in steps:
                for buffer, held in zip(self._buffers(step.program), step.resources, strict=True):
                    self._bind(held, buffer.element.text, writes=buffer.is_writable)
        if flag is not None:
            self._bind(flag, "u32", writes=True)

    def _buffers(self, program: Program) -> list[Buffer]:
        return [buffer for buffer in program.abi_buffers if buffer.name not in self._own]

    def _bind(self, held: Resource, element: str, *, writes: bool) -> None:
        if isinstance(held, TemporaryBuffer):
            self.temporaries[id(held)] = held
        elif isinstance(held, ResidentBuffer):
            span = self.spans.setdefault(id(held.root), _Span(len(self.spans), held.root))
            span.begin, span.end = min(span.begin, held.offset), max(span.end, held.offset + held.nbytes)
            span.elements.add(element)
            span.is_written |= writes

    def on_host(self, data: bytes) -> records.HostPart:
        """Returns the place of data of the host."""
        begin = self._begins.setdefault(data, len(self.host))
        if begin == len(self.host):
            self.host.extend(data)
        return records.HostPart(begin, len(data))

    def in_memory(self, part: ResidentBuffer) -> records.MemoryPart:
        """Returns the place of a part of memory."""
        span = self.spans[id(part.root)]
        return records.MemoryPart(span.number, part.offset - span.begin, part.nbytes)

    def parts(self, parts: BoundParts) -> tuple[records.RecordedPart, ...]:
        """Returns the records of parts."""
        return tuple([records.RecordedPart(tuple([self._step(*s) for s in steps]), n) for steps, n in parts if steps])

    def _step(self, step: ResidentStep, after: tuple[int, ...]) -> records.RecordedStep:
        number = self.programs.setdefault(self._text(step.program), len(self.programs))
        names = [buffer.name for buffer in self._buffers(step.program)]
        bound = dict(zip(names, map(self._bound, step.resources), strict=True))
        return records.RecordedStep(number, config_fields(step.config), bound, after)

    def _bound(self, held: Resource) -> records.BoundPart:
        if isinstance(held, TemporaryBuffer):
            return records.TemporaryPart(list(self.temporaries).index(id(held)))
        return self.in_memory(held) if isinstance(held, ResidentBuffer) else self.on_host(bytes(held))


def record_work(
    path: Path | str,
    lease: BackendLease,
    journal: DecisionJournal | None,
    parts: BoundParts,
    run: Callable[[], tuple[DispatchTiming, Mapping[str, int]]],
    call: Callable[[WorkRecording], records.Call],
    flag: ResidentBuffer | None = None,
    own: frozenset[str] = frozenset(),
) -> records.Evidence:
    """Runs work once by ``run``, which returns the times and what was counted, and writes what it comes to.

    ``call`` returns how it was called, and is asked when it has ended.  Raises what the run raises, unless the program
    causes it, ``InvalidInput`` for more bytes than a bundle holds, and ``UnreadableFile``.
    """
    path = path_of("path", path)
    lease.check_open()
    lease.wait_for(None)
    recording, files, by = WorkRecording(parts, flag, own), BundleFiles(), str(lease.backend.id)
    spans = list(recording.spans.values())
    before, failure, timings = _contents(lease, spans), None, list[DispatchTiming]()
    counters: Mapping[str, int] = {}
    try:
        timing, counters = run()
        timings.append(timing)
    except PROGRAM_ERRORS as error:
        failure = failure_of(error)
    first, rounds, called = recording.parts(parts[:1]), recording.parts(parts[1:]), call(recording)
    programs = [files.kept(f"programs/{at}.vyre", text.encode()) for at, text in enumerate(recording.programs)]
    host, held = files.kept("host.bin", bytes(recording.host)), files.slots("memory", before)
    if failure is not None:
        got = files.failed("outputs", by, failure)
    else:
        after = _contents(lease, [span for span in spans if span.is_written])
        got = records.Answer(by, files.slots("outputs", after), None)
    noted = Noted.of(journal)
    work = records.RecordedWork(
        programs=tuple(programs),
        host=host,
        memory=tuple([records.RecordedMemory(each, span.begin) for each, span in zip(held, spans, strict=True)]),
        temporaries=tuple([each.nbytes for each in recording.temporaries.values()]),
        first=first,
        parts=rounds,
        call=called,
        got=got,
        counters=counters,
        timings=tuple(map(run_timing, timings)),
        decisions=files.decisions(noted),
        dropped=noted.dropped,
        digest="",
    )
    with lease.within():
        evidence = replace(evidence_on(lease.backend, None, None), work=replace(work, digest=work_digest(work)))
    write_file(path, evidence, files)
    return evidence


def _contents(lease: BackendLease, spans: list[_Span]) -> list[tuple[str, str, bytes]]:
    """Returns the content of memory now."""
    found = [bytearray(span.end - span.begin) for span in spans]
    reads = [Readback(s.root, memoryview(data), s.begin) for s, data in zip(spans, found, strict=True) if data]
    if reads:
        lease.backend.require_memory().download(reads)
    return [span.content(bytes(data)) for span, data in zip(spans, found, strict=True)]
