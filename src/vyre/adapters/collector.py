"""A pause of Python's cyclic garbage collector while large programs are read or rewritten."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def collector_paused() -> Iterator[None]:
    """Returns a context in which the cyclic collector does not run; it is restored afterwards.

    Programs have no cycles, so the collector finds nothing; yet every million new nodes make it traverse all of them
    several times, which takes as long as reading them.  When several threads do so, one that began during another
    one's pause may see the collector run before it ends: that costs time and changes nothing.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
