"""The lines of source files that Python keeps, read again where a file has changed."""

from __future__ import annotations

import linecache


def kept_lines(file: str, names: dict[str, object]) -> list[str]:
    """Returns the lines of a file, none where there is no source; ``names`` are the globals of a module in it."""
    linecache.checkcache(file)
    return linecache.getlines(file, names)
