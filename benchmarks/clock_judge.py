"""Judges decisions by the clock: was the chosen way the fastest, and were predicted times true?"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from vyre.domain.launch_costs import Provenance, of_samples

NEAR: Final = 5
"""The percent by which the chosen way may be slower than the fastest."""
STANDARD_ERRORS: Final = 2
"""The standard errors of the difference by which it may be slower."""
TRUE_WITHIN: Final = 15
"""The percent of the measured median by which a true prediction may miss it."""


class Timed(NamedTuple):
    """The median time of a way to run a cell and its standard error, in ns, and the predicted time, if there is one."""

    median_ns: int
    error_ns: int
    predicted_ns: int | None

    @property
    def off(self) -> float | None:
        """Returns by which part of the median the prediction misses it; more than it is positive."""
        return None if self.predicted_ns is None else self.predicted_ns / max(1, self.median_ns) - 1

    @property
    def is_true(self) -> bool:
        """Returns whether the prediction is near the median; False without one."""
        if self.predicted_ns is None:
            return False
        return 100 * abs(self.predicted_ns - self.median_ns) <= TRUE_WITHIN * self.median_ns


def timed(samples_ns: Sequence[int], predicted_ns: int | None) -> Timed:
    """Returns the median of samples; raises ``InvalidField`` for too few."""
    found = of_samples(samples_ns, Provenance.MEASURED)
    return Timed(found.median_ns, found.standard_error_ns, predicted_ns)


class Judged(NamedTuple):
    """A cell: what was measured of each way, the ``chosen`` one, and the ``fastest``.

    ``loss``: how much longer the chosen way takes than the fastest, as a part.  ``right``: it is the fastest, or as
    fast as the clock can tell.
    """

    ways: Mapping[str, Timed]
    chosen: str
    fastest: str
    loss: float
    right: bool

    @property
    def off(self) -> float | None:
        """Returns by which part the prediction of the chosen way misses its median."""
        return self.ways[self.chosen].off

    @property
    def is_true(self) -> bool:
        """Returns whether the chosen way was predicted well; False without a prediction."""
        return self.ways[self.chosen].is_true


def judge(ways: Mapping[str, Timed], chosen: str) -> Judged:
    """Judges the choice of one of the ways.  Raises ``KeyError`` for a choice that was not measured."""
    taken = ways[chosen]
    fastest = min(ways, key=lambda way: ways[way].median_ns)
    best = ways[fastest]
    over = taken.median_ns - best.median_ns
    slack = max(NEAR * best.median_ns / 100, STANDARD_ERRORS * math.hypot(taken.error_ns, best.error_ns))
    return Judged(dict(ways), chosen, fastest, over / max(1, best.median_ns), over <= slack)


class Shares(NamedTuple):
    """The shares, in 0..1, of the cells with a right choice, of the cells whose chosen way was predicted well, and of
    the true predictions among those of all ways.
    """

    cells: int
    right: float
    true: float
    true_of_all: float


def shares(judged: Iterable[Judged]) -> Shares:
    """Returns the shares; those of no cells are 0."""
    found = list(judged)
    near = [way.is_true for one in found for way in one.ways.values()]
    return Shares(
        len(found),
        statistics.fmean([one.right for one in found]) if found else 0.0,
        statistics.fmean([one.is_true for one in found]) if found else 0.0,
        statistics.fmean(near) if near else 0.0,
    )


def as_json(judged: Judged) -> dict[str, Any]:
    """Returns a row of the record; times in ns as median, standard error and prediction."""
    return {
        "ways": {name: list(way) for name, way in judged.ways.items()},
        "chosen": judged.chosen,
        "fastest": judged.fastest,
        "right": judged.right,
        "true": judged.is_true,
    }


def from_json(row: Mapping[str, Any]) -> Judged:
    """Returns what ``as_json`` wrote, judged anew."""
    return judge({name: Timed(*way) for name, way in row["ways"].items()}, row["chosen"])
