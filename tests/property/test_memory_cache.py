"""The cache in memory against a plain dict: right values, budgets kept, every value unloaded once and never in use."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from vyre.adapters.caching.cost_eviction import CostEviction
from vyre.adapters.caching.memory_cache import Built, Cause, MemoryBudget, MemoryCache
from vyre.adapters.caching.retention import HeatRetention
from vyre.policies.caching.cost_eviction import CostThresholds

KEYS = st.integers(0, 6)
SIZES = st.integers(0, 12)


class Value:
    """``serial`` is unlike that of any other; the model knows values by it, so as not to keep them alive."""

    def __init__(self, key: int, serial: int, nbytes: int) -> None:
        self.key, self.serial, self.nbytes = key, serial, nbytes


class Failed(Exception):
    pass


class CacheMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.serials = 0
        self.valid: dict[int, int] = {}
        """The serial of the latest value of a key, unless it was discarded since."""
        self.sizes: dict[int, int] = {}
        self.used: list[Value] = []
        self.unloaded: list[int] = []
        self.asked = self.failed = self.builds = 0

    @initialize(nbytes=st.integers(0, 30), entries=st.integers(1, 5), heat=st.booleans(), ghosts=st.integers(0, 2))
    def open(self, nbytes: int, entries: int, heat: bool, ghosts: int) -> None:
        self.budget = MemoryBudget(nbytes, entries)
        self.policy: Any = CostEviction(CostThresholds(ghosts_per_entry=ghosts, review_interval=4))
        if heat:
            self.policy = HeatRetention(now_s=lambda: float(self.asked))
        self.cache: MemoryCache[int, Value] = MemoryCache(self.budget, retention=self.policy, now_ns=lambda: self.asked)

    def builder(self, key: int, nbytes: int) -> Callable[[], Built[Value]]:
        def build() -> Built[Value]:
            self.builds += 1
            self.serials += 1
            serial = self.serials
            self.sizes[serial] = nbytes
            self.valid[key] = serial
            return Built(Value(key, serial, nbytes), nbytes, lambda: self.unloaded.append(serial), nbytes * serial)

        return build

    @rule(key=KEYS, nbytes=SIZES, keep=st.booleans())
    def ask(self, key: int, nbytes: int, keep: bool) -> None:
        held, latest = key in self.cache, self.valid.get(key)
        builds = self.builds
        value = self.cache.get_or_build(key, self.builder(key, nbytes))
        self.asked += 1
        alive = held or latest in {one.serial for one in self.used}
        assert (self.builds == builds) == (latest is not None and alive), "built if and only if there is none alive"
        assert (value.key, value.serial) == (key, self.valid[key])
        if keep:
            self.used.append(value)

    @rule(key=KEYS)
    def look(self, key: int) -> None:
        held = key in self.cache
        value = self.cache.get(key)
        assert (value is not None) == held
        if value is not None:
            self.asked += 1
            assert value.serial == self.valid[key]

    @rule(key=KEYS)
    def fail(self, key: int) -> None:
        def build() -> Built[Value]:
            raise Failed

        held = key in self.cache
        try:
            self.cache.get_or_build(key, build)
        except Failed:
            assert not held
            self.failed += 1
        self.asked += 1

    @rule(outer=KEYS, inner=KEYS, nbytes=SIZES)
    def nested(self, outer: int, inner: int, nbytes: int) -> None:
        """A build that asks for another key."""
        if inner == outer:
            return

        def build() -> Built[Value]:
            self.ask(inner, nbytes, keep=False)
            return self.builder(outer, nbytes)()

        value = self.cache.get_or_build(outer, build)
        self.asked += 1
        assert (value.key, value.serial) == (outer, self.valid[outer])

    @rule(key=KEYS)
    def discard(self, key: int) -> None:
        held = key in self.cache
        assert self.cache.discard(key) is held
        self.valid.pop(key, None)

    @rule()
    def clear(self) -> None:
        held = len(self.cache)
        assert self.cache.clear() == held
        self.valid.clear()

    @precondition(lambda self: self.used)
    @rule(data=st.data())
    def let_go(self, data: st.DataObject) -> None:
        self.used.pop(data.draw(st.integers(0, len(self.used) - 1)))

    @invariant()
    def check(self) -> None:
        stats = self.cache.stats()
        held = {self.valid[key] for key in range(7) if key in self.cache}
        used = {value.serial for value in self.used}
        assert stats.entries == len(self.cache) == len(held) <= self.budget.entries
        assert stats.nbytes == sum(self.sizes[serial] for serial in held) <= self.budget.nbytes
        assert stats.leases == len(used - held)
        assert stats.leased_bytes == sum(self.sizes[serial] for serial in used - held)
        assert Counter(self.unloaded) == Counter(set(self.sizes) - held - used), "each once, none in use"
        assert stats.hits + stats.misses + stats.revived == self.asked
        assert (stats.misses, stats.failures) == (self.builds + self.failed, self.failed)
        entered = self.builds - stats.evicted[Cause.TOO_LARGE]
        left = sum(stats.evicted.values()) - stats.evicted[Cause.TOO_LARGE]
        assert entered <= stats.entries + left <= entered + stats.revived
        if isinstance(self.policy, CostEviction):
            assert len(self.policy) + len(self.cache._new) == len(self.cache)
            assert self.policy.ghosts <= 2 * self.budget.entries


TestCacheMachine = CacheMachine.TestCase
TestCacheMachine.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
