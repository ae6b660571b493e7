"""Contexts: which exist, which one is current in a thread, and which are lost to a fault."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeVar

from vyre.adapters.cuda.codes import Result
from vyre.adapters.cuda.machine.status import Status

R = TypeVar("R")
PRIMARY: Final = 0x5_0000_0000
"""The handle of the device's primary context: the same every time it is retained."""


@dataclass(slots=True, eq=False)
class ContextState:
    """A context.  ``lost`` is the sticky error that every call in it returns."""

    handle: int
    lost: Status | None = None


class _Current(threading.local):
    """The current context of a thread.  ``is_for_main``: it makes a call for the main thread."""

    handle: int = 0
    is_for_main: bool = False


class Contexts:
    """All contexts.  Not thread-safe, except for the current context, of which each thread has its own."""

    def __init__(self, *, recoverable: bool) -> None:
        self._recoverable = recoverable
        self._states: dict[int, ContextState] = {}
        self._destroyed: set[int] = set()
        self._retained = 0
        self._broken: Status | None = None
        self._local = _Current()
        self._of_main = 0

    def __len__(self) -> int:
        """Returns the number of references: retains of the primary context, and created contexts."""
        return self._retained + sum(handle != PRIMARY for handle in self._states)

    def handles(self) -> tuple[int, ...]:
        """Returns the handles of the contexts that exist."""
        return tuple(self._states)

    def for_main(self, call: Callable[[], R]) -> R:
        """Makes a call for the main thread, on another one."""
        self._local.is_for_main = True
        try:
            return call()
        finally:
            self._local.is_for_main = False

    def current(self) -> ContextState:
        """Returns the calling thread's context.  Raises ``Status`` if there is none, or it was destroyed or is lost."""
        handle = self.current_handle
        if handle == 0:
            raise Status(Result.INVALID_CONTEXT, "no context is current in this thread")
        state = self._states.get(handle)
        if state is None:
            raise Status(Result.CONTEXT_IS_DESTROYED, f"context {handle:#x} was destroyed")
        if state.lost is not None:
            raise state.lost.again()
        return state

    def set_current(self, handle: int) -> None:
        """Makes a context, or none for 0, current in the calling thread.  Raises ``Status`` for an unknown or destroyed
        one.
        """
        if handle and handle not in self._states and handle not in self._destroyed:
            raise Status(Result.INVALID_CONTEXT, f"{handle:#x} is no context")
        if handle in self._destroyed and handle not in self._states:
            raise Status(Result.CONTEXT_IS_DESTROYED, f"context {handle:#x} was destroyed")
        self._make_current(handle)

    def retain(self) -> int:
        """Adds a reference to the primary context, creates it at first, and returns it."""
        self._check_usable()
        self._retained += 1
        if PRIMARY not in self._states:
            self._add(PRIMARY)
        return PRIMARY

    def release(self) -> bool:
        """Drops a reference to the primary context; returns whether it was the last one, so that the context is
        destroyed.
        """
        if self._retained == 0:
            raise Status(Result.INVALID_CONTEXT, "the primary context is not retained")
        self._retained -= 1
        if self._retained:
            return False
        self._remove(PRIMARY)
        return True

    def reset(self) -> None:
        """Replaces the primary context by a new one under the same handle, if it exists."""
        self._check_usable()
        if self._retained:
            self._add(PRIMARY)

    def create(self, handle: int) -> None:
        """Creates a context and makes it current."""
        self._check_usable()
        self._add(handle)
        self._make_current(handle)

    def destroy(self, handle: int) -> None:
        """Destroys a created context.  Raises ``Status`` for the primary one."""
        if handle == PRIMARY or handle not in self._states:
            raise Status(Result.INVALID_CONTEXT, f"{handle:#x} is no context that was created")
        self._remove(handle)
        if self.current_handle == handle:
            self._make_current(0)

    def lose(self, handle: int, why: Status) -> None:
        """Makes every later call in the context fail with the first error."""
        state = self._states.get(handle)
        if state is not None and state.lost is None:
            state.lost = why
            if not self._recoverable:
                self._broken = why

    @property
    def current_handle(self) -> int:
        """Returns the handle that is current in the calling thread, whatever its state; 0 for none."""
        return self._of_main if self._local.is_for_main else self._local.handle

    def _make_current(self, handle: int) -> None:
        if self._local.is_for_main:
            self._of_main = handle
        else:
            self._local.handle = handle

    def _add(self, handle: int) -> None:
        self._states[handle] = ContextState(handle)
        self._destroyed.discard(handle)

    def _remove(self, handle: int) -> None:
        del self._states[handle]
        self._destroyed.add(handle)

    def _check_usable(self) -> None:
        if self._broken is not None:
            raise self._broken.again()
