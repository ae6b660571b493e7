"""Which sorting algorithm suits these keys?

Rule: insertion sort for up to 32 keys; radix sort if three quarters of the keys are repetitions or there is a run of 16
equal neighbours; else bitonic sort.  All three give the same order, so the choice never changes a result.  O(n).

vyre-driver has the same rule.  Exact counting of distinct keys stops at 512, so 100 000 keys with 513 distinct values
count as all distinct; and on large inputs radix sort wins without repetitions, too.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

from vyre.policies.record import U32, Count, Reason, record, verdict, why_field


@record
class KeyDistribution:
    """A distribution of keys.

    ``unique`` is the number of distinct keys, or ``len`` if there are more than the counting limit; ``max_run`` is the
    longest run of equal neighbours.
    """

    len: Count
    unique: Count
    max_run: Count


@record
class RoutingThresholds:
    """``max_distinct`` is the number of distinct keys counted exactly; the others are the rule's limits (inclusive)."""

    max_distinct: U32 = 512
    insertion_max_len: U32 = 32
    radix_repeat_factor: U32 = 4
    radix_min_run: U32 = 16


class SortBackend(Enum):
    """The sorting algorithms."""

    INSERTION_SORT = "insertion_sort"
    RADIX_SORT = "radix_sort"
    BITONIC_SORT = "bitonic_sort"


@verdict
class SortChoice:
    """The chosen algorithm."""

    backend: SortBackend
    why: Reason = why_field()


DEFAULT_THRESHOLDS = RoutingThresholds()


def observe(keys: Iterable[int], thresholds: RoutingThresholds = DEFAULT_THRESHOLDS) -> KeyDistribution:
    """Returns length, distinct count and longest run of equal neighbours of ``keys``."""
    distinct: set[int] = set()
    length = run = longest = 0
    previous: int | None = None
    for key in keys:
        length += 1
        run = run + 1 if key == previous else 1
        longest = max(longest, run)
        previous = key
        if len(distinct) <= thresholds.max_distinct:
            distinct.add(key)
    return KeyDistribution(length, len(distinct) if len(distinct) <= thresholds.max_distinct else length, longest)


def select_sort_backend(keys: KeyDistribution, thresholds: RoutingThresholds = DEFAULT_THRESHOLDS) -> SortChoice:
    """Returns the algorithm for keys of this distribution."""
    if keys.len <= thresholds.insertion_max_len:
        return SortChoice(SortBackend.INSERTION_SORT, Reason("{} keys are few", (keys.len,)))
    if thresholds.radix_repeat_factor * keys.unique <= keys.len:
        return SortChoice(SortBackend.RADIX_SORT, Reason("only {} of {} keys are distinct", (keys.unique, keys.len)))
    if keys.max_run >= thresholds.radix_min_run:
        return SortChoice(SortBackend.RADIX_SORT, Reason("a run of {} equal neighbours", (keys.max_run,)))
    return SortChoice(SortBackend.BITONIC_SORT, Reason("{} distinct of {} keys, no long run", (keys.unique, keys.len)))
