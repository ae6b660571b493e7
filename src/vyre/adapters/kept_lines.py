"""The lines of source files that Python keeps, read again where a file has changed."""

from __future__ import annotations

import linecache
from pathlib import Path
from typing import Final

_MOST_BYTES: Final = 4 << 20


def kept_lines(file: str, names: dict[str, object]) -> list[str]:
    """Returns the lines of a file, none where there is no source; ``names`` are the globals of a module in it.

    There is none in what is no regular file, is longer than 4 MiB or is no UTF-8.
    """
    try:
        path = Path(file)
        if path.exists() and not (path.is_file() and path.stat().st_size <= _MOST_BYTES):
            return []
        linecache.checkcache(file)
        return linecache.getlines(file, names)
    except (OSError, ValueError):  # ValueError: a name with a zero byte
        return []
