"""Contexts: which exist, which one is current in a thread, and which are lost to a fault."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Final

from vyre.adapters.cuda.codes import Result
from vyre.adapters.cuda.machine.status import Status

PRIMARY: Final = 0x5_0000_0000
"""Handle of the device's primary context: the same every time it is retained."""


@dataclass(slots=True, eq=False)
class ContextState:
    """``lost`` is the sticky error that every call in it returns."""

    handle: int
    lost: Status | None = None


class Contexts:
    """Not thread-safe but for what is current, which each thread has its own of."""

    def __init__(self, *, recoverable: bool) -> None:
        self._recoverable = recoverable
        self._states: dict[int, ContextState] = {}
        self._destroyed: set[int] = set()
        self._retained = 0
        self._broken: Status | None = None
        self._thread = threading.local()

    def __len__(self) -> int:
        """References: retains of the primary one, and contexts created."""
        return self._retained + sum(handle != PRIMARY for handle in self._states)

    def current(self) -> ContextState:
        """The calling thread's.  Raises ``Status`` if there is none, it was destroyed, or is lost."""
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
        if handle and handle not in self._states and handle not in self._destroyed:
            raise Status(Result.INVALID_CONTEXT, f"{handle:#x} is no context")
        if handle in self._destroyed and handle not in self._states:
            raise Status(Result.CONTEXT_IS_DESTROYED, f"context {handle:#x} was destroyed")
        self._thread.handle = handle

    def retain(self) -> int:
        self._check_usable()
        self._retained += 1
        if PRIMARY not in self._states:
            self._add(PRIMARY)
        return PRIMARY

    def release(self) -> bool:
        """Whether this was the last reference, so that the context is gone."""
        if self._retained == 0:
            raise Status(Result.INVALID_CONTEXT, "the primary context is not retained")
        self._retained -= 1
        if self._retained:
            return False
        self._remove(PRIMARY)
        return True

    def reset(self) -> None:
        """A new primary context under the old handle, if there was one."""
        self._check_usable()
        if self._retained:
            self._add(PRIMARY)

    def create(self, handle: int) -> None:
        """Also makes it current."""
        self._check_usable()
        self._add(handle)
        self._thread.handle = handle

    def destroy(self, handle: int) -> None:
        if handle == PRIMARY or handle not in self._states:
            raise Status(Result.INVALID_CONTEXT, f"{handle:#x} is no context that was created")
        self._remove(handle)
        if self.current_handle == handle:
            self._thread.handle = 0

    def lose(self, handle: int, why: Status) -> None:
        """Every call in the context fails from now on, with the first error."""
        state = self._states.get(handle)
        if state is not None and state.lost is None:
            state.lost = why
            if not self._recoverable:
                self._broken = why

    @property
    def current_handle(self) -> int:
        """What is current in the calling thread, whatever its state; 0 for nothing."""
        handle: int = getattr(self._thread, "handle", 0)
        return handle

    def _add(self, handle: int) -> None:
        self._states[handle] = ContextState(handle)
        self._destroyed.discard(handle)

    def _remove(self, handle: int) -> None:
        del self._states[handle]
        self._destroyed.add(handle)

    def _check_usable(self) -> None:
        if self._broken is not None:
            raise self._broken.again()
