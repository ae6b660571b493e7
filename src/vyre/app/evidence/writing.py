"""Writes evidence bundles."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Final, NamedTuple, TypeAlias

from vyre.adapters.evidence_files import content_of
from vyre.adapters.evidence_files import write_bundle as write_file
from vyre.adapters.policy_sources import version_of
from vyre.app.evidence.provenance import device_of, empty_evidence, packages_of
from vyre.app.journal import DecisionJournal
from vyre.domain.arguments import path_of
from vyre.domain.dispatch import DispatchConfig, DispatchTiming
from vyre.domain.errors import InvalidInput
from vyre.domain.evidence.config_fields import config_fields
from vyre.domain.evidence.failures import Failure, failure_bytes
from vyre.domain.evidence.records import (
    DISPATCH,
    Answer,
    BufferContent,
    Content,
    Evidence,
    RecordedRun,
    RecordedWork,
    RunTiming,
)
from vyre.domain.ir.buffers import Buffer, outputs_of
from vyre.domain.ir.program import Program
from vyre.policies.decision_records import to_lines
from vyre.policies.journal import Decision
from vyre.ports.backend import Backend, BackendCatalog
from vyre.ports.provenance import SourceRepository

PROGRAM: Final = "program.vyre"
DECISIONS: Final = "decisions.jsonl"
ERROR: Final = "error.json"
Outcome: TypeAlias = Mapping[str, bytes] | Failure
"""The outcome of a run: the bytes of all that it returns, by buffer name, or the error of the program that ends it."""


class Noted(NamedTuple):
    """Decisions that belong to a run, and the number of those that the journal no longer held."""

    decisions: Iterable[Decision] = ()
    dropped: int = 0

    @classmethod
    def of(cls, journal: DecisionJournal | None) -> Noted:
        """Returns what a journal holds; nothing for None."""
        return cls() if journal is None else cls(journal.decisions, journal.dropped)


def write_bundle(
    path: Path | str,
    program: Program,
    inputs: Mapping[str, bytes],
    got: Outcome,
    *,
    config: DispatchConfig,
    backend: Backend,
    resident: Mapping[str, int] = MappingProxyType({}),
    expected: Outcome | None = None,
    expected_by: str = "reference",
    timings: Sequence[DispatchTiming] = (),
    noted: Noted | None = None,
    way: str = DISPATCH,
    catalog: BackendCatalog | None = None,
    repository: SourceRepository | None = None,
) -> Evidence:
    """Writes the evidence of a run that has ended, and returns its manifest.

    ``inputs`` holds the bytes of every buffer that a caller passes, ``got`` what came out on ``backend``, and
    ``expected`` what should have come out according to ``expected_by``; None where nothing else ran.  A buffer that is
    passed in and returned is in both.  ``resident`` names the buffers that were bound to resident memory, each with the
    byte of the allocation at which its part began; ``inputs`` has their content before the run, and an answer that of
    the whole part after it.  The program is valid, and calls no operation whose definition lies elsewhere.  ``way`` as
    in ``RecordedRun``.  Raises ``InvalidInput`` for names that are not those of the program, and ``UnreadableFile``.
    """
    files = BundleFiles()

    def slots(folder: str, buffers: Sequence[Buffer], contents: Mapping[str, bytes]) -> tuple[BufferContent, ...]:
        names = [buffer.name for buffer in buffers]
        if contents.keys() != set(names):
            raise InvalidInput(f"{folder} has {sorted(contents)}", fix=f"give the bytes of {names}.")
        return files.slots(folder, [(buffer.name, buffer.element.text, contents[buffer.name]) for buffer in buffers])

    def answer(folder: str, by: str, outcome: Outcome) -> Answer:
        if isinstance(outcome, Failure):
            return files.failed(folder, by, outcome)
        return Answer(by, slots(folder, outputs_of(program.abi_buffers), outcome), None)

    program_file = files.kept(PROGRAM, program.to_text().encode())
    input_slots = slots("inputs", given_of(program, resident), inputs)
    first = answer("outputs", str(backend.id), got)
    other = None if expected is None else answer("expected", expected_by, expected)
    noted = noted or Noted()
    run = RecordedRun(
        name=program.name,
        digest=program.digest.hex(),
        program=program_file,
        inputs_digest=inputs_digest(input_slots, resident, way),
        inputs=input_slots,
        resident=dict(resident),
        config=config_fields(config),
        got=first,
        expected=other,
        timings=tuple(map(run_timing, timings)),
        decisions=files.decisions(noted),
        dropped=noted.dropped,
        way=way,
    )
    evidence = replace(evidence_on(backend, catalog, repository), run=run)
    write_file(path_of("path", path), evidence, files)
    return evidence


class BundleFiles(dict[str, bytes]):
    """The files of a bundle that is written, by path."""

    def kept(self, name: str, data: bytes) -> Content:
        """Adds a file, and returns how a manifest names it."""
        self[name] = data
        return content_of(name, data)

    def slots(self, folder: str, contents: Iterable[tuple[str, str, bytes]]) -> tuple[BufferContent, ...]:
        """Adds the contents of buffers, each with the name, the type of its elements, and its bytes."""
        return tuple(
            BufferContent(name, element, self.kept(f"{folder}/{place}.bin", bytes(data)))
            for place, (name, element, data) in enumerate(contents)
        )

    def failed(self, folder: str, by: str, failure: Failure) -> Answer:
        """Adds the error of a program that ended a run."""
        return Answer(by, (), self.kept(f"{folder}/{ERROR}", failure_bytes(failure)))

    def decisions(self, noted: Noted) -> Content | None:
        """Adds the decisions that belong to a run, if there are any."""
        lines = to_lines(noted.decisions, version_of).encode()
        return self.kept(DECISIONS, lines) if lines else None


def evidence_on(backend: Backend, catalog: BackendCatalog | None, repository: SourceRepository | None) -> Evidence:
    """Returns a manifest that describes a backend, now."""
    evidence = empty_evidence(packages_of(str(backend.id), catalog), repository)
    return replace(evidence, device=device_of(backend, catalog))


def run_timing(timing: DispatchTiming) -> RunTiming:
    """Returns the durations of a run as they are recorded."""
    return RunTiming(timing.wall_ns, timing.device_ns, timing.enqueue_ns, timing.wait_ns)


def given_of(program: Program, resident: Collection[str]) -> tuple[Buffer, ...]:
    """Returns the buffers whose content before a run is recorded, in binding order: inputs, and all in ``resident``."""
    return tuple([buffer for buffer in program.abi_buffers if buffer.takes_input or buffer.name in resident])


def inputs_digest(slots: Sequence[BufferContent], resident: Mapping[str, int], way: str = DISPATCH) -> str:
    """Returns the digest of all inputs together: of their names, sizes and digests, of where they were resident, and of
    the way in which the program was run, if that is no dispatch.
    """
    fields: list[object] = [[slot.name, slot.content.nbytes, slot.content.blake3] for slot in slots]
    if resident:
        fields.append(sorted(map(list, resident.items())))
    if way != DISPATCH:
        fields.append(way)
    return _digest(fields)


def work_digest(work: RecordedWork) -> str:
    """Returns the digest of all fields of recorded work but its own."""
    from vyre.domain.value_json import to_json

    return _digest(to_json(replace(work, digest="")))


def _digest(document: object) -> str:
    from blake3 import blake3

    from vyre.domain.strict_json import canonical

    return blake3(canonical(document).encode()).hexdigest()
