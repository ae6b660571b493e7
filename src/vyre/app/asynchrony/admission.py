"""Admission: how many dispatches of a session may be under way, and who waits for room."""

from __future__ import annotations

import threading
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from vyre.app.lease import session_closed
from vyre.domain.errors import InvalidConfig, QueueFull
from vyre.domain.shown import shown

if TYPE_CHECKING:
    import asyncio

USUAL_IN_FLIGHT: Final = 1024
"""The dispatches that may be under way at once, where the caller of ``vyre.open`` gives no other number."""
MOST_IN_FLIGHT: Final = 1 << 20


def check_in_flight(places: object) -> None:
    """Raises ``InvalidConfig`` for what is no number of dispatches that may be under way."""
    if type(places) is not int or not 1 <= places <= MOST_IN_FLIGHT:
        raise InvalidConfig(f"max_in_flight={shown(places)}", fix=f"give an int from 1 to {MOST_IN_FLIGHT}.")


class _Waiting:
    """A coroutine that waits for a place.  ``granted``: a place was handed to it, whether it knows of it or not."""

    __slots__ = ("future", "granted", "loop")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop: Final = loop
        self.future: Final[asyncio.Future[None]] = loop.create_future()
        self.granted = False

    def wake(self, error: Exception | None = None) -> None:
        """Ends the waiting, from any thread."""
        with suppress(RuntimeError):  # the loop was closed: the coroutine never goes on
            self.loop.call_soon_threadsafe(self._settle, error)

    def _settle(self, error: Exception | None) -> None:
        if self.future.done():
            return  # it was cancelled
        if error is None:
            self.future.set_result(None)
        else:
            self.future.set_exception(error)


class Admission:
    """A number of places; every dispatch under way has one.  Every method may be called from any thread.

    A place that becomes free is handed to the coroutine that has waited longest, so that nobody overtakes it.
    """

    def __init__(self, places: int) -> None:
        self.places: Final = places
        self._taken = 0
        self._waiting: deque[_Waiting] = deque()
        self._refuses = False
        self._lock = threading.RLock()  # a finaliser that closes the session may run inside

    @property
    def taken(self) -> int:
        """The number of places that are taken."""
        return self._taken

    def take(self) -> None:
        """Takes a place.  Raises ``QueueFull`` if there is none, and ``InvalidResource`` once ``refuse`` was called."""
        if not self._took():
            raise QueueFull(
                f"{self.places} dispatches of the session are under way",
                fix="wait for some of them, await session.dispatch_async, or open the session with a greater "
                "max_in_flight.",
            )

    async def wait(self) -> None:
        """Takes a place, and waits until there is one.  Raises ``InvalidResource`` once ``refuse`` was called."""
        import asyncio

        with self._lock:
            if self._took():
                return
            entry = _Waiting(asyncio.get_running_loop())
            self._waiting.append(entry)
        try:
            await entry.future
        except BaseException:
            with self._lock:
                if entry in self._waiting:
                    self._waiting.remove(entry)
            if entry.granted:
                self.give_back()
            raise

    def give_back(self) -> None:
        """Gives a place back, or hands it to who has waited longest."""
        with self._lock:
            self._hand_over()

    def refuse(self) -> None:
        """Rejects everything from now on, also what waits for a place."""
        with self._lock:
            self._refuses = True
            while self._waiting:
                self._waiting.popleft().wake(session_closed())

    def _took(self) -> bool:
        """Takes a place if there is one that nobody waits for."""
        with self._lock:
            if self._refuses:
                raise session_closed()
            if self._taken >= self.places or self._waiting:
                return False
            self._taken += 1
            return True

    def _hand_over(self) -> None:
        """Hands on a place of the caller's."""
        while self._waiting:
            entry = self._waiting.popleft()
            if not entry.loop.is_closed():
                entry.granted = True
                entry.wake()
                return
        self._taken -= 1
