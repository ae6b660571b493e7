"""Every module of the package is short enough to be read as a whole."""

from __future__ import annotations

from pathlib import Path
from typing import Final

PACKAGE: Final = Path(__file__).parents[2] / "src" / "vyre"
LINES: Final = 650
"""A module has fewer lines than this."""


def test_no_module_is_too_long() -> None:
    lengths = {path.relative_to(PACKAGE).as_posix(): _lines(path) for path in PACKAGE.rglob("*.py")}
    assert len(lengths) > 100
    assert {name: length for name, length in lengths.items() if length >= LINES} == {}


def _lines(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").splitlines())
