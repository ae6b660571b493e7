"""Addresses of host memory, without a copy."""

from __future__ import annotations

import ctypes
from typing import Any, Final

_POINTERS: Final = 16
"""More words than a ``Py_buffer`` has; its first word is the address."""
_PY: Final = ctypes.PyDLL(None)  # calls that keep the interpreter lock
_GET: Final = _PY.PyObject_GetBuffer
_GET.argtypes, _GET.restype = [ctypes.py_object, ctypes.c_void_p, ctypes.c_int], ctypes.c_int
_RELEASE: Final = _PY.PyBuffer_Release
_RELEASE.argtypes, _RELEASE.restype = [ctypes.c_void_p], None
_SIMPLE: Final = 0
_View: Final = ctypes.c_uint64 * _POINTERS
_NOTHING: Final = ctypes.c_char * 0


class AddressReader:
    """Reads the addresses of buffers; each reader serves one thread at a time.

    An address is valid as long as the caller keeps the buffer and neither resizes nor releases it.
    """

    __slots__ = ("_buffer", "_words")

    def __init__(self) -> None:
        self._words = _View()
        self._buffer = ctypes.addressof(self._words)

    def __call__(self, view: Any) -> int:
        """Returns the address of C-contiguous memory, read-only or not; 0 where it is empty."""
        _GET(view, self._buffer, _SIMPLE)
        address = self._words[0]
        _RELEASE(self._buffer)
        return address


def writable_address(view: memoryview) -> int:
    """Returns the address of writable memory; 0 where it is empty."""
    return ctypes.addressof(_NOTHING.from_buffer(view)) if view.nbytes else 0
