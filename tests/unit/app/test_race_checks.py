"""A race check that is asked for without a backend by name runs on the reference, and the session says so."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import vyre
from support.small_programs import saxpy_program
from vyre.adapters.discovery import load_catalog
from vyre.app.cli import main
from vyre.app.pipeline import Inputs
from vyre.app.services import USUAL, wired
from vyre.domain.dispatch import DispatchTiming
from vyre.domain.errors import DataRaceError, InvalidInput, InvalidResource, UnsupportedFeature
from vyre.domain.ir.program import Program
from vyre.domain.names import BackendId
from vyre.ports.backend import Backend, BackendCatalog, BackendRole, BackendServices
from vyre.ports.requests import DispatchRequest, OutputStorage
from vyre.testing.recording_telemetry import RecordingTelemetry

REFERENCE = next(r for r in load_catalog().registrations if r.id == "reference")
X = np.arange(8, dtype=np.float32)


class WithoutChecks:
    """The reference's executor without race checks."""

    def __init__(self, backend: Backend) -> None:
        self.executor = backend.executor

    def execute(self, request: DispatchRequest, outputs: OutputStorage, /) -> DispatchTiming:
        if request.config.race_check:
            raise UnsupportedFeature(feature="race_check", backend="device")
        return self.executor.execute(request, outputs)


def make(services: BackendServices) -> Backend:
    backend = REFERENCE.make(services)
    return replace(backend, id=BackendId("device"), executor=WithoutChecks(backend), compiler=None)


DEVICE = replace(REFERENCE, id=BackendId("device"), rank=100, role=BackendRole.PRODUCTION, factory=make)
CATALOG = BackendCatalog((REFERENCE, DEVICE))
SAXPY: Inputs = {"a": 2.0, "x": X, "y": X}


def racy() -> Program:
    with vyre.ProgramBuilder("racy", workgroup=8) as p:
        y = p.output("y", vyre.u32, 1)
        y[0] = p.global_id()
    return p.build()


def opened(telemetry: RecordingTelemetry, backend: str = "auto") -> vyre.Session:
    return vyre.open(backend, catalog=CATALOG, telemetry=telemetry, cache=False)


def test_the_reference_checks_and_the_session_says_so() -> None:
    telemetry = RecordingTelemetry()
    with opened(telemetry) as session:
        assert session.dispatch(saxpy_program(), SAXPY).backend == "device"
        assert {event.level for event in telemetry.events} == {"debug"}
        assert session.explain().race_checks == ""
        with pytest.raises(DataRaceError):
            session.dispatch(racy(), extent=8, race_check=True)
        checked = session.dispatch(saxpy_program(), SAXPY, race_check=True)
        assert checked.backend == "reference"
        np.testing.assert_array_equal(checked["y"], 3 * X)
        assert session.dispatch(saxpy_program(), SAXPY).backend == "device"
        assert session.dispatch(saxpy_program(), SAXPY, vyre.DispatchConfig(race_check=True)).backend == "reference"
        assert session.submit(saxpy_program(), SAXPY, race_check=True).result(60).backend == "reference"
        why = "a race check was asked for and no backend by name"
        assert session.explain().race_checks == f"on `reference`, since {why}"
        assert f"\n  race checks: on `reference`, since {why}" in str(session.explain())
    (event,) = [event for event in telemetry.events if event.level == "warning"]
    assert (event.name, event.level) == ("vyre.backend.reference_selected", "warning")
    assert event.fields | {"session": 1} == {"backend": "reference", "reason": why, "session": 1}


def test_a_backend_that_is_asked_for_by_name_says_that_it_checks_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    telemetry = RecordingTelemetry()
    with opened(telemetry, "device") as session, pytest.raises(UnsupportedFeature, match="race_check"):
        session.dispatch(saxpy_program(), SAXPY, race_check=True)
    monkeypatch.setenv("VYRE_BACKEND", "device")
    with opened(telemetry) as session, pytest.raises(UnsupportedFeature, match="race_check"):
        session.dispatch(saxpy_program(), SAXPY, race_check=True)
    assert "vyre.backend.reference_selected" not in {event.name for event in telemetry.events}


def test_memory_of_the_device_is_refused_in_a_check() -> None:
    with opened(RecordingTelemetry()) as session:
        with session.resident(X) as x, pytest.raises((InvalidInput, InvalidResource)) as raised:
            session.dispatch(saxpy_program(), {"a": 2.0, "x": x, "y": X}, race_check=True)
        assert "Fix: " in str(raised.value), raised.value


def test_closing_the_session_ends_the_checks() -> None:
    session = opened(RecordingTelemetry())
    checked = session.compile(saxpy_program(), race_check=True)
    session.close()
    session.close()
    with pytest.raises(InvalidResource, match="closed"):
        checked(SAXPY)
    with pytest.raises(InvalidResource, match="closed"):
        session.compile(racy(), race_check=True)


def test_the_command_line_takes_the_reference_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("VYRE_CACHE_DISABLE", "1")
    path = tmp_path / "saxpy.vyre"
    path.write_text(saxpy_program().to_text(), encoding="utf-8")
    command = ["run", str(path), "--in", "a=2", "--in", "x=1,2", "--in", "y=1,2"]
    with wired(USUAL._replace(catalog=lambda: CATALOG)):
        assert main([*command, "--check", "races"]) == 0
        last = capsys.readouterr().out.splitlines()[-1]
        assert last.startswith("reference, ")
        assert last.endswith(" ms (a race check was asked for and no backend by name)")
        assert main(command) == 0
        assert capsys.readouterr().out.splitlines()[-1].startswith("device, ")
        assert main([*command, "--check", "races", "--backend", "device"]) != 0
