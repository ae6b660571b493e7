"""Which entries of a full cache are kept, judged by gain alone?

Rule: the ``k`` largest non-zero gains are kept, ties in order of position; an entry without gain is never kept.  O(m
log m).

vyre-driver has the same rule, which is least-frequently-used without ageing: an entry that was popular once never
leaves, and neither its size nor the cost of rebuilding it counts.  ``cache_eviction_heat`` and ``cost_eviction`` are
the alternatives.
"""

from __future__ import annotations

from vyre.policies.record import U32, Count, record


@record
class RetentionInputs:
    """The ``gains`` of all entries.  The first ``n`` entries are candidates; at most ``k`` of them are kept."""

    gains: tuple[U32, ...]
    n: Count
    k: Count


def select_retention_set(inputs: RetentionInputs) -> tuple[bool, ...]:
    """Returns, for each of the first ``min(n, len(gains))`` entries, whether it is kept."""
    gains = inputs.gains[: inputs.n]
    order = sorted((i for i, gain in enumerate(gains) if gain), key=lambda i: (-gains[i], i))
    kept = set(order[: inputs.k])
    return tuple(i in kept for i in range(len(gains)))


@record
class EvictionCounts:
    """Number of entries that were dropped, and of all entries before that."""

    dropped_entries: Count
    total_entries: Count


def eviction_basis_points(counts: EvictionCounts) -> int:
    """Returns the share of the entries that was dropped, in basis points: 0 for an empty cache, at most 10 000."""
    total = counts.total_entries
    return min(counts.dropped_entries, total) * 10_000 // total if total else 0
