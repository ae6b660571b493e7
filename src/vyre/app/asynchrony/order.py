"""The order of asynchronous operations on resident memory: each waits for those before it that conflict, and no others.

Two operations conflict if they share a byte and one of them writes it (``vyre.policies.concurrency.hazards``).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Final, TypeAlias

from vyre.policies.concurrency.hazards import WHOLE, Access, AccessMode, first_conflict
from vyre.ports.backend import ResidentBuffer

Accesses: TypeAlias = tuple[Access, ...]
_FOREIGN: Final = 0
"""The resource that stands for all memory of other libraries: two arrays of it may be the same."""


def accesses_to(uses: Iterable[tuple[ResidentBuffer, bool]]) -> Accesses:
    """Returns the accesses of an operation that uses these buffers; the second member says whether it writes them."""
    found: list[Access] = []
    for buffer, is_written in uses:
        mode = AccessMode.READ_WRITE if is_written else AccessMode.READ
        if buffer.shares_memory:
            found.append(Access(_FOREIGN, mode, WHOLE))
        elif buffer.nbytes:
            found.append(Access(id(buffer.root), mode, ((buffer.offset, buffer.offset + buffer.nbytes),)))
    return tuple(found)


class Operation:
    """An operation that is under way; ``waits`` is the number of those before it that it still waits for."""

    __slots__ = ("accesses", "begin", "followers", "waits")

    def __init__(self, accesses: Accesses, begin: Callable[[], object]) -> None:
        self.accesses: Final = accesses
        self.begin: Callable[[], object] = begin
        self.followers: list[Operation] = []
        self.waits: int = 0


def _nothing() -> None:
    """Begins an operation that has ended."""


class MemoryOrder:
    """The operations of a session that are under way.  Every method may be called from any thread."""

    def __init__(self) -> None:
        self.under_way: Final[dict[Operation, None]] = {}
        """The operations that have not ended, in the order in which they were added; others may only look at it."""
        self._changed = threading.Condition()

    def add(self, operation: Operation) -> None:
        """Has the operation begun once nothing that was added before conflicts with it: at once, if nothing does."""
        with self._changed:
            for other in self._conflicting(operation.accesses):
                other.followers.append(operation)
                operation.waits += 1
            self.under_way[operation] = None
            begins = not operation.waits
        if begins:
            operation.begin()

    def end(self, operation: Operation) -> None:
        """Forgets an operation that has ended, or that will not begin, and begins what waited for nothing else."""
        ready: list[Operation] = []
        with self._changed:
            if self.under_way.pop(operation, operation) is None:
                for follower in operation.followers:
                    follower.waits -= 1
                    if not follower.waits and follower in self.under_way:
                        ready.append(follower)
                operation.begin = _nothing  # what it holds may be large, and others may still name it
                self._changed.notify_all()
        for follower in ready:
            follower.begin()

    def conflicts(self, accesses: Accesses) -> bool:
        """Returns whether something is under way that conflicts with these accesses."""
        with self._changed:
            return bool(self._conflicting(accesses))

    def wait_for(self, accesses: Accesses) -> None:
        """Waits until nothing is under way that conflicts with these accesses."""
        with self._changed:
            while self._conflicting(accesses):
                self._changed.wait()

    def wait_for_all(self) -> None:
        """Waits until nothing is under way."""
        with self._changed:
            while self.under_way:
                self._changed.wait()

    def _conflicting(self, accesses: Accesses) -> list[Operation]:
        return [other for other in self.under_way if first_conflict(other.accesses, accesses) is not None]
