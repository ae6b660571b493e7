"""Observations of costs in dispatches of a session: times of kernels and launches, and times that contain a cost."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import nlargest
from itertools import chain
from typing import TYPE_CHECKING, Final, NamedTuple

from vyre.domain.cost_limits import LEAST_SAMPLES, SETTLING_SAMPLES, TELLING_LAUNCHES
from vyre.domain.launch_costs import KernelTime, LaunchCosts, Measured, Provenance, of_samples

if TYPE_CHECKING:
    from vyre.app.pipeline import Pipeline
    from vyre.domain.dispatch import DispatchTiming

MOST_KERNELS: Final = 1024
"""Maximum number of pipelines whose times are kept."""
MOST_TELLING: Final = 16
"""Number of pipelines that are observed: they show as much about launches as a thousand, in a fiftieth of the time."""


def kernel_times(pipelines: Iterable[Pipeline], gap: Measured | None, provenance: Provenance) -> dict[str, KernelTime]:
    """Returns device times by pipeline, for pipelines with at least ``LEAST_SAMPLES`` timed dispatches.

    A dispatch without a launch count, such as a replay, has as many launches as the last one with a count.  A time
    between two events contains the gap of a launch, which a plan adds again, so it is subtracted.
    """
    samples: dict[str, list[int]] = {}
    for pipeline in pipelines:
        told = [timing.launches for timing in tuple(pipeline.launch_timings) if timing.launches]
        usual = told[-1] if told else pipeline.config.launches
        times = ((t.device_ns, t.launches or usual) for t in (*pipeline.timings, *pipeline.resident_timings))
        samples.setdefault(pipeline.id, []).extend(ns // launches for ns, launches in times if ns is not None)
    off = _median(gap)
    return {
        name: KernelTime(name, of_samples([max(0, ns - off) for ns in seen], provenance))
        for name, seen in samples.items()
        if len(seen) >= LEAST_SAMPLES
    }


def merged_kernels(new: dict[str, KernelTime], old: LaunchCosts, gap: Measured | None) -> tuple[KernelTime, ...]:
    """Returns new times before old ones of the same pipeline, at most ``MOST_KERNELS``; old ones net of the new gap."""
    shift = _median(old.launch_gap) - _median(gap)
    kept = {kernel.pipeline: _shifted(kernel, shift) for kernel in old.kernels if kernel.pipeline not in new}
    every = [*new.items(), *kept.items()][:MOST_KERNELS]
    return tuple(kernel for _, kernel in sorted(every))


class Observed(NamedTuple):
    """Observed times of a cost in ns.  ``bounds``: whether each is an upper bound, a time that contains the cost."""

    cost: str
    times: tuple[int, ...]
    bounds: bool


def most_telling(pipelines: Iterable[Pipeline]) -> list[Pipeline]:
    """Returns at most ``MOST_TELLING`` pipelines: those with the most recorded launches."""
    return nlargest(MOST_TELLING, pipelines, key=lambda pipeline: len(pipeline.launch_timings))


def observed(pipelines: Iterable[Pipeline], sequences: Iterable[DispatchTiming]) -> Iterator[Observed]:
    """Yields observations of costs: of a launch itself, from enough runs of many launches, else of times that contain
    it.

    A dispatch on host memory without a count of kernels shows nothing about a launch: it may have been replayed as a
    graph.
    """
    pipelines, sequences = tuple(pipelines), tuple(sequences)
    launches = [(p.config.launches, t) for p in pipelines for t in tuple(p.launch_timings)]
    launches += [(t.launches, t) for t in sequences if t.launches]
    resident = [*sequences, *(timing for p in pipelines for timing in tuple(p.resident_timings))]
    waited = chain(resident, (timing for p in pipelines for timing in tuple(p.timings)))
    told = tuple([t.launch_ns for n, t in launches if t.launch_ns is not None and _count(n, t) >= TELLING_LAUNCHES])
    if len(told) >= SETTLING_SAMPLES:
        yield Observed("launch", told, bounds=False)
    else:
        yield Observed("launch", tuple([ns for n, t in launches if (ns := _within(n, t)) is not None]), bounds=True)
    yield Observed("event_pair", tuple([t.enqueue_ns for t in resident if t.enqueue_ns is not None]), bounds=True)
    yield Observed("round_trip", tuple([t.wait_ns for t in waited if t.wait_ns is not None]), bounds=True)


def _count(least: int, timing: DispatchTiming) -> int:
    return timing.launches or least


def _within(least: int, timing: DispatchTiming) -> int | None:
    """Returns an upper bound of the time of a launch: the time to submit it, else everything before the wait."""
    if timing.launch_ns is not None:
        return timing.launch_ns
    return None if timing.enqueue_ns is None else timing.enqueue_ns // _count(least, timing)


def _shifted(kernel: KernelTime, ns: int) -> KernelTime:
    time = kernel.time
    moved = max(0, time.median_ns + ns)
    return KernelTime(
        kernel.pipeline, Measured(moved, time.spread_ns, time.standard_error_ns, time.count, time.provenance)
    )


def _median(cost: Measured | None) -> int:
    return 0 if cost is None else cost.median_ns
