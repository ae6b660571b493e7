"""Runs the code of a page of the documentation from top to bottom, as a reader would.

A block of ``python`` runs in the names of the blocks before it.  A block of ``text`` that follows one is what the
Python code since the last such block has printed; runs of blanks count as one.  A block of ``sh`` runs its lines that
begin with ``vyre``.  A page runs in an empty directory.
"""

from __future__ import annotations

import linecache
import re
import shlex
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any, Final, NamedTuple

from vyre.app.cli import main

_BLOCK: Final = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_NUMBERED: Final = re.compile(r"\bblock\d+/")
SHOWN_AS: Final = "kernel.py"
"""The file that a page names where an error or a report names one."""


class Block(NamedTuple):
    """A block of a page: its language, its text, and its number among all blocks."""

    language: str
    text: str
    number: int


def blocks_of(page: Path) -> list[Block]:
    """Returns the fenced blocks of a page, in order."""
    return [Block(language, text, n) for n, (language, text) in enumerate(_BLOCK.findall(page.read_text("utf-8")))]


def run_block(block: Block, names: dict[str, Any]) -> str:
    """Runs a block of Python whose lines Python can look up, as those of a file; returns what it prints."""
    file = f"block{block.number}/{SHOWN_AS}"
    linecache.cache[file] = (len(block.text), None, block.text.splitlines(keepends=True), file)
    printed = StringIO()
    with redirect_stdout(printed):
        exec(compile(block.text, file, "exec"), names)
    return _NUMBERED.sub("", printed.getvalue())


def run_page(page: Path, *, shows_output: bool = False, runs_shell: bool = False) -> dict[str, Any]:
    """Runs a page and returns its names.

    Raises what its code raises, and ``AssertionError`` where the page shows something else than its code prints.
    """
    names: dict[str, Any] = {"__name__": page.stem}
    printed = ""
    for block in blocks_of(page):
        if block.language == "python":
            printed += run_block(block, names)
        elif block.language == "text" and shows_output:
            assert words(printed) == words(block.text), f"{page.name}: it prints\n{printed}"
            printed = ""
        elif block.language == "sh" and runs_shell:
            run_shell(block.text)
    return names


def run_shell(text: str) -> None:
    """Runs the commands of vyre in a block of shell, each of which must succeed."""
    for line in text.splitlines():
        if line.startswith("vyre ") and not line.startswith("vyre doctor"):  # which judges the machine
            assert main(shlex.split(line.removeprefix("vyre"), comments=True)) == 0, line


def words(text: str) -> str:
    """Returns a text with single blanks."""
    return " ".join(text.split())
