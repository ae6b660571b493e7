"""Scratch memory of asynchronous copies: the places in it, and what a launch adds for the bytes that they capture."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import Enum
from typing import Final, NamedTuple

from vyre.domain.analysis.copy_spans import AsyncCopy

MOST: Final = 1 << 62


class Capture(NamedTuple):
    """The bytes that one copy statement captures, in so many ``lanes`` of a thread at once.

    A lane captures no more than the source and the destination have: ``slots`` are the positions of those among the
    buffers of a launch whose lengths it decides, and ``most`` is the least of the other bounds, in bytes; None if there
    is none.
    """

    lanes: int
    slots: tuple[int, ...]
    most: int | None

    def room(self, nbytes: Sequence[int]) -> int:
        """Returns the bytes for each lane in a launch whose buffers have so many bytes."""
        bounds = [nbytes[slot] for slot in self.slots]
        return min(bounds if self.most is None else [*bounds, self.most])


def scratch_for(scratch_bytes: int, captures: Iterable[Capture], nbytes: Sequence[int]) -> int:
    """Returns the bytes of scratch memory that a thread must provide in a launch whose buffers have so many bytes.

    ``scratch_bytes`` are needed in every launch; what is captured lies behind them, in the order of ``captures``.  A
    sum beyond every memory is given as 2^62.
    """
    return min(scratch_bytes + sum(each.lanes * each.room(nbytes) for each in captures), MOST)


class Moment(Enum):
    """When a copy reads its source, and when it writes its destination."""

    AT_START = "it does both where it starts"
    AT_WAIT = "it does both where it is waited for"
    KEPT = "it reads where it starts and writes where it is waited for"


class PerVector(NamedTuple):
    """Memory of each vector of lanes: the offset of the first vector's in scratch memory, and the bytes of each."""

    offset: int
    nbytes: int


class Copy(NamedTuple):
    """One copy statement: when it is made, and each lane's first byte, number of bytes and captured bytes.

    The first byte is that of the source for a load and of the destination for a store.  ``payload`` is
    the memory for what is captured, ``room`` bytes for each lane; or ``capture`` is the number of the memory that a
    launch gives.
    """

    stmt: AsyncCopy
    moment: Moment
    start: PerVector
    nbytes: PerVector
    captured: PerVector | None
    payload: PerVector | None
    room: int
    capture: int | None


class Tag:
    """The copies under one tag, and where each lane keeps the number of the one that it started."""

    def __init__(self, copies: dict[int, tuple[int, Copy]], selector: PerVector | None) -> None:
        self.copies: Final = copies
        """By statement object: the number and the copy."""
        self.selector: Final = selector
        """None if there is one copy only."""
