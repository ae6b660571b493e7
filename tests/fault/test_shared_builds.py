"""Threads share a cache while builds fail, are cancelled and take too long: nobody hangs, nothing wrong is kept."""

from __future__ import annotations

import random
import sys
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest

from support.limits import LIMIT_S
from vyre.adapters.caching.memory_cache import Built, MemoryBudget, MemoryCache
from vyre.domain.errors import DispatchTimeout, KernelCompileFailed, UnfinishedBuild

THREADS = 8
KEYS = 12


class Kernel:
    def __init__(self, key: int) -> None:
        self.key = key
        self.unloaded = threading.Event()


def test_threads_that_build_fail_and_evict() -> None:
    """4 000 requests of 12 keys in a cache for 5; one build in five fails, one in fifty is cancelled."""
    cache: MemoryCache[int, Kernel] = MemoryCache(MemoryBudget(nbytes=55, entries=5))
    building: Counter[int] = Counter()
    guard = threading.Lock()
    outcomes: Counter[str] = Counter()

    def build(key: int, rng: random.Random) -> Built[Kernel]:
        with guard:
            building[key] += 1
            assert building[key] == 1, "two builds of one key at once"
        try:
            time.sleep(rng.random() * 1e-4)
            chance = rng.random()
            if chance < 0.2:
                raise KernelCompileFailed(backend="b", compiler_log="injected")
            if chance < 0.22:
                raise KeyboardInterrupt
            value = Kernel(key)
            return Built(value, 10 + key % 2, value.unloaded.set)
        finally:
            with guard:
                building[key] -= 1

    def work(seed: int) -> None:
        rng = random.Random(seed)
        mine: list[Kernel] = []
        found: Counter[str] = Counter()
        for _ in range(500):
            key = min(int(rng.expovariate(0.3)), KEYS - 1)
            try:
                value = cache.get_or_build(key, lambda key=key: build(key, rng), timeout_s=30.0)  # type: ignore[misc]
            except (KernelCompileFailed, KeyboardInterrupt, UnfinishedBuild) as error:
                found[type(error).__name__] += 1
                continue
            assert value.key == key and not value.unloaded.is_set()
            found["served"] += 1
            mine.append(value)
            if len(mine) > 3:
                mine.pop(0)
        assert not any(value.unloaded.is_set() for value in mine)
        with guard:
            outcomes.update(found)

    with ThreadPoolExecutor(THREADS) as pool:
        for run in [pool.submit(work, seed) for seed in range(THREADS)]:
            run.result(LIMIT_S)
    stats = cache.stats()
    assert sum(outcomes.values()) == THREADS * 500
    assert stats.hits + stats.misses + stats.shared + stats.revived + _told(outcomes, stats.failures) == THREADS * 500
    assert stats.entries <= 5 and stats.nbytes <= 55
    assert stats.leases == 0 and stats.leased_bytes == 0
    assert not cache._flights._flights and not cache._flights._waiting and not cache._wanted


def _told(outcomes: Counter[str], failures: int) -> int:
    """Requests that only heard of another thread's failure."""
    return sum(count for name, count in outcomes.items() if name != "served") - failures


@pytest.mark.parametrize(
    "error", [KeyboardInterrupt(), SystemExit(1), MemoryError("no room"), ValueError("odd")], ids=repr
)
def test_a_cancelled_build_caches_nothing_and_releases_who_waits(error: BaseException) -> None:
    cache: MemoryCache[str, Kernel] = MemoryCache()

    def cancelled() -> Built[Kernel]:
        while len(cache._flights._waiting) < THREADS:
            time.sleep(0.001)
        raise error

    with ThreadPoolExecutor(THREADS + 1) as pool:
        runs = [pool.submit(cache.get_or_build, "k", cancelled) for _ in range(THREADS + 1)]
        found = [run.exception(LIMIT_S) for run in runs]
    told = [one for one in found if one is not error]
    assert len(told) == THREADS and all(type(one) is UnfinishedBuild for one in told)
    assert len({str(one) for one in told}) == 1
    assert len(cache) == 0 and cache.stats().failures == 1
    assert cache.get_or_build("k", lambda: Built(Kernel(1), 1)).key == 1


def test_a_waiter_gives_up_at_its_deadline_and_finds_the_value_later() -> None:
    cache: MemoryCache[str, Kernel] = MemoryCache()
    started, go_on = threading.Event(), threading.Event()

    def slow() -> Built[Kernel]:
        started.set()
        assert go_on.wait(LIMIT_S)
        return Built(Kernel(1), 1)

    with ThreadPoolExecutor(1) as pool:
        owner = pool.submit(cache.get_or_build, "k", slow)
        assert started.wait(LIMIT_S)
        with pytest.raises(DispatchTimeout):
            cache.get_or_build("k", slow, timeout_s=0.05)
        go_on.set()
        assert cache.get_or_build("k", slow, timeout_s=30) is owner.result(LIMIT_S)


def test_a_build_that_asks_for_itself_fails_at_once() -> None:
    cache: MemoryCache[str, Kernel] = MemoryCache()

    def build() -> Built[Kernel]:
        return Built(cache.get_or_build("k", build), 1)

    with pytest.raises(UnfinishedBuild, match="waits for itself"):
        cache.get_or_build("k", build)
    assert len(cache) == 0


def test_an_unload_that_fails_harms_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python reports it, as it does for any finalizer."""
    reported: list[str] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda found: reported.append(str(found.exc_value)))
    cache: MemoryCache[str, Kernel] = MemoryCache(MemoryBudget(entries=1))

    def fail() -> None:
        raise OSError("the driver is gone")

    cache.get_or_build("a", lambda: Built(Kernel(1), 1, fail))
    assert cache.get_or_build("b", lambda: Built(Kernel(2), 1)).key == 2
    assert reported == ["the driver is gone"]
    assert cache.stats().leases == 0
