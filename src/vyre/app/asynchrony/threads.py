"""The threads of a session for submitted work that no executor of the backend takes.

They take work from a queue that is implemented in C, because a finaliser that submits or closes may run at any moment:
those of ``concurrent.futures`` would wait there for their own locks.
"""

from __future__ import annotations

import atexit
import threading
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Final, TypeAlias, TypeVar
from weakref import WeakSet, finalize

from vyre.adapters.forks import process_lock
from vyre.domain.errors import DispatchFailed, session_closed
from vyre.domain.float_mode import in_default_mode
from vyre.ports.interrupts import sealed, undisturbed

if TYPE_CHECKING:
    from vyre.app.asynchrony.futures import Submitted

T = TypeVar("T")
Queue: TypeAlias = "SimpleQueue[Callable[[], object] | None]"
THREADS: Final = 4
"""Maximum number of threads that run the submitted dispatches of one session."""


class SubmitThreads:
    """Runs submitted dispatches; every method may be called from any thread.  Threads start when they are needed."""

    def __init__(self, most: int = THREADS, name: str = "vyre-submit") -> None:
        self._most, self._name = most, name
        self._queue: Queue = SimpleQueue()
        self._idle: SimpleQueue[None] = SimpleQueue()
        """An entry for each thread that waits for work."""
        self._threads: list[threading.Thread] = []
        self._refuses = False
        self._lock = process_lock()
        finalize(self, self._queue.put, None).atexit = False
        _ALL.add(self)

    @in_default_mode
    def submit(self, run: Callable[[], T]) -> Submitted[T]:
        """Runs on one of the threads.

        Raises ``InvalidResource`` once ``refuse`` was called, and ``DispatchFailed`` where no thread can be started.
        """
        return undisturbed(self._submit, run)

    def _submit(self, run: Callable[[], T]) -> Submitted[T]:
        from vyre.app.asynchrony.futures import Submitted

        future: Submitted[T] = Submitted(lambda _: None)
        with self._lock, sealed:
            if self._refuses:
                raise session_closed()
            self._queue.put(lambda: future.run(run))
            try:
                self._idle.get_nowait()
            except Empty:
                self._start(future)
        return future

    def _start(self, future: Submitted[T]) -> None:
        """Starts a thread for what was queued last, unless there are as many as are allowed."""
        if len(self._threads) >= self._most:
            return
        name = f"{self._name}_{len(self._threads)}"
        thread = threading.Thread(target=_work, args=(self._queue, self._idle), name=name, daemon=True)
        self._threads.append(thread)
        try:
            thread.start()
        except RuntimeError as error:  # the interpreter exits, or the system has no more threads
            self._threads.remove(thread)
            if not self._threads and future.cancel():
                raise DispatchFailed(
                    f"a dispatch cannot be submitted: {error}",
                    fix="close sessions before the program ends, and hold fewer threads.",
                ) from error

    def refuse(self) -> None:
        """Rejects all further dispatches."""
        with self._lock, sealed:
            self._refuses = True

    def is_one_of_them(self) -> bool:
        """Returns whether the calling thread is one of these, as in a callback of a future."""
        return threading.current_thread() in self._threads

    def end(self, *, wait: bool = True) -> None:
        """Ends the threads once they have run what is queued; ``wait``: returns then, and no such thread calls it.

        Without ``wait`` the exit of the interpreter does not wait for them either.
        """
        self._queue.put(None)
        if not wait:
            _ALL.discard(self)
            return
        with self._lock, sealed:  # what another thread starts meanwhile has begun then
            threads = tuple(self._threads)
        for thread in threads:
            if thread.is_alive():  # else a finaliser has come between the making of a thread and its start
                thread.join()


def _work(queue: Queue, idle: SimpleQueue[None]) -> None:
    """Runs what is in the queue, up to the end of it."""
    while True:
        try:
            run = queue.get_nowait()
        except Empty:
            idle.put(None)
            run = queue.get()
        if run is None:
            queue.put(None)  # for the other threads
            return
        run()
        del run


_ALL: Final[WeakSet[SubmitThreads]] = WeakSet()


def _close_all() -> None:
    for threads in tuple(_ALL):
        threads.end()  # refuses nothing: a daemon thread that goes on would print that, instead of ending silently


with suppress(RuntimeError):  # the interpreter exits
    getattr(threading, "_register_atexit", atexit.register)(_close_all)  # before what the work needs is closed
