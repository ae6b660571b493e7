"""``Scope``: a body that lanes may skip or repeat, and the values that were made inside it.

In Python, ``c = c + 1`` inside ``with p.if_(...)`` binds the name ``c`` to another recipe, once, whether or not a
lane takes the branch.  Used after the block, that recipe would be evaluated by every lane.  Therefore each value
remembers the innermost scope that was open when it was made, and is refused once that scope has ended.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import Final

from vyre.domain.source_location import SourceLocation


class Scope:
    """The body of a ``p.if_``, ``p.else_``, ``p.for_`` or ``p.while_``; ``loc`` is the line that opens it."""

    __slots__ = ("ended", "loc", "outer", "what")

    def __init__(self, what: str, loc: SourceLocation) -> None:
        self.what: str = what
        self.loc: SourceLocation = loc
        self.ended: bool = False
        self.outer: Scope | None = innermost_scope()
        _INNERMOST.set(self)

    def end(self) -> None:
        """Ends the scope; a context in which another scope is open keeps that scope."""
        self.ended = True
        if innermost_scope() is self:
            _INNERMOST.set(self.outer)


# Literals belong to no builder, so the open scope is a context variable rather than a field of a recorder.
_INNERMOST: Final[ContextVar[Scope | None]] = ContextVar("innermost_scope", default=None)

innermost_scope: Final = _INNERMOST.get
