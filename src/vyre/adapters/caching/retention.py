"""The protocol of eviction, and its implementation by ``cache_eviction_heat``; ``CostEviction`` is the other one."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable
from typing import Generic, NamedTuple, Protocol, TypeVar

from vyre.adapters.caching.cost_eviction import CANDIDATES
from vyre.domain.record import U32_MAX
from vyre.policies.caching.cache_eviction_heat import (
    DEFAULT_THRESHOLDS,
    HeatEntry,
    HeatEvictionInputs,
    HeatThresholds,
    entries_to_evict,
)
from vyre.policies.journal import DecisionSink, decide

K = TypeVar("K", bound=Hashable)


class Retention(Protocol[K]):
    """The eviction state of one cache, which calls it from one thread at a time."""

    def admit(self, key: K, nbytes: int, cost_ns: int) -> None:
        """Records that ``key`` was built, at that cost in ns, and is held."""

    def hit(self, key: K) -> None:
        """Records a hit of ``key``, which may have been evicted meanwhile."""

    def discard(self, key: K) -> None:
        """Records that ``key`` is no longer valid."""

    def evict(self) -> K:
        """Chooses a victim, drops it and returns its key; there is at least one entry."""


class _Warm(NamedTuple):
    hits: int
    last_s: float
    weight: float


class HeatRetention(Generic[K]):
    """Evicts the coldest entry by ``cache_eviction_heat``; each eviction is O(n).

    ``by_cost`` weighs heat by rebuild cost per byte.  What happened counts from the time on at which it is reported: by
    a cache in memory, when it needs a victim.  ``sink`` receives each eviction, with at most ``CANDIDATES`` of the
    coldest entries.
    """

    def __init__(
        self,
        thresholds: HeatThresholds = DEFAULT_THRESHOLDS,
        *,
        by_cost: bool = False,
        now_s: Callable[[], float] = time.monotonic,
        sink: DecisionSink | None = None,
    ) -> None:
        self._thresholds, self._by_cost, self._now_s, self._sink = thresholds, by_cost, now_s, sink
        self._entries: dict[K, _Warm] = {}

    def admit(self, key: K, nbytes: int, cost_ns: int) -> None:
        """Implements ``Retention.admit``."""
        self._entries[key] = _Warm(1, self._now_s(), cost_ns / max(nbytes, 1) if self._by_cost else 1.0)

    def hit(self, key: K) -> None:
        """Implements ``Retention.hit``."""
        warm = self._entries.get(key)
        if warm is not None:
            self._entries[key] = _Warm(min(warm.hits + 1, U32_MAX), self._now_s(), warm.weight)

    def discard(self, key: K) -> None:
        """Implements ``Retention.discard``."""
        self._entries.pop(key, None)

    def evict(self) -> K:
        """Implements ``Retention.evict``."""
        entries_held, now = tuple(self._entries.items()), self._now_s()
        entries = tuple(HeatEntry(place, *warm) for place, (_, warm) in enumerate(entries_held))
        room = max(len(entries) - CANDIDATES, 0)
        short = entries_to_evict(HeatEvictionInputs(entries, room, now), self._thresholds)
        candidates = HeatEvictionInputs(tuple(entries[place] for place in short), len(short) - 1, now)
        (coldest,) = decide(self._sink, entries_to_evict, candidates, self._thresholds)
        key, _ = entries_held[coldest]
        del self._entries[key]
        return key
