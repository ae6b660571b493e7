"""The floating-point modes of the calling thread: they are read, and set to what no code of this library expects."""

from __future__ import annotations

import ctypes
import platform
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple


class _Register(NamedTuple):
    """Where the C library's ``fenv_t`` has the control register, in bytes, and bits of that register.

    ``flush`` has the bits for results and for operands, where these are apart.
    """

    offset: int
    rounding: int
    rounding_bits: tuple[int, int, int]
    flush: tuple[int, ...]


_REGISTERS: Final = {
    "x86_64": _Register(28, 13, (1, 2, 3), (0x8000, 0x40)),  # MXCSR: FTZ and DAZ
    "aarch64": _Register(0, 22, (2, 1, 3), (1 << 24,)),  # FPCR: FZ
}
_REGISTER: Final = _REGISTERS.get(platform.machine()) if sys.platform == "linux" else None
SETTABLE: Final = _REGISTER is not None
DOWN, UP, TO_ZERO, FLUSH = "down", "up", "to zero", "flush"
_ROUNDINGS: Final = (DOWN, UP, TO_ZERO)
MODES: Final = (*_ROUNDINGS, FLUSH, *(f"{rounding}, {FLUSH}" for rounding in _ROUNDINGS))
"""All but the default one: four roundings, with subnormal numbers and without."""
UNMASKED: Final = "unmasked"
"""A division by zero, an invalid operation and an overflow end the process by a signal."""
_HALVES: Final = ("flush results", "flush operands")
PARTS: Final = _HALVES[: 0 if _REGISTER is None or len(_REGISTER.flush) == 1 else 2]
"""Modes that flush either results or operands, where the processor has these."""
_ROOM: Final = 64
_UNMASKED: Final = 0x04 | 0x01 | 0x08 if platform.machine() == "x86_64" else 0x02 | 0x01 | 0x04


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
    """Sets a mode of ``MODES`` or ``PARTS``, or ``UNMASKED``, on the calling thread for a block of code; yields the
    control register.
    """
    assert _REGISTER is not None
    saved, word = _environment()
    changed = (ctypes.c_uint8 * _ROOM).from_buffer_copy(saved)
    for part in name.split(", "):
        if part in _ROUNDINGS:
            word |= _REGISTER.rounding_bits[_ROUNDINGS.index(part)] << _REGISTER.rounding
        elif part in _HALVES:
            word |= _REGISTER.flush[_HALVES.index(part)]
        elif part == FLUSH:
            word |= sum(_REGISTER.flush)
    ctypes.c_uint32.from_buffer(changed, _REGISTER.offset).value = word
    library = ctypes.CDLL(None)
    assert library.fesetenv(ctypes.byref(changed)) == 0
    try:
        if name == UNMASKED:
            library.feenableexcept(_UNMASKED)
        yield control()
    finally:
        assert library.fesetenv(ctypes.byref(saved)) == 0
