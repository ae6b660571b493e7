"""Schedules reviews, which compare the observations of a session with the costs that its backend plans with."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import TYPE_CHECKING

from vyre.adapters.forks import process_lock
from vyre.app.background import BackgroundCompiler
from vyre.domain.cost_limits import SETTLING_SAMPLES
from vyre.ports.interrupts import sealed

if TYPE_CHECKING:
    from vyre.ports.support import Telemetry


class CostReview:
    """Calls ``review`` in the background after ``SETTLING_SAMPLES`` runs that launched, and whenever they have doubled.

    Errors of a review are reported to telemetry.  Every method may be called from any thread.
    """

    __slots__ = ("_background", "_due", "_lock", "_review", "_runs")

    def __init__(self, review: Callable[[], None], telemetry: Telemetry) -> None:
        self._review = review
        self._background = BackgroundCompiler(telemetry, waiting=1)
        self._runs = count(1)
        self._due = SETTLING_SAMPLES
        self._lock = process_lock()

    def launched(self) -> None:
        """Counts a run that launched.  Never raises."""
        runs = next(self._runs)
        if runs >= self._due:
            self._ask(runs)

    def close(self) -> None:
        """Waits for a running review and prevents further ones."""
        self._background.close()

    def _ask(self, runs: int) -> None:
        with self._lock, sealed:
            if runs < self._due:  # another thread has requested it
                return
            begins = self._background.wish("review", self._review)
            self._due = 2 * self._due if begins else runs + SETTLING_SAMPLES  # the last review may still be running
