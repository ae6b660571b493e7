"""The futures of submitted dispatches.

They are completed by the callback of the port's async executor, so that no thread waits, or by a thread of the session
where a backend has none.
"""

from __future__ import annotations

import asyncio
import os
from _thread import RLock
from collections.abc import Callable
from concurrent.futures import CancelledError, Future, InvalidStateError
from concurrent.futures._base import CANCELLED, CANCELLED_AND_NOTIFIED, FINISHED, PENDING
from contextlib import suppress
from functools import partial
from threading import Lock
from typing import Any, Final, TypeVar

from vyre.adapters.callbacks import call_back
from vyre.adapters.forks import tell_in_forks
from vyre.domain.unique import Unique, used_in_a_fork
from vyre.ports.cancellation import Cancellation
from vyre.ports.execution import PendingDispatch
from vyre.ports.interrupts import is_disturbed, wait_at

T = TypeVar("T")
_CANCELLED: Final = (CANCELLED, CANCELLED_AND_NOTIFIED)
_DONE: Final = (*_CANCELLED, FINISHED)


class _Condition(RLock):  # type: ignore[misc]  # the stubs call it a function
    """The condition of a future, entered and left by C, so that an interrupt does not leave it held."""

    def __init__(self) -> None:
        self.gate = Lock()
        self.gate.acquire()
        self._is_told = False

    def wait(self, timeout: float | None = None) -> bool:
        """Returns at once: who waits does so at the gate, and holds nothing."""
        return False

    def notify_all(self) -> None:
        """Opens the gate."""
        if not self._is_told:
            self._is_told = True
            self.gate.release()


class Submitted(Unique, Future[T]):
    """The future of a dispatch or a copy.  ``ended`` is called with it when it takes no room any more.

    It may be called several times, by several threads.  ``cancel`` cancels the future if it has not begun.  Else it
    asks the device to stop the run where that can be done, and returns False, as for every future that runs: the future
    is done when the run has ended, with the error of a stopped run or with its result.

    What a callback raises is told to ``threading.excepthook``.
    """

    def __init__(self, ended: Callable[[Submitted[T]], object]) -> None:
        # In place of the base class, which makes a condition of Python for each future.
        self._condition: _Condition = _Condition()  # type: ignore[assignment]
        self._state: str = PENDING
        self._result: T | None = None
        self._exception: BaseException | None = None
        self._waiters: list[Any] = []
        self._ended: tuple[Callable[[Submitted[T]], object], ...] = (ended,)
        self._pending: PendingDispatch | Cancellation | None = None
        self._completions: list[tuple[PendingDispatch, Callable[[], None]]] = []
        """The run and the function that completes the future after it; the thread that takes the entry out calls it."""
        self._leaves_at_its_end = False
        self._callbacks: list[Callable[[Future[T]], object]] = []
        self._process = os.getpid()
        tell_in_forks(self)

    def inherited(self) -> None:
        """Ends it with an error in a forked child, where nobody else does; calls nothing of the parent's."""
        self._condition = _Condition()  # a thread of the parent may have held it
        self._callbacks.clear()
        self._waiters.clear()
        self._ended = ()
        self._pending = None
        self._completions.clear()
        if not self.done():
            self.set_exception(used_in_a_fork("the session of the dispatch", self._process, os.getpid()))

    def add_done_callback(self, fn: Callable[[Future[T]], object]) -> None:
        """Has ``fn(future)`` called once it is done: now if it is, else by the thread that completes it."""
        self._callbacks.append(fn)
        if self.done():
            self._invoke_callbacks()

    def _invoke_callbacks(self) -> None:
        """Calls each callback once.  The base class calls it when the future is done."""
        try:
            while self._callbacks:
                call_back(self._callbacks.pop(0), self)
        except IndexError:  # another thread calls the last one
            return
        except BaseException:  # an interrupt of the main thread: the others are called all the same
            self._invoke_callbacks()
            raise

    def done(self) -> bool:
        """Returns whether it has ended.  It looks without the lock, which a trace function could make stay held."""
        return self._state in _DONE

    def cancelled(self) -> bool:
        """Returns whether it was cancelled."""
        return self._state in _CANCELLED

    def result(self, timeout: float | None = None) -> T:
        """Waits for the result, and returns it or raises the error of the run, or ``TimeoutError``."""
        if self.exception(timeout) is None:
            return self._result  # type: ignore[return-value]  # it is what the run returned
        try:
            raise self._exception  # type: ignore[misc]  # it is not None
        finally:
            del self  # which the error would name, that it names

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Waits as ``result`` does, and returns the error."""
        wait_at(self._condition.gate, self._is_over, timeout)
        if self.cancelled():
            raise CancelledError
        if not self.done():
            raise TimeoutError
        return self._exception

    def on_leaving(self, ended: Callable[[Submitted[T]], object]) -> None:
        """Has ``ended`` called, too, when it has ended."""
        self._ended = (ended, *self._ended)

    def begin(self, pending: PendingDispatch, collect: Callable[[PendingDispatch], T]) -> None:
        """Is completed by ``pending``, with what ``collect`` returns or raises."""
        self._pending = pending
        if not self.set_running_or_notify_cancel():
            pending.cancel()
        self._completions.append((pending, partial(self._complete, partial(collect, pending))))
        pending.add_done_callback(self._complete_once)
        self._leaves_at_its_end = True

    def stopped_by(self, cancellation: Cancellation) -> None:
        """Has ``cancel`` ask ``cancellation`` for the end of what ``run`` runs."""
        self._pending = cancellation

    def run(self, work: Callable[[], T]) -> None:
        """Runs ``work``, unless the future was cancelled, and completes the future with what it returns or raises."""
        try:
            self._leaves_at_its_end = True  # before it runs, and so can no longer be cancelled
            if not self.done() and self.set_running_or_notify_cancel():
                self._complete(work)
        except BaseException:  # an interrupt
            self._leaves_at_its_end = False
            raise

    def give_up(self, error: BaseException) -> None:
        """Completes the future with ``error`` although its work has not ended, whose outcome nobody will see."""
        self.leave()
        with suppress(InvalidStateError):  # it has ended meanwhile
            self.set_exception(error)

    def cancel(self) -> bool:
        """Cancels what has not begun, and asks for the end of what has; returns whether the future is cancelled."""
        try:
            if self.cancelled() or (self._state == PENDING and super().cancel()):
                return True
        finally:
            if self.cancelled():
                self.leave()
        pending = self._pending
        if pending is not None and not self.done():
            pending.cancel()
        return False

    def drop(self) -> None:
        """Cancels what was not begun, or was begun for a caller who was interrupted and never gets the future."""
        try:
            cancelled = self.cancel()
        except BaseException:
            self.leave()
            raise
        if not cancelled and not self._leaves_at_its_end:
            self.leave()

    def leave(self) -> None:
        """Calls each ``ended``."""
        for ended in self._ended:
            ended(self)

    def _is_over(self) -> bool:
        """Returns whether it has ended; a thread that waits for it in a callback or a finaliser completes it itself.

        That thread may be the one by which the backend tells of ended runs, and would wait for itself.
        """
        if not self.done() and not is_disturbed() and any(pending.done() for pending, _ in self._completions):
            self._complete_once()
        return self.done()

    def _complete_once(self) -> None:
        try:
            _, complete = self._completions.pop()
        except IndexError:  # another thread does
            return
        complete()

    def _complete(self, work: Callable[[], T]) -> None:
        failure: BaseException | None = None
        try:
            result = work()
        except BaseException as error:
            if not isinstance(error, Exception) and is_disturbed():
                raise  # an interrupt of the thread that submits, and no outcome of the run
            failure = error
        self._pending = None
        self.leave()  # first, so that who waits for the result finds room
        with suppress(InvalidStateError):  # it was given up
            if failure is None:
                self.set_result(result)
            else:
                self.set_exception(failure)


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
