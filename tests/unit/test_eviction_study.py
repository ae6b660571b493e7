"""What eviction saves, over deterministic traces: the gate in short, the record, and the rivals on worked examples."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
RECORD: dict[str, Any] = json.loads((ROOT / "benchmarks" / "results" / "eviction.json").read_text("utf-8"))


@pytest.fixture
def benchmarks(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(ROOT)
    return lambda name: importlib.import_module(f"benchmarks.{name}")


def test_the_numbers_hold_in_short(benchmarks: Any) -> None:
    module = benchmarks("eviction_study")
    study = module.study(module.SHORT)
    assert len(module.FAMILIES) >= 6
    assert study.mean <= 0.9, f"over {study.best_rival}"
    assert study.worst_family[0] <= 1.05, study.worst_family
    assert study.uniform <= 1.0


def test_the_record_is_of_this_code(benchmarks: Any) -> None:
    """One family again, as the full study does it; rerun `python -m benchmarks.eviction_study` where it differs."""
    module = benchmarks("eviction_study")
    assert RECORD["verdict"]["holds"] is True
    assert RECORD["scope"] == {"entries": [64, 256], "seeds": [1, 2, 3], "requests": 12_000}
    for policy, make in (("ours", module.Ours), *module.RIVALS.items()):
        found = []
        for entries in module.FULL.entries:
            for seed in module.FULL.seeds:
                requested = module.trace("one_hit", "cost_and_size", entries, seed, module.FULL.length)
                found.append(module.missed(make(round(entries * requested.mean_bytes)), requested))
        assert sum(found) / len(found) == pytest.approx(RECORD["missed"]["cost_and_size"][policy]["one_hit"], abs=1e-4)


@pytest.mark.parametrize(
    ("policy", "requests", "hits"),
    [
        ("Lru", "abcadbe", "a"),
        ("Lru", "abacda", "aa"),
        ("Lfu", "aabcdaa", "aaa"),
        ("Lfu", "abcdbc", "bc"),
        ("Sieve", "abacdae", "aa"),
        ("Sieve", "abcabcdabc", "abc"),  # the hand clears all bits, takes a, and goes on from b
        ("Sieve", "abbcdeb", "bb"),
        ("Heat", "aabcdaa", "aaa"),
        ("Heat", "abcdbc", "bc"),
    ],
)
def test_rivals_with_room_for_three(benchmarks: Any, policy: str, requests: str, hits: str) -> None:
    rivals = benchmarks("eviction_rivals")
    kernel = benchmarks("eviction_traces").Kernel(1, 1)
    cache = getattr(rivals, policy)(3)
    assert "".join(name for name in requests if cache.request(name, kernel)) == hits


def test_s3_fifo_keeps_scans_out_of_its_main_queue(benchmarks: Any) -> None:
    kernel = benchmarks("eviction_traces").Kernel(1, 1)
    cache = benchmarks("eviction_rivals").S3Fifo(10)
    popular = range(5)
    for _ in range(3):
        for name in popular:
            cache.request(name, kernel)
    for scanned in range(100, 200):
        cache.request(scanned, kernel)
    assert all(cache.request(name, kernel) for name in popular)
    assert not cache.request(199 - 9, kernel), "it left, and comes back as a ghost"
    assert cache.request(199 - 9, kernel)


@pytest.mark.parametrize("policy", ["Lru", "Lfu", "Heat", "HeatByCost", "Sieve", "S3Fifo", "Ours"])
def test_no_policy_holds_more_than_its_budget(benchmarks: Any, policy: str) -> None:
    module = benchmarks("eviction_study")
    requested = module.trace("scans", "cost_and_size", 32, 5, 1_500)
    budget = round(32 * requested.mean_bytes)
    cache = getattr(benchmarks("eviction_rivals"), policy)(budget)
    largest = max(requested.kernels, key=lambda kernel: kernel.nbytes)
    assert not cache.request(-1, largest._replace(nbytes=budget + 1))
    for name in requested.requests:
        cache.request(name, requested.kernels[name])
        sizes = cache._entries if policy == "Lru" else cache._sizes
        assert sum(sizes.values()) <= budget and -1 not in sizes
