"""The programs that measure start from the root of the repository, without the paths that tests have."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from support.limits import LIMIT_S

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    "module", ["machine", "launch_cost", "decision_rows", "gallery_trace", "mutants", "tinygrad_rows"]
)
def test_a_module_is_imported_in_a_process_of_its_own(module: str) -> None:
    """Modules that need packages of the group ``bench`` are left to ``make bench``."""
    command = [sys.executable, "-c", f"import benchmarks.{module}"]
    subprocess.run(command, cwd=ROOT, check=True, timeout=LIMIT_S)
