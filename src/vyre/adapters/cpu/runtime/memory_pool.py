"""Blocks of memory that are used again: resident arrays of the ``cpu`` backend come from here.

A block is handed out as an array of its own.  The block comes back when that array and all views of it are gone, so
that a run, or another library, that still holds some of them keeps the memory, whatever was closed meanwhile.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final, NamedTuple
from weakref import finalize

from vyre.adapters.forks import process_lock
from vyre.adapters.host.memory import allocate_aligned
from vyre.adapters.size_classes import size_class
from vyre.domain.errors import DeviceOutOfMemory
from vyre.ports.interrupts import sealed

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

KEPT_BYTES: Final = 64 << 20
"""The most bytes of blocks that nobody uses."""


class Block(NamedTuple):
    """Memory of ``data.nbytes`` bytes, the capacity, at ``address``."""

    data: npt.NDArray[np.uint8]
    address: int


class MemoryPool:
    """Blocks by their capacity.  ``limit``: the most bytes of blocks that are kept although nobody uses them."""

    def __init__(self, limit: int = KEPT_BYTES) -> None:
        self._limit: Final = limit
        self._idle: dict[int, list[Block]] = {}
        self._idle_bytes = 0
        self._returned: deque[Block] = deque()
        """Blocks that came back; garbage is collected at any moment, also inside of a method here."""
        self._lock = process_lock()
        self.reused: int = 0
        """The times that a block was used again."""

    @property
    def idle_bytes(self) -> int:
        """The bytes of blocks that nobody uses."""
        with self._lock, sealed:
            self._sort()
            return self._idle_bytes

    def take(self, nbytes: int) -> tuple[npt.NDArray[np.uint8], int]:
        """Returns ``nbytes`` zeros and their address, aligned as ``allocate_aligned`` does.

        Raises ``DeviceOutOfMemory`` if there is none after all idle blocks were given up.
        """
        import numpy as np

        capacity = size_class(nbytes)
        with self._lock, sealed:
            self._sort()
            kept, block = self._idle.get(capacity), None
            if kept:
                block = kept[0]
                self._idle_bytes, kept[:1] = self._idle_bytes - capacity, ()  # one statement without a call
                self.reused += 1
        if block is None:
            block = self._new(capacity)
        else:
            block.data[:nbytes] = 0
        part: memoryview = memoryview(block.data)[:nbytes]  # type: ignore[arg-type]  # ndarray has __buffer__ from 3.12
        array = np.frombuffer(part, np.uint8)  # the views of an array over a memoryview have that array as their base
        finalize(array, self._returned.append, block).atexit = False
        return array, block.address

    def trim(self) -> None:
        """Gives up all idle blocks."""
        with self._lock, sealed:
            self._sort()
            self._idle, self._idle_bytes = {}, 0

    # ---------------------------------------------------------------- details
    def _new(self, capacity: int) -> Block:
        try:
            return Block(*allocate_aligned(capacity))
        except DeviceOutOfMemory:
            self.trim()
            return Block(*allocate_aligned(capacity))

    def _sort(self) -> None:
        """Keeps the blocks that came back, as far as the limit allows."""
        while self._returned:
            block = self._returned.popleft()
            capacity = block.data.nbytes
            if self._idle_bytes + capacity <= self._limit:
                kept = self._idle.setdefault(capacity, [])
                self._idle_bytes, kept[:0] = self._idle_bytes + capacity, (block,)
