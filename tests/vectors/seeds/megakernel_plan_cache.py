"""A cache of launch shapes for waves of graph analyses, by graph, device and level of pressure.

The rules are those of ``plan_cache``; this module holds their state.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from vectors.seeds.plan_cache import (
    DEFAULT_BUCKETS,
    BucketThresholds,
    ExecutionLookup,
    MegakernelCachedPlan,
    MegakernelPlanCacheKey,
    MegakernelPlanCacheStats,
    PlanIdentity,
    TopologyLookup,
    decide_topology,
    lookup_key,
    plan_remembered,
    topology_lookup,
)
from vectors.seeds.topology import DEFAULT_THRESHOLDS, ExecutionPlan, TopologyThresholds
from vyre.domain.arguments import whole
from vyre.policies.journal import DecisionSink, decide
from vyre.policies.record import U64_MAX

DEFAULT_CAPACITY: Final = 256


class MegakernelPlanCache:
    """Decisions by key, at most ``max_entries`` of them (0: none), evicted in least-recently-used order.

    ``sink`` receives the decisions that are made.
    """

    def __init__(
        self,
        max_entries: int = DEFAULT_CAPACITY,
        *,
        thresholds: TopologyThresholds = DEFAULT_THRESHOLDS,
        buckets: BucketThresholds = DEFAULT_BUCKETS,
        sink: DecisionSink | None = None,
    ) -> None:
        self._max_entries = whole("max_entries", max_entries, 0, U64_MAX)
        self._thresholds, self._buckets = thresholds, buckets
        self._sink = sink
        self._entries: OrderedDict[MegakernelPlanCacheKey, MegakernelCachedPlan] = OrderedDict()
        self._last_used: dict[PlanIdentity, MegakernelPlanCacheKey] = {}
        self._hits = self._misses = self._evictions = 0

    @property
    def stats(self) -> MegakernelPlanCacheStats:
        """Hits, misses, evictions and entries."""
        return MegakernelPlanCacheStats(self._hits, self._misses, self._evictions, len(self._entries))

    def clear(self) -> None:
        """Drops every decision; the counters continue."""
        self._entries.clear()
        self._last_used.clear()

    def get_or_select_topology(self, lookup: TopologyLookup) -> MegakernelCachedPlan:
        """Returns the cached decision of an equal key, the very object; else makes and caches one."""
        key = lookup_key(lookup, self._buckets)
        found = self._entries.get(key)
        if found is not None:
            self._hits += 1
            self._entries.move_to_end(key)
        else:
            self._misses += 1
            last = self._last_used.get(lookup.identity)
            previous = None if last is None else self._entries[last].topology
            found = decide(self._sink, decide_topology, lookup, previous, self._thresholds)
            if self._max_entries == 0:
                return found
            while len(self._entries) >= self._max_entries:
                self._evict()
            self._entries[key] = found
        self._last_used[lookup.identity] = key
        return found

    def get_or_plan_execution(self, lookup: ExecutionLookup) -> ExecutionPlan:
        """Returns memory for the cached or newly chosen shape, or for the smallest one where that shape does not fit.

        Raises ``PlanError`` like ``fit``; sizes that exceed 64 bits in the smallest shape raise before anything is
        looked up.
        """
        return plan_remembered(self.get_or_select_topology(topology_lookup(lookup)), lookup.wave)

    def _evict(self) -> None:
        key, _ = self._entries.popitem(last=False)
        self._evictions += 1
        if self._last_used[key.identity] == key:  # then it was the only one: others would have been evicted first
            del self._last_used[key.identity]
