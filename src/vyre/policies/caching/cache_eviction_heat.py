"""Which entries of a cache have gone cold?

The heat of an entry is ``weight * hits * 0.5 ** (age / half_life)``.  The coldest entries are evicted first, ties in
order of position.  Times are float seconds of one clock; if the clock ran backwards the age is 0, and a time that is
not finite gives a heat of 0.  O(n log k).

vyre-driver has the same formula, with two weaknesses: all past hits are valued at the age of the *last* one, so that
one hit revives a million stale ones, and a new entry is the coldest of all.  ``weight``, 1 by default, lets a caller
count the rebuild cost per byte.
"""

from __future__ import annotations

import heapq
import math
import sys
from typing import Annotated

from vyre.policies.record import U32, U64, Count, FloatRange, record


@record
class HeatThresholds:
    """``half_life_s`` is the time in seconds after which an unused entry is worth half."""

    half_life_s: Annotated[float, FloatRange(0.0, above=True)] = 300.0


@record
class HeatEntry:
    """A cache entry; ``id`` is opaque and may repeat."""

    id: U64
    hit_count: U32
    last_hit_time_s: float
    weight: Annotated[float, FloatRange(0.0)] = 1.0


@record
class HeatEvictionInputs:
    """The entries of a cache, how many of them fit it, and the present time in seconds."""

    entries: tuple[HeatEntry, ...]
    capacity: Count
    current_time_s: float


DEFAULT_THRESHOLDS = HeatThresholds()


def heat(entry: HeatEntry, current_time_s: float, thresholds: HeatThresholds = DEFAULT_THRESHOLDS) -> float:
    """Returns the present heat of an entry: finite and at least 0."""
    if not (math.isfinite(entry.last_hit_time_s) and math.isfinite(current_time_s)):
        return 0.0
    age = max(current_time_s - entry.last_hit_time_s, 0.0)
    decayed: float = entry.hit_count * 0.5 ** (age / thresholds.half_life_s)
    return min(entry.weight * decayed, sys.float_info.max)


def entries_to_evict(inputs: HeatEvictionInputs, thresholds: HeatThresholds = DEFAULT_THRESHOLDS) -> tuple[int, ...]:
    """Returns the ids of the ``max(len(entries) - capacity, 0)`` coldest entries, coldest first."""
    surplus = max(len(inputs.entries) - inputs.capacity, 0)
    now = inputs.current_time_s
    order = ((heat(entry, now, thresholds), position) for position, entry in enumerate(inputs.entries))
    return tuple(inputs.entries[position].id for _, position in heapq.nsmallest(surplus, order))
