"""The floating-point modes of the calling thread: they are read, and set to what no code of this library expects."""

from __future__ import annotations

import ctypes
import platform
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple


class _Register(NamedTuple):
    """Where the C library's ``fenv_t`` has the control register, in bytes, and bits of that register."""

    offset: int
    rounding: int
    rounding_bits: tuple[int, int, int]
    flush: int


_REGISTERS: Final = {
    "x86_64": _Register(28, 13, (1, 2, 3), 0x8040),  # MXCSR: FTZ and DAZ
    "aarch64": _Register(0, 22, (2, 1, 3), 1 << 24),  # FPCR: FZ
}
_REGISTER: Final = _REGISTERS.get(platform.machine()) if sys.platform == "linux" else None
SETTABLE: Final = _REGISTER is not None
DOWN, UP, TO_ZERO, FLUSH = "down", "up", "to zero", "flush"
MODES: Final = (DOWN, UP, TO_ZERO, FLUSH)
_ROOM: Final = 64


def control() -> int:
    """The control register, without the flags of exceptions that happened."""
    return _environment()[1] & ~_flags()


def _flags() -> int:
    return 0x3F if platform.machine() == "x86_64" else 0


def _environment() -> tuple[ctypes.Array[ctypes.c_uint8], int]:
    assert _REGISTER is not None
    saved = (ctypes.c_uint8 * _ROOM)()
    assert ctypes.CDLL(None).fegetenv(ctypes.byref(saved)) == 0
    return saved, ctypes.c_uint32.from_buffer(saved, _REGISTER.offset).value


@contextmanager
def float_mode(name: str) -> Iterator[int]:
    """Sets a mode of ``MODES`` on the calling thread for a block of code; yields the control register."""
    assert _REGISTER is not None
    saved, word = _environment()
    changed = (ctypes.c_uint8 * _ROOM).from_buffer_copy(saved)
    if name == FLUSH:
        word |= _REGISTER.flush
    else:
        word |= _REGISTER.rounding_bits[MODES.index(name)] << _REGISTER.rounding
    ctypes.c_uint32.from_buffer(changed, _REGISTER.offset).value = word
    library = ctypes.CDLL(None)
    assert library.fesetenv(ctypes.byref(changed)) == 0
    try:
        yield control()
    finally:
        assert library.fesetenv(ctypes.byref(saved)) == 0
