"""Lines of the user's source with the position that an error or a finding means underlined."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from vyre.domain.lazy_names import FunctionAbove
from vyre.domain.printable import printable

if TYPE_CHECKING:
    from vyre.domain.source_location import SourceLocation

kept_lines: Final[FunctionAbove[[str, dict[str, object]], list[str]]] = FunctionAbove("kept_lines")
"""Returns the lines of a file, none where there is no such file; the second argument has the globals of a module."""
_TOKEN: Final = re.compile(r"\w+|\S")
_BEFORE: Final = 160
_AFTER: Final = 240
"""The numbers of characters of a line that are shown before and from the position of a diagnostic."""


def excerpt(loc: SourceLocation | None, source: str | None = None) -> str:
    """Returns the line at a location, and in a second line a mark under the token at the column, or under all of it.

    ``source`` is the text of the whole file; None: the line is the one that the location has, or that the file has.
    Returns an empty text where the line is unknown.
    """
    text = None if loc is None else loc.text if source is None else _line(source.split("\n"), loc.line)
    if loc is not None and text is None and source is None:
        text = _line(kept_lines(loc.file, {}), loc.line)
    if loc is None or text is None or (source is None and not text.strip()):
        return ""
    text = text.rstrip()
    first, last = len(text) - len(text.lstrip()), len(text)
    if loc.column is not None and 1 <= loc.column <= len(text):
        first = loc.column - 1
        token = _TOKEN.match(text, first)
        last = token.end() if token else first + 1
    # Of a long line, only the surroundings of the position are shown.
    start, end = max(0, first - _BEFORE), first + _AFTER
    last = min(last, first + _AFTER)
    before, marked, after = (printable(text[a:b]) for a, b in ((start, first), (first, last), (last, end)))
    shown = f"{'...' * (start > 0)}{before}"
    # Tabs stay tabs, so that the mark lines up however wide a terminal shows them.
    indent = "".join("\t" if char == "\t" else " " for char in shown)
    return f"{shown}{marked}{after}{'...' * (end < len(text))}\n{indent}{'^' * max(len(marked), 1)}"


def indented_excerpt(loc: SourceLocation | None) -> str:
    """Returns the excerpt of a location as messages of errors show it: both lines are indented."""
    return "\n".join(f"    {line}" for line in excerpt(loc).split("\n") if line)


def in_a_frame(number: int, text: str) -> list[str]:
    """Returns the lines of an excerpt with the number of the source line."""
    line, mark = text.split("\n")
    gutter = " " * len(str(number))
    return [f" {gutter} |", f" {number} | {printable(line)}", f" {gutter} | {mark}"]


def _line(lines: list[str], number: int) -> str | None:
    return lines[number - 1] if 1 <= number <= len(lines) else None
