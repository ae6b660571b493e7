"""Eviction and invalidation; their invariants are in ``test_policy_invariants_compile``."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any

import pytest

from vectors.seeds.cache_invalidation import InvalidationInputs
from vyre.domain.errors import InvalidField
from vyre.policies.caching.cache_eviction_heat import (
    HeatEntry,
    HeatEvictionInputs,
    HeatThresholds,
    entries_to_evict,
    heat,
)


def test_heat() -> None:
    entry = HeatEntry(1, 8, 100.0)
    assert heat(entry, 100.0) == heat(entry, 50.0) == 8.0
    assert heat(entry, 400.0) == 4.0
    assert heat(entry, 110.0, HeatThresholds(half_life_s=10.0)) == 4.0
    assert heat(replace(entry, weight=2.0), 400.0) == 8.0
    assert heat(replace(entry, weight=1e308), 100.0) == sys.float_info.max
    assert heat(entry, float("nan")) == heat(replace(entry, last_hit_time_s=float("inf")), 0.0) == 0.0


def test_the_coldest_leave_by_the_half_life_given() -> None:
    entries = (HeatEntry(7, 4, 0.0), HeatEntry(8, 1, 100.0))
    inputs = HeatEvictionInputs(entries, 1, 100.0)
    assert entries_to_evict(inputs) == (8,)
    assert entries_to_evict(inputs, HeatThresholds(half_life_s=10.0)) == (7,)
    assert entries_to_evict(replace(inputs, capacity=2)) == entries_to_evict(replace(inputs, capacity=9)) == ()


@pytest.mark.parametrize("field", ["intervention_mask", "rule_adj", "state", "join_rules"])
def test_tables_must_be_square(field: str) -> None:
    good = InvalidationInputs((0,), (0,), (0,), (0,), 1, ())
    with pytest.raises(InvalidField, match=field):
        replace(good, **dict[str, Any]({field: (0, 0)}))
