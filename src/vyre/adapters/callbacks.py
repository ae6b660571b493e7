"""Functions of callers that are called when work has ended, by threads that must go on whatever these raise."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from contextvars import ContextVar, copy_context
from typing import Final, ParamSpec

P = ParamSpec("P")
_CALLING: Final[ContextVar[bool]] = ContextVar("vyre_calling_back", default=False)


def is_calling_back() -> bool:
    """Returns whether such a function runs here."""
    return _CALLING.get()


def call_back(callback: Callable[P, object], /, *args: P.args, **kwargs: P.kwargs) -> None:
    """Calls a function, and tells ``threading.excepthook`` of what it raises.

    On the main thread it raises what is no ``Exception``: that may be of a signal handler, such as Ctrl-C.
    """

    def call() -> None:
        _CALLING.set(True)
        callback(*args, **kwargs)

    try:
        copy_context().run(call)  # which forgets that it runs, wherever an interrupt ends it
    except BaseException as error:
        thread = threading.current_thread()
        if not isinstance(error, Exception) and thread is threading.main_thread():
            raise
        try:
            threading.excepthook(threading.ExceptHookArgs((type(error), error, error.__traceback__, thread)))
        except BaseException:
            sys.__excepthook__(type(error), error, error.__traceback__)
