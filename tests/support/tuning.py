"""Tuning under test: keys and records that are told apart by numbers."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from hypothesis import strategies as st

from vyre.adapters.disk.file_operations import REAL_FILES, FileOperations
from vyre.adapters.disk.tuning_store import DiskTuningStore
from vyre.domain.tuning import Candidate, TimeKind, TuningKey, TuningRecord
from vyre.testing.recording_telemetry import RecordingTelemetry


def tuning_key(program: int = 0, **changes: Any) -> TuningKey:
    values: dict[str, Any] = {
        "program": f"{program:064x}",
        "spec": "",
        "bucket": 10,
        "backend": "cuda",
        "device": "a device",
        "driver": "13.0",
        "versions": "vyre 1",
        "declared": (64, 1, 1),
    }
    return TuningKey(**values | changes)


def tuning_record(number: int = 0, **changes: Any) -> TuningRecord:
    """The only candidate of a run of its own."""
    values: dict[str, Any] = {
        "key": tuning_key(),
        "candidate": Candidate(64),
        "kind": TimeKind.DEVICE,
        "run": f"run {number}",
        "place": 0,
        "of": 1,
        "samples": (100 + number, 101),
        "matched": True,
        "at_s": 1_000 + number,
    }
    return TuningRecord(**values | changes)


KEYS: Final = st.builds(tuning_key, st.integers(0, 1), bucket=st.integers(9, 10))
CANDIDATES: Final = st.builds(Candidate, st.sampled_from((32, 64)), st.sampled_from(("", "no_vectors")))
RECORDS: Final = st.builds(
    tuning_record,
    key=KEYS,
    candidate=CANDIDATES,
    kind=st.sampled_from(TimeKind),
    run=st.sampled_from("abc"),
    place=st.integers(0, 1),
    of=st.integers(2, 3),
    samples=st.lists(st.integers(1, 3), max_size=2).map(tuple),
    at_s=st.integers(0, 3),
)
"""So few values that records meet in each field, and in all."""


def tuning_store(
    root: Path,
    *,
    telemetry: RecordingTelemetry | None = None,
    files: FileOperations = REAL_FILES,
    now_ns: Callable[[], int] = time.time_ns,
) -> DiskTuningStore:
    """A store of its own on ``root``, as another process would have it."""
    return DiskTuningStore(str(root), telemetry or RecordingTelemetry(), files=replace(files, time_ns=now_ns))
