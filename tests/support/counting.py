"""How much work something is, counted instead of timed: the same number on every machine and under every load."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class TooMuchWork(BaseException):
    """Nothing that is counted can catch it."""


class Work:
    """``calls``: of functions and methods, also those written in C."""

    calls = 0


@contextmanager
def at_most(calls: int) -> Iterator[Work]:
    """Count calls of this thread; fail once there are more, without waiting for the end."""
    work = Work()

    def count(frame: FrameType, event: str, argument: object) -> None:
        if event in ("call", "c_call"):
            work.calls += 1
            if work.calls > calls:
                sys.setprofile(None)
                raise TooMuchWork(f"more than {calls} calls")

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        yield work
    finally:
        sys.setprofile(before)
