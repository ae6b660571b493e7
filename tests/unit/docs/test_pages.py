"""The pages tell the truth: generated ones are current, their code runs, their links and paths exist."""

from __future__ import annotations

import ast
import importlib.util
import os
import re
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer

from support.limits import LIMIT_S
from support.pages import run_page
from support.registry import registered
from vyre.app.cli.commands import _application

ROOT = Path(__file__).parents[3]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("**/*.md"), *(ROOT / "examples").glob("**/*.md")])


def python_blocks(page: Path) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```$", page.read_text("utf-8"), re.MULTILINE | re.DOTALL)


def test_generated_pages_are_up_to_date(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.syspath_prepend(ROOT / "docs")
    exit_code = runpy.run_path(str(ROOT / "docs" / "generate.py"))["main"](["--check"])
    assert (exit_code, capsys.readouterr().out) == (0, ""), "run: python docs/generate.py"


def test_the_readme_lists_every_page() -> None:
    linked = set(re.findall(r"\]\((docs/[\w./-]+\.md)\)", (ROOT / "README.md").read_text("utf-8")))
    pages = {str(page.relative_to(ROOT)) for page in (ROOT / "docs").glob("*.md")}
    assert pages - linked == set()


SHOWING = (
    "README",
    "coming-from",
    "debugging",
    "device-signatures",
    "egraphs",
    "gates",
    "new-backend",
    "python",
    "tutorial",
)
"""Pages whose blocks of text are what their code prints."""


@pytest.mark.parametrize("page", [page for page in PAGES if python_blocks(page)], ids=lambda page: page.name)
def test_the_code_of_a_page_runs_and_prints_what_the_page_shows(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with registered():
        run_page(page, shows_output=page.stem in SHOWING)


TRIALS = {"saxpy", "blur", "histogram", "scan", "interpret"}


def test_the_trial_kernels_of_a_newcomer_stand_in_the_tutorial_in_at_most_25_lines() -> None:
    text = "\n".join(python_blocks(ROOT / "docs" / "tutorial.md"))
    lengths = {}
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef) and node.decorator_list:
            lengths[node.name] = (node.end_lineno or 0) - node.decorator_list[0].lineno + 1
    assert set(lengths) >= TRIALS
    assert max(lengths.values()) <= 25
    assert all(re.search(rf"^(?!def ).*\b{name}[.(]", text, re.MULTILINE) for name in TRIALS)


def test_the_shell_commands_of_the_readme_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("kernel.py").write_text(python_blocks(ROOT / "README.md")[0], "utf-8")
    names = run_page(ROOT / "README.md", runs_shell=True)
    assert np.array_equal(np.load("result.npy"), names["result"]["y"])


@pytest.mark.slow
def test_the_code_of_pages_type_checks(tmp_path: Path) -> None:
    """With no cache: one that other processes use too is locked at times."""
    texts = {name: python_blocks(ROOT / "docs" / f"{name}.md") for name in ("builder", "compilers", "dispatching")}
    texts["readme"] = python_blocks(ROOT / "README.md")
    texts["typed"] = [text for text in python_blocks(ROOT / "docs" / "python.md") if "Annotated" in text]
    programs = [tmp_path / f"{name}.py" for name in texts]
    for program, blocks in zip(programs, texts.values(), strict=True):
        program.write_text("\n".join(blocks), "utf-8")
    options = ["--strict", "--config-file=", "--follow-imports=silent", f"--cache-dir={os.devnull}"]
    command = [sys.executable, "-m", "mypy", *options, *map(str, programs)]
    checked = subprocess.run(command, capture_output=True, text=True, cwd=ROOT / "src", check=False, timeout=LIMIT_S)
    assert checked.returncode == 0, checked.stdout + checked.stderr


def prose(page: Path) -> str:
    """Returns a page without code, which may look like a link or a heading: ``kernel[grid](...)``."""
    return re.sub(r"^```.*?^```$", "", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)


def anchors(page: Path) -> set[str]:
    """Returns the names by which links name the headings of a page."""
    headings = re.findall(r"^#+ (.*)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\(([^)#]*)(?:#([^)]*))?\)", re.sub(r"`[^`\n]+`", "", prose(page)))
    inside = [(page.parent / target if target else page, anchor) for target, anchor in links if "://" not in target]
    assert [str(target) for target, _ in inside if not target.exists()] == []
    assert [anchor for target, anchor in inside if anchor and anchor not in anchors(target)] == []


def command_lines(page: Path) -> list[list[str]]:
    """Returns the words after ``vyre`` and ``python -m`` of the command lines of a page, up to a comment."""
    text = page.read_text("utf-8")
    lines = re.findall(r"(?<!`)`((?:vyre|python -m) [^`\n]+)`", text)
    lines += re.findall(r"^    ((?:vyre|python -m) \S.*)$", text, re.MULTILINE)
    for block in re.findall(r"^```(?:sh|text)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        lines += re.findall(r"^(?:\$ )?((?:vyre|python -m) [a-z].*)$", block, re.MULTILINE)
    return [re.sub(r" {3,}.*| #.*", "", line).split() for line in lines]


def unknown_words(words: list[str], commands: Any) -> list[str]:
    """Returns the command that does not exist, or the options that it does not have, of the words after ``vyre``."""
    while hasattr(commands, "commands"):
        if not words or not re.fullmatch(r"-?[a-z-]+", words[0]):  # a page, or a name of a placeholder
            return [word for word in words[:1] if word[0].islower()]
        if words[0].startswith("--"):
            break
        if words[0] not in commands.commands:
            return words[:1]
        commands, words = commands.commands[words[0]], words[1:]
    known = {option for parameter in commands.params for option in (*parameter.opts, *parameter.secondary_opts)}
    options = [re.split(r"[=\]]", word.strip("[],.;:"))[0] for word in words]
    return [option for option in options if re.match(r"--?[a-z]", option) and option not in known | {"--help"}]


@pytest.fixture(scope="module")
def commands() -> Any:
    """The tree of commands of ``vyre``, as the command line reads it."""
    return typer.main.get_command(_application([]))


@pytest.mark.parametrize("page", [page for page in PAGES if command_lines(page)], ids=lambda page: page.name)
def test_the_commands_of_a_page_exist_with_their_options(page: Path, commands: Any) -> None:
    wrong = []
    for first, *words in command_lines(page):
        if first == "vyre":
            wrong += [(first, unknown) for unknown in unknown_words(words, commands)]
        elif words[1].startswith("vyre") and importlib.util.find_spec(words[1]) is None:
            wrong.append((first, words[1]))
    assert wrong == []


def test_a_command_that_does_not_exist_is_noticed(commands: Any) -> None:
    assert unknown_words(["check", "kernel.vyre"], commands) == ["check"]
    assert unknown_words(["cache", "purge"], commands) == ["purge"]
    assert unknown_words(["run", "k.vyre", "--input", "x=1", "-o", "y.npy", "--out", "y=y.npy"], commands) == [
        "--input",
        "-o",
    ]
    assert unknown_words(["emit", "k.vyre", "--target", "sm_90", "--json"], commands) == []
