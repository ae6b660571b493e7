"""The adapters of the page on ports pass the strict modes of both type checkers, as the page says."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from support.checkers import found_by_mypy, found_by_pyright
from support.pages import blocks_of

PAGE: Final = Path(__file__).resolve().parents[3] / "docs" / "own-adapters.md"
MISTAKES: Final = """
def misused(application: Application, store: ArtifactStore, key: ArtifactKey) -> None:
    store.put(key, b"code")  # refused
    application.driver().session().backend.digest  # refused
    application.driver().clock().now()  # refused
    application.compiler().session.dispatch(3)  # refused
"""


@pytest.fixture(scope="module")
def module(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The code of the page as one file, with misuses at its end, so that types which got lost are noticed."""
    path = tmp_path_factory.mktemp("page") / "adapters.py"
    code = "".join(block.text for block in blocks_of(PAGE) if block.language == "python")
    path.write_text(code + MISTAKES, "utf-8")
    return path


def refused(module: Path) -> set[tuple[str, int]]:
    lines = module.read_text("utf-8").splitlines()
    return {(module.name, number) for number, line in enumerate(lines, 1) if line.endswith("# refused")}


@pytest.mark.slow
def test_mypy_accepts_the_page_and_refuses_the_misuses(module: Path) -> None:
    assert found_by_mypy(module) == refused(module)


@pytest.mark.slow
def test_pyright_accepts_the_page_and_refuses_the_misuses(module: Path, tmp_path: Path) -> None:
    assert found_by_pyright(tmp_path, module) == refused(module)
