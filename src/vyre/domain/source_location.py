"""``SourceLocation``: the line of the user's source that a node, an error or a finding is about."""

from __future__ import annotations

from vyre.domain.frozen import frozen


@frozen
class SourceLocation:
    """A position in the user's source: a Python line or a line of ``.vyre`` text (both 1-based)."""

    file: str
    line: int
    column: int | None = None

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" + (f":{self.column}" if self.column is not None else "")
