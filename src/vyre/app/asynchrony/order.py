"""The order of asynchronous operations on resident memory: each waits for those before it that conflict, and no others.

Two operations conflict if they share a byte and one of them writes it (``vyre.policies.concurrency.hazards``).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final, TypeAlias

from vyre.adapters.forks import process_lock
from vyre.ports.interrupts import sealed, undisturbed, wait_at

if TYPE_CHECKING:
    from vyre.policies.concurrency.hazards import Access
    from vyre.ports.resident_buffer import ResidentBuffer

Accesses: TypeAlias = "tuple[Access, ...]"
_FOREIGN: Final = 0
"""The resource that stands for all memory of other libraries: two arrays of it may be the same."""


def accesses_to(uses: Iterable[tuple[ResidentBuffer, bool]]) -> Accesses:
    """Returns the accesses of an operation that uses these buffers; the second member says whether it writes them."""
    from vyre.policies.concurrency.hazards import WHOLE, Access, AccessMode

    accesses: list[Access] = []
    for buffer, is_written in uses:
        mode = AccessMode.READ_WRITE if is_written else AccessMode.READ
        if buffer.shares_memory:
            accesses.append(Access(_FOREIGN, mode, WHOLE))
        elif buffer.nbytes:
            accesses.append(Access(id(buffer.root), mode, ((buffer.offset, buffer.offset + buffer.nbytes),)))
    return tuple(accesses)


class Operation:
    """An operation that is under way; ``waits`` is the number of those before it that it still waits for.

    ``ended`` is a lock, held until the operation has ended.
    """

    __slots__ = ("accesses", "begin", "ended", "followers", "waits")

    def __init__(self, accesses: Accesses, begin: Callable[[], object]) -> None:
        self.accesses: Final = accesses
        self.begin: Callable[[], object] = begin
        self.followers: list[Operation] = []
        self.waits: int = 0
        self.ended: Final = threading.Lock()
        self.ended.acquire()


def _nothing() -> None:
    """Begins an operation that has ended."""


class MemoryOrder:
    """The operations of a session that are under way.  Every method may be called from any thread."""

    def __init__(self) -> None:
        self.under_way: Final[dict[Operation, None]] = {}
        """The operations that have not ended, in the order in which they were added; others may only look at it."""
        self._lock = process_lock()

    def add(self, operation: Operation) -> None:
        """Has the operation begun once nothing that was added before conflicts with it: at once, if nothing does.

        Whoever is interrupted here ends the operation.
        """
        with self._lock, sealed:
            for other in self._conflicting(operation.accesses):
                other.followers.append(operation)
                operation.waits += 1
            self.under_way[operation] = None
            begins = not operation.waits
        if begins:
            operation.begin()

    def end(self, operation: Operation) -> None:
        """Forgets an operation that has ended, or that will not begin, and begins what waited for nothing else."""
        if operation in self.under_way:
            undisturbed(self._end, operation)

    def _end(self, operation: Operation) -> None:
        ready: list[Operation] = []
        with self._lock, sealed:
            if self.under_way.pop(operation, operation) is None:
                for follower in operation.followers:
                    follower.waits -= 1
                    if not follower.waits and follower in self.under_way:
                        ready.append(follower)
                operation.begin = _nothing  # what it holds may be large, and others may still name it
                operation.ended.release()
        for follower in ready:
            follower.begin()

    def conflicts(self, accesses: Accesses) -> bool:
        """Returns whether something is under way that conflicts with these accesses."""
        with self._lock, sealed:
            return bool(self._conflicting(accesses))

    def wait_for(self, accesses: Accesses) -> None:
        """Waits until nothing is under way that conflicts with these accesses."""
        while True:
            with self._lock, sealed:
                conflicting = self._conflicting(accesses)
            if not conflicting:
                return
            self._wait_for(conflicting[0])

    def wait_for_all(self) -> None:
        """Waits until nothing is under way."""
        while True:
            with self._lock, sealed:
                operation = next(iter(self.under_way), None)
            if operation is None:
                return
            self._wait_for(operation)

    def _wait_for(self, operation: Operation) -> None:
        wait_at(operation.ended, lambda: operation not in self.under_way)

    def _conflicting(self, accesses: Accesses) -> list[Operation]:
        if not self.under_way:
            return []
        from vyre.policies.concurrency.hazards import first_conflict

        return [other for other in self.under_way if first_conflict(other.accesses, accesses) is not None]
