"""Background work of a session: one thread, a short queue, and no errors raised to callers."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Final, NamedTuple

from vyre.adapters.forks import process_lock
from vyre.domain.float_mode import in_default_mode
from vyre.ports.interrupts import sealed, undisturbed

if TYPE_CHECKING:
    from vyre.ports.support import Telemetry

WAITING: Final = 4
"""Length of the queue.  A prediction names what comes next, so an old one is hardly worth its work."""


class BackgroundCounts(NamedTuple):
    """Counts of requests: completed, failed, and dropped for newer ones or by ``close``."""

    done: int = 0
    failed: int = 0
    dropped: int = 0


class BackgroundCompiler:
    """Runs requests one after another on one thread; every method may be called from any thread.

    The thread starts with the first request and ends when the queue is empty, so that an idle session holds no thread
    and the interpreter can exit after at most ``waiting + 1`` pieces of work.  Failures are reported to telemetry.
    """

    def __init__(
        self, telemetry: Telemetry, waiting: int = WAITING, name: str = "vyre-background", *, daemon: bool = False
    ) -> None:
        """``name`` is that of the thread.  ``daemon``: the interpreter exits without waiting for it."""
        self._telemetry = telemetry
        self._name, self._daemon = name, daemon
        self._most = waiting
        self._wishes: OrderedDict[Hashable, Callable[[], object]] = OrderedDict()
        self._running: Hashable = None
        self._thread: threading.Thread | None = None
        self._lock = process_lock()
        self._closed = False
        self._done = self._failed = self._dropped = 0

    @in_default_mode
    def wish(self, key: Hashable, work: Callable[[], object]) -> bool:
        """Queues ``work``; returns False if a request with this key runs or waits already, or the queue is closed.
        Never raises.
        """
        return undisturbed(self._wish, key, work)

    def _wish(self, key: Hashable, work: Callable[[], object]) -> bool:
        with self._lock, sealed:
            if self._closed or key in self._wishes or key == self._running:
                return False
            self._wishes[key] = work
            while len(self._wishes) > self._most:
                self._wishes.popitem(last=False)
                self._dropped += 1
            return self._started()

    def forget(self, key: Hashable) -> None:
        """Removes a request that still waits, because another thread has done its work."""
        with self._lock, sealed:
            self._wishes.pop(key, None)

    @property
    def load_bps(self) -> int:
        """The load in basis points: 0 when idle, 10 000 when the next request drops the oldest one."""
        with self._lock, sealed:
            return (len(self._wishes) + (self._running is not None)) * 10_000 // (self._most + 1)

    def counts(self) -> BackgroundCounts:
        """Returns the counts of requests so far."""
        with self._lock, sealed:
            return BackgroundCounts(self._done, self._failed, self._dropped)

    def join(self, timeout: float | None = None) -> bool:
        """Waits until every request so far is completed, at most ``timeout`` seconds; returns whether they are."""
        with self._lock, sealed:
            thread = self._thread
        if thread is None or thread is threading.current_thread() or not thread.is_alive():
            return True
        thread.join(timeout)
        return not thread.is_alive()

    def close(self, timeout: float | None = None) -> bool:
        """Waits for the running request, at most ``timeout`` seconds, and drops the others; idempotent.

        Returns whether nothing runs any more.
        """
        with self._lock, sealed:
            self._closed = True
            self._dropped += len(self._wishes)
            self._wishes.clear()
        return self.join(timeout)

    # ---- details
    def _started(self) -> bool:
        """Returns whether a thread serves the queue, starting one if needed.  Call with the lock held."""
        if self._thread is not None and self._thread.is_alive():  # in a forked process the thread does not exist
            return True
        thread = threading.Thread(target=self._work, name=self._name, daemon=self._daemon)
        try:
            self._thread = thread
            thread.start()
        except RuntimeError as error:  # no more threads, or the interpreter exits
            self._thread, self._running = None, None
            self._dropped += len(self._wishes)
            self._wishes.clear()
            self._telemetry.event("vyre.background.no_thread", level="warning", error=str(error))
            return False
        return True

    def _work(self) -> None:
        while True:
            with self._lock, sealed:
                if not self._wishes:
                    self._thread, self._running = None, None
                    return
                self._running, work = self._wishes.popitem(last=False)
            try:
                work()
                failed = False
            except BaseException as error:  # a thread has no caller to raise to
                failed = True
                told = f"{type(error).__name__}: {error}".removesuffix(": ")
                self._telemetry.event("vyre.background.failed", level="warning", error=told)
            del work
            with self._lock, sealed:
                self._running = None
                self._failed += failed
                self._done += not failed
