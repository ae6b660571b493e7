"""Expectations on emitted code in filetests.

::

    ; check ptx: TEXT                   TEXT appears after the text that the previous check found
    ; check-not ptx: TEXT               TEXT does not appear between its neighbours
    ; check ptx target=sm_75: TEXT      with options of the emission: target, assume, grid_sync

Blanks in TEXT match any blanks, ``{{...}}`` is a regular expression; everything else is literal. Checks of the same
options are one sequence over one text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from vyre.app.emission import emit
from vyre.domain.errors import MalformedText, VyreError
from vyre.domain.ir.program import Program
from vyre.domain.source_location import SourceLocation

_CLAIMED: Final = re.compile(r"^\s*;\s*check(?:-\w+)?\s+\w+[^:]*:")
_CHECK: Final = re.compile(r"^\s*;\s*(check|check-not)\s+ptx((?:\s+\w+=[\w,-]+)*)\s*:\s*(.*?)\s*$")
_OPTIONS: Final = ("target", "assume", "grid_sync")
_REGEX: Final = re.compile(r"\{\{(.+?)\}\}")


class Check(NamedTuple):
    """One check line.  ``absent``: whether its text must not appear."""

    line: int
    absent: bool
    options: tuple[tuple[str, str], ...]
    text: str
    pattern: re.Pattern[str]


class CheckResult(NamedTuple):
    """The result of the checks of one emission: the line of the first, and the difference (None: all hold)."""

    line: int
    difference: str | None


def parse_checks(text: str, filename: str) -> tuple[Check, ...]:
    """Returns the check lines of a filetest; raises ``MalformedText`` for a line that does not parse."""
    return tuple(
        _check(line, number, filename) for number, line in enumerate(text.split("\n"), 1) if _CLAIMED.match(line)
    )


def judge_checks(program: Program, checks: Iterable[Check]) -> Iterator[CheckResult]:
    """Yields one result for each set of options, in the order of their first lines."""
    groups: dict[tuple[tuple[str, str], ...], list[Check]] = {}
    for check in checks:
        groups.setdefault(check.options, []).append(check)
    for options, group in groups.items():
        try:
            text = emit(program, **_arguments(dict(options))).text
        except VyreError as error:
            yield CheckResult(group[0].line, f"{error.code.name}: {error}")
        else:
            yield CheckResult(group[0].line, first_difference(text, group))


def first_difference(text: str, checks: Iterable[Check]) -> str | None:
    """Returns a description of the first check that does not hold for ``text``, or None."""
    position, unwanted = 0, list[Check]()
    for check in checks:
        if check.absent:
            unwanted.append(check)
            continue
        hit = check.pattern.search(text, position)
        if hit is None:
            return (
                f"line {check.line}: `{check.text}` does not appear behind line {_line_of(text, position)} of the code"
            )
        difference = _unwanted(text, unwanted, position, hit.start())
        if difference is not None:
            return difference
        position, unwanted = hit.end(), []
    return _unwanted(text, unwanted, position, len(text))


def _unwanted(text: str, checks: Iterable[Check], start: int, end: int) -> str | None:
    for check in checks:
        hit = check.pattern.search(text, start, end)
        if hit is not None:
            where = _line_of(text, hit.start())
            return f"line {check.line}: `{check.text}` appears in line {where} of the code: {hit[0]}"
    return None


def _line_of(text: str, position: int) -> int:
    return text.count("\n", 0, position) + 1


def _check(line: str, number: int, filename: str) -> Check:
    loc = SourceLocation(filename, number, 1)
    match = _CHECK.match(line)
    if match is None or not match[3]:
        raise MalformedText("no check line", loc=loc, fix="write `; check ptx: TEXT` or `; check-not ptx: TEXT`.")
    options = tuple(tuple(option.split("=", 1)) for option in match[2].split())
    for name, _ in options:
        if name not in _OPTIONS:
            raise MalformedText(f"`{name}` is no option of a check", loc=loc, fix=f"use {', '.join(_OPTIONS)}.")
    try:
        pattern = re.compile(_pattern(match[3]))
    except re.error as error:
        raise MalformedText(
            f"no regular expression in `{match[3]}`: {error}", loc=loc, fix="see Python's re."
        ) from None
    return Check(number, match[1] == "check-not", tuple((o[0], o[1]) for o in options), match[3], pattern)


def _pattern(text: str) -> str:
    parts = _REGEX.split(text)  # literal, expression, literal, ...
    return "".join(f"(?:{part})" if k % 2 else _literal(part) for k, part in enumerate(parts))


def _literal(text: str) -> str:
    return "".join(r"\s+" if word.isspace() else re.escape(word) for word in re.split(r"(\s+)", text) if word)


def _arguments(options: Mapping[str, str]) -> dict[str, Any]:
    return {name: value.split(",") if name == "assume" else value for name, value in options.items()}
