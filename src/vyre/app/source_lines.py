"""Lines of the user's source beside the code that comes from them."""

from __future__ import annotations

import re
from typing import Final

from vyre.domain.excerpts import kept_lines
from vyre.domain.printable import one_line

_COMMENT: Final = re.compile(r"(\s*(?:;|#|//) )(.+?):(\d+)(?::\d+)?$")


def with_source_lines(text: str) -> str:
    """Returns code in which each comment that names only a place, such as ``; kernel.py:12``, ends with its line.

    Places in files that are absent, no regular files, longer than 4 MiB or no UTF-8 stay as they are.
    """
    return "\n".join(map(_with_line, text.split("\n")))


def _with_line(line: str) -> str:
    comment = _COMMENT.match(line)
    if comment is None:
        return line
    lines, number = kept_lines(comment[2], {}), int(comment[3])
    if not 1 <= number <= len(lines):
        return line
    source = one_line(lines[number - 1].strip())
    return f"{line}  {source}" if source else line
