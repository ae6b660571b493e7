"""Functions of callers that are called when work has ended, by threads that must go on whatever these raise."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import Final, ParamSpec

P = ParamSpec("P")
_CALLING: Final = threading.local()


def is_calling_back() -> bool:
    """Returns whether the calling thread runs such a function."""
    return getattr(_CALLING, "depth", 0) > 0


def call_back(callback: Callable[P, object], /, *args: P.args, **kwargs: P.kwargs) -> None:
    """Calls a function, and tells ``threading.excepthook`` of what it raises.

    On the main thread it raises what is no ``Exception``: that may be of a signal handler, such as Ctrl-C.
    """
    depth = getattr(_CALLING, "depth", 0)
    try:
        _CALLING.depth = depth + 1
        callback(*args, **kwargs)
    except BaseException as error:
        thread = threading.current_thread()
        if not isinstance(error, Exception) and thread is threading.main_thread():
            raise
        try:
            threading.excepthook(threading.ExceptHookArgs((type(error), error, error.__traceback__, thread)))
        except BaseException:
            sys.__excepthook__(type(error), error, error.__traceback__)
    finally:
        _CALLING.depth = depth
