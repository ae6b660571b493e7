"""One program over many inputs: a dispatch for each, or jobs of a persistent engine, as is predicted to take less time.

Both ways submit every item and then collect all results, so that they are timed alike.  The host time of an item is
the cost of a launch, or with the kernel that of an item of a resident kernel; until a way was timed, the known launch
costs stand for it.  So the first batches of a program teach what later ones decide by (``persistent_kernel``).
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, TypeVar

from vyre.app.result import Result
from vyre.domain.cost_limits import LEAST_SAMPLES
from vyre.domain.launch_costs import LaunchCosts, Measured, Provenance, of_samples
from vyre.policies.journal import DecisionSink, decide
from vyre.policies.launching.persistent_kernel import (
    PersistentKernel,
    PersistentKernelInputs,
    PersistentKernelVerdict,
    decide_persistent_kernel,
)

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


def pays(verdict: PersistentKernelVerdict | None) -> bool:
    """Returns whether items take less time as jobs of an engine, as ``plan_items`` has decided."""
    return isinstance(verdict, PersistentKernel)


def plan_items(
    items: int,
    times: ItemTimes,
    kernel_ns: Sequence[int],
    costs: LaunchCosts,
    provenance: Provenance,
    sink: DecisionSink | None,
    *,
    is_open: bool = False,
) -> PersistentKernelVerdict | None:
    """Returns whether so many items are dispatched or jobs of an engine; None where too little was timed.  The engine
    is opened for them unless it ``is_open``: then it only has to wake.
    """
    inputs = item_costs(items, times, kernel_ns, costs, provenance, is_open=is_open)
    return None if inputs is None else decide(sink, decide_persistent_kernel, inputs)


def item_costs(
    items: int, times: ItemTimes, kernel_ns: Sequence[int], costs: LaunchCosts, provenance: Provenance, *, is_open: bool
) -> PersistentKernelInputs | None:
    """Returns what an item costs more when it is dispatched, net of the time that kernels hide, and an engine once."""
    kernel, gap = _measured(kernel_ns, provenance), costs.launch_gap
    launch = _measured(times.dispatched, provenance) or costs.launch
    if kernel is None or launch is None or gap is None:
        return None
    poll = _measured([max(0, ns - kernel.median_ns) for ns in times.kept], provenance) or costs.persistent_poll
    setup = costs.persistent_setup
    if is_open:
        setup = _measured(times.waking, provenance) or Measured(0, 0, 0, 1, provenance)
    if poll is None or setup is None:
        return None
    by_host = launch.median_ns, kernel.median_ns
    by_device = kernel.median_ns + gap.median_ns, launch.median_ns - gap.median_ns
    step, start = max(by_host, by_device, key=lambda way: items * way[0] + way[1])
    net = max(0, step - kernel.median_ns - poll.median_ns)
    opening = max(0, max(setup.median_ns, launch.median_ns) - start)
    return PersistentKernelInputs(items, net, kernel.median_ns, opening)


def run_all(
    items: Sequence[T],
    start: Callable[[T], Any],
    failure: Callable[[Any], BaseException | None],
    times: deque[int],
    beside: deque[int] | None = None,
    now_ns: Callable[[], int] = time.perf_counter_ns,
) -> list[Result]:
    """Starts every item, and returns the results in order; adds the host times of an item to ``times``, and what is
    left of the whole time to ``beside``.

    ``failure`` waits for a started item and returns its error.  The first failure, also to start an item, is raised
    after all started ones have ended.
    """
    started: list[Any] = []
    samples: list[int] = []
    size = max(1, -(-len(items) // _PARTS))
    first_began = now_ns()
    try:
        for first in range(0, len(items), size):
            part = items[first : first + size]
            began = now_ns()
            started.extend(map(start, part))
            samples.append((now_ns() - began) // len(part))
    finally:
        began = now_ns()
        failures = [error for each in started if (error := failure(each)) is not None]
    if failures:
        raise failures[0]
    results: list[Result] = [each.result() for each in started]
    if items:
        ended = now_ns()
        collecting = (ended - began) // len(items)
        times.extend(sample + collecting for sample in samples)
        if beside is not None:
            each = sorted(samples)[len(samples) // 2] + collecting
            beside.append(max(0, ended - first_began - each * len(items)))
    return results


def _measured(samples: Sequence[int] | deque[int], provenance: Provenance) -> Measured | None:
    return of_samples(list(samples), provenance) if len(samples) >= LEAST_SAMPLES else None
