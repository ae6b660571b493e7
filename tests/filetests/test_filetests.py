"""Every ``.vyre`` file beside this one: on both reference engines, with several workgroups at once, on an emulated
CUDA device, and as machine code of this processor.

docs/filetests.md describes the directives.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from vyre.domain.validation.validator import validate
from vyre.testing.execution import open_backend
from vyre.testing.filetests import load_filetests, run_filetest
from vyre.testing.outcomes import Verdict

HERE: Final = Path(__file__).parent
FILES: Final = sorted(HERE.rglob("*.vyre"))
ENGINES: Final = {name: open_backend(name) for name in ("reference", "reference-scalar")}
CHUNKS: Final = (1, 2)
MACHINE: Final = open_backend("cuda-machine")
NATIVE: Final = open_backend("cpu")


def test_there_are_files() -> None:
    assert len(FILES) > 40


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("path", FILES, ids=lambda p: p.relative_to(HERE).with_suffix("").as_posix())
def test_file(path: Path, engine: str) -> None:
    (test,) = load_filetests([path])
    assert [o for o in run_filetest(test, ENGINES[engine]) if o.verdict is not Verdict.PASSED] == []


@pytest.mark.parametrize("chunk", CHUNKS)
@pytest.mark.parametrize("path", FILES, ids=lambda p: p.relative_to(HERE).with_suffix("").as_posix())
def test_file_with_workgroups_at_once(path: Path, chunk: int) -> None:
    """Where the order of atomics matters, one workgroup at a time; runs with ``chunk=`` keep theirs."""
    (test,) = load_filetests([path])
    size = 1 if test.program is None or validate(test.program).order_sensitive else chunk
    outcomes = run_filetest(test, ENGINES["reference"], chunk_workgroups=size)
    assert [o for o in outcomes if o.verdict is not Verdict.PASSED] == []


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.relative_to(HERE).with_suffix("").as_posix())
def test_file_on_an_emulated_device(path: Path) -> None:
    """Runs that ask for what it does not offer, such as step budgets, are left out."""
    (test,) = load_filetests([path])
    assert [o for o in run_filetest(test, MACHINE) if o.verdict is Verdict.FAILED] == []


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.relative_to(HERE).with_suffix("").as_posix())
def test_file_as_machine_code(path: Path) -> None:
    """Runs that ask for what it does not offer, such as checks for races, are left out."""
    (test,) = load_filetests([path])
    assert [o for o in run_filetest(test, NATIVE) if o.verdict is Verdict.FAILED] == []
