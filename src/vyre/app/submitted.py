"""A pending dispatch of the port as a ``concurrent.futures.Future``.

``asyncio.wrap_future`` makes it awaitable; the completion callback of the adapter is the only signal needed,
so no thread waits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from vyre.app.result import Result
from vyre.ports.backend import PendingDispatch

if TYPE_CHECKING:
    from concurrent.futures import Future


def result_future(pending: PendingDispatch, collect: Callable[[PendingDispatch], Result]) -> Future[Result]:
    """A running future that ``pending`` completes, with what ``collect`` returns or raises."""
    from concurrent.futures import Future

    future: Future[Result] = Future()
    future.set_running_or_notify_cancel()

    def complete() -> None:
        try:
            result = collect(pending)
        except BaseException as error:
            future.set_exception(error)
        else:
            future.set_result(result)

    pending.add_done_callback(complete)
    return future


def results_of(started: Iterable[Future[Result]]) -> list[Result]:
    """In order.  The first failure, also to start one, is raised after all that were started have ended."""
    futures: list[Future[Result]] = []
    try:
        futures.extend(started)
    finally:
        failures = [error for future in futures if (error := future.exception()) is not None]
    if failures:
        raise failures[0]
    return [future.result() for future in futures]
