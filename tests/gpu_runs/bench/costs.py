"""Launch costs: measured as a session does, and batches predicted with them held against what they take.

The time of a kernel comes from events around plain launches that are submitted while the device is busy, net of the
launch gap.  Batches are timed by the host's clock, from the first submission until the wait is over, in both modes in
turn; where the sequence is not recorded yet, recording it is part of the batch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product
from statistics import median
from typing import Any, Final, NamedTuple

from gpu_runs.bench import programs
from gpu_runs.bench.predictions import Comparison, Shape, compare, summarise
from gpu_runs.bench.spinning import Batches, Spinning
from gpu_runs.bench.timing import Rounds, in_turn_ns
from gpu_runs.context import Context
from gpu_runs.findings import Fact, Finding
from gpu_runs.workbench import Workbench, backend_with, has_driver, session_on
from vyre.adapters.cuda.runtime.device import DEFAULT_OPTIONS
from vyre.adapters.cuda.runtime.loaded import LoadedModule
from vyre.domain.launch_costs import Measured, Provenance, of_samples, to_json
from vyre.policies.launching.execution_prices import ExecutionMode
from vyre.testing.outcomes import Outcome, Verdict


class Grid(NamedTuple):
    """Batches: every combination of these with none or all of the nodes changed, recorded or not, but for those of more
    than ``launches``.

    ``kernels_us``: times that loops of the kernel are to take.  ``probe``: loops of the launches that tell what a loop
    takes.  ``busy_us``: longer than a host takes to submit a chain.  ``most_loops``: of any kernel, whatever was told.
    ``calibration``, ``chains``: rounds of either.
    """

    kernels_us: tuple[float, ...]
    nodes: tuple[int, ...]
    runs: tuple[int, ...]
    launches: int
    probe: int
    busy_us: float
    most_loops: int
    calibration: int
    chains: int
    rounds: Rounds

    def shapes(self) -> Iterator[Shape]:
        for nodes, runs, changed, recorded in product(self.nodes, self.runs, (False, True), (True, False)):
            if nodes * runs <= self.launches:
                yield Shape(nodes, runs, nodes if changed else 0, recorded)


FULL: Final = Grid(
    kernels_us=(0, 3, 10, 30, 100),
    nodes=(1, 4, 16, 64, 100),
    runs=(1, 4, 16),
    launches=400,
    probe=10_000,
    busy_us=1_000,
    most_loops=1_000_000,
    calibration=51,
    chains=31,
    rounds=Rounds(least=9, most=101, seconds=0.3),
)
REHEARSAL: Final = Grid(
    kernels_us=(0, 100),
    nodes=(1, 4),
    runs=(1, 2),
    launches=4,
    probe=4,
    busy_us=0,
    most_loops=5,
    calibration=5,
    chains=5,
    rounds=Rounds(least=5, most=5, seconds=0),
)


def costs(context: Context) -> Iterator[Finding]:
    """Calibrate, predict every batch of the grid in each mode, run it, and compare."""
    if not has_driver(context.backend):
        yield Outcome("launch costs", Verdict.SKIPPED, f"`{context.backend}` has no CUDA driver")
        return
    grid, provenance = (REHEARSAL, Provenance.EMULATED) if context.emulated else (FULL, Provenance.MEASURED)
    with session_on(backend_with(context.backend, DEFAULT_OPTIONS)) as session:
        known = session.calibrate(rounds=grid.calibration)
    yield Fact("launch_costs", to_json(known.costs))
    right = known.provenance is provenance
    yield Outcome("provenance", Verdict.PASSED if right else Verdict.FAILED, f"{known.provenance}")
    gap = known.costs.launch_gap
    assert gap is not None  # wherever there is a driver
    kernels, found = dict[str, Any](), list[Comparison]()
    with Workbench(context.backend) as bench, bench.module(programs.spin()) as module:
        loop_us = _loop_us(bench, module, grid.probe)
        busy = Spinning(bench, module, min(grid.most_loops, round(grid.busy_us / loop_us))).launch
        for kernel_us in grid.kernels_us:
            kernel = Spinning(bench, module, min(grid.most_loops, round(kernel_us / loop_us)))
            kernel.chained_ns(busy)
            chained = [max(0, kernel.chained_ns(busy) - gap.median_ns) for _ in range(grid.chains)]
            alone = [max(0, kernel.device_ns(1) - gap.median_ns) for _ in range(grid.chains)]
            time = of_samples(chained, provenance)
            kernels[f"{kernel_us:g} us"] = {
                "loops": kernel.loops,
                "chained_ns": time.median_ns,
                "chained_error_ns": time.standard_error_ns,
                "alone_ns": median(alone),
            }
            for shape in grid.shapes():
                found.append(compare(known.costs, time, shape, _observed(kernel, shape, grid.rounds, provenance)))
            verdict = Verdict.PASSED if kernel.is_right() else Verdict.FAILED
            yield Outcome(f"sums of the kernel of {kernel_us:g} us", verdict)
            yield Fact("kernels", dict(kernels))
            yield Fact("batches", [comparison.to_json() for comparison in found])
            yield Fact("summary", summarise(found))


def _loop_us(bench: Workbench, module: LoadedModule, probe: int) -> float:
    """What a loop takes on the device, from launches of ``probe`` and of three times as many."""
    few, many = (Spinning(bench, module, loops) for loops in (probe, 3 * probe))
    times = [(few.device_ns(1), many.device_ns(1)) for _ in range(9)]
    return max(1.0, median(more - less for less, more in times)) / (2e3 * probe)


def _observed(
    kernel: Spinning, shape: Shape, rounds: Rounds, provenance: Provenance
) -> Mapping[ExecutionMode, Measured]:
    """Times of a batch of this shape in either mode."""
    batches = Batches(kernel, shape)
    samples = in_turn_ns(batches.ways, batches.settle, rounds)
    batches.release()
    return {mode: of_samples(times, provenance) for mode, times in samples.items()}
