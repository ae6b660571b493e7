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
from typing import TYPE_CHECKING, Final

from vyre.app.persistent.tickets import Deadline
from vyre.domain.errors import VyreError
from vyre.ports.persistent import PersistentEngine

if TYPE_CHECKING:
    import asyncio

    from vyre.app.persistent.tickets import Ticket


class Subscriptions:
    """The descriptors of one reader, by engine.  Not for several threads at once."""

    def __init__(self) -> None:
        self._found: dict[int, tuple[PersistentEngine, int]] = {}

    def add(self, engine: PersistentEngine) -> int | None:
        """Subscribes to an engine; returns the new descriptor, or None if there is one already."""
        if id(engine) in self._found:
            return None
        descriptor = engine.subscribe()
        self._found[id(engine)] = engine, descriptor
        return descriptor

    def rearm(self) -> None:
        """Empties all descriptors; look at the tickets afterwards."""
        for engine, descriptor in self._found.values():
            engine.rearm(descriptor)

    @property
    def descriptors(self) -> list[int]:
        """Returns the descriptors."""
        return [descriptor for _, descriptor in self._found.values()]

    def end(self) -> None:
        """Closes all descriptors."""
        while self._found:
            engine, descriptor = self._found.popitem()[1]
            engine.unsubscribe(descriptor)


class LoopNotices:
    """The awaited tickets of one event loop.  All methods but ``end`` are called by the thread of the loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._subscriptions = Subscriptions()
        self._pending: list[tuple[Ticket, asyncio.Future[None]]] = []

    def future(self, ticket: Ticket) -> asyncio.Future[None]:
        """Returns a future that is done when the job of the ticket has ended."""
        made: asyncio.Future[None] = self._loop.create_future()
        descriptor = self._subscriptions.add(ticket.engine)
        if descriptor is not None:
            self._loop.add_reader(descriptor, self._look)
        self._pending.append((ticket, made))
        self._look()
        return made

    def end(self) -> None:
        """Forgets the loop, after telling of all jobs, which have ended.  Called by any thread."""
        if self._loop.is_closed():
            self._subscriptions.end()
            return
        with suppress(RuntimeError):  # the loop was closed meanwhile
            self._loop.call_soon_threadsafe(self._end)

    def _look(self) -> None:
        self._subscriptions.rearm()
        left = []
        for ticket, future in self._pending:
            if future.done():
                continue  # it was cancelled
            if ticket.done():
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
        self._lock = threading.Lock()
        self._pending: list[tuple[Ticket, Callable[[Ticket], object]]] = []
        self._wake: tuple[int, int] | None = None
        self._thread: threading.Thread | None = None
        self._ends = False

    def add(self, ticket: Ticket, callback: Callable[[Ticket], object]) -> None:
        """Calls ``callback(ticket)`` once the job has ended."""
        with self._lock:
            if not self._ends and not ticket.done():
                self._pending.append((ticket, callback))
                if self._thread is None:
                    self._wake = os.pipe()
                    self._thread = threading.Thread(target=self._run, name="vyre-persistent-callbacks", daemon=True)
                    self._thread.start()
                else:
                    self._ring()
                return
        _call(ticket, callback)

    def end(self) -> None:
        """Calls all that is left, of jobs that have ended, and ends the thread."""
        with self._lock:
            self._ends = True
            thread = self._thread
            if thread is not None:
                self._ring()
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def _ring(self) -> None:
        assert self._wake is not None
        os.write(self._wake[1], b"\0")

    def _run(self) -> None:
        assert self._wake is not None
        subscriptions, poll = Subscriptions(), select.poll()
        poll.register(self._wake[0], select.POLLIN)
        try:
            while True:
                with self._lock:
                    engines = {id(ticket.engine): ticket.engine for ticket, _ in self._pending}
                for engine in engines.values():
                    with suppress(VyreError):  # it was closed: its jobs have ended
                        descriptor = subscriptions.add(engine)
                        if descriptor is not None:
                            poll.register(descriptor, select.POLLIN)
                subscriptions.rearm()
                with self._lock:
                    ended = [entry for entry in self._pending if entry[0].done()]
                    self._pending = [entry for entry in self._pending if entry not in ended]
                    leaves = self._ends and not self._pending
                for ticket, callback in ended:
                    _call(ticket, callback)
                if leaves:
                    return
                if not ended:
                    for descriptor, _ in poll.poll(50 if self._ends else None):
                        if descriptor == self._wake[0]:
                            os.read(descriptor, 4096)
        finally:
            subscriptions.end()
            for end in self._wake:
                os.close(end)


def _call(ticket: Ticket, callback: Callable[[Ticket], object]) -> None:
    try:
        callback(ticket)
    except Exception as error:
        thread = threading.current_thread()
        threading.excepthook(threading.ExceptHookArgs((type(error), error, error.__traceback__, thread)))


SLICE_MS: Final = 50
"""How long a look at descriptors takes at most: closing an engine ends its jobs without writing to them."""


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
