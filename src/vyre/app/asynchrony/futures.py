"""The futures of submitted dispatches.

They are completed by the callback of the port's async executor, so that no thread waits, or by a thread of the session
where a backend has none.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from typing import TypeVar

from vyre.ports.backend import PendingDispatch
from vyre.ports.cancellation import Cancellation

T = TypeVar("T")


class Submitted(Future[T]):
    """The future of a dispatch or a copy.  ``ended`` is called once, when it takes no room any more.

    ``cancel`` cancels it if it has not begun.  Else it asks the device to stop the run where that can be done, and
    returns False, as for every future that runs: the future is done when the run has ended, with the error of a
    stopped run or with its result.
    """

    def __init__(self, ended: Callable[[], object]) -> None:
        super().__init__()
        self._ended = [ended]
        self._pending: PendingDispatch | Cancellation | None = None

    def on_leaving(self, ended: Callable[[], object]) -> None:
        """Has ``ended`` called, too, when it has ended."""
        self._ended.append(ended)

    def begin(self, pending: PendingDispatch, collect: Callable[[PendingDispatch], T]) -> None:
        """Is completed by ``pending``, with what ``collect`` returns or raises."""
        self.set_running_or_notify_cancel()
        self._pending = pending
        pending.add_done_callback(lambda: self._complete(lambda: collect(pending)))

    def stopped_by(self, cancellation: Cancellation) -> None:
        """Has ``cancel`` ask ``cancellation`` for the end of what ``run`` runs."""
        self._pending = cancellation

    def run(self, work: Callable[[], T]) -> None:
        """Runs ``work``, unless the future was cancelled, and completes the future with what it returns or raises."""
        if not self.done() and self.set_running_or_notify_cancel():
            self._complete(work)

    def give_up(self, error: BaseException) -> None:
        """Completes the future with ``error`` although its work has not ended, whose outcome nobody will see."""
        self.leave()
        with suppress(InvalidStateError):  # it has ended meanwhile
            self.set_exception(error)

    def cancel(self) -> bool:
        """Cancels what has not begun, and asks for the end of what has; returns whether the future is cancelled."""
        if super().cancel():
            self.leave()
            return True
        pending = self._pending
        if pending is not None and not self.done():
            pending.cancel()
        return False

    def leave(self) -> None:
        """Calls each ``ended``, unless that was done."""
        while self._ended:
            try:
                ended = self._ended.pop()
            except IndexError:  # another thread calls it
                return
            ended()

    def _complete(self, work: Callable[[], T]) -> None:
        try:
            result = work()
        except BaseException as error:
            self._pending = None
            self.leave()  # first, so that who waits for the result finds room
            with suppress(InvalidStateError):  # it was given up
                self.set_exception(error)
        else:
            self._pending = None
            self.leave()
            with suppress(InvalidStateError):
                self.set_result(result)


async def ended(future: Future[T]) -> T:
    """Waits in an event loop for a future, which another thread completes, and returns its result or raises its error.

    Cancelling the waiting does not touch the future.
    """
    loop = asyncio.get_running_loop()
    told: asyncio.Future[None] = loop.create_future()

    def settle() -> None:
        if not told.done():
            told.set_result(None)

    def tell(_: Future[T]) -> None:
        with suppress(RuntimeError):  # the loop was closed: nobody goes on
            loop.call_soon_threadsafe(settle)

    future.add_done_callback(tell)
    await told
    return future.result()
