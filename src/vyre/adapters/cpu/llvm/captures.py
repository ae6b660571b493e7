"""Scratch memory whose size is known at a launch only: the bytes that asynchronous copies capture."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

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
