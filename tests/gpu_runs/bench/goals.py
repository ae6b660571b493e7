"""What the measurements are held against, and how far each goal was met."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from gpu_runs.bench.predictions import WANTED_AGREED, WANTED_ERROR, WANTED_WITHIN

_RIVALS: Final = {
    "cuda.core": "launch-cuda-core",
    "CuPy": "launch-cupy",
    "numba-cuda": "launch-numba",
    "Triton": "launch-triton",
}
_OUR_LAUNCH: Final = "scalars rewritten"
"""Other libraries take their arguments with every call, so ours rewrites what can change between calls."""

Facts = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Goal:
    """``value`` must be at most (or at least, or below) ``bound``.  Both raise ``KeyError`` where nothing was
    measured."""

    name: str
    relation: str
    value: Callable[[Facts], float]
    bound: Callable[[Facts], float]
    unit: str

    def judge(self, facts: Facts) -> dict[str, Any]:
        entry: dict[str, Any] = {"goal": self.name, "relation": self.relation, "unit": self.unit}
        try:
            value, bound = self.value(facts), self.bound(facts)
        except KeyError:
            return entry | {"met": None, "why": "not measured"}
        met = {"at most": value <= bound, "at least": value >= bound, "below": value < bound}[self.relation]
        return entry | {"value": value, "bound": bound, "met": met}


def _constant(number: float) -> Callable[[Facts], float]:
    return lambda facts: number


def _fraction(kernel: str) -> Callable[[Facts], float]:
    return lambda facts: float(facts["bandwidth"]["summary"][kernel]["of_copy_rate"])


def _ours(facts: Facts) -> float:
    return float(facts["launch"]["launch_us"][_OUR_LAUNCH]["median"])


def _rival(group: str) -> Callable[[Facts], float]:
    """The cheapest way of a rival."""
    return lambda facts: min(
        float(way["median"]) for way in facts[group]["launch_us"].values() if isinstance(way, Mapping)
    )


def _summary(group: str, key: str) -> Callable[[Facts], float]:
    return lambda facts: float(facts[group]["summary"][key])


GOALS: Final = (
    *(
        Goal(f"{kernel}, of the copy rate", "at least", _fraction(kernel), _constant(0.9), "ratio")
        for kernel in ("saxpy", "reduction", "elementwise")
    ),
    *(Goal(f"prepared launch, beside {name}", "below", _ours, _rival(group), "us") for name, group in _RIVALS.items()),
    Goal(
        "resident dispatch, p50 above bare bindings",
        "at most",
        _summary("resident", "above_bare_us"),
        _constant(1.5),
        "us",
    ),
    Goal("resident dispatch, p50", "at most", _summary("resident", "p50_us"), _constant(8.7), "us"),
    Goal("graph replay, host time", "below", _summary("graphs", "host_us"), _constant(4.0), "us"),
    Goal(
        f"predicted batches within {WANTED_ERROR:.0%}",
        "at least",
        _summary("costs", "within"),
        _constant(WANTED_WITHIN),
        "ratio",
    ),
    Goal("planned mode was the fastest", "at least", _summary("costs", "agreed"), _constant(WANTED_AGREED), "ratio"),
    Goal("tuned size, of the best", "at most", _summary("tuning", "worst_of_the_best"), _constant(1.03), "ratio"),
)


def judge(groups: Sequence[Mapping[str, Any]], *, emulated: bool) -> list[dict[str, Any]]:
    """Every goal, whether it was met, or that it was not measured; an emulated run measures none."""
    facts = {} if emulated else {g["name"]: g["facts"] for g in groups if g["verdict"] == "passed"}
    return [goal.judge(facts) for goal in GOALS]
