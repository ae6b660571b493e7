"""The rows compare the cache in memory: its hits with those of ``cuda.core``, its eviction with other policies."""

from __future__ import annotations

from typing import Final

from benchmarks.eviction_study import MAX_FAMILY, MAX_MEAN, MAX_UNIFORM, WEIGHED, study
from benchmarks.harness import Metric, Row, Samples, compare
from vyre.adapters.caching.memory_cache import Built, MemoryCache

KEYS: Final = 64
CODE: Final = bytes(10_240)


def _hits(rounds: int) -> Samples:
    """A look-up of each of ``KEYS`` digests, in turn: both caches hold them all, both sides go through one loop."""
    from cuda.core.utils import InMemoryProgramCache

    ours: MemoryCache[bytes, bytes] = MemoryCache()
    theirs = InMemoryProgramCache(max_size_bytes=1 << 30)
    keys = [index.to_bytes(32, "little") for index in range(KEYS)]
    for key in keys:
        ours.get_or_build(key, _built)
        theirs[key] = CODE

    def our_hits() -> None:
        for key in keys:
            ours.get_or_build(key, _built)

    def their_hits() -> None:
        for key in keys:
            theirs.get(key)

    assert all(ours.get_or_build(key, _built) == theirs.get(key) == CODE for key in keys)
    found = compare(our_hits, their_hits, rounds)
    assert ours.stats().misses == KEYS
    return Samples([seconds / KEYS for seconds in found.ours], [seconds / KEYS for seconds in found.theirs])


def _built() -> Built[bytes]:
    return Built(CODE, len(CODE))


def _hit_cost(rounds: int) -> Samples:
    return Samples(_hits(rounds).ours)


# The study is deterministic: two equal samples, no spread.
def _against_best_rival(rounds: int) -> Samples:
    found = study()
    return Samples([found.of("ours", WEIGHED)] * 2, [found.of(found.best_rival, WEIGHED)] * 2)


def _against_lru(rounds: int) -> Samples:
    return Samples([study().worst_family[0]] * 2)


def _against_lru_uniform(rounds: int) -> Samples:
    return Samples([study().of("ours", ("uniform",))] * 2, [study().of("LRU", ("uniform",))] * 2)


_TRACES: Final = "8 families of traces, 2 capacities, 3 seeds; see eviction.json"
ROWS: Final = (
    Row("memory-hit", Metric.COST, "us", 0.6, None, _hit_cost, f"{KEYS} entries of 10 KiB held", scale=1e6),
    Row("memory-hit-vs-cuda.core", Metric.RATIO, "x", 0.6, None, _hits, f"{KEYS} entries of 10 KiB held by both"),
    Row("eviction-vs-best-rival", Metric.RATIO, "cost missed, x", MAX_MEAN, None, _against_best_rival, _TRACES),
    Row("eviction-vs-lru-by-family", Metric.COST, "x, worst family", MAX_FAMILY, None, _against_lru, _TRACES),
    Row("eviction-vs-lru-uniform", Metric.RATIO, "cost missed, x", MAX_UNIFORM, None, _against_lru_uniform, _TRACES),
)
