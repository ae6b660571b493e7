"""Runs the program of a bundle again and compares the bytes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from vyre.app.evidence.bundle import EvidenceBundle, read_evidence
from vyre.app.opening import open as open_session
from vyre.app.session import Session
from vyre.domain.dispatch import OutputArena
from vyre.domain.evidence.differences import Difference, Returned, differences
from vyre.domain.evidence.records import Answer


@dataclass(frozen=True, slots=True)
class EvidenceReplay:
    """The outcome of running a bundle's program again.

    ``backend`` ran it now, ``recorded`` gave the answer in the bundle.  ``expected_by`` says whose answer was compared:
    the recorded backend's, or that of the other one whose answer it should have given.  ``differences`` holds the first
    difference of every buffer that differs from it.  ``as_recorded`` says whether the bytes are those that the recorded
    backend gave; where the bundle holds a wrong answer, it is True if the backend is still wrong in the same way.
    """

    backend: str
    recorded: str
    expected_by: str
    differences: tuple[Difference, ...]
    as_recorded: bool

    @property
    def ok(self) -> bool:
        """Whether no byte differs."""
        return not self.differences


def replay_evidence(path: Path | str, backend: str | None = None) -> EvidenceReplay:
    """Runs the program of a bundle again on its backend, or on ``backend``, and compares the bytes.

    Raises what ``read_evidence`` raises, ``BackendUnavailable``, and what the run raises.
    """
    bundle = read_evidence(path)
    with open_session(bundle.run.got.by if backend is None else backend) as session:
        return replay_on(session, bundle)


def replay_on(session: Session, bundle: EvidenceBundle) -> EvidenceReplay:
    """Runs the program of a bundle again on an open session; raises what the run raises."""
    run, program = bundle.run, bundle.program
    pipeline = session.compile(program, bundle.config)
    arena = OutputArena()
    pipeline.fill([memoryview(bundle.bytes_of(slot)) for slot in run.inputs], arena)
    found = Returned.of(program, dict(zip((slot.name for slot in run.got.slots), arena.to_bytes(), strict=True)))
    got = _returned(bundle, run.got)
    answer = run.got if run.expected is None else run.expected
    right = _returned(bundle, answer)
    return EvidenceReplay(
        pipeline.backend, run.got.by, answer.by, tuple(differences(right, found)), not any(differences(got, found))
    )


def _returned(bundle: EvidenceBundle, answer: Answer) -> tuple[Returned, ...]:
    return Returned.of(bundle.program, {slot.name: bundle.bytes_of(slot) for slot in answer.slots})
