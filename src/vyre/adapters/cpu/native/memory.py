"""Pages of memory for machine code, mapped by the C library: written first, executable afterwards, never both at once.

Nothing here needs a compiler.  Pages are fresh, are used once and are given back as a whole, so that the instruction
caches of AArch64, which the kernel cleans when a page first becomes executable, never hold older code of that page.

Mapping memory takes longer than copying most kernels to it, so that many pages are mapped at once: each is untouched,
and takes no memory, until its code comes.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import sys
from collections.abc import Callable
from enum import IntEnum
from functools import cache
from typing import Any, Final, NamedTuple

from vyre.domain.errors import DeviceOutOfMemory, DispatchFailed
from vyre.domain.unique import Unique

PAGE_BYTES: Final = mmap.PAGESIZE
RESERVED_BYTES: Final = 512 << 10
"""The bytes of pages that are mapped at once, in whole pages of any system; more where one object needs more."""
MAPPABLE: Final = os.name == "posix"
"""Whether this system maps memory by ``mmap`` and ``mprotect``."""

_FAILED: Final = (1 << 8 * ctypes.sizeof(ctypes.c_void_p)) - 1


class Protection(IntEnum):
    """The permitted accesses to pages.  No member allows both writing and execution."""

    READ = 1
    WRITE = 3
    EXECUTE = 5


class _Calls(NamedTuple):
    mmap: ctypes._NamedFuncPointer
    mprotect: ctypes._NamedFuncPointer
    munmap: ctypes._NamedFuncPointer


@cache
def _calls() -> _Calls:
    library = ctypes.CDLL(None, use_errno=True)
    word, size, integer = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
    calls = _Calls(library.mmap, library.mprotect, library.munmap)
    calls.mmap.restype, calls.mmap.argtypes = word, (word, size, integer, integer, integer, ctypes.c_ssize_t)
    calls.mprotect.restype, calls.mprotect.argtypes = integer, (word, size, integer)
    calls.munmap.restype, calls.munmap.argtypes = integer, (word, size)
    return calls


class _Reserve(Unique):
    """Pages that are mapped and that nobody has used yet.

    A span is taken out before a part of it is used, so that neither a fork nor a finaliser comes between.
    """

    def __init__(self) -> None:
        self._spans: list[tuple[int, int]] = []
        """Addresses and sizes in bytes; more than one only where threads took pages at once."""

    def take(self, nbytes: int) -> int:
        """Returns the address of so many bytes of whole pages, which are the caller's.  Raises
        ``DeviceOutOfMemory``.
        """
        try:
            span = address, left = self._spans.pop()
        except IndexError:
            span = address, left = 0, 0
        if nbytes > left:
            try:
                address, left = self._mapped(nbytes)
            finally:
                if left < nbytes and span[1]:
                    self._spans.append(span)
            if span[1]:
                _calls().munmap(*span)
        if left > nbytes:
            self._spans.append((address + nbytes, left - nbytes))
        return address

    @staticmethod
    def _mapped(nbytes: int) -> tuple[int, int]:
        mapped = max(nbytes, RESERVED_BYTES)
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
        start = _calls().mmap(None, mapped, Protection.WRITE, flags, -1, 0)
        if start is None or start == _FAILED:
            raise DeviceOutOfMemory(requested=nbytes)
        return int(start), mapped


_RESERVE: Final = _Reserve()


def whole_pages(nbytes: int) -> int:
    """Returns ``nbytes`` rounded up to whole pages, in bytes."""
    return -(-nbytes // PAGE_BYTES) * PAGE_BYTES


class Pages(Unique):
    """Fresh zeroed pages, writable at first; ``close`` unmaps them, and so does the finaliser.

    ``address`` is the address of the first byte and ``nbytes`` the size in bytes, a multiple of the page size.  Raises
    ``DeviceOutOfMemory`` if the system refuses the pages.
    """

    __slots__ = ("address", "nbytes")

    def __init__(self, nbytes: int) -> None:
        self.nbytes: Final = whole_pages(nbytes)
        self.address: int = 0
        self.address = _RESERVE.take(self.nbytes)

    def write(self, offset: int, data: bytes | bytearray) -> None:
        """Copies ``data`` to ``offset``, in bytes from the start.  The pages there have to be writable.

        Raises ``ValueError`` if the copy would leave the pages.
        """
        if not 0 <= offset <= offset + len(data) <= self.nbytes or not self.address:
            raise ValueError(f"{len(data)} bytes at {offset} lie outside of {self.nbytes} bytes of pages")
        # An array type of this length would take longer to make than the copy.
        source: Any = (
            ctypes.byref(ctypes.c_char.from_buffer(data)) if isinstance(data, bytearray) and data else bytes(data)
        )
        ctypes.memmove(self.address + offset, source, len(data))

    def protect(self, offset: int, nbytes: int, protection: Protection) -> None:
        """Sets what code may do with ``nbytes`` bytes from ``offset``, both whole pages.

        Raises ``DispatchFailed`` if the system refuses it, as hardened systems do with executable pages.
        """
        if not 0 <= offset <= offset + nbytes <= self.nbytes or offset % PAGE_BYTES or not self.address:
            raise ValueError(f"{nbytes} bytes at {offset} are no whole pages of {self.nbytes} bytes")
        if nbytes and _calls().mprotect(self.address + offset, nbytes, int(protection)):
            number = ctypes.get_errno()
            raise DispatchFailed(
                f"the system refuses pages that a program may {protection.name.lower()}: {os.strerror(number)}",
                native_code=number,
                fix="allow this process executable memory (SELinux: `execmem`), or ask for `reference`.",
            )

    def close(self) -> None:
        """Unmaps the pages; code in them may not run any more.  Closing twice is allowed."""
        address, self.address = self.address, 0
        if address:
            _calls().munmap(address, self.nbytes)

    def __del__(self, is_finalizing: Callable[[], bool] = sys.is_finalizing) -> None:  # modules are cleared before
        if not is_finalizing():  # code of daemon threads may still run while the interpreter ends
            self.close()
