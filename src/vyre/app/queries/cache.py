"""``ResidentCache``: arrays of the host of which as many are in the memory of the device as a budget holds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Self

import numpy as np

from vyre.adapters.forks import process_lock
from vyre.app.asynchrony.order import accesses_to
from vyre.app.host_memory import host_memory
from vyre.app.residency import Candidate, ResidentEviction, make_room
from vyre.app.resident import ResidentArray
from vyre.domain.arguments import expect, whole
from vyre.domain.errors import DeviceOutOfMemory, InvalidInput, InvalidResource
from vyre.domain.printable import shown
from vyre.domain.record import U32_MAX, U64_MAX
from vyre.domain.unique import Closing
from vyre.policies.caching.cache_eviction import EvictionCounts, eviction_basis_points
from vyre.policies.caching.cache_eviction_heat import HeatEntry, HeatThresholds, heat
from vyre.policies.journal import DecisionSink
from vyre.ports.interrupts import sealed

if TYPE_CHECKING:
    import numpy.typing as npt

    from vyre.app.lease import BackendLease
    from vyre.domain.dispatch import ReadableBuffer
    from vyre.ports.support import Telemetry

FADING: Final = HeatThresholds(half_life_s=32.0)
"""Uses of the cache, which stand for seconds here, after which an array that is not used is worth half."""
_UNIT: Final = 1 << 16
_WORD: Final = 4
"""The bytes of a truth value on the device."""


@dataclass(slots=True)
class _Entry:
    """An array: ``host`` holds its content while it is not ``resident``, where it has ``nbytes`` bytes.

    ``users`` use it now; it was used ``uses`` times, the ``last`` time at that count of all uses.
    """

    host: npt.NDArray[Any]
    nbytes: int
    constant: bool
    resident: ResidentArray | None = None
    users: int = 0
    uses: int = 0
    last: int = 0


class ResidentCache(Closing):
    """Arrays of the host, by name, of which as many are on the device as the budget holds.

    ``with cache.use(name) as array:`` gives a resident array, which stays for the block.  Outside of such blocks an
    array may be moved to the host for others; it comes back with its content when it is used next.  A context manager;
    every method may be called from any thread.
    """

    def __init__(
        self,
        lease: BackendLease,
        make: Callable[[npt.NDArray[Any], str], ResidentArray],
        budget: int | None,
        sink: DecisionSink | None,
        telemetry: Telemetry,
    ) -> None:
        shared = lease.budget
        if budget is None and shared is not None:
            budget = shared.nbytes
        fix = "give a number of bytes above 0, or open the session with a resident_budget."
        budget = whole("budget", budget, 1, U64_MAX, fix)
        self._lease, self._make = lease, make
        self._sink, self._telemetry = sink, telemetry
        self.budget: Final = budget
        self._entries: dict[str, _Entry] = {}
        self._shared = shared
        # One for all, as arrays of each may leave for others.
        self._lock = process_lock() if shared is None else shared.lock
        self._now = 0
        self._closed = False
        self._evictions: list[ResidentEviction] = []
        self._uploaded_bytes = 0
        if shared is not None:
            shared.add(self)

    # ---------------------------------------------------------------- arrays
    def add(self, name: str, data: ReadableBuffer, *, constant: bool = False) -> None:
        """Takes a copy of ``data``, which is uploaded when it is first used.

        ``constant``: nobody will write it, so that nothing is copied when it leaves the device.  Raises
        ``InvalidInput`` for a name that is taken, for data without an element type, and for more than the budget.
        """
        expect("name", name, str, "a text")
        expect("constant", constant, bool, "True or False")
        array = None if isinstance(data, np.generic) else host_memory(data, f"array `{name}`")
        if not isinstance(array, np.ndarray):
            raise InvalidInput(f"array `{name}` has no element type", fix="pass a NumPy array.")
        nbytes = array.size * (_WORD if array.dtype == np.bool_ else array.itemsize)
        if nbytes > self.budget:
            raise InvalidInput(
                f"array `{name}` takes {nbytes} bytes, and the budget is {self.budget}", fix="raise the budget."
            )
        with self._lock, sealed:
            self._check_open()
            if name in self._entries:
                raise InvalidInput(f"array `{name}` is in the cache", fix="remove it first, or use another name.")
            self._entries[name] = _Entry(array.copy(), nbytes, constant)

    @contextmanager
    def use(self, name: str) -> Iterator[ResidentArray]:
        """Gives the array of that name in the memory of the device, where it stays until the block ends.

        Uploads it if it is not there, for which others may leave, once the asynchronous operations under way have
        ended.  Raises ``InvalidInput`` for an unknown name, and ``DeviceOutOfMemory`` if the arrays in use leave no
        room in the budget.
        """
        self._wait_if_some_leave(name)
        with self._lock, sealed:
            self._check_open()
            entry = self._entry(name)
            self._now += 1
            if entry.resident is None:
                self._make_room(entry.nbytes, name)
                entry.resident = self._make(entry.host, name)
                self._uploaded_bytes += entry.nbytes
            entry.uses, entry.last, entry.users = entry.uses + 1, self._now, entry.users + 1
            array = entry.resident
        try:
            yield array
        finally:
            with self._lock, sealed:
                entry.users -= 1

    def remove(self, name: str) -> npt.NDArray[Any]:
        """Removes the array of that name, frees its memory on the device, and returns its content.

        Raises ``InvalidInput`` for an unknown name, and ``InvalidResource`` for one that is in use.
        """
        with self._lock, sealed:
            self._check_open()
            entry = self._entry(name)
            if entry.users:
                raise InvalidResource(f"array `{name}` is removed while it is in use", fix="leave its block first.")
            self._leave(entry)
            del self._entries[name]
            return entry.host

    # ---------------------------------------------------------------- looking
    @property
    def resident_bytes(self) -> int:
        """The bytes of the arrays that are on the device now."""
        with self._lock, sealed:
            return sum(entry.nbytes for entry in self._entries.values() if entry.resident is not None)

    @property
    def uploaded_bytes(self) -> int:
        """The bytes that were copied to the device so far."""
        return self._uploaded_bytes

    @property
    def evictions(self) -> tuple[ResidentEviction, ...]:
        """The arrays that left the device for others, oldest first."""
        with self._lock, sealed:
            return tuple(self._evictions)

    def explain(self) -> str:
        """Returns what is on the device, what left it, and why, as text."""
        with self._lock, sealed:
            here = [name for name, entry in self._entries.items() if entry.resident is not None]
            left = EvictionCounts(len(self._entries) - len(here), len(self._entries))
            lines = [
                f"{self.resident_bytes} of {self.budget} bytes on the device: {', '.join(here) or 'nothing'};"
                f" {eviction_basis_points(left) / 100:g} % of the arrays are on the host",
                f"  {self._uploaded_bytes} bytes were uploaded",
            ]
            return "\n".join((*lines, *(f"  {each.name}: {each.why}" for each in self._evictions)))

    def close(self) -> None:
        """Frees the memory of all arrays; their content is lost.  Idempotent."""
        with self._lock, sealed:
            self._closed = True
            for entry in self._entries.values():
                if entry.resident is not None:
                    entry.resident.close()
            self._entries.clear()

    def __enter__(self) -> Self:
        self._check_open()
        return self

    def __repr__(self) -> str:
        state = "closed" if self._closed else f"{len(self._entries)} arrays"
        return f"<ResidentCache of {self.budget} bytes on {self._lease.backend.id}, {state}>"

    # ---------------------------------------------------------------- details
    def _check_open(self) -> None:
        self._lease.check_open()
        if self._closed:
            raise InvalidResource(f"{self!r} is used after close()", fix="open another with session.resident_cache.")

    def _entry(self, name: str) -> _Entry:
        expect("name", name, str, "a text")
        entry = self._entries.get(name)
        if entry is None:
            known = ", ".join(f"`{each}`" for each in self._entries) or "none"
            raise InvalidInput(f"the cache has no array {shown(name)}", fix=f"its arrays are {known}.")
        return entry

    def _candidates(self) -> list[Candidate]:
        """Returns the arrays that may leave the device now: those that no block and no operation uses."""
        order = self._lease.order
        candidates: list[Candidate] = []
        for name, entry in self._entries.items():
            array = entry.resident
            if array is None or entry.users:
                continue
            if order.under_way and order.conflicts(accesses_to(((array.buffer, True),))):
                continue
            gain = self._gain(entry)
            candidates.append(Candidate(entry.nbytes, gain, partial(self._evict, name, entry, gain)))
        return candidates

    def _wait_if_some_leave(self, name: str) -> None:
        """Waits for asynchronous operations, which may use what has to leave; not on a thread that runs them."""
        lease = self._lease
        if not lease.order.under_way or (lease.work is not None and lease.work.is_thread_of_it()):
            return
        with self._lock, sealed:
            entry = self._entries.get(name)
            stays = entry is None or entry.resident is not None
            if entry is not None and not stays:
                fits = self.resident_bytes + entry.nbytes <= self.budget
                stays = fits and (self._shared is None or self._shared.holds(entry.nbytes))
        if not stays:
            lease.wait_for(None)

    def _make_room(self, nbytes: int, asking: str) -> None:
        """Moves arrays that nobody uses to the host, the least valuable first, until there is room for ``nbytes``."""
        candidates = self._candidates()
        room = self.budget - nbytes - self.resident_bytes + sum(each.nbytes for each in candidates)
        if room < 0:
            raise DeviceOutOfMemory(requested=nbytes, available=room + nbytes)
        make_room(candidates, room, f"{nbytes} bytes of `{asking}`", self._sink)

    def _gain(self, entry: _Entry) -> int:
        worth = heat(HeatEntry(0, min(entry.uses, U32_MAX), float(entry.last)), float(self._now), FADING)
        return max(1, min(U32_MAX, round(worth * _UNIT)))

    def _evict(self, name: str, entry: _Entry, gain: int, asking: str) -> None:
        ago = self._now - entry.last
        why = f"used {entry.uses} time(s), last {ago} use(s) ago: worth {gain / _UNIT:.3g}, it made room for {asking}"
        copied = self._leave(entry)
        eviction = ResidentEviction(name, entry.nbytes, copied, why)
        self._evictions.append(eviction)
        if self._shared is not None:
            self._shared.left(eviction)
        self._telemetry.event("vyre.resident.evicted", name=name, nbytes=entry.nbytes, copied_bytes=copied, why=why)

    def _leave(self, entry: _Entry) -> int:
        """Moves an array to the host; returns the bytes that this copies."""
        array = entry.resident
        if array is None:
            return 0
        copied = 0
        if not entry.constant:
            entry.host = array.download()
            copied = array.nbytes
        entry.resident = None
        array.close()
        return copied
