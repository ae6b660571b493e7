"""Descriptors that become readable when jobs end: a thread looks at the words as long as somebody has one.

A kernel cannot write to a descriptor.  The thread tells of ends; it takes no part in them.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Final

_PAUSE_S: Final = 0.0005


class Notices:
    """The descriptors of one engine; every method may be called from any thread.

    ``look`` returns the number of jobs that have ended so far.
    """

    def __init__(self, look: Callable[[], int]) -> None:
        self._look = look
        self._lock: Final = threading.Lock()
        self._ends: Final[dict[int, int]] = {}
        self._quiet: Final = threading.Event()
        self._thread: threading.Thread | None = None

    def subscribe(self) -> int:
        """Returns a descriptor; it is readable at first, because jobs may have ended meanwhile."""
        reading, writing = os.pipe()
        os.set_blocking(reading, False)
        os.set_blocking(writing, False)
        with self._lock:
            self._ends[reading] = writing
            self._ring()
            if self._thread is None:
                self._quiet.clear()
                self._thread = threading.Thread(target=self._run, name="vyre-cuda-notices", daemon=True)
                self._thread.start()
        return reading

    def unsubscribe(self, descriptor: int) -> None:
        """Closes a descriptor."""
        with self._lock:
            writing = self._ends.pop(descriptor, None)
            if writing is not None:
                os.close(descriptor)
                os.close(writing)

    def rearm(self, descriptor: int) -> None:
        """Empties a descriptor."""
        with suppress(BlockingIOError):
            os.read(descriptor, 4096)

    def end(self) -> None:
        """Ends the thread; descriptors stay open until they are unsubscribed."""
        self._quiet.set()

    def _run(self) -> None:
        seen = -1
        while True:
            found = self._look()
            with self._lock:
                if found != seen:
                    seen = found
                    self._ring()
                if not self._ends or self._quiet.is_set():
                    self._thread = None
                    return
            self._quiet.wait(_PAUSE_S)

    def _ring(self) -> None:
        for writing in self._ends.values():
            with suppress(BlockingIOError):
                os.write(writing, b"\0")

    def __del__(self) -> None:
        for reading, writing in getattr(self, "_ends", {}).items():
            os.close(reading)
            os.close(writing)
