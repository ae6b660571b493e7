"""Writes evidence bundles."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, NamedTuple

from vyre.adapters.evidence_files import content_of
from vyre.adapters.evidence_files import write_bundle as write_file
from vyre.adapters.policy_sources import version_of
from vyre.app.evidence.provenance import device_of, empty_evidence, packages_of
from vyre.app.journal import DecisionJournal
from vyre.app.pipeline import Inputs, Pipeline
from vyre.app.resident_dispatch import has_resident
from vyre.domain.arguments import path_of
from vyre.domain.dispatch import DispatchConfig, DispatchTiming, OutputArena
from vyre.domain.errors import InvalidConfig, InvalidInput
from vyre.domain.evidence.config_fields import config_fields
from vyre.domain.evidence.records import Answer, Content, Evidence, RecordedRun, RunTiming, Slot
from vyre.domain.ir.buffers import Buffer
from vyre.domain.ir.program import Program
from vyre.domain.shown import shown
from vyre.policies.journal import Decision, to_lines
from vyre.ports.backend import Backend, BackendCatalog
from vyre.ports.provenance import SourceRepository

PROGRAM: Final = "program.vyre"
DECISIONS: Final = "decisions.jsonl"
MAX_RUNS: Final = 10_000


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
    got: Mapping[str, bytes],
    *,
    config: DispatchConfig,
    backend: Backend,
    expected: Mapping[str, bytes] | None = None,
    expected_by: str = "reference",
    timings: Sequence[DispatchTiming] = (),
    noted: Noted | None = None,
    catalog: BackendCatalog | None = None,
    repository: SourceRepository | None = None,
) -> Evidence:
    """Writes the evidence of a run that has ended, and returns its manifest.

    ``inputs`` holds the bytes of every buffer that a caller passes, ``got`` those that ``backend`` returned, and
    ``expected`` those that it should have returned according to ``expected_by``; None where nothing else ran.  A buffer
    that is passed in and returned is in both.  The program is valid, and calls no operation whose definition lies
    elsewhere.  Raises ``InvalidInput`` for names that are not those of the program, and ``UnreadableFile``.
    """
    files: dict[str, bytes] = {}

    def kept(name: str, data: bytes) -> Content:
        files[name] = data
        return content_of(name, data)

    def slots(folder: str, buffers: Sequence[Buffer], given: Mapping[str, bytes]) -> tuple[Slot, ...]:
        names = [buffer.name for buffer in buffers]
        if given.keys() != set(names):
            raise InvalidInput(f"{folder} has {sorted(given)}", fix=f"give the bytes of {names}.")
        return tuple(
            Slot(buffer.name, buffer.element.text, kept(f"{folder}/{place}.bin", bytes(given[buffer.name])))
            for place, buffer in enumerate(buffers)
        )

    taken, returned = inputs_of(program), outputs_of(program)
    program_file = kept(PROGRAM, program.to_text().encode())
    given = slots("inputs", taken, inputs)
    answer = Answer(str(backend.id), slots("outputs", returned, got))
    other = None if expected is None else Answer(expected_by, slots("expected", returned, expected))
    noted = noted or Noted()
    lines = to_lines(noted.decisions, version_of).encode()
    run = RecordedRun(
        name=program.name,
        digest=program.digest.hex(),
        program=program_file,
        inputs_digest=inputs_digest(given),
        inputs=given,
        config=config_fields(config),
        got=answer,
        expected=other,
        timings=tuple(RunTiming(t.wall_ns, t.device_ns, t.enqueue_ns, t.wait_ns) for t in timings),
        decisions=kept(DECISIONS, lines) if lines else None,
        dropped=noted.dropped,
    )
    evidence = replace(
        empty_evidence(packages_of(str(backend.id), catalog), repository), device=device_of(backend, catalog), run=run
    )
    write_file(path_of("path", path), evidence, files)
    return evidence


def record_run(
    path: Path | str,
    pipeline: Pipeline,
    inputs: Inputs,
    runs: int,
    journal: DecisionJournal | None,
) -> Evidence:
    """Implements ``Session.write_evidence`` for a compiled program."""
    if type(runs) is not int or not 1 <= runs <= MAX_RUNS:
        raise InvalidConfig(f"runs={shown(runs)} is no number of runs", fix=f"give an int from 1 to {MAX_RUNS}.")
    path = path_of("path", path)
    if has_resident(inputs):
        raise InvalidInput("evidence holds bytes of the host, not resident memory", fix="pass what `download` returns.")
    program = pipeline.program
    views = pipeline.snapshot(inputs)
    given = {buffer.name: bytes(view) for buffer, view in zip(inputs_of(program), views, strict=True)}
    first: tuple[bytes, ...] | None = None
    arena, timings = OutputArena(), []
    for number in range(runs):
        pipeline.fill(views, arena)
        timings.append(pipeline.timings[-1])
        found = arena.to_bytes()
        if first is not None and found != first:
            raise InvalidInput(
                f"run {number + 1} of `{program.name or 'the program'}` gave other bytes than the first one",
                fix="record one run, or make the program independent of the order of its lanes.",
            )
        first = found
    assert first is not None
    got = {buffer.name: data for buffer, data in zip(outputs_of(program), first, strict=True)}
    return write_bundle(
        path,
        program,
        given,
        got,
        config=pipeline.config,
        backend=pipeline.on,
        timings=timings,
        noted=Noted.of(journal),
    )


def inputs_digest(slots: Sequence[Slot]) -> str:
    """Returns the digest of all inputs together: of their names, sizes and digests."""
    from blake3 import blake3

    from vyre.domain.value_json import canonical

    return blake3(canonical([[s.name, s.content.nbytes, s.content.blake3] for s in slots]).encode()).hexdigest()


def inputs_of(program: Program) -> tuple[Buffer, ...]:
    """Returns the buffers whose bytes a caller passes, in binding order."""
    return tuple(buffer for buffer in program.abi_buffers if buffer.takes_input)


def outputs_of(program: Program) -> tuple[Buffer, ...]:
    """Returns the buffers whose bytes a run returns, in binding order."""
    return tuple(buffer for buffer in program.abi_buffers if buffer.is_returned)
