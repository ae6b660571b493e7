"""The places in scratch memory that a kernel keeps its asynchronous copies in."""

from __future__ import annotations

from enum import Enum
from typing import Final, NamedTuple

from vyre.domain.analysis.copy_spans import AsyncCopy


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
