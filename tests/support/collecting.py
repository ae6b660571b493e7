"""Garbage collections at moments where a test wants them."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


class Cycle:
    """Garbage that only the collector finds."""

    def __init__(self) -> None:
        self.itself = self


@contextmanager
def eager_collector() -> Iterator[None]:
    """Lets the collector run at nearly every allocation in the block, as it may by chance."""
    before = gc.get_threshold()
    gc.set_threshold(1)
    try:
        yield
    finally:
        gc.set_threshold(*before)
