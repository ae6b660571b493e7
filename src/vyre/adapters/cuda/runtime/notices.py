"""Descriptors that become readable when jobs end: a thread looks at the words as long as somebody has one.

A kernel cannot write to a descriptor.  The thread tells of ends; it takes no part in them.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from vyre.adapters.forks import process_lock
from vyre.domain.errors import DispatchFailed
from vyre.domain.unique import Unique
from vyre.ports.persistent import no_descriptor

_PAUSE_S: Final = 0.0005


class Notices(Unique):
    """The descriptors of one engine; every method may be called from any thread.

    ``look`` returns the number of jobs that have ended so far.
    """

    def __init__(self, look: Callable[[], int]) -> None:
        self._look = look
        self._lock: Final = process_lock()
        self._ends: Final[dict[int, int]] = {}
        self._is_quiet = False
        self._thread: threading.Thread | None = None

    def subscribe(self) -> int:
        """Returns a descriptor; it is readable at first, because jobs may have ended meanwhile."""
        try:
            reading, writing = os.pipe()
        except OSError as error:
            raise no_descriptor("telling of ended jobs", error) from None
        os.set_blocking(reading, False)
        os.set_blocking(writing, False)
        with self._lock:
            self._ends[reading] = writing
            self._ring()
            if self._thread is None:
                self._is_quiet = False
                self._thread = threading.Thread(target=self._run, name="vyre-cuda-notices", daemon=True)
                try:
                    self._thread.start()
                except RuntimeError as error:
                    self._thread = None
                    self.unsubscribe(reading)
                    raise DispatchFailed(
                        f"a thread that tells of ended jobs cannot be started: {error}", fix="hold fewer threads."
                    ) from error
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
        self._is_quiet = True

    def _run(self) -> None:
        seen = -1
        while True:
            ended = self._look()
            with self._lock:
                if ended != seen:
                    seen = ended
                    self._ring()
                if not self._ends or self._is_quiet:
                    self._thread = None
                    return
            time.sleep(_PAUSE_S)

    def _ring(self) -> None:
        for writing in list(self._ends.values()):
            with suppress(BlockingIOError):
                os.write(writing, b"\0")

    def __del__(self) -> None:
        for reading, writing in getattr(self, "_ends", {}).items():
            os.close(reading)
            os.close(writing)
