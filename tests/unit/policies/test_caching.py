"""Invariants of eviction and invalidation."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from support.records import records
from vyre.domain.errors import InvalidField
from vyre.policies.cache_eviction import (
    EvictionCounts,
    RetentionInputs,
    eviction_basis_points,
    select_retention_set,
)
from vyre.policies.cache_eviction_heat import HeatEntry, HeatEvictionInputs, HeatThresholds, entries_to_evict, heat
from vyre.policies.cache_invalidation import InvalidationInputs, impacted_entries


@given(records(RetentionInputs))
def test_retention(inputs: RetentionInputs) -> None:
    mask = select_retention_set(inputs)
    gains = inputs.gains[: inputs.n]
    assert len(mask) == len(gains)
    kept = [g for g, stays in zip(gains, mask, strict=True) if stays]
    dropped = [g for g, stays in zip(gains, mask, strict=True) if not stays]
    assert len(kept) == min(inputs.k, sum(g > 0 for g in gains))
    assert all(kept)
    assert max(dropped, default=0) <= min(kept, default=2**32) or inputs.k == 0
    backwards = select_retention_set(RetentionInputs(gains[::-1], len(gains), inputs.k))
    assert sorted(kept) == sorted(g for g, stays in zip(gains[::-1], backwards, strict=True) if stays)


@given(records(EvictionCounts))
def test_eviction_share(counts: EvictionCounts) -> None:
    assert 0 <= eviction_basis_points(counts) <= 10_000
    assert eviction_basis_points(replace(counts, total_entries=0)) == 0


TIMES = st.floats(-1e6, 1e6) | st.sampled_from([float("nan"), float("inf")])
ENTRIES = st.lists(
    records(HeatEntry, hit_count=st.integers(0, 9), last_hit_time_s=TIMES, weight=st.just(1.0)), max_size=8
).map(lambda entries: tuple(replace(entry, id=i) for i, entry in enumerate(entries)))


@given(ENTRIES, st.integers(0, 9), TIMES)
def test_the_coldest_leave_first(entries: tuple[HeatEntry, ...], capacity: int, now: float) -> None:
    out = entries_to_evict(HeatEvictionInputs(entries, capacity, now))
    assert len(out) == max(len(entries) - capacity, 0)
    leaving = [heat(entries[i], now) for i in out]
    staying = [heat(e, now) for e in entries if e.id not in out]
    assert leaving == sorted(leaving)
    assert max(leaving, default=0.0) <= min(staying, default=float("inf"))
    cold = [i for i in out if heat(entries[i], now) == 0.0]
    assert cold == sorted(cold) == list(out[: len(cold)])


def test_heat() -> None:
    entry = HeatEntry(1, 8, 100.0)
    assert heat(entry, 100.0) == heat(entry, 50.0) == 8.0
    assert heat(entry, 400.0) == 4.0
    assert heat(entry, 110.0, HeatThresholds(half_life_s=10.0)) == 4.0
    assert heat(replace(entry, weight=2.0), 400.0) == 8.0
    assert heat(replace(entry, weight=1e308), 100.0) == sys.float_info.max
    assert heat(entry, float("nan")) == heat(replace(entry, last_hit_time_s=float("inf")), 0.0) == 0.0


@given(
    st.integers(0, 5).flatmap(
        lambda n: st.tuples(st.just(n), *([st.lists(st.integers(0, 1), min_size=n * n, max_size=n * n)] * 3))
    ),
    st.data(),
)
def test_impact_is_reachability(tables: tuple[int, list[int], list[int], list[int]], data: st.DataObject) -> None:
    n, adjacency, state, join = tables
    mask = data.draw(st.lists(st.integers(0, 1), min_size=n, max_size=n))
    cells = data.draw(st.lists(st.integers(0, n + 1), max_size=5))
    inputs = InvalidationInputs(tuple(mask), tuple(adjacency), tuple(state), tuple(join), n, tuple(cells))
    found = impacted_entries(inputs)
    reached = {i for i in range(n) if mask[i]}
    for _ in range(n):
        reached |= {j for i in reached for j in range(n) if adjacency[i * n + j]}
    assert found.impacted_rules == tuple(i in reached for i in range(n))
    derived = {c: closure({j for j in range(n) if state[c * n + j]}, join, n) for c in range(n)}
    assert found.entries == tuple(c < n and (c in reached or bool(derived[c] & reached)) for c in cells)
    assume(n)
    more = impacted_entries(replace(inputs, intervention_mask=(1, *mask[1:])))
    assert all(b or not a for a, b in zip(found.entries, more.entries, strict=True))


def closure(start: set[int], join: list[int], n: int) -> set[int]:
    reached = set(start)
    for _ in range(n):
        reached |= {j for i in reached for j in range(n) if join[i * n + j]}
    return reached


@pytest.mark.parametrize("field", ["intervention_mask", "rule_adj", "state", "join_rules"])
def test_tables_must_be_square(field: str) -> None:
    good = InvalidationInputs((0,), (0,), (0,), (0,), 1, ())
    with pytest.raises(InvalidField, match=field):
        replace(good, **dict[str, Any]({field: (0, 0)}))
