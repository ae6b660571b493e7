"""Sampled dispatches: a wrong backend is found, named at the right place, and its programs run other code."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import vyre
from support.shadowed_programs import (
    LOST_UPDATE,
    RIGHT,
    ULP,
    WAIT_S,
    histogram,
    numbers,
    roots,
    roots_in_place,
    settled,
    shadowed,
)
from vyre import ShadowStatus
from vyre.testing.recording_telemetry import RecordingTelemetry


@pytest.mark.parametrize("base", ["cpu", "reference", "cuda-machine"])
def test_an_operation_that_is_an_ulp_off_is_named_and_its_program_runs_right_code_afterwards(
    base: str, tmp_path: Path
) -> None:
    telemetry = RecordingTelemetry()
    x = numbers(above=7)
    expected = np.where(x > 1, np.sqrt(x), x)
    program = roots()
    with shadowed(ULP, tmp_path, base, telemetry) as session:
        first = session.dispatch(program, {"x": x})
        state = settled(first)
        assert state.status is ShadowStatus.DIFFERS
        found = state.difference
        assert found is not None
        assert (found.program, found.slot, found.buffer, found.element, found.byte) == ("roots", 1, "y", 7, 28)
        assert int(found.expected, 16) == expected[7].view(np.uint32) == int(found.got, 16) - 1
        assert (first["y"] != expected).any()

        second = session.dispatch(program, {"x": x})
        assert second["y"].tobytes() == expected.tobytes()
        assert settled(second).status is ShadowStatus.AGREED
        assert session.dispatch(program, {"x": x}, extent=100)["y"].tobytes() == expected.tobytes()
        assert "slot 1 `y`[7] (byte 28)" in str(session.explain())
        assert "code without optimizations now, which gives the right bytes" in str(session.explain())
    (event,) = [each for each in telemetry.events if each.name == "vyre.shadow.differs"]
    assert event.level == "error" and event.fields["element"] == 7 and event.fields["backend"] == "seeded"


def test_a_lost_update_is_found(tmp_path: Path) -> None:
    x = np.arange(103, dtype=np.uint32)
    with shadowed(LOST_UPDATE, tmp_path) as session:
        program = histogram()
        found = settled(session.dispatch(program, {"x": x})).difference
        assert found is not None and (found.slot, found.buffer, found.element, found.byte) == (1, "counts", 0, 0)
        assert (int(found.expected, 16), int(found.got, 16)) == (26, 1)
        assert session.dispatch(program, {"x": x})["counts"].tolist() == [26, 26, 26, 25]


def test_what_was_updated_in_place_is_compared_with_what_it_was_before(tmp_path: Path) -> None:
    with shadowed(ULP, tmp_path) as session:
        x = numbers(above=9)
        before = x.copy()
        found = settled(session.dispatch(roots_in_place(), {"x": x}, out={"x": x}))
        assert found.difference is not None and found.difference.element == 9
        assert found.evidence is not None
        assert (found.evidence / "inputs" / "0.bin").read_bytes() == before.tobytes()


def test_the_evidence_is_plain_files(tmp_path: Path) -> None:
    x = numbers()
    with shadowed(ULP, tmp_path) as session:
        result = session.dispatch(roots(), {"x": x}, extent=100)
        state = settled(result)
    place = state.evidence
    assert place is not None and place.parent == tmp_path
    program = vyre.Program.from_text((place / "program.vyre").read_text("utf-8"))
    assert program.digest == roots().digest
    written = json.loads((place / "shadow.json").read_text("utf-8"))
    assert written["config"] == {"extent": [100]}
    assert written["backend"]["id"] == "seeded" and written["shadow"]["id"] == "reference"
    assert written["difference"]["byte"] == 28
    assert [each["policy"] for each in written["decisions"]] == ["admit_sample"]
    data = {kind: (place / written["buffers"][kind]["y"]).read_bytes() for kind in ("expected", "got")}
    assert data["got"] == result["y"].tobytes()
    assert data["expected"] == np.where(x > 1, np.sqrt(x), x).tobytes()
    assert (place / written["buffers"]["inputs"]["x"]).read_bytes() == x.tobytes()


def test_code_that_is_wrong_without_optimizations_too_is_called_so(tmp_path: Path) -> None:
    with shadowed(ULP, tmp_path, always=True) as session:
        program = roots()
        assert settled(session.dispatch(program, {"x": numbers()})).status is ShadowStatus.DIFFERS
        assert settled(session.dispatch(program, {"x": numbers()})).status is ShadowStatus.DIFFERS
        report = session.shadow()
    assert report is not None and len(report.quarantined) == 1 and report.differs == 2
    assert "differs from the shadow for these inputs, too" in report.quarantined[0].fallback


def test_a_right_backend_agrees_and_counts(tmp_path: Path) -> None:
    with shadowed(RIGHT, tmp_path) as session:
        pipeline = session.compile(roots())
        bound = session.bind(pipeline.program, {"x": numbers()})
        results = [bound(), pipeline({"x": numbers()}), session.dispatch(pipeline.program, {"x": numbers()})]
        assert [settled(each).status for each in results] == [ShadowStatus.AGREED] * 3
        report = session.shadow(wait_s=WAIT_S)
    assert report is not None
    assert (report.sampled, report.agreed, report.pending, report.copied_bytes) == (3, 3, 0, 3 * 400)
    assert report.spent_ns > 0 and not report.dropped and not report.quarantined
    assert not list(tmp_path.iterdir())


def test_without_a_shadow_nothing_is_sampled() -> None:
    with vyre.open("reference") as session:
        result = session.dispatch(roots(), {"x": numbers()})
        assert result.shadow.status is ShadowStatus.NOT_SAMPLED
        assert session.shadow() is None
