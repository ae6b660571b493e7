"""Opening a session on the processor imports little: what few programs need is imported when they first need it."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from typing import Final

import pytest

from support.limits import LIMIT_S

MOST_MODULES: Final = 120
SELDOM: Final = (
    "vyre.adapters.cpu.llvm.emit",
    "vyre.adapters.cpu.runtime.cost_probe",
    "vyre.adapters.cpu.runtime.persistent",
    "vyre.adapters.cpu.runtime.pipeline",
    "vyre.adapters.cpu.runtime.resident",
    "vyre.adapters.cuda.runtime",
    "vyre.adapters.disk.artifact_store",
    "vyre.adapters.reference.executor",
    "vyre.app.calibration",
    "vyre.app.container",
    "vyre.app.device_passes",
    "vyre.app.dialects",
    "vyre.app.evidence",
    "vyre.app.explain",
    "vyre.app.journal",
    "vyre.app.pipeline",
    "vyre.app.prediction",
    "vyre.app.shadow",
    "vyre.app.tuning.service",
    "vyre.app.sequences.planner",
    "vyre.domain.diagnostics",
    "vyre.domain.dialects",
    "vyre.domain.frontend",
    "vyre.domain.ir.json_form",
    "vyre.domain.ir.text_parser",
    "vyre.domain.ir.text_printer",
    "vyre.domain.ir.wire",
    "vyre.domain.optimize",
    "vyre.domain.strict_json",
    "vyre.domain.validation",
    "vyre.graphs",
    "vyre.policies",
    "vyre.testing",
)
"""Modules and packages of which nothing may be imported."""
NUMBERS: Final = "print(*sorted(name for name in sys.modules if name.partition('.')[0] == 'vyre'))"


def modules_after(statement: str) -> list[str]:
    """Returns the modules of vyre that a new process has imported after a statement."""
    script = f"import sys\nimport vyre\n{statement}\n{NUMBERS}"
    return subprocess.run(
        [sys.executable, "-c", script], check=True, capture_output=True, text=True, timeout=LIMIT_S
    ).stdout.split()


def test_importing_vyre_imports_only_what_imports_on_use() -> None:
    assert modules_after("") == [
        "vyre",
        "vyre.domain",
        "vyre.domain.float_mode",
        "vyre.domain.lazy_names",
        "vyre.exporting",
    ]


@pytest.mark.parametrize("name", SELDOM)
def test_what_must_not_be_imported_exists(name: str) -> None:
    assert find_spec(name) is not None


def test_opening_a_session_on_the_processor_imports_few_modules() -> None:
    found = modules_after("vyre.open('cpu')")
    assert {"vyre.app.session", "vyre.adapters.cpu.runtime.backend"} <= set(found)
    unasked = [name for name in found for part in SELDOM if name == part or name.startswith(f"{part}.")]
    assert unasked == []
    assert len(found) <= MOST_MODULES
