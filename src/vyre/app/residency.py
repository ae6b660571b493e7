"""The limit of a session on resident memory: who holds it, and what moved to the host for others."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol
from weakref import ref

from vyre.adapters.forks import process_lock
from vyre.domain.errors import DeviceOutOfMemory
from vyre.policies.caching.cache_eviction import RetentionInputs, select_retention_set
from vyre.policies.journal import DecisionSink, decide
from vyre.ports.interrupts import sealed

if TYPE_CHECKING:
    from vyre.ports.execution import ResidentMemory
    from vyre.ports.requests import Readback, Upload
    from vyre.ports.resident_buffer import ResidentBuffer

REMEMBERED: Final = 1024
"""The latest arrays that left the device which a session remembers."""


class ResidentEviction(NamedTuple):
    """An array that left the device: ``copied_bytes`` were copied to the host, 0 for one that is constant."""

    name: str
    nbytes: int
    copied_bytes: int
    why: str


class Candidate(NamedTuple):
    """An array that may leave the device; ``gain`` is its worth, and ``leave`` moves it, given for what."""

    nbytes: int
    gain: int
    leave: Callable[[str], object]


class Cache(Protocol):
    """Owner of arrays that may leave the device, where others need room."""

    def _candidates(self) -> Iterable[Candidate]:
        """Returns the arrays that may leave now: those that nothing uses."""


def make_room(candidates: Sequence[Candidate], room: int, asking: str, sink: DecisionSink | None) -> None:
    """Has the least valuable candidates leave, until the others take at most ``room`` bytes.

    ``asking`` says for what, in the reason of each.
    """
    valued = sorted(range(len(candidates)), key=lambda place: (-candidates[place].gain, place))
    taken = accumulate(candidates[place].nbytes for place in valued)
    stay = sum(1 for nbytes in taken if nbytes <= room)
    if stay == len(candidates):
        return
    gains = tuple(each.gain for each in candidates)
    kept = decide(sink, select_retention_set, RetentionInputs(gains, len(gains), stay))
    for candidate, stays in zip(candidates, kept, strict=True):
        if not stays:
            candidate.leave(asking)


class ResidencyReport(NamedTuple):
    """The resident memory of a session; ``print`` it.

    ``budget`` and ``resident_bytes`` are in bytes; ``evictions`` are the latest arrays that left the device, oldest
    first.
    """

    budget: int
    resident_bytes: int
    evictions: tuple[ResidentEviction, ...]

    def __str__(self) -> str:
        lines = [f"{self.resident_bytes} of {self.budget} bytes are resident; {len(self.evictions)} arrays left"]
        lines += [f"  {each.name} ({each.nbytes} bytes): {each.why}" for each in self.evictions]
        return "\n".join(lines)


class ResidentBudget:
    """The most bytes of device memory that the arrays of a session may take, whoever makes them.

    Every method may be called from any thread.  Who holds ``lock`` waits for no asynchronous operation.
    """

    def __init__(self, nbytes: int, sink: DecisionSink | None, epoch: Callable[[], int]) -> None:
        self.nbytes: Final = nbytes
        self.lock: Final = process_lock()
        self._sink, self._epoch = sink, epoch
        self._buffers: list[ref[ResidentBuffer]] = []
        self._taken = 0
        """The bytes that were allocated: at least as many as are held."""
        self._caches: list[ref[Cache]] = []
        self._evictions: deque[ResidentEviction] = deque(maxlen=REMEMBERED)

    def add(self, cache: Cache) -> None:
        """Has arrays of ``cache`` leave the device where others need room."""
        with self.lock, sealed:
            self._caches = [one for one in self._caches if one() is not None]
            self._caches.append(ref(cache))

    def left(self, eviction: ResidentEviction) -> None:
        """Remembers an array that left the device."""
        with self.lock, sealed:
            self._evictions.append(eviction)

    def holds(self, nbytes: int) -> bool:
        """Returns whether there is room for so many bytes while everything stays."""
        with self.lock, sealed:
            return self._fits(nbytes)

    def report(self) -> ResidencyReport:
        """Returns what is resident, and what left."""
        with self.lock, sealed:
            self._count()
            return ResidencyReport(self.nbytes, self._taken, tuple(self._evictions))

    def allocate(self, memory: ResidentMemory, nbytes: int, label: str | None) -> ResidentBuffer:
        """Allocates from ``memory``, for which arrays of caches may leave.

        Raises ``DeviceOutOfMemory`` where those that may not leave take too much of the budget.
        """
        with self.lock, sealed:
            if not self._fits(nbytes):
                self._make_room(nbytes, label)
            buffer = memory.allocate(nbytes, label=label)
            self._buffers.append(ref(buffer))
            self._taken += nbytes
            return buffer

    def _fits(self, nbytes: int) -> bool:
        if self._taken + nbytes > self.nbytes:
            self._count()
        return self._taken + nbytes <= self.nbytes

    def _count(self) -> None:
        """Forgets what was freed, or lost with its device."""
        epoch = self._epoch()
        alive = [(one, buffer) for one in self._buffers if (buffer := one()) is not None]
        alive = [(one, buffer) for one, buffer in alive if not buffer.closed and buffer.epoch == epoch]
        self._buffers = [one for one, _ in alive]
        self._taken = sum(buffer.nbytes for _, buffer in alive)

    def _make_room(self, nbytes: int, label: str | None) -> None:
        candidates = [each for one in self._caches if (cache := one()) is not None for each in cache._candidates()]
        movable = sum(each.nbytes for each in candidates)
        available = self.nbytes - self._taken + movable
        if nbytes > available:
            raise DeviceOutOfMemory(requested=nbytes, available=available)
        asking = f"{nbytes} bytes" if label is None else f"{nbytes} bytes of `{label}`"
        make_room(candidates, available - nbytes, asking, self._sink)


class BudgetedMemory:
    """``ResidentMemory`` whose allocations keep to a budget."""

    __slots__ = ("_budget", "_memory")

    def __init__(self, memory: ResidentMemory, budget: ResidentBudget) -> None:
        self._memory, self._budget = memory, budget

    def allocate(self, nbytes: int, /, *, label: str | None = None) -> ResidentBuffer:
        """Implements ``ResidentMemory.allocate``."""
        return self._budget.allocate(self._memory, nbytes, label)

    def upload(self, uploads: Sequence[Upload], /) -> None:
        """Implements ``ResidentMemory.upload``."""
        self._memory.upload(uploads)

    def download(self, reads: Sequence[Readback], /) -> None:
        """Implements ``ResidentMemory.download``."""
        self._memory.download(reads)
