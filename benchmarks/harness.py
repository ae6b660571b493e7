"""Timing of two sides in turn, and the verdict on a number.

The sides alternate (A B, B A, ...), so that a busy machine slows both; a sample repeats short work until
the clock resolves it.  Medians are compared; the spread is the interquartile range over the rounds.
"""

from __future__ import annotations

import gc
import math
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

Work = Callable[[], object]
Clock = Callable[[], float]


class NotMeasured(Exception):
    """Raised by the measurement of a row where something that it needs is not here; the text says what."""


MIN_ROUNDS: Final = 9
_MIN_SAMPLE_S: Final = 0.005


class Metric(Enum):
    """How a number follows from the two sides; the value says whether small or large is good."""

    RATIO = "ours / theirs, at most"
    SPEEDUP = "theirs / ours, at least"
    COST = "ours, at most"
    RATE = "ours, at least"

    @property
    def small_is_good(self) -> bool:
        return self in (Metric.RATIO, Metric.COST)


@dataclass(frozen=True, slots=True)
class Samples:
    """One number a round and side, in seconds or in the unit of the row."""

    ours: Sequence[float]
    theirs: Sequence[float] = ()


@dataclass(frozen=True, slots=True)
class Row:
    """A number to measure.  ``measure(rounds)`` also checks that both sides compute the same.

    ``scale`` turns a sample into ``unit``.  ``state`` says what is cached when the clock starts.  A row without a
    required number is a record.
    """

    name: str
    metric: Metric
    unit: str
    required: float | None
    aim: float | None
    measure: Callable[[int], Samples]
    state: str
    scale: float = 1.0


@dataclass(frozen=True, slots=True)
class Outcome:
    row: Row
    value: float
    spread: float
    samples: Samples
    missing: str = ""
    """Why the row was not measured; the value is then NaN."""

    @property
    def verdict(self) -> str:
        """Returns the level that is reached: ``aim``, ``required`` or ``MISSED``; ``record`` where none is required."""
        if self.missing:
            return "not measured"
        if self.row.aim is not None and self._meets(self.row.aim):
            return "aim"
        if self.row.required is None:
            return "record"
        return "required" if self._meets(self.row.required) else "MISSED"

    def _meets(self, bound: float) -> bool:
        return self.value <= bound if self.row.metric.small_is_good else self.value >= bound

    def as_json(self) -> dict[str, object]:
        row, samples = self.row, self.samples
        if self.missing:
            return {"name": row.name, "required": row.required, "verdict": self.verdict, "reason": self.missing}
        found: dict[str, object] = {
            "name": row.name,
            "metric": row.metric.value,
            "unit": row.unit,
            "value": self.value,
            "spread_iqr": self.spread,
            "required": row.required,
            "aim": row.aim,
            "verdict": self.verdict,
            "state": row.state,
            "rounds": len(samples.ours),
            "ours_median": statistics.median(samples.ours),
            "ours_iqr": iqr(samples.ours),
        }
        if samples.theirs:
            found |= {"theirs_median": statistics.median(samples.theirs), "theirs_iqr": iqr(samples.theirs)}
        return found


def evaluate(row: Row, rounds: int) -> Outcome:
    """Measures a row.  The value is the quotient of the medians, the spread that of the paired quotients."""
    try:
        samples = row.measure(max(rounds, MIN_ROUNDS))
    except NotMeasured as missing:
        return Outcome(row, math.nan, math.nan, Samples(()), str(missing))
    ours = [x * row.scale for x in samples.ours]
    match row.metric:
        case Metric.COST | Metric.RATE:
            return Outcome(row, statistics.median(ours), iqr(ours), samples)
        case Metric.RATIO:
            over, under = samples.ours, samples.theirs
        case Metric.SPEEDUP:
            over, under = samples.theirs, samples.ours
    paired = [row.scale * a / b for a, b in zip(over, under, strict=True)]
    value = row.scale * statistics.median(over) / statistics.median(under)
    return Outcome(row, value, iqr(paired), samples)


def iqr(values: Sequence[float]) -> float:
    """Distance of the upper from the lower quartile."""
    lower, _, upper = statistics.quantiles(values, n=4, method="inclusive")
    return upper - lower


def compare(ours: Work, theirs: Work, rounds: int, clock: Clock = time.perf_counter) -> Samples:
    """Seconds a call of each side, measured in alternating order.

    ``clock`` may be ``time.thread_time`` for work that one thread does by itself: then what other processes take from
    it does not count.
    """
    sides = [(ours, _repetitions(ours), list[float]()), (theirs, _repetitions(theirs), list[float]())]
    for index in range(rounds):
        for work, repeat, found in sides if index % 2 == 0 else reversed(sides):
            found.append(_sample(work, repeat, clock))
    return Samples(sides[0][2], sides[1][2])


def measure(work: Work, rounds: int) -> Samples:
    """Seconds a call."""
    repeat = _repetitions(work)
    return Samples([_sample(work, repeat) for _ in range(rounds)])


def measure_each(works: Sequence[Work]) -> Samples:
    """Seconds of each call, every one made once: for work that a cache would answer the second time."""
    return Samples([_sample(work, 1) for work in works])


def _repetitions(work: Work) -> int:
    """How often a sample repeats the work; the first calls also warm it up."""
    work()
    took = max(min(_sample(work, 1) for _ in range(3)), 1e-9)
    return max(1, int(_MIN_SAMPLE_S / took))


def _sample(work: Work, repeat: int, clock: Clock = time.perf_counter) -> float:
    gc.collect()
    gc.disable()
    try:
        if repeat > 1:
            work()  # the collection has read all objects, and left short work with cold caches
        start = clock()
        for _ in range(repeat):
            work()
        return (clock() - start) / repeat
    finally:
        gc.enable()
