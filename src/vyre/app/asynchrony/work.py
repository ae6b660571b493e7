"""The state that the asynchronous operations of one session share."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, TypeVar

from vyre.app.asynchrony.admission import Admission
from vyre.app.asynchrony.order import Accesses, MemoryOrder, Operation
from vyre.app.asynchrony.threads import SubmitThreads
from vyre.domain.errors import DispatchFailed
from vyre.ports.interrupts import is_disturbed

if TYPE_CHECKING:
    from vyre.app.asynchrony.futures import Submitted

T = TypeVar("T")
LIMIT_S: Final = 5.0
"""Seconds that operations have to end once the backend is closed."""
COPY_THREADS: Final = 2
"""Maximum number of threads that copy: one for each direction."""


class AsyncWork:
    """Places, threads and order.  Copies have threads of their own, so that they do not queue behind kernels."""

    def __init__(self, places: int, order: MemoryOrder) -> None:
        self.admission: Final = Admission(places)
        self.threads: Final = SubmitThreads()
        self.copies: Final = SubmitThreads(COPY_THREADS, "vyre-copy")
        self.order: Final = order
        self._under_way: set[Submitted[Any]] = set()  # adding and discarding are atomic

    def start(self, future: Submitted[T], accesses: Accesses, work: Callable[[], T], threads: SubmitThreads) -> None:
        """Runs ``work`` on one of the threads once nothing conflicts, and completes the future with its outcome."""

        def begin() -> None:
            try:
                threads.submit(lambda: future.run(work))
            except BaseException as error:
                if not isinstance(error, Exception) and is_disturbed():
                    raise
                failure = error

                def fail() -> T:
                    raise failure

                future.run(fail)

        self._under_way.add(future)
        future.on_leaving(self._under_way.discard)
        operation = Operation(accesses, begin)
        future.on_leaving(lambda _: self.order.end(operation))
        self.order.add(operation)

    async def copy(self, accesses: Accesses, work: Callable[[], T]) -> T:
        """Runs a copy when there is room and nothing conflicts, and returns what it returns.

        A copy that has begun is not stopped by cancelling: it keeps its place and its memory until its end.
        """
        from vyre.app.asynchrony.futures import Submitted, ended

        future: Submitted[T] = Submitted(self.admission.give_back)
        try:
            await self.admission.wait(future)
            self.start(future, accesses, work, self.copies)
            return await ended(future)
        except BaseException:
            future.drop()
            raise

    def refuse(self) -> None:
        """Rejects everything from now on."""
        self.admission.refuse()
        self.threads.refuse()
        self.copies.refuse()

    def is_thread_of_it(self) -> bool:
        """Returns whether the calling thread is one of its threads, as in a callback of a future."""
        return self.threads.is_one_of_them() or self.copies.is_one_of_them()

    def close(self, *, limited: bool = False) -> None:
        """Waits for everything that was begun, and for the threads to end.  Call ``refuse`` before.

        ``limited``: the backend is closed.  Operations on resident memory that have not ended ``LIMIT_S`` later fail
        with ``DispatchFailed``, and their threads are left to themselves.
        """
        waits = not limited or not self._under_way or self._end_within(LIMIT_S)
        self.threads.end(wait=waits)
        self.copies.end(wait=waits)

    def _end_within(self, limit_s: float) -> bool:
        from concurrent.futures import CancelledError

        futures, end = set(self._under_way), time.monotonic() + limit_s
        for future in futures:
            with suppress(TimeoutError, CancelledError):
                future.exception(end - time.monotonic())
        stuck = [future for future in futures if not future.done()]
        for future in sorted(stuck, key=lambda each: not each.running()):  # what waits behind it is refused then
            future.give_up(
                DispatchFailed(
                    "the session was closed, and the device did not end this work",
                    fix="give work that may never end a timeout_s.",
                )
            )
        return not stuck
