"""Telling of ended jobs through descriptors: to event loops, to callbacks, and to who takes results as they come.

An engine writes to a descriptor when jobs end; whoever reads it looks at the words of the tickets that it waits for.
No ticket is completed here: the words say that jobs have ended whether anybody looks or not.
"""

from __future__ import annotations

import os
import select
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Final

from vyre.adapters.callbacks import call_back
from vyre.adapters.forks import process_lock
from vyre.app.persistent.tickets import Deadline
from vyre.domain.errors import DispatchFailed, VyreError
from vyre.domain.float_mode import in_default_mode
from vyre.domain.shared_dicts import entries_of
from vyre.ports.persistent import PersistentEngine

if TYPE_CHECKING:
    import asyncio

    from vyre.app.persistent.tickets import Ticket


class Subscriptions:
    """The descriptors of one reader, by engine.  Not for several threads at once."""

    def __init__(self) -> None:
        self._engines: dict[int, tuple[PersistentEngine, int]] = {}

    def add(self, engine: PersistentEngine) -> int | None:
        """Subscribes to an engine; returns the new descriptor, or None if there is one already."""
        if id(engine) in self._engines:
            return None
        descriptor = engine.subscribe()
        self._engines[id(engine)] = engine, descriptor
        return descriptor

    def rearm(self) -> None:
        """Empties all descriptors; look at the tickets afterwards."""
        for engine, descriptor in self._engines.values():
            engine.rearm(descriptor)

    @property
    def descriptors(self) -> list[int]:
        """Returns the descriptors."""
        return [descriptor for _, descriptor in self._engines.values()]

    def end(self) -> None:
        """Closes all descriptors."""
        while self._engines:
            engine, descriptor = self._engines.popitem()[1]
            engine.unsubscribe(descriptor)


class LoopNotices:
    """The awaited tickets of one event loop.  All methods but ``end`` are called by the thread of the loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._subscriptions = Subscriptions()
        self._pending: list[tuple[Ticket, asyncio.Future[None]]] = []

    @property
    def is_closed(self) -> bool:
        """Whether the loop is closed."""
        return self._loop.is_closed()

    def future(
        self, ticket: Ticket, call_when_done: Callable[[Ticket, Callable[[Ticket], object]], object]
    ) -> asyncio.Future[None]:
        """Returns a future that is done when the job of the ticket has ended.

        ``call_when_done`` tells of it where the engine has no descriptor for one more loop.
        """
        future: asyncio.Future[None] = self._loop.create_future()
        try:
            descriptor = self._subscriptions.add(ticket.engine)
            if descriptor is not None:
                self._loop.add_reader(descriptor, self._look)
        except (VyreError, OSError, NotImplementedError):
            call_when_done(ticket, lambda _: self._soon(partial(_settle, future)))
            return future
        self._pending.append((ticket, future))
        self._look()
        return future

    def end(self) -> None:
        """Forgets the loop, after telling of all jobs, which have ended.  Called by any thread."""
        if self._loop.is_closed():
            self._subscriptions.end()
        else:
            self._soon(self._end)

    def _soon(self, call: Callable[[], object]) -> None:
        with suppress(RuntimeError):  # the loop was closed: nobody waits
            self._loop.call_soon_threadsafe(call)

    def _look(self) -> None:
        self._subscriptions.rearm()
        left = []
        for ticket, future in self._pending:
            if future.done():
                continue  # it was cancelled
            if _has_ended(ticket):
                future.set_result(None)
            else:
                left.append((ticket, future))
        self._pending = left

    def _end(self) -> None:
        for descriptor in self._subscriptions.descriptors:
            self._loop.remove_reader(descriptor)
        self._look()
        self._subscriptions.end()


class Callbacks:
    """A thread that calls functions when jobs have ended, and sleeps else.  It starts with the first of them."""

    def __init__(self) -> None:
        self._lock = process_lock()
        self._numbers = count()
        self._pending: dict[int, tuple[Ticket, Callable[[Ticket], object]]] = {}
        self._wake: tuple[int, int] | None = None
        """The descriptor that wakes the thread; None where no descriptor was left, so that it looks again and again."""
        self._thread: threading.Thread | None = None
        self._ends = False

    @in_default_mode
    def add(self, ticket: Ticket, callback: Callable[[Ticket], object]) -> bool:
        """Calls ``callback(ticket)`` once the job has ended; returns False, and does not, if it has.

        Raises ``DispatchFailed`` where no thread can be had.
        """
        with self._lock:
            waits = not self._ends and not _has_ended(ticket)
            if waits:
                if self._thread is None:
                    self._start()
                self._pending[next(self._numbers)] = ticket, callback
                self._ring()
        return waits

    def end(self) -> None:
        """Calls all that is left, of jobs that have ended, and ends the thread."""
        with self._lock:
            self._ends = True
            thread = self._thread
            self._ring()
        if thread is not None and thread is not threading.current_thread() and thread.is_alive():
            thread.join()

    def _start(self) -> None:
        with suppress(OSError):  # no descriptor is left
            self._wake = os.pipe()
            os.set_blocking(self._wake[1], False)
        self._thread = threading.Thread(target=self._run, name="vyre-persistent-callbacks", daemon=True)
        try:
            self._thread.start()
        except RuntimeError as error:
            self._thread = None
            self._close()
            raise DispatchFailed(
                f"a thread that calls back cannot be started: {error}",
                fix="hold fewer threads, or wait for the ticket.",
            ) from error

    def _ring(self) -> None:
        if self._wake is not None:
            with suppress(BlockingIOError):  # it is full, which wakes, too
                os.write(self._wake[1], b"\0")

    def _close(self) -> None:
        """Closes what wakes the thread."""
        with self._lock:
            wake, self._wake = self._wake, None
        for end in wake or ():
            os.close(end)

    def _run(self) -> None:
        subscriptions, poll, wake = Subscriptions(), select.poll(), self._wake
        if wake is not None:
            poll.register(wake[0], select.POLLIN)
        try:
            while True:
                tells = wake is not None and not self._ends
                for engine in {
                    id(ticket.engine): ticket.engine for _, (ticket, _) in entries_of(self._pending)
                }.values():
                    try:
                        descriptor = subscriptions.add(engine)
                        if descriptor is not None:
                            poll.register(descriptor, select.POLLIN)
                    except VyreError:  # it was closed, so that its jobs have ended, or no descriptor is left
                        tells = False
                subscriptions.rearm()
                ended = [number for number, (ticket, _) in entries_of(self._pending) if _has_ended(ticket)]
                for number in ended:
                    ticket, callback = self._pending.pop(number)
                    call_back(callback, ticket)
                    del ticket, callback
                if ended:
                    continue
                with self._lock:
                    if not self._pending and (self._ends or wake is None):
                        self._thread = None
                        return
                for descriptor, _ in poll.poll(None if tells else LOOK_MS):
                    if wake is not None and descriptor == wake[0]:
                        os.read(descriptor, 4096)
        finally:
            subscriptions.end()
            self._close()


def _settle(future: asyncio.Future[None]) -> None:
    if not future.done():  # it was cancelled
        future.set_result(None)


def _has_ended(ticket: Ticket) -> bool:
    """Returns whether a job has ended; that of an engine that cannot be asked any more has."""
    try:
        return ticket.done()
    except VyreError:
        return True


SLICE_MS: Final = 50
"""How long a look at descriptors takes at most: closing an engine ends its jobs without writing to them."""
LOOK_MS: Final = 2
"""The time between two looks at jobs of which no descriptor tells."""


def in_order_of_end(tickets: Iterable[Ticket], timeout: float | None) -> Iterator[Ticket]:
    """Yields tickets as their jobs end.  Raises ``TimeoutError`` if ``timeout`` seconds pass first."""
    left = Deadline(timeout)
    pending = list(tickets)
    subscriptions, poll = Subscriptions(), select.poll()
    try:
        while pending:
            ended: list[Ticket] = []
            waiting: list[Ticket] = []
            for ticket in pending:
                (ended if ticket.done() else waiting).append(ticket)
            pending = waiting
            yield from ended
            if ended or not pending:
                continue
            for engine in {id(ticket.engine): ticket.engine for ticket in pending}.values():
                with suppress(VyreError):  # it was closed: its jobs have ended
                    descriptor = subscriptions.add(engine)
                    if descriptor is not None:
                        poll.register(descriptor, select.POLLIN)
            subscriptions.rearm()
            if any(ticket.done() for ticket in pending):
                continue
            seconds = left.seconds()
            if seconds == 0.0:
                raise TimeoutError(f"{len(pending)} jobs did not finish within {timeout} s")
            poll.poll(SLICE_MS if seconds is None else min(SLICE_MS, max(1, round(1e3 * seconds))))
    finally:
        subscriptions.end()
