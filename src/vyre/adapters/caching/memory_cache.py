"""A cache in memory: bounded in bytes and entries, one build per key, values that are their own leases.

Eviction only drops the cache's reference: users of a value keep using it, and it is unloaded when the last reference is
dropped.  While it lives it can be revived without a build, so that there are never two values of a key.  The budgets
bound what the cache holds; evicted values that are still used are reported separately.

A hit is a look-up in a dict and an entry in a log, and so is a new value: the policy reads the log when it is to choose
a victim, so that a cache with room to spare never asks it.  A log that grows too long loses the hits of its older half:
entries that are hit that often are not at risk of eviction.
"""

from __future__ import annotations

import itertools
import sys
import time
import weakref
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Final, Generic, NamedTuple, TypeVar

from vyre.adapters.caching.held_decisions import HeldDecisions
from vyre.adapters.caching.single_flight import SingleFlight
from vyre.adapters.forks import is_held_here, process_lock
from vyre.adapters.on_use import OnUse
from vyre.domain.errors import InvalidField
from vyre.domain.frozen import frozen
from vyre.domain.record import U64, IntRange, record
from vyre.policies.record import U64_MAX
from vyre.ports.interrupts import sealed

if TYPE_CHECKING:
    from vyre.adapters.caching.retention import Retention
    from vyre.policies.journal import DecisionSink

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

LOG: Final = 256
"""Length of the log at which it loses hits; the policy takes some 2.5 us for each entry."""
_SPARE: Final = 16


@record
class MemoryBudget:
    """The limits of a cache, in bytes and entries."""

    nbytes: U64 = 256 << 20
    entries: Annotated[int, IntRange(1, U64_MAX)] = 2048


@frozen
class Built(Generic[V]):
    """The result of a build.

    ``unload`` is called once, when ``value`` has died, by the thread that dropped the last reference and possibly
    within a garbage collection: it should only record what to free, and must not hold ``value``.  ``cost_ns`` is the
    time of another build; None means the time that this build took.
    """

    value: V
    nbytes: int
    unload: Callable[[], object] | None = None
    cost_ns: int | None = None

    def __post_init__(self) -> None:
        for name, value in (("nbytes", self.nbytes), ("cost_ns", self.cost_ns)):
            if (type(value) is not int or not 0 <= value <= U64_MAX) and (value is not None or name == "nbytes"):
                raise InvalidField(record="Built", field=name, value=value, expected=f"an int in 0..{U64_MAX}")


class Cause(Enum):
    """The reasons why a value left the cache."""

    BYTES = "byte budget"
    ENTRIES = "entry budget"
    TOO_LARGE = "larger than the byte budget"
    DISCARDED = "discarded"


class MemoryCacheStats(NamedTuple):
    """Statistics of a cache.

    ``entries`` and ``nbytes`` are held now; ``leases`` and ``leased_bytes`` were evicted and are still used, as far as
    they can be referenced weakly.  Counted since the cache was made: ``hits``; ``misses``, each of which started a
    build, of which ``failures`` failed; ``shared``, waits for a build of another thread that succeeded; ``revived``,
    values that returned without a build; ``evicted``, departures by cause.
    """

    entries: int
    nbytes: int
    leases: int
    leased_bytes: int
    hits: int
    misses: int
    shared: int
    revived: int
    failures: int
    evicted: Mapping[Cause, int]


class _Held(NamedTuple):
    """A cached value's record.

    ``life`` ends with the value.  A value that is not to be unloaded has none before it leaves the cache, nor later if
    it cannot be referenced weakly.
    """

    lease: int
    nbytes: int
    cost_ns: int
    life: weakref.finalize[..., Any] | None


class MemoryCache(Generic[K, V]):
    """Values by key; every method may be called from any thread, and from inside a build.

    ``retention`` chooses victims of eviction, and must not call the cache; default: ``CostEviction``.  ``sink``
    receives its decisions, and may call the cache.  ``name`` describes a key in messages.
    """

    def __init__(
        self,
        budget: MemoryBudget | None = None,
        *,
        retention: Retention[K] | None = None,
        now_ns: Callable[[], int] = time.perf_counter_ns,
        name: Callable[[K], str] = repr,
        sink: DecisionSink | None = None,
    ) -> None:
        self._budget = budget if budget is not None else MemoryBudget()
        self._decisions = None if sink is None else HeldDecisions(sink)
        self._retention: Retention[K] = (
            OnUse(partial(_cost_eviction, self._decisions)).facet() if retention is None else retention
        )
        self._now_ns = now_ns
        self._lock = process_lock()
        self._flights: SingleFlight[K, V] = SingleFlight(name)
        self._values: dict[K, tuple[V, K]] = {}  # with the key as it was built, which a log of hits keeps alive, too
        self._log: list[K] = []
        self._new: dict[K, _Held] = {}  # what the policy does not know yet: its first entry in the log is its arrival
        self._entries: dict[K, _Held] = {}
        self._nbytes = 0
        self._gone: dict[K, _Held] = {}
        # Changed by finalizers, which may run under the lock: so changed without it, by single atomic calls.
        self._leases: dict[int, int] = {}
        self._lease_numbers = itertools.count()
        self._wanted: dict[K, object] = {}
        self._logged = self._misses = self._shared = self._revived = self._failures = 0
        self._evicted: Counter[Cause] = Counter()

    def get(self, key: K) -> V | None:
        """Returns the value if it is held, else None; a miss is not counted."""
        try:
            value, own = self._values[key]
        except KeyError:
            return None
        self._log.append(own)
        if len(self._log) >= LOG:
            self._shorten_log()
        return value

    def get_or_build(self, key: K, build: Callable[[], Built[V]], *, timeout_s: float | None = None) -> V:
        """Returns the value of ``key``; on a miss one thread builds it for all that request it meanwhile.

        ``timeout_s`` bounds the wait for another thread's build.  Raises what ``build`` raises; threads that waited for
        it get an error of the same class and text if it is a ``VyreError``, else ``UnfinishedBuild``; also
        ``UnfinishedBuild`` if a build waits for itself, and ``DispatchTimeout``.  A failure leaves no entry.
        """
        try:
            value, own = self._values[key]
        except KeyError:
            pass  # built below, so that no error of a build is told as one that came while this was handled
        else:
            self._log.append(own)  # as in `get`, without the cost of another call
            if len(self._log) >= LOG:
                self._shorten_log()
            return value
        return self._miss(key, build, timeout_s)

    def discard(self, key: K) -> bool:
        """Drops a value that is no longer valid, even while it is built or used; returns whether it was held."""
        with self._lock, sealed:
            left = self._discard([key])
        return len(left) > 0

    def discard_where(self, selects: Callable[[K], bool]) -> int:
        """Discards the keys for which ``selects``, which must not call the cache, is true; returns how many were
        held.
        """
        with self._lock, sealed:
            left = self._discard([key for key in (*self._entries, *self._gone, *self._wanted) if selects(key)])
        return len(left)

    def clear(self) -> int:
        """Discards everything; returns how many values were held."""
        return self.discard_where(lambda key: True)

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: K) -> bool:
        return key in self._entries

    def stats(self) -> MemoryCacheStats:
        """Returns a consistent snapshot."""
        with self._lock, sealed:
            leased = list(self._leases.values())
            return MemoryCacheStats(
                entries=len(self._entries),
                nbytes=self._nbytes,
                leases=len(leased),
                leased_bytes=sum(leased),
                hits=self._logged + len(self._log) - len(self._new),
                misses=self._misses,
                shared=self._shared,
                revived=self._revived,
                failures=self._failures,
                evicted={cause: self._evicted[cause] for cause in Cause},
            )

    # ---- misses
    def _miss(self, key: K, build: Callable[[], Built[V]], timeout_s: float | None) -> V:
        if is_held_here(self._lock):  # a finaliser inside of a change of this cache, which keeps nothing for it
            built = build()
            if built.unload is not None:
                self._to_unload(built.value, _Held(next(self._lease_numbers), 0, 0, None), built.unload)
            return built.value
        value, own = self._flights.run(key, partial(self._fill, key, build), timeout_s)
        if not own:
            with self._lock, sealed:
                self._shared += 1
        elif self._decisions is not None:
            self._decisions.tell()
        return value

    def _fill(self, key: K, build: Callable[[], Built[V]]) -> V:
        """Builds the value, on the one thread that does."""
        ticket = object()
        left: list[V] = []
        with self._lock, sealed:
            if key in self._values:  # another build ended between the look-up and this one
                self._log.append(key)
                return self._values[key][0]
            value = self._revive(key, left) if self._gone else None
            if value is None:
                self._misses += 1
                self._wanted[key] = ticket
        if value is not None:
            return value
        started = self._now_ns()
        try:
            built = build()
            cost_ns = max(self._now_ns() - started, 0) if built.cost_ns is None else built.cost_ns
            entry = _Held(next(self._lease_numbers), built.nbytes, cost_ns, None)
            if built.unload is not None:
                entry = self._to_unload(built.value, entry, built.unload)
        except BaseException:
            with self._lock, sealed:
                self._failures += 1
                self._is_wanted(key, ticket)
            raise
        with self._lock, sealed:
            if self._is_wanted(key, ticket):
                self._keep(key, built.value, entry, left)
            else:
                self._depart(built.value, entry, Cause.DISCARDED)
        return built.value

    def _to_unload(self, value: V, entry: _Held, unload: Callable[[], object]) -> _Held:
        """Returns the record of a value that is to be unloaded when it dies."""
        entry = self._tracked(value, entry, unload)
        if entry.life is None:
            expected = "an object that can be referenced weakly, since it is to be unloaded"
            raise InvalidField(record="Built", field="value", value=value, expected=expected)
        return entry

    def _tracked(self, value: V, entry: _Held, unload: Callable[[], object] | None = None) -> _Held:
        """Returns the record with the life of its value, if the value can be referenced weakly."""
        try:
            life = weakref.finalize(value, _let_go, self._leases, entry.lease, unload)
        except TypeError:
            return entry
        life.atexit = False  # the loader no longer exists at exit
        return entry._replace(life=life)

    def _is_wanted(self, key: K, ticket: object) -> bool:
        """Returns whether the value built under ``ticket`` is still valid, and consumes the ticket."""
        if self._wanted.get(key) is not ticket:
            return False
        del self._wanted[key]
        return True

    def _revive(self, key: K, left: list[V]) -> V | None:
        """Returns the value of an evicted key if it is still used; holds it again if it fits."""
        gone = self._gone.pop(key, None)
        alive = None if gone is None or gone.life is None else gone.life.peek()
        if gone is None or alive is None:
            return None
        value: V = alive[0]
        self._revived += 1
        if gone.nbytes <= self._budget.nbytes:
            self._leases.pop(gone.lease, None)
            self._keep(key, value, gone, left)
        else:
            self._gone[key] = gone
        return value

    # ---- held values; under the lock
    def _keep(self, key: K, value: V, new: _Held, left: list[V]) -> None:
        """Holds a value and appends evicted ones to ``left``, whose owner drops them outside the lock."""
        budget = self._budget
        if new.nbytes > budget.nbytes:
            self._remember(key, self._depart(value, new, Cause.TOO_LARGE))
            return
        while (too_big := self._nbytes + new.nbytes > budget.nbytes) or len(self._entries) >= budget.entries:
            self._read_log()
            victim = self._retention.evict()
            evicted = self._values.pop(victim)[0]
            left.append(evicted)
            evicted_entry = self._entries.pop(victim)
            self._nbytes -= evicted_entry.nbytes
            self._remember(victim, self._depart(evicted, evicted_entry, Cause.BYTES if too_big else Cause.ENTRIES))
        self._new[key] = self._entries[key] = new
        self._log.append(key)  # before any hit of it
        self._values[key] = value, key
        self._nbytes += new.nbytes

    def _depart(self, value: V, entry: _Held, cause: Cause) -> _Held:
        """Counts a departure; returns the record with the life of the value."""
        if entry.life is None:
            entry = self._tracked(value, entry)
        if entry.life is not None:
            self._leases[entry.lease] = entry.nbytes
        self._evicted[cause] += 1
        return entry

    def _remember(self, key: K, entry: _Held) -> None:
        """Keeps a weak reference, so that the value can be revived while it lives."""
        if entry.life is None:
            return
        self._gone[key] = entry
        if len(self._gone) > 2 * len(self._leases) + _SPARE:
            self._gone = {k: gone for k, gone in self._gone.items() if gone.life is not None and gone.life.alive}

    def _discard(self, keys: Iterable[K]) -> list[V]:
        """Returns the values that were held, which the caller drops outside the lock."""
        left: list[V] = []
        decides = not sys.is_finalizing()  # when the policy can no longer be imported
        if decides:
            self._read_log()  # none of its entries counts for a later value of a key
        for key in keys:
            self._flights.forget(key)
            self._wanted.pop(key, None)
            self._gone.pop(key, None)
            if decides:
                self._retention.discard(key)
            if key in self._entries:
                entry = self._entries.pop(key)
                value = self._values.pop(key)[0]
                left.append(value)
                self._nbytes -= entry.nbytes
                self._depart(value, entry, Cause.DISCARDED)
        return left

    # ---- the log of hits and new values
    def _read_log(self) -> None:
        """Passes the log to the policy; under the lock.  Other threads may append hits meanwhile."""
        for key in self._taken(len(self._log)):
            if not self._arrived(key):
                self._logged += 1
                self._retention.hit(key)

    def _shorten_log(self) -> None:
        """Passes the new values in the older half of the log to the policy, and drops the hits in it."""
        if is_held_here(self._lock):
            return
        with self._lock, sealed:
            for key in self._taken(max(len(self._log) - LOG // 2, 0)):
                if not self._arrived(key):
                    self._logged += 1

    def _taken(self, count: int) -> list[K]:
        """Removes and returns the oldest entries of the log."""
        taken = self._log[:count]
        del self._log[:count]
        return taken

    def _arrived(self, key: K) -> bool:
        """Returns whether an entry of the log stands for a new value, which the policy then knows."""
        new = self._new.pop(key, None) if self._new else None
        if new is None:
            return False
        self._retention.admit(key, new.nbytes, new.cost_ns)
        return True


def _let_go(leases: dict[int, int], lease: int, unload: Callable[[], object] | None) -> None:
    """Handles the death of a value.  This may run within any other call, so it takes no lock."""
    leases.pop(lease, None)
    if unload is not None:
        unload()


def _cost_eviction(sink: DecisionSink | None) -> Retention[Any]:
    """Returns the usual retention; a cache with room to spare never asks it."""
    from vyre.adapters.caching.cost_eviction import CostEviction

    return CostEviction(sink=sink)
