"""Kernels that wait for the host, and need not run while nothing changes that they poll."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from vyre.adapters.cuda.machine.launch import Launch, Poll
    from vyre.adapters.cuda.machine.memory import Region

IDLE_NANOSECONDS: Final = 1_000_000
"""The time that passes for a kernel in a slice in which it finds nothing to do."""
MOST_TURNS: Final = 64


class Rest:
    """Says whether an idle kernel may be left alone.

    A kernel that was idle in two slices in a row, and did nothing in between, has only polled.  It rests for 1, 2, 4
    and at most ``MOST_TURNS`` slices, in which only time passes, because it may look at the clock.  It wakes at once
    when a value changes that it polled, and when memory was allocated or freed.
    """

    def __init__(self, launch: Launch) -> None:
        self._launch = launch
        self._polls: list[Poll] = []
        self._regions: list[Region] = []
        self._state: tuple[int, ...] = ()
        self._turns = 1
        self._left = 0

    def idle(self, state: tuple[int, ...]) -> None:
        """Takes note of an idle slice; ``state`` changes with everything that lanes do but polling."""
        launch = self._launch
        polls, launch.seen = launch.seen, []
        if polls is not None and state == self._state:
            self._polls, self._regions = polls, launch.memory.regions()
            self._left, self._turns = self._turns, min(2 * self._turns, MOST_TURNS)
        else:
            self._turns = 1
        self._state = state

    def lasts(self) -> bool:
        """Returns whether the kernel rests for another slice, whose time passes then."""
        if not self._left:
            return False
        if self._launch.memory.regions() is not self._regions or not all(poll.holds() for poll in self._polls):
            self._left, self._turns = 0, 1
            return False
        self._left -= 1
        self._launch.nanoseconds += IDLE_NANOSECONDS
        return True

    def pass_time(self) -> None:
        """Lets the time of this rest pass at once, because somebody waits for the kernel."""
        self._launch.nanoseconds += self._left * IDLE_NANOSECONDS
        self._left = 0
