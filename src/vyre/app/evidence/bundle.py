"""Reads evidence bundles, and checks that what they say belongs together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

from vyre.adapters.evidence_files import Stored, read_bundle
from vyre.app.evidence.claims import refused_claims
from vyre.app.evidence.writing import Outcome, given_of, inputs_digest
from vyre.domain.arguments import path_of
from vyre.domain.cached import cached_property
from vyre.domain.dispatch import DispatchConfig
from vyre.domain.errors import MalformedBundle, MalformedJson, VyreError
from vyre.domain.evidence.config_fields import config_of
from vyre.domain.evidence.failures import failure_from
from vyre.domain.evidence.records import (
    DISPATCH,
    PERSISTENT,
    Answer,
    BufferContent,
    Evidence,
    FixedPointCall,
    QueueCall,
    RecordedRun,
    RecordedWork,
    SequenceCall,
    SpeculationCall,
)
from vyre.domain.ir.buffers import Buffer, outputs_of
from vyre.domain.ir.program import Program
from vyre.domain.validation.validator import check_rules
from vyre.policies.decision_records import DecisionRecord, from_lines

T = TypeVar("T")
_KINDS: Final = {
    SequenceCall: "sequence",
    FixedPointCall: "fixed point",
    QueueCall: "work queue",
    SpeculationCall: "speculation",
}
_FIX: Final = "use the file as it was written, or write the evidence again."


@dataclass(frozen=True)
class EvidenceBundle:
    """A bundle that was read and checked.

    ``evidence`` is its manifest.  ``recorded`` is what was run: the ``run`` of a program, with ``program`` and
    ``config``, or ``work`` of several steps, with ``programs``.  They and ``decisions`` raise ``MalformedBundle`` where
    the bundle has none.
    """

    evidence: Evidence
    files: Mapping[str, bytes]

    @cached_property
    def program(self) -> Program:
        """The program of the run."""
        text = self.files[self.run.program.path].decode("utf-8", "surrogatepass")
        return Program.from_text(text, self.run.program.path)

    @cached_property
    def config(self) -> DispatchConfig:
        """The configuration of the run."""
        return config_of(self.run.config)

    @cached_property
    def programs(self) -> tuple[Program, ...]:
        """The programs of the recorded work, or that of the run."""
        if (work := self.evidence.work) is None:
            return (self.program,)
        texts = [self.files[each.path].decode("utf-8", "surrogatepass") for each in work.programs]
        return tuple([Program.from_text(text, each.path) for text, each in zip(texts, work.programs, strict=True)])

    @cached_property
    def decisions(self) -> tuple[DecisionRecord, ...]:
        """The recorded decisions, oldest first."""
        path = self.recorded.decisions
        return () if path is None else from_lines(self.files[path.path].decode())

    @property
    def run(self) -> RecordedRun:
        """The recorded run of one program."""
        return _held(self.evidence.run, "run of one program")

    @property
    def work(self) -> RecordedWork:
        """The recorded sequence, fixed point or work queue."""
        return _held(self.evidence.work, "sequence, fixed point or work queue")

    @property
    def recorded(self) -> RecordedRun | RecordedWork:
        """The recorded run, or the recorded work."""
        return self.work if self.evidence.work is not None else self.run

    @property
    def way(self) -> str:
        """The way to run: "dispatch" or "persistent" of a program, "sequence", "fixed point" or "work queue"."""
        return self.run.way if self.evidence.work is None else _KINDS[type(self.work.call)]

    @property
    def title(self) -> str | None:
        """The name of the program that was run, or what was run with the names of all programs."""
        if self.evidence.work is None:
            return self.run.name
        return f"{self.way} of {', '.join(each.name or 'unnamed' for each in self.programs)}"

    def bytes_of(self, slot: BufferContent) -> bytes:
        """Returns the content of a buffer."""
        return self.files[slot.content.path]

    def outcome(self, answer: Answer) -> Outcome:
        """Returns what the run of an answer came to: the content of what it returned, or the error of the program."""
        if answer.error is not None:
            return failure_from(self.files[answer.error.path])
        return {slot.name: self.bytes_of(slot) for slot in answer.slots}


def read_evidence(path: Path | str) -> EvidenceBundle:
    """Reads a bundle of ``Session.write_evidence`` or ``make bench``; every file in it is checked.

    Raises ``UnreadableFile``, and ``MalformedBundle`` for a file that is not, or no longer, the bundle that was
    written, and for one that claims what it did not measure.
    """
    path = path_of("path", path)
    return checked(read_bundle(path), str(path))


def checked(stored: Stored, title: str) -> EvidenceBundle:
    """Returns the bundle, if its parts belong together; raises ``MalformedBundle``, which begins with ``title``."""
    bundle = EvidenceBundle(stored.evidence, stored.files)
    try:
        problem = next(_problems(bundle), None)
    except UnicodeDecodeError as error:
        problem = f"a text in it is no UTF-8 ({error.reason} at byte {error.start})"
    except MalformedJson as error:
        problem = f"the decisions or an error in it are refused: {error.message}"
    except VyreError as error:
        problem = f"the program or its config is refused: {error.message}"
    if problem is not None:
        raise MalformedBundle(f"{title}: {problem}", fix=_FIX)
    return bundle


def _held(part: T | None, what: str) -> T:
    if part is None:
        raise MalformedBundle(
            f"the evidence holds no {what}", fix="name a bundle of one; `evidence` says what is held."
        )
    return part


def _problems(bundle: EvidenceBundle) -> Iterator[str]:
    for refusal in refused_claims(bundle.evidence):
        yield f"it claims what was not measured: {refusal}"
    run, work, device = bundle.evidence.run, bundle.evidence.work, bundle.evidence.device
    if run is None and work is None:
        return
    if device is None or device.backend != bundle.recorded.got.by:
        yield "it does not describe the backend that gave the answer"
    yield from (f"a program is invalid: {r.errors[0].message}" for r in map(check_rules, bundle.programs) if not r.ok)
    if run is not None:
        yield from _run_problems(bundle, run)
    if work is not None:
        from vyre.app.evidence.work_checks import problems_of  # needs sequences, fixed points and work queues

        if run is not None:
            yield "it holds the run of a program and other work"
        yield from problems_of(work, bundle.programs)
        _ = bundle.outcome(work.got)
    _ = bundle.decisions


def _run_problems(bundle: EvidenceBundle, run: RecordedRun) -> Iterator[str]:
    program = bundle.program
    if program.digest.hex() != run.digest or program.name != run.name:
        yield f"`{run.program.path}` is another program than the manifest names"
    bound = {buffer.name for buffer in program.abi_buffers if not buffer.is_push}
    if not run.resident.keys() <= bound or any(place < 0 for place in run.resident.values()):
        yield "what was resident are no buffers of the program, or not at places in memory"
    taken, returned = given_of(program, run.resident), outputs_of(program.abi_buffers)
    sides: list[tuple[str, tuple[Buffer, ...], tuple[BufferContent, ...]]] = [("inputs", taken, run.inputs)]
    sides += [
        (f"answer of {answer.by}", returned if answer.error is None else (), answer.slots) for answer in run.answers
    ]
    for title, buffers, slots in sides:
        if [(b.name, b.element.text) for b in buffers] != [(slot.name, slot.element) for slot in slots]:
            yield f"the {title} are not those of the program"
    if inputs_digest(run.inputs, run.resident, run.way) != run.inputs_digest:
        yield "the digest of the inputs is not that of the inputs in it"
    if run.way not in (DISPATCH, PERSISTENT) or (run.way == PERSISTENT and run.resident):
        yield "its program was run in no way that there is"
    _ = (bundle.config, [bundle.outcome(answer) for answer in run.answers])
