"""Admission: how many dispatches of a session may be under way, and who waits for room."""

from __future__ import annotations

from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from vyre.adapters.forks import process_lock
from vyre.domain.arguments import whole
from vyre.domain.errors import QueueFull, session_closed
from vyre.ports.interrupts import sealed

if TYPE_CHECKING:
    import asyncio

USUAL_IN_FLIGHT: Final = 1024
"""The dispatches that may be under way at once, where the caller of ``vyre.open`` gives no other number."""
MOST_IN_FLIGHT: Final = 1 << 20


def checked_in_flight(places: object) -> int:
    """Returns how many dispatches may be under way, as a plain int.  Raises ``InvalidConfig``."""
    return whole("max_in_flight", places, 1, MOST_IN_FLIGHT, f"give an int from 1 to {MOST_IN_FLIGHT}.")


class _Waiting:
    """A coroutine that waits for a place for ``owner``.  ``granted``: it has one, whether it knows of it or not."""

    __slots__ = ("future", "granted", "loop", "owner")

    def __init__(self, loop: asyncio.AbstractEventLoop, owner: object) -> None:
        self.loop: Final = loop
        self.owner: Final = owner
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
    """A number of places; every dispatch under way owns one.  Every method may be called from any thread.

    A place that becomes free is handed to the coroutine that has waited longest, so that nobody overtakes it.  An owner
    takes one place at most, and may give it back any number of times, whether it has one or not: so who was interrupted
    need not know.
    """

    def __init__(self, places: int) -> None:
        self.places: Final = places
        self._owners: set[object] = set()
        self._waiting: deque[_Waiting] = deque()
        self._refuses = False
        self._lock = process_lock()  # a finaliser that closes the session may run inside

    @property
    def taken(self) -> int:
        """The number of places that are taken."""
        return len(self._owners)

    def take(self, owner: object) -> None:
        """Takes a place.  Raises ``QueueFull`` if there is none, and ``InvalidResource`` once ``refuse`` was called."""
        if not self._took(owner):
            raise QueueFull(
                f"{self.places} dispatches of the session are under way",
                fix="wait for some of them, await session.dispatch_async, or open the session with a greater "
                "max_in_flight.",
            )

    async def wait(self, owner: object) -> None:
        """Takes a place, and waits until there is one.  Raises ``InvalidResource`` once ``refuse`` was called."""
        import asyncio

        with self._lock, sealed:
            if self._took(owner):
                return
            entry = _Waiting(asyncio.get_running_loop(), owner)
            self._waiting.append(entry)
        try:
            await entry.future
        except BaseException:
            with self._lock, sealed:
                if entry in self._waiting:
                    self._waiting.remove(entry)
            self.give_back(owner)  # what it may have been granted
            raise

    def give_back(self, owner: object) -> None:
        """Gives a place back, and hands it to who has waited longest."""
        with self._lock, sealed:
            self._owners.discard(owner)
            while self._waiting and len(self._owners) < self.places:
                entry = self._waiting[0]
                if not entry.loop.is_closed():
                    if not entry.granted:
                        entry.granted = True
                        self._owners.add(entry.owner)
                    entry.wake()
                self._waiting.popleft()  # last: whoever was interrupted before has it done by the next one

    def refuse(self) -> None:
        """Rejects everything from now on, also what waits for a place."""
        with self._lock, sealed:
            self._refuses = True
            while self._waiting:
                self._waiting[0].wake(session_closed())
                self._waiting.popleft()

    def _took(self, owner: object) -> bool:
        """Takes a place if there is one that nobody waits for."""
        with self._lock, sealed:
            if self._refuses:
                raise session_closed()
            if len(self._owners) >= self.places or self._waiting:
                return False
            self._owners.add(owner)
            return True
