"""How much work something is, counted instead of timed: the same number on every machine and under every load."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, TypeAlias

Trace: TypeAlias = "Callable[[FrameType, str, Any], Trace | None]"


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


def steps_of(work: Callable[[], object]) -> int:
    """Returns how many functions of Python and C are called, and how many lines and rounds of loops are run.

    Copies of whole lists and dictionaries count as one step, whatever their size.
    """
    steps = 0

    def profile(frame: FrameType, event: str, argument: object) -> None:
        nonlocal steps
        steps += event in ("call", "c_call")

    def trace(frame: FrameType, event: str, argument: object) -> Trace:
        nonlocal steps
        steps += event == "line"
        return trace

    before = sys.getprofile(), sys.gettrace()
    sys.setprofile(profile)
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before[1])
        sys.setprofile(before[0])
    return steps
