"""Which entries of a full cache to keep, by gain alone.

Rule: the ``k`` largest non-zero gains, ties by position; an entry without gain is never kept.  O(m log m).

What the reference rule gets wrong: it is least-frequently-used without ageing, so an entry that was popular
once never leaves, and neither size nor the cost of rebuilding counts.  ``cache_eviction_heat`` and the
cost-aware retention of the cache stand beside it.
"""

from __future__ import annotations

from vyre.policies.record import U32, Count, record


@record
class RetentionInputs:
    """``gains`` of the entries, of which the first ``n`` are candidates and ``k`` may stay."""

    gains: tuple[U32, ...]
    n: Count
    k: Count


def select_retention_set(inputs: RetentionInputs) -> tuple[bool, ...]:
    """For each of the first ``min(n, len(gains))`` entries: does it stay?"""
    gains = inputs.gains[: inputs.n]
    order = sorted((i for i, gain in enumerate(gains) if gain), key=lambda i: (-gains[i], i))
    kept = set(order[: inputs.k])
    return tuple(i in kept for i in range(len(gains)))


@record
class EvictionCounts:
    dropped_entries: Count
    total_entries: Count


def eviction_basis_points(counts: EvictionCounts) -> int:
    """Share of the entries that was dropped, in basis points; 0 for an empty cache, at most 10 000."""
    total = counts.total_entries
    return min(counts.dropped_entries, total) * 10_000 // total if total else 0
