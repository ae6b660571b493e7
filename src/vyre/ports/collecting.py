"""Times in which no garbage is collected, because a finaliser would wait for a thread that waits for its own.

For threads that no signal handler interrupts.  They may overlap; what the caller had chosen comes back with the last.
"""

from __future__ import annotations

import gc
import os
import threading
from typing import Final


class _Holds:
    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.count = 0
        self.collected = False


_HOLDS: Final = _Holds()


def hold_collections() -> None:
    """Has nothing collected until ``let_collect`` was called as often."""
    with _HOLDS.lock:
        if not _HOLDS.count:
            _HOLDS.collected = gc.isenabled()
            gc.disable()
        _HOLDS.count += 1


def let_collect() -> None:
    """Ends what ``hold_collections`` began."""
    with _HOLDS.lock:
        _HOLDS.count -= 1
        if not _HOLDS.count and _HOLDS.collected:
            gc.enable()


def _in_child() -> None:
    _HOLDS.lock, count = threading.Lock(), _HOLDS.count
    _HOLDS.count = 0
    if count and _HOLDS.collected:
        gc.enable()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
