"""The request to end a run early, which the thread that waits for it may not make itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import RLock

from vyre.ports.interrupts import sealed


class Cancellation:
    """A request to end one run early.  Every method may be called from any thread.

    Whoever runs it says, for as long as the run can be stopped, how.  Nobody has to: then it runs to its end.
    """

    def __init__(self) -> None:
        self._lock = RLock()  # a finaliser may cancel
        self._stop: Callable[[], object] | None = None
        self._requested = False

    @property
    def requested(self) -> bool:
        """Whether the end of the run was asked for."""
        return self._requested

    def cancel(self) -> bool:
        """Asks for the end of the run, now and if it begins later.  Returns whether somebody was told to stop it."""
        with self._lock, sealed:
            self._requested = True
            if self._stop is None:
                return False
            self._stop()
            return True

    @contextmanager
    def stops(self, stop: Callable[[], object]) -> Iterator[None]:
        """Has ``stop`` called when the end is asked for within the block, or at once if it was before.

        ``stop`` is not called any more once the block has ended.
        """
        with self._lock, sealed:
            self._stop = stop
            if self._requested:
                stop()
        try:
            yield
        finally:
            with self._lock, sealed:
                self._stop = None
