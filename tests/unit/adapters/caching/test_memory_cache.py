"""Hits, builds, budgets and leases of the cache in memory."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from support.limits import LIMIT_S
from vyre.adapters.caching.cost_eviction import CANDIDATES, CostEviction
from vyre.adapters.caching.held_decisions import HeldDecisions
from vyre.adapters.caching.memory_cache import LOG, Built, Cause, MemoryBudget, MemoryCache
from vyre.adapters.caching.retention import HeatRetention
from vyre.adapters.disk.artifact_store import retention_of
from vyre.adapters.policy_sources import find_policy, version_of
from vyre.app.journal import DecisionJournal
from vyre.domain.cache_config import Eviction
from vyre.domain.errors import InvalidField
from vyre.policies.caching.cache_eviction_heat import entries_to_evict
from vyre.policies.caching.cost_eviction import EvictionInputs, LeastWorth, least_worth
from vyre.policies.decision_records import ReplayOutcome, from_lines, replay, to_lines
from vyre.policies.journal import Decision, decide


class Kernel:
    """A value that can be referenced weakly."""

    def __init__(self, name: object) -> None:
        self.name = name


class Loader:
    """Builds kernels, and notes what was built and unloaded."""

    def __init__(self) -> None:
        self.built: list[str] = []
        self.unloaded: list[str] = []

    def __call__(self, name: str, nbytes: int = 10, cost_ns: int | None = 1_000) -> Callable[[], Built[Kernel]]:
        def build() -> Built[Kernel]:
            self.built.append(name)
            return Built(Kernel(name), nbytes, lambda: self.unloaded.append(name), cost_ns)

        return build


@pytest.fixture
def load() -> Loader:
    return Loader()


def small(nbytes: int = 1_000, entries: int = 100) -> MemoryCache[str, Kernel]:
    return MemoryCache(MemoryBudget(nbytes, entries))


def test_a_value_is_built_once(load: Loader) -> None:
    cache = small()
    assert cache.get("a") is None
    first = cache.get_or_build("a", load("a"))
    assert cache.get_or_build("a", load("a")) is first is cache.get("a")
    assert load.built == ["a"]
    assert "a" in cache and "b" not in cache and len(cache) == 1
    stats = cache.stats()
    assert (stats.hits, stats.misses, stats.entries, stats.nbytes) == (2, 1, 1, 10)


def test_none_is_a_value_like_any_other() -> None:
    cache: MemoryCache[str, None] = MemoryCache()
    for _ in range(3):
        assert cache.get_or_build("a", lambda: Built(None, 0)) is None
    assert (cache.stats().misses, cache.stats().hits) == (1, 2)


@pytest.mark.parametrize(
    ("budget", "cause"),
    [(MemoryBudget(nbytes=29), Cause.BYTES), (MemoryBudget(entries=2), Cause.ENTRIES)],
)
def test_budgets(budget: MemoryBudget, cause: Cause, load: Loader) -> None:
    cache: MemoryCache[str, Kernel] = MemoryCache(budget)
    for name in "abc":
        cache.get_or_build(name, load(name))
    assert [name for name in "abc" if name in cache] == ["b", "c"]
    assert load.unloaded == ["a"]
    assert cache.stats().evicted == dict.fromkeys(Cause, 0) | {cause: 1}


def test_a_budget_that_is_filled_exactly_evicts_nothing(load: Loader) -> None:
    cache = small(nbytes=30, entries=3)
    for name in "abc":
        cache.get_or_build(name, load(name))
    assert len(cache) == 3 and not any(cache.stats().evicted.values())


def test_one_large_value_takes_the_place_of_several(load: Loader) -> None:
    cache = small(nbytes=40)
    for name in "abcd":
        cache.get_or_build(name, load(name))
    cache.get_or_build("large", load("large", 25))
    assert sorted(load.unloaded) == ["a", "b", "c"]
    assert cache.stats().nbytes == 35


def test_hits_decide_who_leaves(load: Loader) -> None:
    cache = small(entries=2)
    for name in ("a", "b", "a", "c"):
        cache.get_or_build(name, load(name))
    assert load.unloaded == ["b"]


def test_what_took_longer_to_build_stays_longer() -> None:
    clock = iter([0, 9_000, 9_000, 9_001, 10_000, 10_100])
    journal = DecisionJournal()
    cache: MemoryCache[str, Kernel] = MemoryCache(MemoryBudget(entries=2), now_ns=lambda: next(clock), sink=journal)
    for name in ("slow", "fast", "next"):
        cache.get_or_build(name, lambda name=name: Built(Kernel(name), 10))  # type: ignore[misc]
    assert "slow" in cache and "fast" not in cache
    least = journal.decisions[0].verdict
    assert isinstance(least, LeastWorth)
    assert str(least.why).startswith("1 ns for 10 bytes")


def test_a_clock_that_goes_back_counts_as_no_time() -> None:
    clock = iter([5, 3, 7, 8])
    journal = DecisionJournal()
    cache: MemoryCache[str, Kernel] = MemoryCache(MemoryBudget(entries=1), now_ns=lambda: next(clock), sink=journal)
    for name in "ab":
        cache.get_or_build(name, lambda: Built(Kernel("x"), 10))
    least = journal.decisions[0].verdict
    assert isinstance(least, LeastWorth)
    assert str(least.why).startswith("0 ns for 10 bytes")


def test_a_value_in_use_outlives_its_eviction(load: Loader) -> None:
    cache = small(entries=1)
    used = cache.get_or_build("a", load("a", 7))
    cache.get_or_build("b", load("b"))
    assert used.name == "a" and load.unloaded == []
    stats = cache.stats()
    assert (stats.entries, stats.nbytes, stats.leases, stats.leased_bytes) == (1, 10, 1, 7)
    del used
    assert load.unloaded == ["a"]
    assert (cache.stats().leases, cache.stats().leased_bytes) == (0, 0)


def test_a_value_in_use_comes_back_without_a_build(load: Loader) -> None:
    cache = small(entries=1)
    used = cache.get_or_build("a", load("a", 7))
    cache.get_or_build("b", load("b"))
    assert cache.get_or_build("a", load("a", 7)) is used
    stats = cache.stats()
    assert (stats.revived, stats.misses, stats.nbytes, stats.leased_bytes) == (1, 2, 7, 0)
    assert load.unloaded == ["b"]
    del used
    assert load.unloaded == ["b"], "the cache holds it again"
    assert cache.get_or_build("b", load("b")).name == "b"
    assert load.built == ["a", "b", "b"] and load.unloaded == ["b", "a"]


def test_what_is_larger_than_the_budget_is_shared_while_it_is_used(load: Loader) -> None:
    cache = small(nbytes=20)
    cache.get_or_build("a", load("a"))
    used = cache.get_or_build("large", load("large", 21))
    assert "a" in cache and "large" not in cache
    assert cache.get_or_build("large", load("large", 21)) is used
    stats = cache.stats()
    assert (stats.leased_bytes, stats.revived, stats.evicted[Cause.TOO_LARGE]) == (21, 1, 1)
    del used
    assert load.unloaded == ["large"] and cache.stats().leased_bytes == 0
    cache.get_or_build("large", load("large", 21))
    assert load.built == ["a", "large", "large"]


def test_values_without_weak_references_are_cached_too() -> None:
    cache: MemoryCache[str, bytes] = MemoryCache(MemoryBudget(nbytes=4))
    kept = cache.get_or_build("a", lambda: Built(b"1234", 4))
    cache.get_or_build("b", lambda: Built(b"5678", 4))
    assert kept == b"1234" and "a" not in cache
    assert cache.stats().leased_bytes == 0
    assert cache.get_or_build("large", lambda: Built(b"12345", 5)) == b"12345"


def test_what_cannot_be_referenced_weakly_cannot_be_unloaded(load: Loader) -> None:
    cache: MemoryCache[str, bytes] = MemoryCache()
    with pytest.raises(InvalidField, match=r"Built\.value"):
        cache.get_or_build("a", lambda: Built(b"1234", 4, lambda: None))
    assert len(cache) == 0 and cache.stats().failures == 1


@pytest.mark.parametrize(("nbytes", "cost_ns"), [(-1, 0), (2**64, 0), (True, 0), (0, -1), (0, 2**64), (0, 1.5)])
def test_figures_outside_their_domain(nbytes: Any, cost_ns: Any) -> None:
    with pytest.raises(InvalidField, match="Built"):
        Built("x", nbytes, cost_ns=cost_ns)


@pytest.mark.parametrize(("nbytes", "entries"), [(-1, 1), (2**64, 1), (1, 0)])
def test_budgets_outside_their_domain(nbytes: int, entries: int) -> None:
    with pytest.raises(InvalidField, match="MemoryBudget"):
        MemoryBudget(nbytes, entries)


def test_discard(load: Loader) -> None:
    cache = small()
    cache.get_or_build("a", load("a"))
    assert cache.discard("a") is True
    assert cache.discard("a") is False
    assert load.unloaded == ["a"] and "a" not in cache
    assert cache.stats().evicted[Cause.DISCARDED] == 1
    cache.get_or_build("a", load("a"))
    assert load.built == ["a", "a"]


def test_what_was_discarded_does_not_come_back(load: Loader) -> None:
    cache = small(entries=1)
    used = cache.get_or_build("a", load("a"))
    cache.get_or_build("b", load("b"))  # evicts a
    assert not cache.discard("a")
    assert cache.stats().leases == 1
    assert cache.get_or_build("a", load("a")) is not used


def test_what_is_discarded_while_it_is_built_is_not_kept(load: Loader) -> None:
    cache = small()

    def build() -> Built[Kernel]:
        cache.discard("a")
        return load("a")()

    value = cache.get_or_build("a", build)
    assert "a" not in cache and value.name == "a"
    assert cache.stats().leased_bytes == 10
    del value
    assert load.unloaded == ["a"]


def test_a_build_after_a_discard_takes_the_place_of_one_before(load: Loader) -> None:
    cache = small()

    def build() -> Built[Kernel]:
        cache.discard("a")
        cache.get_or_build("a", load("new"))
        return load("old")()

    assert cache.get_or_build("a", build).name == "old"
    kept = cache.get("a")
    assert kept is not None and kept.name == "new"
    assert load.unloaded == ["old"]


def test_discard_where(load: Loader) -> None:
    """Also what has left and is still used, and what is being built; and nothing else."""
    cache = small(entries=2)
    gone = cache.get_or_build("a1", load("a1"))
    for name in ("b1", "a2"):
        cache.get_or_build(name, load(name))  # a1 is evicted
    spared = cache.get("b1")

    def build() -> Built[Kernel]:
        assert cache.discard_where(lambda name: name.startswith("a")) == 1
        return load("a3")()

    cache.get_or_build("a3", build)
    assert sorted(load.unloaded) == ["a2", "a3"]
    assert cache.get("b1") is spared
    assert cache.get_or_build("a1", load("a1")) is not gone
    assert cache.discard_where(lambda name: False) == 0
    assert "b1" in cache


def test_clear(load: Loader) -> None:
    cache = small(entries=2)
    used = cache.get_or_build("a", load("a"))
    for name in "bc":
        cache.get_or_build(name, load(name))

    def build() -> Built[Kernel]:
        assert cache.clear() == 2
        return load("d")()

    cache.get_or_build("d", build)
    assert len(cache) == 0 and cache.stats().nbytes == 0
    assert cache.get_or_build("a", load("a")) is not used
    assert sorted(load.unloaded) == ["b", "c", "d"]


def test_hits_are_counted_whatever_becomes_of_the_log(load: Loader) -> None:
    cache = small(entries=2)
    for name in "ab":
        cache.get_or_build(name, load(name))
    for _ in range(3 * LOG):
        cache.get_or_build("a", load("a"))
        assert len(cache._log) < LOG
    assert cache.stats().hits == 3 * LOG
    cache.get_or_build("c", load("c"))
    assert cache._log == ["c"] and cache.stats().hits == 3 * LOG
    assert load.unloaded == ["b"]


class NotedPolicy(CostEviction[str]):
    """Notes what it is told."""

    def __init__(self) -> None:
        super().__init__()
        self.told: list[str] = []

    def admit(self, key: str, nbytes: int, cost_ns: int) -> None:
        self.told.append(f"new {key}")
        super().admit(key, nbytes, cost_ns)

    def hit(self, key: str) -> None:
        self.told.append(f"hit {key}")
        super().hit(key)


def test_the_policy_is_told_in_order_and_only_when_there_is_no_room(load: Loader) -> None:
    policy = NotedPolicy()
    cache: MemoryCache[str, Kernel] = MemoryCache(MemoryBudget(1_000, 3), retention=policy)
    for name in "abaacb":
        cache.get_or_build(name, load(name))
    assert policy.told == [] and len(policy) == 0
    cache.get_or_build("d", load("d"))
    assert policy.told == ["new a", "new b", "hit a", "hit a", "new c", "hit b"]
    assert load.unloaded == ["a"], "the one that was asked for longest ago"
    assert cache.discard("d")
    assert policy.told[6:] == ["new d"] and "d" not in policy


def test_a_log_that_grows_too_long_loses_hits_and_no_new_value(load: Loader) -> None:
    policy = NotedPolicy()
    cache: MemoryCache[str, Kernel] = MemoryCache(MemoryBudget(10_000, 2 * LOG), retention=policy)
    names = [f"k{number}" for number in range(2 * LOG)]
    for name in names:
        cache.get_or_build(name, load(name))
        cache.get(name)
        assert len(cache._log) <= LOG
    cache.get_or_build("one more", load("one more"))
    assert [told for told in policy.told if told.startswith("new ")] == [f"new {name}" for name in names]
    assert len(cache) == 2 * LOG and cache.stats().hits == 2 * LOG


def test_names_of_what_has_died_do_not_pile_up(load: Loader) -> None:
    cache = small(entries=1)
    used = [cache.get_or_build(str(index), load(str(index))) for index in range(200)]
    assert len(cache._gone) == 199
    used.clear()
    for index in range(200, 300):
        cache.get_or_build(str(index), load(str(index)))
        assert len(cache._gone) <= 200
    assert len(cache._gone) <= 32


def test_a_build_that_fails_leaves_nothing_behind(load: Loader) -> None:
    cache = small()

    def fail() -> Built[Kernel]:
        raise ValueError("odd")

    for _ in range(2):
        with pytest.raises(ValueError, match="odd"):
            cache.get_or_build("a", fail)
    stats = cache.stats()
    assert (stats.entries, stats.nbytes, stats.misses, stats.failures) == (0, 0, 2, 2)
    assert not cache._wanted
    assert cache.get_or_build("a", load("a")).name == "a"


def test_the_heat_policy_can_be_chosen(load: Loader) -> None:
    now = 0.0
    cache: MemoryCache[str, Kernel] = MemoryCache(MemoryBudget(entries=2), retention=HeatRetention(now_s=lambda: now))
    cache.get_or_build("dear", load("dear", cost_ns=10**9))
    cache.get_or_build("popular", load("popular", cost_ns=1))
    for _ in range(3):
        cache.get("popular")
    cache.discard("absent")  # the policy learns what has happened so far
    now = 9.0
    cache.get_or_build("next", load("next"))
    assert load.unloaded == ["dear"], "cost does not count"


def test_heat_evicts_the_coldest() -> None:
    now = 0.0
    policy: HeatRetention[str] = HeatRetention(now_s=lambda: now)
    policy.admit("cold", 1, 1)
    policy.admit("warm", 1, 1)
    policy.hit("warm")
    now = 9.0
    assert policy.evict() == "cold"


def test_heat_weighed_by_cost(load: Loader) -> None:
    cache: MemoryCache[str, Kernel] = MemoryCache(
        MemoryBudget(entries=2), retention=HeatRetention(by_cost=True, now_s=lambda: 0.0)
    )
    cache.get_or_build("dear", load("dear", cost_ns=10**9))
    cache.get_or_build("cheap", load("cheap", cost_ns=1))
    cache.get_or_build("next", load("next"))
    assert load.unloaded == ["cheap"]
    cache.discard("dear")
    cache.discard("dear")
    cache.get_or_build("other", load("other"))
    assert len(cache) == 2


def test_the_default_is_recorded_too(load: Loader) -> None:
    journal = DecisionJournal()
    cache: MemoryCache[str, Kernel] = MemoryCache(MemoryBudget(entries=1), sink=journal)
    cache.get_or_build("a", load("a"))
    cache.get_or_build("b", load("b"))
    (decision,) = journal.decisions
    (inputs,) = decision.arguments
    assert isinstance(inputs, EvictionInputs)
    assert (decision.policy, [each.key for each in inputs.candidates]) == (least_worth, ["a"])


@pytest.mark.parametrize("eviction", Eviction, ids=lambda eviction: eviction.value)
def test_who_leaves_is_recorded_with_a_few_who_stay(eviction: Eviction, load: Loader) -> None:
    journal = DecisionJournal()
    cache: MemoryCache[str, Kernel] = MemoryCache(MemoryBudget(entries=20), retention=retention_of(eviction, journal))
    for number in range(23):
        cache.get_or_build(f"k{number}", load(f"k{number}", cost_ns=1_000))
    assert load.unloaded == ["k0", "k1", "k2"]
    policy = {Eviction.COST: least_worth, Eviction.HEAT: entries_to_evict}[eviction]
    assert [decision.policy for decision in journal.decisions] == [policy] * 3
    for record in from_lines(to_lines(journal.decisions, version_of)):
        (inputs,) = record.inputs.values()
        assert len(inputs["candidates" if eviction is Eviction.COST else "entries"]) == CANDIDATES
        assert replay(record, find_policy).outcome is ReplayOutcome.SAME


class Asking:
    """A sink that calls the cache of which it is told."""

    keeps = False

    def __init__(self, call: Callable[[MemoryCache[str, Kernel]], object]) -> None:
        self.call = call
        self.cache: MemoryCache[str, Kernel] = MemoryCache(MemoryBudget(entries=1), sink=self)
        self.told: list[Any] = []

    def note(self, decision: Decision, /) -> None:
        self.told.append(decision.arguments)
        self.call(self.cache)


@pytest.mark.parametrize(
    "call",
    [
        lambda cache: cache.stats(),
        lambda cache: cache.clear(),
        lambda cache: cache.get_or_build("b", lambda: Built(Kernel("b"), 10)),
        lambda cache: cache.get_or_build("d", lambda: Built(Kernel("d"), 2_000_000_000)),
    ],
    ids=["stats", "clear", "a hit", "a build"],
)
def test_who_is_told_may_call_the_cache(call: Callable[[MemoryCache[str, Kernel]], object], load: Loader) -> None:
    sink = Asking(call)
    builds = threading.Thread(target=lambda: [sink.cache.get_or_build(name, load(name)) for name in "ab"], daemon=True)
    builds.start()
    builds.join(LIMIT_S)
    assert not builds.is_alive(), "it waits for itself"
    ((inputs,),) = sink.told
    assert [each.key for each in inputs.candidates] == ["a"]


def test_a_value_that_comes_back_is_told_of(load: Loader) -> None:
    journal = DecisionJournal()
    cache: MemoryCache[str, Kernel] = MemoryCache(MemoryBudget(entries=1), sink=journal)
    used = cache.get_or_build("a", load("a"))
    cache.get_or_build("b", load("b"))
    assert cache.get_or_build("a", load("a")) is used and load.built == ["a", "b"]
    left = [decision.arguments[0] for decision in journal.decisions]
    assert [inputs.candidates[0].key for inputs in left if isinstance(inputs, EvictionInputs)] == ["a", "b"]


def test_every_decision_is_told_once() -> None:
    journal = DecisionJournal()
    held = HeldDecisions(journal)

    def work() -> None:
        for _ in range(500):
            decide(held, sorted, ())
            held.tell()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert held.keeps and len(journal) == 2_000


def test_many_threads_share_one_build(load: Loader) -> None:
    cache = small()
    threads, ready = 8, threading.Barrier(8)

    def build() -> Built[Kernel]:
        while len(cache._flights._waiting) < threads - 1:
            pass
        return load("a")()

    def ask() -> Kernel:
        ready.wait(LIMIT_S)
        return cache.get_or_build("a", build)

    with ThreadPoolExecutor(threads) as pool:
        found = {id(run.result(LIMIT_S)) for run in [pool.submit(ask) for _ in range(threads)]}
    assert len(found) == 1 and load.built == ["a"]
    stats = cache.stats()
    assert (stats.misses, stats.shared, stats.hits) == (1, threads - 1, 0)


def test_a_thread_that_comes_just_after_a_build_takes_its_result(load: Loader) -> None:
    """It missed before the build ended, and starts its own only to find the value there."""
    cache = small()
    first = cache.get_or_build("a", load("a"))
    assert cache._miss("a", load("a"), None) is first
    assert (cache.stats().hits, cache.stats().misses) == (1, 1)


def test_a_cache_and_its_values_are_freed_without_a_collection(load: Loader) -> None:
    gc.disable()
    try:
        cache = small(entries=2)
        gone = weakref.ref(cache)
        used = [cache.get_or_build(name, load(name)) for name in "abc"]
        del cache
        assert gone() is None and load.unloaded == []
        used.clear()
        assert sorted(load.unloaded) == ["a", "b", "c"]
    finally:
        gc.enable()


def test_the_default_policy_weighs_costs() -> None:
    assert isinstance(MemoryCache[str, str]()._retention, CostEviction)
