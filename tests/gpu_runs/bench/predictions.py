"""Batches as they were predicted, beside what they took: how far off, and was the chosen mode the fastest?

An error is that of a prediction, as a part of the median observed.  Two modes tie where their medians differ by no more
than two standard errors of the difference, each told from the spread of its own samples; either of them is then as good
as the fastest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, Final, NamedTuple

from vyre.domain.launch_costs import LaunchCosts, Measured, Provenance, root_up, weakest
from vyre.policies.launching.execution_prices import ExecutionMode, Price, Workload
from vyre.policies.launching.plan_execution import ExecutionInputs, plan_execution

WANTED_ERROR: Final = 0.15
"""A prediction is close enough with this error or a smaller one."""
WANTED_WITHIN: Final = 1.0
"""Share of the predictions that have to be close enough."""
WANTED_AGREED: Final = 0.9
"""Share of the batches for which the chosen mode has to be the fastest."""
TIE_ERRORS: Final = 2


class Shape(NamedTuple):
    """Of a batch, as in ``Workload``: ``runs`` of ``nodes`` launches, of which ``changed`` get other parameters."""

    nodes: int
    runs: int
    changed: int
    recorded: bool

    @property
    def launches(self) -> int:
        return self.nodes * self.runs


@dataclass(frozen=True, slots=True)
class Prediction:
    """What a mode was predicted to take, and what it took."""

    price: Price
    observed: Measured

    @property
    def error(self) -> float:
        return abs(self.price.total_ns - self.observed.median_ns) / self.observed.median_ns

    @property
    def provenance(self) -> Provenance:
        return weakest((self.price.provenance, self.observed.provenance))


@dataclass(frozen=True, slots=True)
class Comparison:
    """Of one batch: ``modes`` holds every mode that was measured, ``planned`` is the one that a plan chooses."""

    shape: Shape
    kernel: Measured
    modes: Mapping[ExecutionMode, Prediction]
    planned: ExecutionMode

    @property
    def fastest(self) -> frozenset[ExecutionMode]:
        """The fastest mode, and those that tie with it."""
        best = min((each.observed for each in self.modes.values()), key=lambda observed: observed.median_ns)
        return frozenset(mode for mode, each in self.modes.items() if _tie(best, each.observed))

    @property
    def agreed(self) -> bool:
        return self.planned in self.fastest

    @property
    def regret(self) -> float:
        """How much longer the chosen mode takes than the fastest, as a part of that; ties included."""
        best = min(each.observed.median_ns for each in self.modes.values())
        return self.modes[self.planned].observed.median_ns / best - 1

    def to_json(self) -> dict[str, Any]:
        return {
            "kernel_ns": self.kernel.median_ns,
            **self.shape._asdict(),
            "modes": {
                mode.value: {
                    "predicted_ns": each.price.total_ns,
                    "observed_ns": each.observed.median_ns,
                    "spread_ns": each.observed.spread_ns,
                    "standard_error_ns": each.observed.standard_error_ns,
                    "samples": each.observed.count,
                    "error": each.error,
                }
                for mode, each in self.modes.items()
            },
            "planned": self.planned.value,
            "fastest": sorted(mode.value for mode in self.fastest),
            "agreed": self.agreed,
            "regret": self.regret,
        }


def compare(
    costs: LaunchCosts, kernel: Measured, shape: Shape, observed: Mapping[ExecutionMode, Measured]
) -> Comparison:
    """Predict a batch that comes once in every mode that was observed; ``costs`` know all that these are made of."""
    workload = Workload(shape.nodes, shape.runs, 1, kernel, recorded=shape.recorded, changed_nodes=shape.changed)
    plan = plan_execution(ExecutionInputs(workload, costs, frozenset(observed)))
    modes: dict[ExecutionMode, Prediction] = {}
    for mode, taken in observed.items():
        price = plan.price(mode)
        assert price is not None
        modes[mode] = Prediction(price, taken)
    return Comparison(shape, kernel, modes, plan.mode)


def summarise(comparisons: Sequence[Comparison]) -> dict[str, Any]:
    """Of at least one.  ``within``: share of the predictions that are close enough, of all and by mode.  ``agreed``:
    share of the batches whose chosen mode was the fastest or tied with it.  ``tied``: share of those with a tie.
    """
    errors: dict[str, list[float]] = {}
    for comparison in comparisons:
        for mode, prediction in comparison.modes.items():
            errors.setdefault(mode.value, []).append(prediction.error)
    every = [error for of_mode in errors.values() for error in of_mode]
    return {
        "batches": len(comparisons),
        "predictions": len(every),
        "within": _within(every),
        "within_by_mode": {mode: _within(of_mode) for mode, of_mode in errors.items()},
        "wanted_error": WANTED_ERROR,
        "wanted_within": WANTED_WITHIN,
        "median_error": median(every),
        "worst_error": max(every),
        "agreed": _share([comparison.agreed for comparison in comparisons]),
        "wanted_agreed": WANTED_AGREED,
        "tied": _share([len(comparison.fastest) > 1 for comparison in comparisons]),
        "worst_regret": max(comparison.regret for comparison in comparisons),
        "provenance": weakest(each.provenance for found in comparisons for each in found.modes.values()).value,
    }


def _within(errors: Sequence[float]) -> float:
    return _share([error <= WANTED_ERROR for error in errors])


def _share(held: Sequence[bool]) -> float:
    return sum(held) / len(held)


def _tie(best: Measured, other: Measured) -> bool:
    error = root_up(best.standard_error_ns**2 + other.standard_error_ns**2)
    return other.median_ns - best.median_ns <= TIE_ERRORS * error
