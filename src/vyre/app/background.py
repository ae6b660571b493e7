"""Work that a session does beside its user's calls: one thread, few wishes, nothing that raises."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from vyre.ports.support import Telemetry

WAITING: Final = 4
"""Wishes that wait.  A prediction names what comes next, so an old one is hardly worth its work."""


class BackgroundCounts(NamedTuple):
    """Wishes that were fulfilled, that failed, and that newer ones or ``close`` pushed out."""

    done: int = 0
    failed: int = 0
    dropped: int = 0


class BackgroundCompiler:
    """Fulfils wishes one after another; every method may be called from any thread.

    The thread starts with the first wish and ends when none is left, so that an idle session holds no thread and the
    interpreter can exit, after at most ``waiting + 1`` pieces of work.  What fails is told to telemetry.
    """

    def __init__(self, telemetry: Telemetry, waiting: int = WAITING) -> None:
        self._telemetry = telemetry
        self._most = waiting
        self._wishes: OrderedDict[Hashable, Callable[[], object]] = OrderedDict()
        self._running: Hashable = None
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self._closed = False
        self._done = self._failed = self._dropped = 0

    def wish(self, key: Hashable, work: Callable[[], object]) -> bool:
        """Do ``work`` soon; False if it runs or waits already, or nothing is done any more.  Never raises."""
        with self._lock:
            if self._closed or key in self._wishes or key == self._running:
                return False
            self._wishes[key] = work
            while len(self._wishes) > self._most:
                self._wishes.popitem(last=False)
                self._dropped += 1
            return self._started()

    def forget(self, key: Hashable) -> None:
        """Take back a wish that still waits: somebody did it already."""
        with self._lock:
            self._wishes.pop(key, None)

    @property
    def load_bps(self) -> int:
        """How busy it is, in parts of 10 000: 0 when idle, 10 000 when the next wish drops an old one."""
        with self._lock:
            return (len(self._wishes) + (self._running is not None)) * 10_000 // (self._most + 1)

    def counts(self) -> BackgroundCounts:
        with self._lock:
            return BackgroundCounts(self._done, self._failed, self._dropped)

    def join(self) -> None:
        """Wait until every wish so far is fulfilled."""
        with self._lock:
            thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def close(self) -> None:
        """Wait for what runs and drop the rest; calling it again does nothing."""
        with self._lock:
            self._closed = True
            self._dropped += len(self._wishes)
            self._wishes.clear()
        self.join()

    # ---- details
    def _started(self) -> bool:
        """Whether a thread is there for the wishes.  Call with the lock held."""
        if self._thread is not None and self._thread.is_alive():  # it has ended by itself in a forked process
            return True
        thread = threading.Thread(target=self._work, name="vyre-background", daemon=False)
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
            with self._lock:
                if not self._wishes:
                    self._thread, self._running = None, None
                    return
                self._running, work = self._wishes.popitem(last=False)
            try:
                work()
                failed = False
            except BaseException as error:  # a thread has nobody to raise to
                failed = True
                told = f"{type(error).__name__}: {error}".removesuffix(": ")
                self._telemetry.event("vyre.background.failed", level="warning", error=told)
            del work
            with self._lock:
                self._running = None
                self._failed += failed
                self._done += not failed
