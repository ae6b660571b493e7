"""The page of enumerations has all members of public ones, with their values and what the source says of them."""

from __future__ import annotations

import enum
import re
from importlib import import_module
from pathlib import Path

import pytest

from vyre.exporting import homes

PAGE = Path(__file__).resolve().parents[3] / "docs" / "names-enumerations.md"
MODULES = ("egraph", "evidence", "gates", "graphs", "ir", "lowering", "policies", "ports", "testing")


@pytest.fixture(scope="module")
def sections() -> dict[str, list[str]]:
    """Returns the lines of each section, by each name of the enumeration that it is about."""
    lines: dict[str, list[str]] = {}
    for section in PAGE.read_text("utf-8").split("\n## ")[1:]:
        head, *below = section.splitlines()
        lines |= dict.fromkeys(re.findall(r"`([\w.]+)`", head), below)
    return lines


@pytest.mark.parametrize("module", ["vyre", *(f"vyre.{name}" for name in MODULES)])
def test_every_member_stands_on_the_page(module: str, sections: dict[str, list[str]]) -> None:
    public = import_module(module)
    for name in homes(module):
        enumeration = getattr(public, name)
        if isinstance(enumeration, enum.EnumMeta):
            rows = [line for line in sections[f"{module}.{name}"] if line.startswith("| `")]
            members: list[enum.Enum] = list(enumeration)
            for row, member in zip(rows, members, strict=True):
                assert row.startswith(f"| `{member.name}` | `{member.value!r}` |")


def test_what_the_source_says_of_a_member_stands_beside_it(sections: dict[str, list[str]]) -> None:
    assert "| `WIDEN` | `4` | F32 -> F64, exact |" in sections["vyre.lowering.Op"]
    assert any("reference" in line for line in sections["vyre.ports.BackendRole"])
