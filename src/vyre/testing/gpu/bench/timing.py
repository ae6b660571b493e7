"""Samples into numbers."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any


def spread(samples: Sequence[float], scale: float = 1.0) -> dict[str, Any]:
    """Median, tenth percentile, interquartile range and extremes of samples times ``scale``."""
    values = sorted(scale * sample for sample in samples)
    lower, _, upper = statistics.quantiles(values, n=4, method="inclusive")
    return {
        "median": statistics.median(values),
        "p10": values[len(values) // 10],
        "p99": values[min(len(values) - 1, len(values) * 99 // 100)],
        "iqr": upper - lower,
        "min": values[0],
        "max": values[-1],
        "samples": len(values),
    }


def each_call_us(work: Callable[[], object], calls: int) -> list[float]:
    """Host microseconds of each of ``calls`` calls."""
    clock, found = time.perf_counter_ns, [0] * calls
    gc.collect()
    gc.disable()
    try:
        for index in range(calls):
            start = clock()
            work()
            found[index] = clock() - start
    finally:
        gc.enable()
    return [nanoseconds / 1e3 for nanoseconds in found]


def batches_us(work: Callable[[], object], settle: Callable[[], object], *, calls: int, batches: int) -> list[float]:
    """Host microseconds a call, one number for each batch of ``calls``; ``settle`` runs between batches, untimed."""
    clock, found = time.perf_counter_ns, []
    gc.collect()
    gc.disable()
    try:
        for _ in range(batches):
            rounds = range(calls)
            start = clock()
            for _ in rounds:
                work()
            found.append((clock() - start) / 1e3 / calls)
            settle()
    finally:
        gc.enable()
    return found
