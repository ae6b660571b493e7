"""Runs golden vectors of decisions and keys: ``python -m tests.vectors PATH...``.

A path is a ``.jsonl`` or ``.json`` file (plain, ``.gz`` or ``.xz``) of lines ``{"fn": ..., "in": ..., "out": ...}``,
or a directory of them, searched recursively.  An unknown file or function is a failure, never a skip.  Every
failure gets a line; the last line is ``N passed, N failed, N skipped``.  Exit code: 0 if nothing failed, 1 if
something did, 2 for a path that cannot be read.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final

from vectors.rows import CONFORMANCE_FILES, FILES
from vyre.adapters.terminal import command, complain, put
from vyre.domain.errors import UnreadableFile
from vyre.domain.printable import indented
from vyre.testing.packed_files import unpacked

_PACKED: Final = (".gz", ".xz")
_SUFFIXES: Final = (".json", ".jsonl")


class Tally:
    """Counts, and where failures and remarks are printed."""

    def __init__(self, say: Callable[[str], object] = put) -> None:
        self._say = say
        self.passed = 0
        self.failed: int = 0
        self.skipped = 0

    def fail(self, where: str, reason: str) -> None:
        self.failed += 1
        self._say(f"FAIL {where}: {reason}")

    def note(self, text: str) -> None:
        self._say(text)

    def __str__(self) -> str:
        return f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped"


def run_vectors(paths: Iterable[Path], tally: Tally) -> None:
    """Run every file under ``paths``; raises ``UnreadableFile``."""
    for path in paths:
        if path.is_dir():
            for file in sorted(p for p in path.rglob("*") if p.is_file() and _stem(p) is not None):
                _run_or_leave(file, tally)
        else:
            run_file(path, tally)


def run_file(path: Path, tally: Tally) -> None:
    """Run one file; raises ``UnreadableFile``."""
    stem = _stem(path) or path.name
    known = FILES.get(stem)
    lines = _read(path)
    if known is None:
        tally.fail(path.name, "no code of ours answers this file")
        return
    for number, line in enumerate(lines, 1):
        where = f"{path.name}:{number}"
        try:
            case = json.loads(line)
            name, given, expected = case.get("fn", case.get("kind")), case["in"], case["out"]
        except (ValueError, KeyError, AttributeError, TypeError, RecursionError) as error:
            tally.fail(where, f"no vector ({type(error).__name__}: {error})")
            continue
        row = known.rows.get(name)
        if row is None:
            tally.fail(where, f"no code of ours answers {name!r}")
            continue
        try:
            actual = known.codec.answer(row, given)
        except Exception as error:  # whatever our code raises on a vector is a failure of that vector
            tally.fail(where, f"{name} raised {type(error).__name__}: {error}")
            continue
        if (row.agrees or known.codec.agrees)(expected, actual):
            tally.passed += 1
        else:
            tally.fail(where, f"{name}: expected {json.dumps(expected)}, got {json.dumps(actual, default=repr)}")


@command
def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns the exit code."""
    paths = [Path(a) for a in (sys.argv[1:] if arguments is None else arguments)]
    if not paths:
        complain("usage: python -m tests.vectors PATH...")
        return 2
    tally = Tally()
    try:
        run_vectors(paths, tally)
    except UnreadableFile as error:
        complain(indented(str(error)))
        return 2
    put(str(tally))
    return 1 if tally.failed else 0


def _run_or_leave(path: Path, tally: Tally) -> None:
    if _stem(path) in CONFORMANCE_FILES:
        tally.note(f"left to vyre.testing.conformance: {path.name}")
    else:
        run_file(path, tally)


def _stem(path: Path) -> str | None:
    """Name without suffixes, or None if it is no vector file."""
    plain = path.with_suffix("") if path.suffix in _PACKED else path
    return plain.stem if plain.suffix in _SUFFIXES else None


def _read(path: Path) -> list[bytes]:
    return [line for line in unpacked(path).splitlines() if line.strip()]
