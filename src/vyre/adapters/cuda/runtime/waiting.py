"""Waiting for the device: bounded by a deadline, and never spinning for long.

A wait polls for 64 us, which covers the short kernels that prepared launches are made for, then polls with sleeps of 20
us that double up to 1 ms.  The driver's own blocking wait cannot be interrupted, so it is used only where the caller
gave no deadline.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, NamedTuple

from vyre.adapters.cuda.seam import CudaDriver, Event, Stream

SPIN_NS: Final = 64_000
FIRST_SLEEP_NS: Final = 20_000
LONGEST_SLEEP_NS: Final = 1_000_000


class DeadlinePassed(Exception):
    """A wait ended because its deadline passed before the device had finished."""


class WaitingClock(NamedTuple):
    """A clock: ``now_ns`` returns monotonic nanoseconds, ``sleep`` sleeps for a number of seconds."""

    now_ns: Callable[[], int] = time.monotonic_ns
    sleep: Callable[[float], None] = time.sleep


SYSTEM_CLOCK: Final = WaitingClock()


def deadline_after(clock: WaitingClock, seconds: float | None) -> int | None:
    """Returns the moment ``seconds`` from now, in ns of the clock; None (no deadline) for None."""
    return None if seconds is None else clock.now_ns() + int(seconds * 1e9)


class Waiter:
    """Waits on one driver.  Its methods raise ``CudaCallError`` and may be called from any thread."""

    __slots__ = ("_clock", "_driver")

    def __init__(self, driver: CudaDriver, clock: WaitingClock = SYSTEM_CLOCK) -> None:
        self._driver = driver
        self._clock = clock

    def event(self, event: Event, deadline_ns: int | None) -> bool:
        """Waits until ``event`` has completed.  Returns True, or False once the deadline has passed."""
        driver = self._driver
        return self._until(lambda: driver.event_ready(event), lambda: driver.event_synchronize(event), deadline_ns)

    def stream(self, stream: Stream, deadline_ns: int | None) -> bool:
        """Waits until all work queued on ``stream`` has ended.  Returns True, or False once the deadline has passed."""
        driver = self._driver
        return self._until(lambda: driver.stream_ready(stream), lambda: driver.stream_synchronize(stream), deadline_ns)

    def condition(self, holds: Callable[[], bool], deadline_ns: int | None) -> bool:
        """Waits until ``holds`` returns True.  Returns True, or False once the deadline has passed."""
        return self._until(holds, None, deadline_ns)

    def _until(self, ready: Callable[[], bool], block: Callable[[], None] | None, deadline_ns: int | None) -> bool:
        now_ns, sleep = self._clock
        if ready():
            return True
        end = now_ns() + SPIN_NS
        if deadline_ns is not None:
            end = min(end, deadline_ns)
        while now_ns() < end:
            if ready():
                return True
        if deadline_ns is None and block is not None:
            block()
            return True
        pause = FIRST_SLEEP_NS
        while True:
            left = LONGEST_SLEEP_NS if deadline_ns is None else deadline_ns - now_ns()
            if left <= 0:
                return ready()
            sleep(min(pause, left) / 1e9)
            if ready():
                return True
            pause = min(2 * pause, LONGEST_SLEEP_NS)
