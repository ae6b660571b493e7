"""``python -m benchmarks --suite regret`` measures the time that wrong choices of how to launch take.

In every cell of a grid a machine takes certain times.  Somebody measures each of them a number of times, with noise,
and decides by what was measured.  The simulator says what every mode takes in truth: a mean over many batches with the
same noise.  Regret is the time of the chosen mode over that of the best one, less 1.  All seeds are fixed.

Our plan is asked twice: about work whose plain launches were decided for, so that they are the mode in use, and about
work that nobody has decided about so far, as a backend asks first.  The reference rules see medians of the same
samples: costs of launches as they are, not net of what kernels hide.

For each cell of several nodes there is another whose stages can be joined: to launches that take less than what they
join, as long, or longer, and are to be compiled first.  How is drawn from the choices that the scope has.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from functools import cache
from itertools import product
from statistics import fmean, median
from typing import Any, Final, NamedTuple

from benchmarks.harness import Metric, Row, Samples
from benchmarks.launch_simulator import Batch, Machine, batch_ns, noise, record_ns
from vyre.domain.cost_limits import USUAL_SAMPLES
from vyre.domain.launch_costs import CostSource, LaunchCosts, Measured, Provenance, of_samples
from vyre.policies.launching.command_reuse import CommandReuseInputs, RecordAndReplay, decide_command_reuse
from vyre.policies.launching.cost_observation import ObservationThresholds
from vyre.policies.launching.execution_prices import ExecutionMode, Fusion, Price, Workload
from vyre.policies.launching.persistent_kernel import PersistentKernel, PersistentKernelInputs, decide_persistent_kernel
from vyre.policies.launching.plan_execution import ExecutionInputs, ExecutionPlan, plan_execution
from vyre.policies.stage_fusion.launch_fusion import DataflowInputs, DataflowStage

PLAIN, GRAPH, PERSISTENT = ExecutionMode.PLAIN, ExecutionMode.GRAPH, ExecutionMode.PERSISTENT
FUSED: Final = ExecutionMode.FUSED
MODES: Final = (PLAIN, GRAPH, PERSISTENT, FUSED)
NOISE_PERCENT: Final = (2, 10, 30)
SAMPLES: Final = (200, USUAL_SAMPLES, ObservationThresholds().min_samples)
"""Of each cost: where uncertainty hardly matters, as calibration takes them, and as few as correct one."""
LIMITED: Final = SAMPLES[:2]
"""Those that limits hold for."""
MAX_MEAN_PERCENT: Final = 2.5
MAX_P95_PERCENT: Final = 10.0
MAX_OVER_RULE: Final = 0.5
"""Our mean regret over that of either reference rule."""
OURS: Final = "ours"
OURS_AT_FIRST: Final = "ours at first"
"""Before anything was decided."""
RULES: Final = ("persistent_kernel", "command_reuse")
PARTS: Final = (("stages apart", False), ("stages to join", True))
"""Of the grid; the limits hold for either."""


@dataclass(frozen=True, slots=True)
class Scope:
    """The grid; times in ns.  ``launches``: at least so many of each mode are simulated in every cell.

    ``joined``: stages of a fused launch.  ``fused``: how many times as long as these it takes; None: as long, and
    nobody timed it.  ``build``: to compile it.
    """

    runs: tuple[int, ...] = (1, 2, 5, 20, 100, 500)
    nodes: tuple[int, ...] = (1, 4, 16, 64)
    kernel: tuple[int, ...] = (500, 1_000, 2_000, 5_000, 20_000, 100_000)
    launch: tuple[int, ...] = (1_570, 3_080, 6_500, 15_000)
    repeats: tuple[int, ...] = (1, 30)
    changed: tuple[bool, ...] = (False, True)
    joined: tuple[int, ...] = (2, 16)
    fused: tuple[float | None, ...] = (0.5, None, 1.0, 1.5)
    build: tuple[int, ...] = (0, 1_000_000)
    launches: int = 2_000


FULL: Final = Scope()
SHORT: Final = Scope(runs=(1, 5, 100), nodes=(1, 16), kernel=(500, 2_000, 20_000), launch=(1_570, 6_500), launches=200)


class Join(NamedTuple):
    """``joined`` and ``fused`` of the batch, the latter None if nobody timed it; ns to compile."""

    joined: int
    fused: float | None
    build: int


class Cell(NamedTuple):
    """``join``: None where the stages are to stay apart."""

    batch: Batch
    kernel: int
    launch: int
    repeats: int
    join: Join | None = None

    @property
    def machine(self) -> Machine:
        return Machine(float(self.launch), float(self.kernel))


class Seen(NamedTuple):
    """The measured costs and times by which one decides about a cell."""

    cell: Cell
    costs: LaunchCosts
    kernel: Measured
    fusion: Fusion | None


def cells(scope: Scope) -> Iterator[Cell]:
    grid = product(scope.runs, scope.nodes, scope.changed, scope.kernel, scope.launch, scope.repeats)
    for runs, nodes, changed, kernel, launch, repeats in grid:
        apart = Cell(Batch(runs, nodes, nodes if changed else 0), kernel, launch, repeats)
        yield apart
        if nodes > 1:
            yield apart._replace(join=_drawn(scope, apart))


def _drawn(scope: Scope, cell: Cell) -> Join:
    choose = random.Random(str(("join", cell))).choice
    return Join(min(choose(scope.joined), cell.batch.nodes), choose(scope.fused), choose(scope.build))


# ---- the truth
def truth(cell: Cell, percent: int, launches: int) -> dict[ExecutionMode, float]:
    """Mean time of all repeats in each mode that is possible."""
    join, once = cell.join, {GRAPH: _mean_record_ns(cell.batch, cell.machine, percent)}
    if join is not None:
        once[FUSED] = join.build * _mean_noise(percent)
    return {
        mode: once.get(mode, 0.0)
        + cell.repeats * _mean_batch_ns(mode, _as_run(mode, cell), cell.machine, percent, launches)
        for mode in MODES
        if mode is not FUSED or join is not None
    }


def _as_run(mode: ExecutionMode, cell: Cell) -> Batch:
    """Only what matters in this mode."""
    if mode is GRAPH:
        return cell.batch
    batch = cell.batch._replace(changed=0)
    if mode is not FUSED or cell.join is None:
        return batch
    return batch._replace(joined=cell.join.joined, fused=cell.join.fused or 1.0)


@cache
def _mean_batch_ns(mode: ExecutionMode, batch: Batch, machine: Machine, percent: int, launches: int) -> float:
    draw = noise(percent / 100, ("batch", mode.value, batch, machine))
    times = max(4, -(-launches // (batch.runs * batch.nodes)))
    return fmean(batch_ns(mode.value, machine, batch, draw) for _ in range(times))


@cache
def _mean_record_ns(batch: Batch, machine: Machine, percent: int) -> float:
    draw = noise(percent / 100, ("record", batch, machine))
    return fmean(record_ns(machine, batch, draw) for _ in range(20))


def _mean_noise(percent: int) -> float:
    """Mean of durations over their median."""
    return math.exp((percent / 100) ** 2 / 2)


# ---- who decides
def seen(cell: Cell, percent: int, samples: int) -> Seen:
    """All costs of the machine, each measured so many times."""
    draw = noise(percent / 100, ("measure", cell, samples))

    def measured(median_ns: float) -> Measured:
        return of_samples([round(draw(median_ns)) for _ in range(samples)], Provenance.MEASURED)

    known: dict[str, Any] = {f.name: measured(getattr(cell.machine, f.name)) for f in fields(Machine)}
    kernel = known.pop("kernel")
    fusion = None if cell.join is None else _fusion(cell, cell.join, measured)
    return Seen(cell, LaunchCosts(CostSource("simulated", "a machine", "1"), 0, **known), kernel, fusion)


def _fusion(cell: Cell, join: Join, measured: Callable[[float], Measured]) -> Fusion:
    """Stages of which so many at a time are alike enough to be joined."""
    nodes = cell.batch.nodes
    stages = tuple(DataflowStage(place, place // join.joined, 0, False, ()) for place in range(nodes))
    launches = -(-nodes // join.joined)
    kernel = None if join.fused is None else measured(join.fused * cell.kernel * nodes / launches)
    return Fusion(DataflowInputs(stages, (), 1), kernel, measured(join.build) if join.build else None)


def plan(found: Seen, incumbent: ExecutionMode | None = PLAIN) -> ExecutionPlan:
    batch = found.cell.batch
    workload = Workload(
        batch.nodes, batch.runs, found.cell.repeats, found.kernel, changed_nodes=batch.changed, fusion=found.fusion
    )
    return plan_execution(ExecutionInputs(workload, found.costs, frozenset(MODES), incumbent))


def persistent_alone(found: Seen) -> ExecutionMode:
    batch, ns = found.cell.batch, _medians(found.costs)
    inputs = PersistentKernelInputs(
        batch.runs * batch.nodes, ns["launch"], found.kernel.median_ns, ns["persistent_setup"]
    )
    return PERSISTENT if isinstance(decide_persistent_kernel(inputs), PersistentKernel) else PLAIN


def reuse_alone(found: Seen) -> ExecutionMode:
    batch, ns = found.cell.batch, _medians(found.costs)
    replay = ns["graph_replay"] + batch.nodes * ns["graph_replay_node"]
    if batch.changed:
        replay += ns["graph_update"] + batch.changed * ns["graph_update_node"]
    inputs = CommandReuseInputs(
        batch.runs * found.cell.repeats,
        batch.nodes * ns["launch"],
        ns["graph_record"] + batch.nodes * ns["graph_record_node"],
        replay,
    )
    return GRAPH if isinstance(decide_command_reuse(inputs), RecordAndReplay) else PLAIN


def _medians(costs: LaunchCosts) -> dict[str, int]:
    return {name: value.median_ns for name, value in costs.known().items()}


DECIDERS: Final[dict[str, Callable[[Seen], ExecutionMode]]] = {
    OURS: lambda found: plan(found).mode,
    OURS_AT_FIRST: lambda found: plan(found, None).mode,
    "persistent_kernel": persistent_alone,
    "command_reuse": reuse_alone,
    "always plain": lambda _: PLAIN,
    "always graph": lambda _: GRAPH,
    "always persistent": lambda _: PERSISTENT,
    "always fused": lambda found: PLAIN if found.fusion is None else FUSED,
}


# ---- the study
class Case(NamedTuple):
    """``percent``: sigma of the noise.  ``samples``: of each cost.  ``joinable``: whether stages can be joined."""

    percent: int
    samples: int = SAMPLES[0]
    decider: str = OURS
    joinable: bool = False


def p95(values: Sequence[float]) -> float:
    """By nearest rank."""
    return sorted(values)[math.ceil(0.95 * len(values)) - 1]


@dataclass(frozen=True, slots=True)
class Study:
    """``regret``: in every cell.  ``missed``: how far predicted times are off, as parts of the true ones, at each level
    of noise for all modes and the largest number of samples.  ``best``: in how many cells a mode is best.
    """

    scope: Scope
    regret: Mapping[Case, Sequence[float]]
    missed: Mapping[int, Sequence[float]]
    best: Mapping[int, Mapping[str, int]]

    def mean(self, case: Case) -> float:
        return fmean(self.regret[case])

    def p95(self, case: Case) -> float:
        return p95(self.regret[case])

    def _figures(self, case: Case) -> dict[str, float]:
        return {
            "mean": round(100 * self.mean(case), 3),
            "p95": round(100 * self.p95(case), 2),
            "max": round(100 * max(self.regret[case]), 1),
        }

    def as_json(self) -> dict[str, object]:
        return {
            "metric": "time of the chosen mode over that of the best, less 1; percent",
            "grid": asdict(self.scope),
            "cells": {part: len(self.regret[Case(NOISE_PERCENT[0], joinable=joinable)]) for part, joinable in PARTS},
            "best_mode": {f"noise {percent} %": dict(count) for percent, count in self.best.items()},
            "predicted_times_are_off_by": {
                f"noise {percent} %": {"median": round(100 * median(found), 2), "p95": round(100 * p95(found), 2)}
                for percent, found in self.missed.items()
            },
            "regret": {
                f"{part}, noise {percent} %, {samples} samples": {
                    decider: self._figures(Case(percent, samples, decider, joinable)) for decider in DECIDERS
                }
                for (part, joinable), percent, samples in product(PARTS, NOISE_PERCENT, SAMPLES)
            },
        }


@cache
def study(scope: Scope = FULL) -> Study:
    found: dict[Case, list[float]] = {}
    missed: dict[int, list[float]] = {}
    best: dict[int, Counter[str]] = {}
    for percent, cell in product(NOISE_PERCENT, cells(scope)):
        taken = truth(cell, percent, scope.launches)
        least = min(taken, key=taken.__getitem__)
        best.setdefault(percent, Counter())[least.value] += 1
        for samples in SAMPLES:
            measured = seen(cell, percent, samples)
            if samples == SAMPLES[0]:
                priced = (each for each in plan(measured).quotes if isinstance(each, Price))
                missed.setdefault(percent, []).extend(abs(each.total_ns / taken[each.mode] - 1) for each in priced)
            for name, decide in DECIDERS.items():
                regret = taken[decide(measured)] / taken[least] - 1
                found.setdefault(Case(percent, samples, name, cell.join is not None), []).append(regret)
    return Study(scope, found, missed, best)


# ---- rows of the suite
def _percent(figure: Callable[[Study], float]) -> Callable[[int], Samples]:
    return lambda rounds: Samples([100 * figure(study())] * rounds)


def _over(case: Case, rule: Case) -> Callable[[int], Samples]:
    return lambda rounds: Samples([study().mean(case)] * rounds, [study().mean(rule)] * rounds)


def _rows(case: Case) -> Iterator[Row]:
    mean, p95 = _percent(lambda found: found.mean(case)), _percent(lambda found: found.p95(case))
    first, join = "_at_first" * (case.decider == OURS_AT_FIRST), "_to_join" * case.joinable
    where = f"{first}{join}_at_noise_{case.percent}_of_{case.samples}"
    state = f"{case.samples} samples of each cost; all seeds fixed, so that rounds are equal"
    yield Row(f"mean{where}", Metric.COST, "%", MAX_MEAN_PERCENT, None, mean, state)
    yield Row(f"p95{where}", Metric.COST, "%", MAX_P95_PERCENT, None, p95, state)
    for rule in RULES:
        over = _over(case, case._replace(decider=rule))
        yield Row(f"over_{rule}{where}", Metric.RATIO, "x mean", MAX_OVER_RULE, None, over, state)


ROWS: Final = tuple(
    row
    for decider, (_, joinable), percent, samples in product((OURS, OURS_AT_FIRST), PARTS, NOISE_PERCENT, LIMITED)
    for row in _rows(Case(percent, samples, decider, joinable))
)


def details() -> dict[str, object]:
    """Returns all figures for the record, and those of the grid that the tests go through again."""
    return study().as_json() | {"short": study(SHORT).as_json()}
