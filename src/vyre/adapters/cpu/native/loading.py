"""Objects to callable code: by the loader of ``elf`` where the system maps memory as Linux does, else by LLVM's LLJIT.

The first way imports no compiler, so that stored objects run where llvmlite is not installed.
"""

from __future__ import annotations

import ctypes
import itertools
import sys
from collections.abc import Callable, Mapping
from functools import cache
from types import MappingProxyType
from typing import Any, Final

from vyre.adapters.cpu.native.features import AARCH64, X86_64, host
from vyre.adapters.cpu.native.linked_form import MAGIC, UnusableObject, encode_linked, load_linked
from vyre.adapters.forks import process_lock
from vyre.domain.unique import Unique
from vyre.ports.interrupts import sealed

OWN_LOADER: Final = sys.platform == "linux"
"""Whether pages of this system may be made executable by ``mprotect``."""

_LIBRARIES: Final = ("libm.so.6", "libc.so.6", "libgcc_s.so.1")


class LoadedCode(Unique):
    """Machine code in memory, which stays there until ``close``.

    ``addresses`` has the address of every global function and variable of the object by its name.  The owner keeps the
    object alive as long as a thread may run in it: the finaliser unmaps the code too.  ``close`` may be called twice;
    it must not be called while a thread runs in the code.
    """

    __slots__ = ("__weakref__", "_release", "addresses", "nbytes")

    def __init__(self, addresses: Mapping[str, int], nbytes: int, release: Callable[[], None]) -> None:
        self.addresses: Final[Mapping[str, int]] = MappingProxyType(dict(addresses))
        self.nbytes: Final = nbytes
        self._release: Callable[[], None] | None = release

    @property
    def closed(self) -> bool:
        """Tells whether the code has been unmapped."""
        return self._release is None

    def close(self) -> None:
        """Unmaps the code."""
        release, self._release = self._release, None
        if release is not None:
            release()

    def __del__(self, is_finalizing: Callable[[], bool] = sys.is_finalizing) -> None:  # modules are cleared before
        if not is_finalizing():  # code of daemon threads may still run while the interpreter ends
            self.close()


def linked(data: bytes) -> bytes:
    """Returns an object of ``compile_object`` for this machine in the form that ``load`` has the least work with.

    That is the object itself where there is no other.  Raises ``UnusableObject``.
    """
    if not OWN_LOADER:
        return data
    from vyre.adapters.cpu.native.elf import link_image

    image = link_image(data, host().arch)
    return data if image is None else encode_linked(image)


def load(data: bytes, symbols: Mapping[str, int] | None = None) -> LoadedCode:
    """Returns the code of an object of ``compile_object`` or ``linked``, ready to be called.

    ``symbols`` has addresses that the object may refer to by name, in front of those of the C library.  Raises
    ``UnusableObject``, which is a ``KernelCompileFailed``, if the object is damaged or does not fit this machine,
    ``DeviceOutOfMemory``, and ``DispatchFailed`` if the system allows no executable memory.  ``BackendUnavailable`` is
    raised where only llvmlite can load code and it is not installed.
    """
    if OWN_LOADER and host().arch in (X86_64, AARCH64):
        return load_elf(data, symbols)
    return load_by_llvm(data, symbols)


def load_elf(data: bytes, symbols: Mapping[str, int] | None = None) -> LoadedCode:
    """Loads code by vyre's own loader, without a compiler.  It takes and raises what ``load`` does."""
    offered = symbols or {}

    def resolve(name: str) -> int | None:
        return offered.get(name) or library_function(name)

    if data.startswith(MAGIC) and host().arch == X86_64:
        pages, addresses = load_linked(data, resolve)
    else:
        from vyre.adapters.cpu.native.elf import load_image

        pages, addresses = load_image(data, host().arch, resolve)
    return LoadedCode(addresses, pages.nbytes, pages.close)


@cache
def _libraries() -> tuple[ctypes.CDLL, ...]:
    libraries = [ctypes.CDLL(None)]
    for name in _LIBRARIES:
        try:
            libraries.append(ctypes.CDLL(name))
        except OSError:  # another C library, in which these functions belong to the process
            continue
    return tuple(libraries)


@cache
def library_function(name: str) -> int | None:
    """Returns the address of a function of the C library, its mathematical part or the compiler's helper library, or
    None if none of them has one of this name.
    """
    for library in _libraries():
        try:
            return ctypes.cast(library[name], ctypes.c_void_p).value
        except (AttributeError, ValueError):
            continue
    return None


# ---------------------------------------------------------------- LLVM's loader
_NUMBERS: Final = itertools.count()
_LINKING: Final = process_lock()


@cache
def _jit() -> Any:
    from vyre.adapters.cpu.native.compilation import jit_compiler

    return jit_compiler(host())


def load_by_llvm(data: bytes, symbols: Mapping[str, int] | None = None) -> LoadedCode:
    """Loads an object by LLVM's LLJIT, for systems whose pages cannot be made executable otherwise.

    It raises what ``load`` raises.  LLVM trusts the relocations of an object: only objects of verified origin may come
    here.
    """
    from vyre.adapters.cpu.native.compilation import link_object
    from vyre.adapters.cpu.native.elf import exported_names

    names = exported_names(data, host().arch)
    with _LINKING, sealed:
        name = f"vyre{next(_NUMBERS)}"
        try:
            tracker, addresses = link_object(_jit(), name, data, names, symbols or {})
        except RuntimeError as error:
            raise UnusableObject(str(error)) from None
    return LoadedCode(addresses, len(data), tracker.close)
