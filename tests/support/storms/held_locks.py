"""All locks of vyre and llvmlite that objects reach, for tests in which a thread holds them."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterable
from types import FrameType, FunctionType, ModuleType
from typing import Any, Final

_KINDS: Final = (type(threading.Lock()), type(threading.RLock()))
_OURS: Final = ("vyre", "llvmlite")


def locks_of(roots: Iterable[object]) -> list[Any]:
    """Returns the locks that can be reached from these objects, through objects of vyre and llvmlite."""
    seen: set[int] = set()
    found: dict[int, Any] = {}
    left = list(roots)
    while left:
        one = left.pop()
        if id(one) in seen or _is_of_others(one):
            continue
        seen.add(id(one))
        if isinstance(one, _KINDS):
            found[id(one)] = one
        else:
            left.extend(gc.get_referents(one))
    return list(found.values())


def _is_of_others(one: object) -> bool:
    if isinstance(one, (FrameType, threading.Thread)):
        return True
    if isinstance(one, ModuleType):
        return not one.__name__.startswith(_OURS)
    return isinstance(one, (type, FunctionType)) and not (one.__module__ or "").startswith(_OURS)


class Holder:
    """A thread that holds locks until ``release`` is called; those that are held already it leaves."""

    def __init__(self, locks: Iterable[Any]) -> None:
        self.held: list[Any] = []
        self._locks = list(locks)
        self._holds, self._ends = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._hold, daemon=True)
        self._thread.start()
        self._holds.wait()

    def _hold(self) -> None:
        self.held = [lock for lock in self._locks if lock.acquire(timeout=0.2)]
        self._holds.set()
        self._ends.wait()
        for lock in self.held:
            lock.release()

    def release(self) -> None:
        """Gives the locks back."""
        self._ends.set()
        self._thread.join()
