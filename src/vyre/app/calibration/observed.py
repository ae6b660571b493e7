"""What dispatches of a session tell about costs: times of kernels, and bounds of what a dispatch contains."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

from vyre.domain.cost_limits import LEAST_SAMPLES
from vyre.domain.launch_costs import KernelTime, LaunchCosts, Measured, Provenance, of_samples

if TYPE_CHECKING:
    from vyre.app.pipeline import Pipeline

MOST_KERNELS: Final = 1024
"""Pipelines whose times are kept."""


def kernel_times(pipelines: Iterable[Pipeline], gap: Measured | None, provenance: Provenance) -> dict[str, KernelTime]:
    """Device times by pipeline, where ``LEAST_SAMPLES`` dispatches told one.

    A time between two events has the gap of a launch in it, which a plan adds again, so it is taken off.
    """
    samples: dict[str, list[int]] = {}
    for pipeline in pipelines:
        launches = pipeline.config.fixpoint_iterations or 1
        times = (timing.device_ns for timing in (*pipeline.timings, *pipeline.resident_timings))
        samples.setdefault(pipeline.id, []).extend(ns // launches for ns in times if ns is not None)
    off = _median(gap)
    return {
        name: KernelTime(name, of_samples([max(0, ns - off) for ns in found], provenance))
        for name, found in samples.items()
        if len(found) >= LEAST_SAMPLES
    }


def merged_kernels(new: dict[str, KernelTime], old: LaunchCosts, gap: Measured | None) -> tuple[KernelTime, ...]:
    """New times before old ones of the same pipeline, at most ``MOST_KERNELS``; old ones net of the new gap."""
    shift = _median(old.launch_gap) - _median(gap)
    kept = {kernel.pipeline: _shifted(kernel, shift) for kernel in old.kernels if kernel.pipeline not in new}
    every = [*new.items(), *kept.items()][:MOST_KERNELS]
    return tuple(kernel for _, kernel in sorted(every))


def contained(pipelines: Iterable[Pipeline]) -> dict[str, tuple[int, ...]]:
    """Times that contain a cost, by cost.

    Only dispatches on resident memory launch for sure: others may be replayed as a graph.
    """
    found: dict[str, list[int]] = {}
    for pipeline in pipelines:
        for name, ns in _contained(pipeline):
            found.setdefault(name, []).append(ns)
    return {name: tuple(times) for name, times in found.items()}


def _contained(pipeline: Pipeline) -> Iterator[tuple[str, int]]:
    launches = pipeline.config.fixpoint_iterations or 1
    for timing in tuple(pipeline.resident_timings):
        if timing.enqueue_ns is not None:
            yield "launch", timing.enqueue_ns // launches
            yield "event_pair", timing.enqueue_ns
        if timing.wait_ns is not None:
            yield "round_trip", timing.wait_ns
    for timing in tuple(pipeline.timings):
        if timing.wait_ns is not None:
            yield "round_trip", timing.wait_ns


def _shifted(kernel: KernelTime, ns: int) -> KernelTime:
    time = kernel.time
    moved = max(0, time.median_ns + ns)
    return KernelTime(
        kernel.pipeline, Measured(moved, time.spread_ns, time.standard_error_ns, time.count, time.provenance)
    )


def _median(cost: Measured | None) -> int:
    return 0 if cost is None else cost.median_ns
