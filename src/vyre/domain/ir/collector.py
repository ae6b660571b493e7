"""Building much that stays, without Python's cyclic garbage collector looking at it again and again."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def collector_paused() -> Iterator[None]:
    """Keeps the cyclic collector from running inside; it goes on afterwards as before.

    Programs have no cycles, so there is nothing for it to find; yet every million new nodes make it walk through all
    of them several times, which takes as long as reading them.  Of readers in several threads, those that began in a
    pause of another one may see the collector run before they end: that costs time and changes nothing.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
