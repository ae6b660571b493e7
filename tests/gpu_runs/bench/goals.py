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


def _pair(group: str, name: str) -> Callable[[Facts], float]:
    """How many times faster ours is."""
    return lambda facts: float(facts[group]["pairs"][name]["speedup"])


def _ours_us(group: str, name: str) -> Callable[[Facts], float]:
    return lambda facts: float(facts[group]["pairs"][name]["ours_us"]["median"])


FASTER: Final = (
    ("10 000 jobs, beside dispatches", "many-jobs", "beside dispatches", 10.0),
    ("10 000 jobs, beside dispatches as graphs", "many-jobs", "beside dispatches as graphs", 1.5),
    ("64 queries, beside launches", "queries", "one edge", 3.0),
    ("10 000 results, beside downloads", "packing", "results, bound", 10.0),
    ("10 000 slots, beside downloads", "packing", "slots, equal", 10.0),
    ("update in place, beside copying", "arrays", "in place, beside another array", 1.0),
    ("200 waves, beside launches", "waves", "waves, beside launches", 2.0),
    ("200 waves, beside a graph", "waves", "waves, beside a graph", 1 / 1.2),
    ("search of 10^6 edges, beside levels", "work-queues", "random graph", 1 / 1.3),
    ("search of a path, beside levels", "work-queues", "path", 5.0),
    ("10^6 edges by a ring, beside levels", "work-queues", "random graph, ring", 1 / 1.3),
    ("a path by a ring, beside levels", "work-queues", "path, ring", 5.0),
    ("1 000 rounds of 256 lanes, beside polling", "fixed-points", "256 lanes, as planned", 5.0),
    ("100 tiny steps, beside launches", "fixed-points", "a list of tiny steps", 5.0),
    ("8 maps joined, beside maps apart", "joined", "8 maps", 6.0),
    ("upload beside a kernel, beside one by one", "overlap", "an upload beside a kernel", 1.5),
    ("download beside a kernel, beside one by one", "overlap", "a download beside a kernel", 1.5),
)
"""What is to be so many times faster than what it replaces: name, group, pair, times."""


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
    Goal("graph replay of 100 kernels, host time", "below", _summary("graphs", "many_host_us"), _constant(5.0), "us"),
    *(Goal(name, "at least", _pair(group, pair), _constant(times), "x") for name, group, pair, times in FASTER),
    Goal("memory shown by DLPack", "at most", _ours_us("arrays", "shown by DLPack"), _constant(5.0), "us"),
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
