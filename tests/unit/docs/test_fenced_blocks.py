"""Whatever stands in a fenced block of a page is read or run: manifests, JSON, programs and shell lines."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import numpy as np
import pytest

import vyre
from support.pages import run_shell
from support.registry import registered
from vyre.app.cli.python_files import object_of
from vyre.app.cli.targets import Target
from vyre.app.dialects.loading import ENTRY_POINTS
from vyre.domain.dialects.manifests import read_manifest
from vyre.domain.signature_files import read_signatures

ROOT: Final = Path(__file__).resolve().parents[3]
PAGES: Final = [
    *sorted(ROOT.glob("*.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "examples").rglob("*.md")),
]
BLOCK: Final = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
ELSEWHERE: Final = {
    "python": "test_pages.py runs it",
    "text": "what Python code prints, which test_pages.py compares, or a text for people",
    "py": "a mistake, which tests/mistakes makes",
    "cpp": "another language",
}
"""The languages of blocks that are not read here."""
MISTAKES: Final = ROOT / "docs" / "errors.md"
"""A page that tests/mistakes writes, whose commands fail."""
SAXPY: Final = re.findall(r"^```python\n(.*?)^```$", (ROOT / "README.md").read_text("utf-8"), re.MULTILINE | re.DOTALL)[
    0
]


def blocks(*languages: str) -> Iterator[tuple[Path, str]]:
    for page in PAGES:
        if page != MISTAKES:
            for language, text in BLOCK.findall(page.read_text("utf-8")):
                if language in languages:
                    yield page, text


def identities(found: list[tuple[Path, str]]) -> list[str]:
    return [f"{page.stem}-{number}" for number, (page, _) in enumerate(found)]


MANIFESTS: Final = list(blocks("toml"))
DOCUMENTS: Final = list(blocks("json"))
PROGRAMS: Final = [each for each in blocks("", "vyre") if re.match(r"(program \w+\n|workgroup_size \d)", each[1])]
SHELLS: Final = list(blocks("sh"))


def test_every_language_of_a_block_is_known() -> None:
    found = {language for page in PAGES for language, _ in BLOCK.findall(page.read_text("utf-8"))}
    assert found <= {"", "toml", "json", "vyre", "sh", "vyre fill.vyre", *ELSEWHERE}
    assert len(MANIFESTS) > 2 and DOCUMENTS and PROGRAMS and len(SHELLS) > 6


@pytest.mark.parametrize("block", MANIFESTS, ids=identities(MANIFESTS))
def test_manifests_are_accepted(block: tuple[Path, str]) -> None:
    page, text = block
    table = tomllib.loads(text)
    if "project" in table:
        assert list(table["project"]["entry-points"]) == [ENTRY_POINTS]
    elif "dialect" in table:
        reading = read_manifest(text.encode(), page.name)
        assert reading.diagnostics == () and reading.manifest is not None
        with registered() as registry:
            registry.add_manifests([reading.manifest])
            assert registry.snapshot.diagnostics == ()
            assert registry.snapshot.operations_in(reading.manifest.dialect.id)
    else:
        signatures = read_signatures(text.encode(), page.name)
        assert signatures.diagnostics == () and signatures.signatures


@pytest.mark.parametrize("block", DOCUMENTS, ids=identities(DOCUMENTS))
def test_documents_in_json_are_programs(block: tuple[Path, str]) -> None:
    program = vyre.Program.from_json(json.loads(block[1]))
    assert vyre.validate(program).ok


@pytest.mark.parametrize("block", PROGRAMS, ids=identities(PROGRAMS))
def test_programs_are_valid(block: tuple[Path, str]) -> None:
    assert vyre.validate(vyre.Program.from_text(block[1])).ok


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the files that the commands of pages name."""
    folder = tmp_path_factory.mktemp("files")
    (folder / "kernel.py").write_text(SAXPY)
    saxpy = object_of(Target(folder / "kernel.py", "saxpy", {}))
    assert isinstance(saxpy, vyre.Kernel)
    for name in ("kernel.vyre", "saxpy.vyre"):
        (folder / name).write_text(saxpy.program.to_text())
    xs = np.arange(8, dtype=np.float32)
    np.save(folder / "x.npy", xs)
    np.save(folder / "y.npy", xs)
    (folder / "gates.py").write_text("from vyre.gates import Allow\ndef small(seen): return Allow()\n")
    with vyre.open("reference", journal=vyre.DecisionJournal()) as session:
        session.dispatch(saxpy, {"a": 2.0, "x": xs, "y": xs.copy()})
        session.write_journal(folder / "decisions.jsonl")
    return folder


@pytest.mark.parametrize("block", SHELLS, ids=identities(SHELLS))
def test_shell_lines_work(
    block: tuple[Path, str], files: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Commands of vyre are run; what would build an environment is compared with the project."""
    monkeypatch.chdir(files)
    run_shell(block[1])
    capsys.readouterr()
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    for line in block[1].splitlines():
        words = line.split("#")[0].split()
        match words[:2]:
            case [] | ["vyre", _] | ["python3", "-m"]:
                pass
            case ["make", target]:
                assert target in targets
            case ["pip", "install"]:
                assert set(re.findall(r"[a-z]+", words[2])) <= set(extras)
            case _:
                raise AssertionError(f"{block[0].name}: nothing runs `{line}`")
