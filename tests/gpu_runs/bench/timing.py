"""Samples into numbers."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from gpu_runs.samples import Spread

Way = TypeVar("Way")


class Rounds(NamedTuple):
    """At least ``least``; then as many as begin within ``seconds``, but no more than ``most``."""

    least: int
    most: int
    seconds: float


def spread(samples: Sequence[float], scale: float = 1.0, unit: str = "us", **more: Any) -> Spread:
    """Median, tenth percentile, interquartile range and extremes of samples times ``scale``, which are in ``unit``.

    ``more``: further facts about them."""
    taken = [scale * sample for sample in samples]
    values = sorted(taken)
    lower, _, upper = statistics.quantiles(values, n=4, method="inclusive")
    numbers = {
        "unit": unit,
        "median": statistics.median(values),
        "p10": values[len(values) // 10],
        "p99": values[min(len(values) - 1, len(values) * 99 // 100)],
        "iqr": upper - lower,
        "min": values[0],
        "max": values[-1],
        "samples": len(values),
        **more,
    }
    return Spread(numbers, taken, unit)


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


def in_turn_ns(
    ways: Mapping[Way, Callable[[], object]], settle: Callable[[], object], rounds: Rounds
) -> dict[Way, list[int]]:
    """Host nanoseconds of ways to do the same, each once in a round; every other round runs backwards.

    ``settle`` runs after each, untimed.  One more round comes first and does not count.
    """
    clock, found = time.perf_counter_ns, {way: list[int]() for way in ways}
    forwards = tuple(ways.items())
    gc.disable()
    try:
        end = clock() + round(rounds.seconds * 1e9)
        for number in range(-1, rounds.most):
            if number >= rounds.least and clock() >= end:
                break
            for way, work in forwards if number % 2 else reversed(forwards):
                start = clock()
                work()
                spent = clock() - start
                settle()
                if number >= 0:
                    found[way].append(spent)
    finally:
        gc.enable()
    return found
