"""Runs the program of a bundle again and compares what it comes to."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from vyre.app.evidence.bundle import EvidenceBundle, read_evidence
from vyre.app.evidence.recording import HostRun, JobRun, Recorder, ResidentRun, attempt
from vyre.app.evidence.work_replaying import memory_at, run_again
from vyre.app.evidence.writing import Outcome
from vyre.app.opening import open as open_session
from vyre.app.pipeline import Pipeline
from vyre.app.resident_dispatch import Arguments
from vyre.app.session import Session
from vyre.domain.evidence.differences import OutputDifference, Returned, differences
from vyre.domain.evidence.failures import Failure
from vyre.domain.evidence.records import PERSISTENT, RecordedRun
from vyre.domain.frozen import frozen
from vyre.domain.ir.types import SCALAR_BY_TEXT


class EndDifference(NamedTuple):
    """Two runs that did not end in the same way: at least one ended in an error of the program, or they counted other
    numbers, such as rounds.

    Each is the error as text, with its class and code, or the numbers; None for a run that only returned its outputs.
    """

    expected: str | None
    found: str | None

    def __str__(self) -> str:
        was, is_ = ("no error" if text is None else text for text in self)
        return f"the run ends in {is_}, expected was {was}"


@frozen
class EvidenceReplay:
    """The outcome of running again what a bundle holds.

    ``backend`` ran it now, ``recorded`` gave the answer in the bundle.  ``expected_by`` says whose answer was compared:
    the recorded backend's, or that of the other one whose answer it should have given.  ``differences`` holds the first
    difference of every buffer that differs from it.  ``as_recorded`` says whether the run came to what the recorded
    backend gave; where the bundle holds a wrong answer, it is True if the backend is still wrong in the same way.
    ``end`` tells where one of the runs ended in an error of the program, and the other did not, or in another one;
    None where both ended in the same way.
    """

    backend: str
    recorded: str
    expected_by: str
    differences: tuple[OutputDifference, ...]
    as_recorded: bool
    end: EndDifference | None = None

    @property
    def ok(self) -> bool:
        """Whether no byte differs, and the run ended as it should."""
        return not self.differences and self.end is None


def replay_evidence(path: Path | str, backend: str | None = None) -> EvidenceReplay:
    """Runs again on its backend, or on ``backend``, what a bundle holds: the run of a program, or a whole sequence,
    fixed point or work queue.  Compares what it comes to: the bytes, or the error of a program in which it ends.

    Raises what ``read_evidence`` raises, ``BackendUnavailable``, ``UnsupportedFeature`` for a run on resident memory
    on a backend without it, and every error of the run that the program itself does not cause.
    """
    bundle = read_evidence(path)
    with open_session(bundle.recorded.got.by if backend is None else backend) as session:
        return replay_on(session, bundle)


def replay_on(session: Session, bundle: EvidenceBundle) -> EvidenceReplay:
    """Runs what a bundle holds again on an open session; raises what the run raises."""
    if bundle.evidence.work is not None:
        work = bundle.work
        outcome, counters = run_again(session, bundle)
        apart, end = _compared(bundle, bundle.outcome(work.got), outcome)
        if end is None and counters != work.counters:
            end = EndDifference(*(", ".join(f"{n}={c}" for n, c in each.items()) for each in (work.counters, counters)))
        return EvidenceReplay(str(session.backend), work.got.by, work.got.by, apart, (apart, end) == ((), None), end)
    run = bundle.run
    pipeline = session.compile(bundle.program, bundle.config)
    inputs = {slot.name: bundle.bytes_of(slot) for slot in run.inputs}
    with ExitStack() as stack:
        _, again = attempt(_recorder_again(session, pipeline, inputs, run, stack))
    apart, end = _compared(bundle, bundle.outcome(run.due), again)
    recorded = (apart, end) if run.expected is None else _compared(bundle, bundle.outcome(run.got), again)
    return EvidenceReplay(pipeline.backend, run.got.by, run.due.by, apart, recorded == ((), None), end)


def _recorder_again(
    session: Session, pipeline: Pipeline, inputs: Mapping[str, bytes], run: RecordedRun, stack: ExitStack
) -> Recorder:
    """Returns the recorder of a recorded run; what was resident is so again, for as long as ``stack`` lasts.

    A job of a program that is kept running is a dispatch where no program is.
    """
    if run.way == PERSISTENT and pipeline.on.persistent is not None:
        jobs = stack.enter_context(session.persistent(pipeline.program, config=pipeline.config))
        return JobRun(jobs.submit, jobs.outputs, inputs)
    if not run.resident:
        return HostRun(pipeline, inputs)
    arrays = {name: memory_at(session, inputs[name], place, name, stack) for name, place in run.resident.items()}
    host = {name: data for name, data in inputs.items() if name not in run.resident}
    return ResidentRun(pipeline, Arguments(host, arrays))


def _compared(
    bundle: EvidenceBundle, right: Outcome, actual: Outcome
) -> tuple[tuple[OutputDifference, ...], EndDifference | None]:
    """Returns how a run differs from what it should come to."""
    if isinstance(right, Failure) or isinstance(actual, Failure):
        if isinstance(right, Failure) and isinstance(actual, Failure) and right.repeats(actual):
            return (), None
        was, is_ = (str(each) if isinstance(each, Failure) else None for each in (right, actual))
        return (), EndDifference(was, is_)
    if bundle.evidence.work is None:
        sides = [Returned.of(bundle.program, each, bundle.run.resident) for each in (right, actual)]
    else:
        sizes = {slot.name: SCALAR_BY_TEXT[slot.element].size for slot in bundle.work.got.slots}
        sides = [
            tuple([Returned(slot, name, size, each[name]) for slot, (name, size) in enumerate(sizes.items())])
            for each in (right, actual)
        ]
    return tuple(differences(*sides)), None
