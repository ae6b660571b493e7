"""The contents of an evidence bundle: what ran, on which machine, with which bytes and outcome, and what was measured.

    bundle = read_evidence("run.vyre-evidence")
    bundle.evidence.device.name, bundle.run.digest

``vyre`` exports the functions that write, read and replay bundles.  docs/evidence.md describes the file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

# fmt: off
# isort: off
if TYPE_CHECKING:
    from vyre.app.evidence.bundle import EvidenceBundle as EvidenceBundle, read_evidence as read_evidence
    from vyre.app.evidence.claims import JudgedClaim as JudgedClaim
    from vyre.app.evidence.replaying import (
        EndDifference as EndDifference, EvidenceReplay as EvidenceReplay, replay_evidence as replay_evidence,
    )
    from vyre.domain.evidence.differences import OutputDifference as OutputDifference
    from vyre.domain.evidence.failures import (
        Failure as Failure, GridExceeded as GridExceeded, QueueFull as QueueFull, RacesFound as RacesFound,
        RecordedAccess as RecordedAccess, RecordedRace as RecordedRace, StepsExhausted as StepsExhausted,
        Trapped as Trapped,
    )
    from vyre.domain.evidence.provenance import GitFacts as GitFacts, SourceState as SourceState
    from vyre.domain.evidence.records import (
        Answer as Answer, BufferContent as BufferContent, Content as Content, Device as Device,
        Environment as Environment, Evidence as Evidence, FixedPointCall as FixedPointCall, Measurement as Measurement,
        MemoryPart as MemoryPart, QueueCall as QueueCall, RecordedMemory as RecordedMemory,
        RecordedPart as RecordedPart, RecordedRun as RecordedRun, RecordedStep as RecordedStep,
        RecordedWork as RecordedWork, RunTiming as RunTiming, SequenceCall as SequenceCall, Side as Side,
        SpeculationCall as SpeculationCall, SpeedClaim as SpeedClaim,
    )
else:  # so that type checkers refuse names that do not exist
    from vyre.exporting import exports

    __all__, __getattr__, __dir__ = exports(__name__)
# isort: on
# fmt: on
