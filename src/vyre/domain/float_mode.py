"""The default floating-point mode: round to nearest even, keep subnormal numbers, mask every exception.

Other libraries change the mode of the threads that call this one.  A function of floats is pure in one mode only, and
so is a compiler that folds constants.  Hence what is public runs in the default mode and gives the caller's back;
threads and processes that are started meanwhile inherit the default mode.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from ctypes import PyDLL, byref, c_char, c_uint64, c_void_p
from functools import wraps
from inspect import isfunction
from struct import pack, unpack
from typing import Any, Final, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")
C = TypeVar("C", bound=type)

# The cheapest test of the mode is PROBE * FACTORS == PRODUCT: two products of floats, of a subnormal number with a big
# and with a small one.  In any other mode one of them is 0, or is not the nearest number, which is below the exact
# product for the first and above it for the second.  They are made of whole numbers: modes read others differently.
_WORD: Final = 0x000A_BCDE_F012_3457
_LARGE: Final = 0x3FD
_SUBNORMAL, _QUARTER_MORE = unpack("<2d", pack("<2Q", _WORD, -(-_WORD * 5 // 4)))
PROBE: Final = complex(_SUBNORMAL)
FACTORS: Final = complex(float(_LARGE << 960), 5 / 4)
PRODUCT: Final = complex(float(_WORD * _LARGE) / float(1 << 114), _QUARTER_MORE)

_Room: Final = c_uint64 * 32  # more than any ``fenv_t`` has
_C: Final[Any] = PyDLL("ucrtbase" if sys.platform == "win32" else None)  # it keeps the interpreter's lock
_DEFAULTS: Final[dict[str, Callable[[], Any]]] = {
    "darwin": lambda: byref(c_char.in_dll(_C, "_FE_DFL_ENV")),
    "win32": _Room,
}
_DEFAULT: Final = _DEFAULTS.get(sys.platform, lambda: c_void_p(-1))()  # FE_DFL_ENV
_unmasked: Final[Callable[[], int]] = getattr(_C, "fegetexcept", lambda: 0)


def in_default_mode(function: Callable[P, R]) -> Callable[P, R]:
    """Returns ``function`` in the default mode, whatever the mode of its caller is; a decorator."""

    @wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        if not _unmasked() and PROBE * FACTORS == PRODUCT:
            return function(*args, **kwargs)
        callers = _Room()
        _C.fegetenv(callers)
        try:
            _C.fesetenv(_DEFAULT)
            return function(*args, **kwargs)
        finally:
            _C.fesetenv(callers)

    run.__in_default_mode__ = True  # type: ignore[attr-defined]
    return run


def public_in_default_mode(*others: str) -> Callable[[C], C]:
    """Returns a decorator of classes that runs their public methods, but these ``others``, in the default mode."""

    def decorate(cls: C) -> C:
        members = {name: member for base in reversed(cls.__mro__) for name, member in vars(base).items()}
        for name, member in members.items():
            if isfunction(member) and not name.startswith("_") and name not in others:
                setattr(cls, name, in_default_mode(member))
        return cls

    return decorate
