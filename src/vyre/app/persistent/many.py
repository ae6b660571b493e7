"""One program over many inputs: a dispatch for each, or jobs of a persistent engine, as is predicted to take less time.

Both ways submit every item and then collect all results, so that they are timed alike.  The host time of an item is
what ``plan_execution`` takes as the cost of a launch, or as the time in which a resident kernel finds an item; until a
way was timed, the known launch costs stand for it.  So the first batches of a program teach what later ones decide by.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple, TypeVar

from vyre.app.result import Result
from vyre.domain.cost_limits import LEAST_SAMPLES
from vyre.domain.launch_costs import LaunchCosts, Measured, Provenance, of_samples
from vyre.policies.journal import DecisionSink, decide
from vyre.policies.launching.execution_prices import ExecutionMode, Workload
from vyre.policies.launching.plan_execution import ExecutionInputs, ExecutionPlan, plan_execution

LEAST_ITEMS: Final = 16
"""Batches of fewer items are dispatched: a decision takes as long as some dispatches."""
_PARTS: Final = 8
"""Samples of the time of an item that one batch gives."""
_KEPT: Final = 64
T = TypeVar("T")


class ItemTimes(NamedTuple):
    """The last host times of an item in ns, when it was dispatched and when it was a job of an engine.

    ``waking``: times of batches of jobs beside those of their items, in which an engine that is kept open wakes.
    """

    dispatched: deque[int]
    kept: deque[int]
    waking: deque[int]


def no_times() -> ItemTimes:
    """Returns the times of a program that was not run yet."""
    return ItemTimes(deque(maxlen=_KEPT), deque(maxlen=_KEPT), deque(maxlen=_KEPT))


def pays(plan: ExecutionPlan | None) -> bool:
    """Returns whether items take less time as jobs of an engine, as ``plan_items`` has priced them."""
    return plan is not None and plan.mode is ExecutionMode.PERSISTENT


def plan_items(
    items: int,
    times: ItemTimes,
    kernel_ns: Sequence[int],
    costs: LaunchCosts,
    provenance: Provenance,
    sink: DecisionSink | None,
    *,
    is_open: bool = False,
) -> ExecutionPlan | None:
    """Returns the prices of so many items, dispatched and as jobs of an engine, and the choice; None where too few
    kernels were timed.  The engine is opened for them unless it ``is_open``: then it only has to wake.
    """
    kernel = _measured(kernel_ns, provenance)
    if kernel is None:
        return None
    known: dict[str, Any] = {}
    if (dispatched := _measured(times.dispatched, provenance)) is not None:
        known["launch"] = dispatched
    if (found := _measured([max(0, ns - kernel.median_ns) for ns in times.kept], provenance)) is not None:
        known["persistent_poll"] = found
    if is_open:
        known["persistent_setup"] = _measured(times.waking, provenance) or Measured(0, 0, 0, 1, provenance)
    workload = Workload(nodes=1, batch=items, repeats=1, kernel=kernel)
    inputs = ExecutionInputs(
        workload=workload, costs=replace(costs, kernels=(), **known), executable=frozenset({ExecutionMode.PERSISTENT})
    )
    return decide(sink, plan_execution, inputs)


def run_all(
    items: Sequence[T],
    start: Callable[[T], Any],
    failure: Callable[[Any], BaseException | None],
    times: deque[int],
    beside: deque[int] | None = None,
) -> list[Result]:
    """Starts every item, and returns the results in order; adds the host times of an item to ``times``, and what is
    left of the whole time to ``beside``.

    ``failure`` waits for a started item and returns its error.  The first failure, also to start an item, is raised
    after all started ones have ended.
    """
    started: list[Any] = []
    samples: list[int] = []
    size = max(1, -(-len(items) // _PARTS))
    first_began = time.perf_counter_ns()
    try:
        for first in range(0, len(items), size):
            part = items[first : first + size]
            began = time.perf_counter_ns()
            started.extend(map(start, part))
            samples.append((time.perf_counter_ns() - began) // len(part))
    finally:
        began = time.perf_counter_ns()
        failures = [error for each in started if (error := failure(each)) is not None]
    if failures:
        raise failures[0]
    found: list[Result] = [each.result() for each in started]
    if items:
        ended = time.perf_counter_ns()
        collecting = (ended - began) // len(items)
        times.extend(sample + collecting for sample in samples)
        if beside is not None:
            each = sorted(samples)[len(samples) // 2] + collecting
            beside.append(max(0, ended - first_began - each * len(items)))
    return found


def _measured(samples: Sequence[int] | deque[int], provenance: Provenance) -> Measured | None:
    return of_samples(list(samples), provenance) if len(samples) >= LEAST_SAMPLES else None
