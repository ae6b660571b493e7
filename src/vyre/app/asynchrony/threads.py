"""The threads of a session for submitted work that no executor of the backend takes."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeVar

from vyre.app.lease import session_closed
from vyre.domain.errors import DispatchFailed

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

T = TypeVar("T")
THREADS: Final = 4
"""Maximum number of threads that run the submitted dispatches of one session."""


class SubmitThreads:
    """Runs submitted dispatches; every method may be called from any thread.  Threads start when they are needed."""

    def __init__(self, most: int = THREADS, name: str = "vyre-submit") -> None:
        self._most, self._name = most, name
        self._pool: ThreadPoolExecutor | None = None
        self._started: set[threading.Thread] = set()
        self._refuses = False
        self._lock = threading.RLock()  # a finaliser that closes the session may run inside

    def submit(self, run: Callable[[], T]) -> Future[T]:
        """Runs on one of the threads.

        Raises ``InvalidResource`` once ``refuse`` was called, and ``DispatchFailed`` where no thread can be started.
        """
        with self._lock:
            if self._refuses:
                raise session_closed()
            if self._pool is None:
                from concurrent.futures import ThreadPoolExecutor

                self._pool = ThreadPoolExecutor(
                    self._most, self._name, lambda: self._started.add(threading.current_thread())
                )
            try:
                return self._pool.submit(run)
            except RuntimeError as error:  # the interpreter exits, or the system has no more threads
                if self._refuses:  # a finaliser has closed the session meanwhile
                    raise session_closed() from None
                raise DispatchFailed(
                    f"a dispatch cannot be submitted: {error}",
                    fix="close sessions before the program ends, and hold fewer threads.",
                ) from error

    def refuse(self) -> None:
        """Rejects all further dispatches."""
        with self._lock:
            self._refuses = True

    def is_one_of_them(self) -> bool:
        """Returns whether the calling thread is one of these, as in a callback of a future."""
        return threading.current_thread() in self._started

    def close(self, *, wait: bool = True) -> None:
        """Waits for all submitted dispatches, and for the threads to end.  Must not be called by one of them.

        Without ``wait`` the threads end by themselves, once what they run has ended.
        """
        self.refuse()
        if self._pool is not None:
            self._pool.shutdown(wait=wait)
