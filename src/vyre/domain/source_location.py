"""``SourceLocation``: the line of the user's source that a node, an error or a finding is about."""

from __future__ import annotations

from dataclasses import field, replace
from typing import Final

from vyre.domain.frozen import frozen

MOST_PLACES: Final = 16
"""The most places of one location."""
UNSHOWN = ""
"""The text of a line of Python that records a program: Python itself shows it in tracebacks."""


@frozen
class SourceLocation:
    """A position in the user's source: a line of a program in any language, 1-based, and the column of a character.

    ``text`` is the line as it is written, which errors and findings show with the position underlined; None: they read
    it from the file, where there is one, and an empty text lets them show nothing.  ``others`` are further places of
    what was joined with what stands here.  Neither is compared.
    """

    file: str
    line: int
    column: int | None = None
    text: str | None = field(default=None, compare=False, repr=False)
    others: tuple[SourceLocation, ...] = field(default=(), compare=False, repr=False)

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" + (f":{self.column}" if self.column is not None else "")

    @property
    def places(self) -> tuple[SourceLocation, ...]:
        """Returns this place, and behind it those of everything that was joined with it."""
        return (self, *self.others)


def joined_places(*locations: SourceLocation | None) -> SourceLocation | None:
    """Returns the first of some locations, with the others that differ as its ``others``; None if there is none.

    Of many locations the first ``MOST_PLACES`` are kept.
    """
    first, *others = dict.fromkeys(place for each in locations if each is not None for place in each.places) or (None,)
    if first is None or not others:
        return first
    kept = others[: MOST_PLACES - 1]
    return replace(first, others=tuple(replace(place, others=()) for place in kept if place is not None))
