"""Forked processes: what a fork waits for, the locks that its child has anew, and objects that it must not use.

A child has one thread.  The threads of its parent that would run its work do not exist there, and what they held stays
locked.  So the locks of the process are renewed in the child, and every open object is notified once there, and refuses
every use from then on.  A library of others cannot be renewed: a fork waits until no thread is inside it.
"""

from __future__ import annotations

import importlib
import os
import threading
import time
from collections.abc import Callable
from typing import Any, Final, Protocol
from weakref import WeakSet

from vyre.domain.errors import InvalidResource

WAIT_S: Final = 10.0
"""How long a fork waits for other threads, in seconds."""
_IMPORTED: Final = ("vyre", "llvmlite", "numpy")


class Inheritable(Protocol):
    """An object that ``tell_in_forks`` registers."""

    def inherited(self) -> None:
        """Called in a forked child of the process that made the object.  It must not take a lock of a session."""


_LOCKS: Final[WeakSet[Any]] = WeakSet()
_OPEN: Final[WeakSet[Inheritable]] = WeakSet()
_AWAITED: Final[list[tuple[Callable[[], threading.RLock | None], Callable[[], object]]]] = []
_TAKEN: Final[dict[int, list[tuple[threading.RLock | None, Callable[[], object]]]]] = {}
"""By thread that forks: what it waits for and holds, and how the child is told of what it does not hold."""


def process_lock() -> threading.RLock:
    """Returns a lock of the process, which is free in a forked child.

    It is re-entrant: a finaliser that uses vyre may run in the thread that holds it.
    """
    lock = threading.RLock()
    _LOCKS.add(lock)
    return lock


def is_held_here(lock: threading.RLock) -> bool:
    """Returns whether the calling thread holds a lock."""
    return bool(lock._is_owned())  # type: ignore[attr-defined]


def refuse_within(lock: threading.RLock, what: str) -> None:
    """Raises ``InvalidResource`` in a finaliser or signal handler of the thread that holds ``lock`` and is using
    ``what``, which cannot serve two uses at a time.
    """
    if is_held_here(lock):
        raise InvalidResource(
            f"{what} is used by a finaliser or a signal handler of the thread that is using it",
            fix="use another one there, or this one after the run.",
        )


def tell_in_forks(listener: Inheritable) -> None:
    """Calls ``listener.inherited`` in every process that is forked while ``listener`` is alive."""
    _OPEN.add(listener)


def await_in_forks(lock: Callable[[], threading.RLock | None], lost: Callable[[], object]) -> None:
    """Lets a fork wait until no other thread holds the lock that ``lock`` returns.

    ``lost`` is called in the child where that takes more than ``WAIT_S``, or where None is returned and there are
    other threads.
    """
    _AWAITED.append((lock, lost))


def _before() -> None:
    """Waits; an interrupt, which CPython tells nobody of, ends the wait, and the fork goes on."""
    end = time.monotonic() + WAIT_S
    taken = _TAKEN[threading.get_ident()] = []
    while _others_import() and time.monotonic() < end:
        time.sleep(0.001)
    for find, lost in _AWAITED:
        lock = find()
        if lock is None:
            taken.append((None, _nothing if threading.active_count() == 1 else lost))
        elif is_held_here(lock):
            taken.append((None, _nothing))
        else:
            taken.append((lock, lost))  # before it is held, because an interrupt may come between the two
            lock.acquire(timeout=max(0.0, end - time.monotonic()))


def _others_import() -> bool:
    """Returns whether another thread imports a module that a child may need: it would wait there for that thread."""
    imports = getattr(getattr(importlib, "_bootstrap", None), "_module_locks", {})
    for name, known in list(imports.items()):
        owner = getattr(known(), "owner", None)
        if name.startswith(_IMPORTED) and owner not in (None, threading.get_ident()):
            return True
    return False


def _nothing() -> None:
    """Tells a child nothing: the fork had what it waited for."""


def _in_parent() -> None:
    """Releases what the fork held; an interrupt may end it anywhere, and it goes on when it is called again."""
    taken = _TAKEN.get(threading.get_ident(), [])
    while taken:
        lock, _ = taken[-1]
        if lock is not None and is_held_here(lock):
            lock.release()
        taken.pop()
    _TAKEN.pop(threading.get_ident(), None)


def _in_child() -> None:
    taken = _TAKEN.pop(threading.get_ident(), [])
    _TAKEN.clear()
    for lock in list(_LOCKS):
        if not lock._is_owned():  # else this thread goes on in it
            lock._at_fork_reinit()
    for lock, lost in (*taken, *[(None, lost) for _, lost in _AWAITED[len(taken) :]]):
        if lock is not None and is_held_here(lock):
            lock.release()
        else:
            lost()
    for inheritable in list(_OPEN):
        inheritable.inherited()


if hasattr(os, "register_at_fork"):  # other platforms have no fork
    os.register_at_fork(before=_before, after_in_parent=_in_parent, after_in_child=_in_child)
    os.register_at_fork(after_in_parent=_in_parent)  # where an interrupt has ended the first call
