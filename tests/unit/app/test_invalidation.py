"""Invalidation of what is stored: what went, why, and what could not go."""

from __future__ import annotations

import errno
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

from support.disk_cache import Disk, artifact, key, store, unusable
from support.small_programs import square_program
from vyre.adapters.source_digest import emitter_digest
from vyre.app.invalidation import Invalid, InvalidationReport, invalidate
from vyre.app.verdicts import require_valid
from vyre.domain.artifact_key import ArtifactKey, ArtifactKind
from vyre.domain.errors import InvalidConfig
from vyre.domain.ir.program import Program
from vyre.testing.fakes import MemoryArtifactStore
from vyre.testing.recording_telemetry import RecordingTelemetry

CUBIN: Final = key(1, emitter=emitter_digest(), tool="ptxas 13.0.88 -O3", driver="13000")
PTX: Final = replace(CUBIN, kind=ArtifactKind.PTX, device=(), driver="", tool="")
STALE: Final = key(2, emitter=b"\x22" * 32, tool="ptxas 12.9.41", driver="12090")
OTHER: Final = key(3, program=0xCDCDCDCDCDCDCDCD, emitter=emitter_digest(), target="sm_120", driver="13000")
ALL: Final = (CUBIN, PTX, STALE, OTHER)


@pytest.fixture
def kept() -> MemoryArtifactStore:
    found = MemoryArtifactStore()
    for number, each in enumerate(ALL):
        found.put(each, artifact(number))
    return found


@pytest.mark.parametrize(
    ("invalid", "gone"),
    [
        (Invalid(program=CUBIN.program.hex()), {CUBIN, PTX, STALE}),
        (Invalid(program="CDCDCDCDCDCDCDCD"), {OTHER}),
        (Invalid(driver="13000"), {CUBIN, OTHER}),
        (Invalid(tool="ptxas"), {CUBIN, STALE}),
        (Invalid(tool="ptxas 12.9.41"), {STALE}),
        (Invalid(target="sm_120"), {OTHER}),
        (Invalid(emitter="old"), {STALE}),
        (Invalid(emitter=emitter_digest().hex()[:8].upper()), {CUBIN, PTX, OTHER}),
        (Invalid(key=PTX), {PTX, CUBIN}),
        (Invalid(key=CUBIN), {CUBIN}),
        (Invalid(key=PTX.digest.hex()[:12].upper()), {PTX, CUBIN}),
        (Invalid(target="sm_120", emitter="old"), {OTHER, STALE}),
        (Invalid(target="sm_75"), set()),
    ],
)
def test_what_goes(kept: MemoryArtifactStore, invalid: Invalid, gone: set[ArtifactKey]) -> None:
    nbytes = kept.stats().nbytes
    found = invalidate(kept, invalid)
    assert {entry.key for entry in found.removed} == gone
    assert set(kept) == set(ALL) - gone
    assert found.nbytes == nbytes - kept.stats().nbytes
    assert (found.kept, found.failed) == (len(ALL) - len(gone), ())
    assert found.programs == {key.program for key in gone}


def test_why(kept: MemoryArtifactStore) -> None:
    found = invalidate(kept, Invalid(tool="ptxas 13.0.88", key=PTX))
    assert {entry.key: entry.why for entry in found.removed} == {
        PTX: "named by its key",
        CUBIN: f"ptx {PTX.digest.hex()[:12]}",
    }
    assert str(found).splitlines() == [
        f"2 entries went, {found.nbytes} bytes; 2 stay",
        f"cubin of program 000000000000 went: ptx {PTX.digest.hex()[:12]}",
        "ptx of program 000000000000 went: named by its key",
    ]


def test_a_dry_run_only_tells(kept: MemoryArtifactStore) -> None:
    told = invalidate(kept, Invalid(driver="13000"), dry_run=True)
    assert set(kept) == set(ALL)
    assert str(told).startswith("2 entries would go, ")
    assert told == replace(invalidate(kept, Invalid(driver="13000")), dry_run=True)


def test_without_a_store_there_is_nothing_to_remove() -> None:
    assert invalidate(None, Invalid(driver="13000")) == InvalidationReport()


def test_a_program_takes_its_verdict_along() -> None:
    program, found = Program.from_text(square_program().to_text()), MemoryArtifactStore()  # not validated yet
    require_valid(program, lambda: found)
    code = key(program=0, target="sm_90")
    found.put(replace(code, program=program.digest), artifact())
    found.put(code, artifact())
    assert {entry.key.kind for entry in invalidate(found, Invalid(program=program)).removed} == {
        ArtifactKind.VERDICT,
        ArtifactKind.CUBIN,
    }
    assert set(found) == {code}


def test_read_only_layers_stay_and_are_told(tmp_path: Path) -> None:
    image = tmp_path / "image"
    assert store(image).put(CUBIN, artifact())
    own = store(tmp_path / "own", layers=(image,))
    assert own.put(CUBIN, artifact())
    for dry_run in (True, False):
        found = invalidate(own, Invalid(driver="13000"), dry_run=dry_run)
        assert [entry.layer for entry in found.removed] == [""]
        (failed,) = found.failed
        assert (failed.key, failed.layer, failed.why) == (CUBIN, str(image), "driver 13000")
        assert f"is in the read-only {image}: driver 13000" in str(found)
    assert invalidate(own, Invalid(driver="13000")).removed == ()
    assert own.get(CUBIN) == artifact()


@pytest.mark.parametrize("code", ["EACCES", "EROFS", "EIO"])
def test_what_cannot_be_removed_is_told(tmp_path: Path, code: str) -> None:
    for each in (CUBIN, STALE):
        assert store(tmp_path / "own").put(each, artifact())
    disk = Disk(fail_at=0, code=getattr(errno, code), forever=True, only=frozenset({"unlink"}))
    telemetry = RecordingTelemetry()
    found = invalidate(store(tmp_path / "own", files=disk.files, telemetry=telemetry), Invalid(tool="ptxas"))
    assert (found.removed, {entry.key for entry in found.failed}, found.kept) == ((), {CUBIN, STALE}, 0)
    assert "could not be removed: tool ptxas" in str(found)
    assert len(unusable(telemetry)) == 1
    assert found.programs == {CUBIN.program}


@pytest.mark.parametrize("named", [{}, {"driver": ""}, {"target": " "}, {"tool": "ptxas", "emitter": ""}])
def test_something_must_be_named(named: dict[str, Any]) -> None:
    with pytest.raises(InvalidConfig, match="nothing is named that is not valid any more"):
        Invalid(**named)


@pytest.mark.parametrize("field", ["key", "program", "emitter"])
@pytest.mark.parametrize("value", ["0123456", "sm_90xyz", "0" * 65, "older"])
def test_what_is_no_digest_is_refused(field: str, value: str) -> None:
    with pytest.raises(InvalidConfig, match=f"{field}='{value}' is no digest"):
        Invalid(**{field: value})


def test_old_is_an_emitter_only() -> None:
    assert Invalid(emitter="old").emitter == "old"
    with pytest.raises(InvalidConfig, match="program='old' is no digest"):
        Invalid(program="old")


@pytest.mark.parametrize(
    "invalid",
    [
        Invalid(driver="13000", key=CUBIN),
        Invalid(tool="ptxas"),
        Invalid(emitter="old"),
        Invalid(target="sm_90"),
        Invalid(program="abababab"),
        Invalid(key="abababab"),
    ],
)
def test_in_doubt_all_programs_in_memory_go(invalid: Invalid) -> None:
    assert invalid.programs(InvalidationReport()) is None


def test_programs_that_are_named_go_whether_they_are_stored_or_not(kept: MemoryArtifactStore) -> None:
    program = square_program()
    assert Invalid(program=program).programs(InvalidationReport()) == frozenset({program.digest})
    assert Invalid(key=CUBIN).programs(InvalidationReport()) == frozenset({CUBIN.program})
    invalid = Invalid(key=CUBIN, program=program)
    assert invalid.programs(invalidate(kept, invalid)) == frozenset({CUBIN.program, program.digest})
