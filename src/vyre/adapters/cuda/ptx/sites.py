"""The user's source line that a line of PTX was written for.  The text itself does not contain it."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from vyre.domain.source_location import SourceLocation


class Site(NamedTuple):
    """A piece of a program that lines of PTX were written for.

    ``locs`` is its source location; a vector access has the location of each of its elements, ascending.  ``buffer`` is
    the buffer that it accesses, None except for loads, stores and atomics.
    """

    locs: Sequence[SourceLocation | None] = (None,)
    buffer: str | None = None

    def loc(self, element: int) -> SourceLocation | None:
        """Returns the location of the access to that element of the buffer.

        A vector starts at a multiple of its length: in a vector of 4, element 7 of the buffer has the location
        ``locs[3]``.
        """
        return self.locs[element % len(self.locs)]


NOWHERE: Final = Site()


class Area(NamedTuple):
    """A buffer in workgroup memory: its first byte in the block's area, and the size of its elements in bytes."""

    buffer: str
    start: int
    size: int


class KernelSites(NamedTuple):
    """The sites of one entry.

    ``lines`` are ascending and 1-based in the text of the module: from each on, lines belong to the site at the same
    position of ``sites``.  ``bindings`` holds name and element size in bytes of the buffers in the order of the pointer
    table.  ``shared`` is ascending by ``start``.
    """

    lines: tuple[int, ...]
    sites: tuple[Site, ...]
    bindings: tuple[tuple[str, int], ...]
    shared: tuple[Area, ...]

    def at(self, line: int) -> Site:
        """Returns the site of a line; ``NOWHERE`` for lines before the program's first statement."""
        position = bisect_right(self.lines, line)
        return self.sites[position - 1] if position else NOWHERE
