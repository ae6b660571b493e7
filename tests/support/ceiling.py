"""The longest that one test may take: nothing waits for ever, and whatever hangs says where.

A test that reaches the ceiling fails with the stacks of all threads.  One whose main thread does not come back to the
interpreter even then ends its process, in a run of several processes that of one worker.
"""

from __future__ import annotations

import faulthandler
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

import pytest

CEILING_S: Final = 1200.0
"""Far above what any test takes on a slow machine that has other work."""
SOAK_CEILING_S: Final = 12 * 3600.0
GRACE_S: Final = 60
"""Between the signal and the end of the process."""


@contextmanager
def ceiling(seconds: float) -> Iterator[None]:
    """Fail what runs inside after so many seconds.  To be used in the main thread."""

    assert sys.__stderr__ is not None
    stderr = sys.__stderr__

    def give_up(number: int, frame: FrameType | None) -> None:
        faulthandler.dump_traceback(stderr)
        pytest.fail(f"it took longer than the {seconds:g} s that any test may take", pytrace=True)

    faulthandler.dump_traceback_later(seconds + GRACE_S, exit=True, file=stderr)
    alarmed = hasattr(signal, "setitimer")
    if alarmed:
        before = signal.signal(signal.SIGALRM, give_up)
        signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        if alarmed:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
        faulthandler.cancel_dump_traceback_later()
