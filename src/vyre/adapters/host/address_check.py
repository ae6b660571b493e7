"""Whether memory that another library describes by an address is there at all.

Reading an address of memory that was freed ends the process.  The system's own call reports it instead, where there is
one.
"""

from __future__ import annotations

import ctypes
import errno
import os
from functools import cache
from typing import Any, Final

_ADDRESSES: Final = 1 << 63
"""The first address that no process has."""


class _Range(ctypes.Structure):
    _fields_ = (("address", ctypes.c_void_p), ("nbytes", ctypes.c_size_t))


@cache
def _reader() -> Any:
    """Returns ``process_vm_readv``; None on a system without it."""
    try:
        read = ctypes.CDLL(None, use_errno=True).process_vm_readv
    except (AttributeError, OSError, TypeError):
        return None
    read.restype = ctypes.c_ssize_t
    read.argtypes = (ctypes.c_int, *(ctypes.c_void_p, ctypes.c_ulong) * 2, ctypes.c_ulong)
    return read


def is_readable(first: int, behind: int) -> bool:
    """Returns whether the first and the last byte of a range of addresses can be read, as far as the system tells.

    The bytes between them are not looked at.
    """
    if not 0 < first < behind <= _ADDRESSES:
        return False
    read = _reader()
    if read is None:
        return True
    into = (ctypes.c_char * 2)()
    local = _Range(ctypes.addressof(into), 2)
    remote = (_Range * 2)(_Range(first, 1), _Range(behind - 1, 1))
    taken = read(os.getpid(), ctypes.addressof(local), 1, ctypes.addressof(remote), 2, 0)
    return bool(taken == 2 or (taken < 0 and ctypes.get_errno() != errno.EFAULT))
