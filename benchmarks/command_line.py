"""The arguments of ``python -m benchmarks``, and the rows that they choose."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from fnmatch import fnmatch
from pathlib import Path
from typing import Final

from benchmarks.harness import MIN_ROUNDS, Row

ALL: Final = ("*",)


def parser(suites: Mapping[str, Sequence[Row]]) -> argparse.ArgumentParser:
    """Returns the parser; patterns that are given again choose more."""
    made = argparse.ArgumentParser(prog="python -m benchmarks", description="Measures, and judges what is required.")
    made.add_argument("--suite", action="append", metavar="GLOB", help=f"suites to run, of {', '.join(suites)}")
    made.add_argument("--only", action="append", metavar="GLOB", help="rows to measure; may be repeated")
    made.add_argument("--rounds", type=int, default=MIN_ROUNDS, help=f"samples a side, at least {MIN_ROUNDS}")
    made.add_argument("--json", type=Path, metavar="PATH", help="where to write the record")
    return made


def chosen(suites: Mapping[str, Sequence[Row]], options: argparse.Namespace) -> dict[str, list[Row]]:
    """Returns the rows that some pattern of ``--only`` matches, by suite; without patterns, all of them.

    Suites without such a row are left out.
    """
    found = {
        name: [row for row in rows if _matches(row.name, options.only)]
        for name, rows in suites.items()
        if _matches(name, options.suite)
    }
    return {name: rows for name, rows in found.items() if rows}


def _matches(name: str, patterns: Sequence[str] | None) -> bool:
    return any(fnmatch(name, pattern) for pattern in patterns or ALL)
