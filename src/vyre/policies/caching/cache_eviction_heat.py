"""Which entries of a cache have gone cold?

Heat = ``weight * hits * 0.5 ** (age / half_life)``; the coldest leave first, ties by position.  Clocks are float
seconds of one clock; a clock that ran backwards means age 0, a non-finite one heat 0.  O(n log k).

What the reference rule gets wrong: all past hits are revalued at the age of the *last* one, so a single hit
revives a million stale ones, and a newcomer is the coldest entry there is.  ``weight`` (1 by default) lets a caller
count rebuild cost per byte.
"""

from __future__ import annotations

import heapq
import math
import sys
from typing import Annotated

from vyre.policies.record import U32, U64, Count, FloatRange, record


@record
class HeatThresholds:
    """``half_life_s``: seconds after which an entry is worth half."""

    half_life_s: Annotated[float, FloatRange(0.0, above=True)] = 300.0


@record
class HeatEntry:
    """``id`` is opaque and may repeat."""

    id: U64
    hit_count: U32
    last_hit_time_s: float
    weight: Annotated[float, FloatRange(0.0)] = 1.0


@record
class HeatEvictionInputs:
    entries: tuple[HeatEntry, ...]
    capacity: Count
    current_time_s: float


DEFAULT_THRESHOLDS = HeatThresholds()


def heat(entry: HeatEntry, current_time_s: float, thresholds: HeatThresholds = DEFAULT_THRESHOLDS) -> float:
    """How warm an entry is now; finite and at least 0."""
    if not (math.isfinite(entry.last_hit_time_s) and math.isfinite(current_time_s)):
        return 0.0
    age = max(current_time_s - entry.last_hit_time_s, 0.0)
    decayed: float = entry.hit_count * 0.5 ** (age / thresholds.half_life_s)
    return min(entry.weight * decayed, sys.float_info.max)


def entries_to_evict(inputs: HeatEvictionInputs, thresholds: HeatThresholds = DEFAULT_THRESHOLDS) -> tuple[int, ...]:
    """Ids of the ``max(len(entries) - capacity, 0)`` coldest entries, coldest first."""
    surplus = max(len(inputs.entries) - inputs.capacity, 0)
    now = inputs.current_time_s
    order = ((heat(entry, now, thresholds), position) for position, entry in enumerate(inputs.entries))
    return tuple(inputs.entries[position].id for _, position in heapq.nsmallest(surplus, order))
