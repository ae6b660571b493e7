"""Memory that faults when anything outside of it is touched: pages without access lie before and behind it."""

from __future__ import annotations

import ctypes
import mmap
from typing import Final

PAGE: Final = mmap.PAGESIZE
_NO_ACCESS: Final = 0


class GuardedMemory:
    """At most ``room`` bytes between two pages without access; ``at_start`` and ``at_end`` touch one of them."""

    def __init__(self, room: int) -> None:
        self.room: Final = -(-room // PAGE) * PAGE
        self._pages: Final = mmap.mmap(-1, self.room + 2 * PAGE)
        self._start: Final = ctypes.addressof(ctypes.c_char.from_buffer(self._pages)) + PAGE
        protect = ctypes.CDLL(None, use_errno=True).mprotect
        protect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
        for guard in (self._start - PAGE, self._start + self.room):
            assert protect(guard, PAGE, _NO_ACCESS) == 0

    def at_start(self, data: bytes) -> int:
        """Puts bytes right behind the first guard and returns their address."""
        return self._put(self._start, data)

    def at_end(self, data: bytes) -> int:
        """Puts bytes right before the last guard and returns their address."""
        return self._put(self._start + self.room - len(data), data)

    def _put(self, address: int, data: bytes) -> int:
        assert len(data) <= self.room
        ctypes.memset(self._start, 0xA5, self.room)
        ctypes.memmove(address, data, len(data))
        return address

    def around(self, address: int, nbytes: int) -> bytes:
        """Returns all other bytes that can be accessed: they must all be 0xA5 still."""
        before = address - self._start
        return ctypes.string_at(self._start, before) + ctypes.string_at(address + nbytes, self.room - before - nbytes)
