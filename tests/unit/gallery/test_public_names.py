"""Gallery programs show what a user may write: they import public names and parts of the gallery alone."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import vyre.gallery

ROOT = Path(vyre.gallery.__file__).parent
PUBLIC = (
    "vyre",
    "vyre.ir",
    "vyre.testing",
    "vyre.policies",
    "vyre.ports",
    "vyre.container",
    "vyre.egraph",
    "vyre.evidence",
    "vyre.graphs",
)
FILES = [*ROOT.glob("applications/*.py"), *ROOT.glob("basics/*.py"), ROOT / "example.py"]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_gallery_programs_import_public_names_alone(file: Path) -> None:
    modules = [node.module for node in ast.walk(ast.parse(file.read_text("utf-8"))) if isinstance(node, ast.ImportFrom)]
    ours = [module for module in modules if module is not None and module.split(".")[0] == "vyre"]
    assert [name for name in ours if name not in PUBLIC and not name.startswith("vyre.gallery")] == []


def test_the_gallery_was_found() -> None:
    assert len(FILES) > 20
