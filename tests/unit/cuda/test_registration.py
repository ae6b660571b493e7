"""The two registrations: light to load, clear about what is missing."""

from __future__ import annotations

import subprocess
import sys

import pytest

from support.limits import LIMIT_S
from vyre.adapters.cuda.registration import CUDA, CUDA_MACHINE
from vyre.adapters.discovery import load_catalog
from vyre.adapters.telemetry.application import ApplicationTelemetry
from vyre.app.selection import BackendSelector
from vyre.domain.errors import BackendUnavailable, InvalidConfig
from vyre.ports.backend import BackendRole


def test_both_are_known_without_package_metadata() -> None:
    catalog = load_catalog()
    assert catalog.get("cuda") is CUDA
    assert catalog.get("cuda-machine") is CUDA_MACHINE
    assert (CUDA.role, CUDA_MACHINE.role) == (BackendRole.PRODUCTION, BackendRole.EMULATION)
    assert not catalog.failures


def test_loading_them_loads_neither_driver_nor_emitter_nor_machine() -> None:
    check = (
        "import sys, vyre.adapters.cuda.registration;"
        "heavy = [m for m in sys.modules if m.split('.')[0] in ('cuda', 'numpy') or '.runtime' in m or '.ptx' in m];"
        "sys.exit(str(heavy) if heavy else 0)"
    )
    subprocess.run([sys.executable, "-c", check], check=True, timeout=LIMIT_S)


def test_a_missing_driver_library_is_named_before_anything_is_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vyre.adapters.cuda.drivers.DRIVER_LIBRARY", "libnone.so.0")
    for start in (CUDA.probe, CUDA.make):
        with pytest.raises(
            BackendUnavailable, match=r"library cannot be loaded: libnone.*Fix: install an NVIDIA driver"
        ):
            start()


def test_a_missing_driver_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vyre.adapters.cuda.drivers.library_problem", lambda: None)
    monkeypatch.setitem(sys.modules, "vyre.adapters.cuda.driver", None)
    for start in (CUDA.probe, CUDA.make):
        with pytest.raises(BackendUnavailable, match=r"cannot be called from Python.*Fix: install cuda-python"):
            start()


def test_auto_does_not_take_the_machine_where_no_driver_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vyre.adapters.cuda.drivers.library_problem", lambda: None)
    monkeypatch.setitem(sys.modules, "vyre.adapters.cuda.driver", None)
    selection = BackendSelector(load_catalog(), ApplicationTelemetry()).select()
    selection.backend.lifecycle.close()
    assert selection.report.chosen == "cpu"
    reasons = {candidate.id: candidate.reason for candidate in selection.report.candidates}
    assert "cannot be called from Python" in reasons["cuda"]
    assert reasons["cuda-machine"] == "a test double: by name only"


def test_a_wrong_ordinal_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VYRE_CUDA_DEVICE_ORDINAL", "first")
    with pytest.raises((BackendUnavailable, InvalidConfig)):  # where there is no driver, it is not read
        CUDA.probe()
