"""NumPy without warnings of arithmetic, also while a finaliser enters the same.

``ContextVar.set`` of CPython reads a table that it does not hold.  If it collects garbage meanwhile, and a finaliser
sets a variable, too, the table is freed.  A copy of the context holds it.
"""

from __future__ import annotations

from contextvars import copy_context
from types import TracebackType

import numpy as np


class Silence:
    """``np.errstate(all="ignore")`` for one block."""

    __slots__ = ("_state",)

    def __enter__(self) -> None:
        kept = copy_context()
        self._state = np.errstate(all="ignore")
        self._state.__enter__()
        del kept

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None, /
    ) -> None:
        kept = copy_context()
        self._state.__exit__(exc_type, exc, traceback)
        del kept
