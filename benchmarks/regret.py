"""``python -m benchmarks --suite regret``: what a wrong choice of how to launch costs.

In every cell of a grid a machine takes certain times.  Somebody measures each of them a number of times, with noise,
and decides by what was measured.  The simulator says what every mode takes in truth: a mean over many batches with the
same noise.  Regret is the time of the chosen mode over that of the best one, less 1.  All seeds are fixed.

Launches are plain before anybody decides, so that this is the incumbent of our plan.  The reference rules see medians
of the same samples: costs of launches as they are, not net of what kernels hide.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from functools import cache
from itertools import product
from statistics import fmean, median
from typing import Final, NamedTuple

from benchmarks.harness import Metric, Row, Samples
from benchmarks.launch_simulator import Batch, Machine, batch_ns, noise, record_ns
from vyre.domain.launch_costs import CostSource, LaunchCosts, Measured, Provenance, of_samples
from vyre.policies.command_reuse import CommandReuseInputs, RecordAndReplay, decide_command_reuse
from vyre.policies.execution_prices import ExecutionMode, Price, Workload
from vyre.policies.persistent_kernel import PersistentKernel, PersistentKernelInputs, decide_persistent_kernel
from vyre.policies.plan_execution import ExecutionInputs, ExecutionPlan, plan_execution

PLAIN, GRAPH, PERSISTENT = ExecutionMode.PLAIN, ExecutionMode.GRAPH, ExecutionMode.PERSISTENT
MODES: Final = (PLAIN, GRAPH, PERSISTENT)
NOISE_PERCENT: Final = (2, 10, 30)
SAMPLES: Final = (200, 9)
"""Of each cost; the first number is the one that limits hold for."""
MAX_MEAN_PERCENT: Final = 2.5
MAX_P95_PERCENT: Final = 10.0
MAX_OVER_RULE: Final = 0.5
"""Our mean regret over that of either reference rule."""
RULES: Final = ("persistent_kernel", "command_reuse")


@dataclass(frozen=True, slots=True)
class Scope:
    """The grid; times in ns.  ``launches``: at least so many of each mode are simulated in every cell."""

    runs: tuple[int, ...] = (1, 2, 5, 20, 100, 500)
    nodes: tuple[int, ...] = (1, 4, 16, 64)
    kernel: tuple[int, ...] = (500, 1_000, 2_000, 5_000, 20_000, 100_000)
    launch: tuple[int, ...] = (1_570, 3_080, 6_500, 15_000)
    repeats: tuple[int, ...] = (1, 30)
    changed: tuple[bool, ...] = (False, True)
    launches: int = 2_000


FULL: Final = Scope()
SHORT: Final = Scope(runs=(1, 5, 100), nodes=(1, 16), kernel=(500, 2_000, 20_000), launch=(1_570, 6_500), launches=200)


class Cell(NamedTuple):
    batch: Batch
    kernel: int
    launch: int
    repeats: int

    @property
    def machine(self) -> Machine:
        return Machine(float(self.launch), float(self.kernel))


class Seen(NamedTuple):
    """What somebody measured who is to decide."""

    cell: Cell
    costs: LaunchCosts
    kernel: Measured


def cells(scope: Scope) -> Iterator[Cell]:
    grid = product(scope.runs, scope.nodes, scope.changed, scope.kernel, scope.launch, scope.repeats)
    for runs, nodes, changed, kernel, launch, repeats in grid:
        yield Cell(Batch(runs, nodes, nodes if changed else 0), kernel, launch, repeats)


# ---- the truth
def truth(cell: Cell, percent: int, launches: int) -> dict[ExecutionMode, float]:
    """Mean time of all repeats in each mode."""
    once = _mean_record_ns(cell.batch, cell.machine, percent)
    taken = {
        mode: cell.repeats * _mean_batch_ns(mode, _as_seen_by(mode, cell.batch), cell.machine, percent, launches)
        for mode in MODES
    }
    return taken | {GRAPH: once + taken[GRAPH]}


def _as_seen_by(mode: ExecutionMode, batch: Batch) -> Batch:
    return batch if mode is GRAPH else batch._replace(changed=0)


@cache
def _mean_batch_ns(mode: ExecutionMode, batch: Batch, machine: Machine, percent: int, launches: int) -> float:
    draw = noise(percent / 100, ("batch", mode.value, batch, machine))
    times = max(4, -(-launches // (batch.runs * batch.nodes)))
    return fmean(batch_ns(mode.value, machine, batch, draw) for _ in range(times))


@cache
def _mean_record_ns(batch: Batch, machine: Machine, percent: int) -> float:
    draw = noise(percent / 100, ("record", batch, machine))
    return fmean(record_ns(machine, batch, draw) for _ in range(20))


# ---- who decides
def seen(cell: Cell, percent: int, samples: int) -> Seen:
    """All costs of the machine, each measured so many times."""
    draw = noise(percent / 100, ("measure", cell, samples))

    def measured(median_ns: float) -> Measured:
        return of_samples([round(draw(median_ns)) for _ in range(samples)], Provenance.MEASURED)

    known = {f.name: measured(getattr(cell.machine, f.name)) for f in fields(Machine)}
    kernel = known.pop("kernel")
    return Seen(cell, LaunchCosts(CostSource("simulated", "a machine", "1"), 0, **known), kernel)


def plan(found: Seen) -> ExecutionPlan:
    batch = found.cell.batch
    workload = Workload(batch.nodes, batch.runs, found.cell.repeats, found.kernel, changed_nodes=batch.changed)
    return plan_execution(ExecutionInputs(workload, found.costs, frozenset(MODES), PLAIN))


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
    "ours": lambda found: plan(found).mode,
    "persistent_kernel": persistent_alone,
    "command_reuse": reuse_alone,
    "always plain": lambda _: PLAIN,
    "always graph": lambda _: GRAPH,
    "always persistent": lambda _: PERSISTENT,
}


# ---- the study
class Case(NamedTuple):
    """``percent``: sigma of the noise.  ``samples``: of each cost."""

    percent: int
    samples: int
    decider: str


def p95(values: Sequence[float]) -> float:
    """By nearest rank."""
    return sorted(values)[math.ceil(0.95 * len(values)) - 1]


@dataclass(frozen=True, slots=True)
class Study:
    """``regret``: in every cell.  ``missed``: how far predicted times are off, as parts of the true ones, at each level
    of noise for all modes and the larger number of samples.  ``best``: in how many cells a mode is best.
    """

    scope: Scope
    regret: Mapping[Case, Sequence[float]]
    missed: Mapping[int, Sequence[float]]
    best: Mapping[int, Mapping[str, int]]

    def mean(self, percent: int, samples: int = SAMPLES[0], decider: str = "ours") -> float:
        return fmean(self.regret[Case(percent, samples, decider)])

    def p95(self, percent: int, samples: int = SAMPLES[0], decider: str = "ours") -> float:
        return p95(self.regret[Case(percent, samples, decider)])

    def as_json(self) -> dict[str, object]:
        return {
            "metric": "time of the chosen mode over that of the best, less 1; percent",
            "grid": asdict(self.scope),
            "cells": len(next(iter(self.regret.values()))),
            "best_mode": {f"noise {percent} %": dict(count) for percent, count in self.best.items()},
            "predicted_times_are_off_by": {
                f"noise {percent} %": {"median": round(100 * median(found), 2), "p95": round(100 * p95(found), 2)}
                for percent, found in self.missed.items()
            },
            "regret": {
                f"noise {percent} %, {samples} samples": {
                    decider: {
                        "mean": round(100 * self.mean(percent, samples, decider), 3),
                        "p95": round(100 * self.p95(percent, samples, decider), 2),
                        "max": round(100 * max(self.regret[Case(percent, samples, decider)]), 1),
                    }
                    for decider in DECIDERS
                }
                for percent, samples in product(NOISE_PERCENT, SAMPLES)
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
        priced = (each for each in plan(seen(cell, percent, SAMPLES[0])).quotes if isinstance(each, Price))
        missed.setdefault(percent, []).extend(abs(each.total_ns / taken[each.mode] - 1) for each in priced)
        for samples in SAMPLES:
            measured = seen(cell, percent, samples)
            for name, decide in DECIDERS.items():
                regret = taken[decide(measured)] / taken[least] - 1
                found.setdefault(Case(percent, samples, name), []).append(regret)
    return Study(scope, found, missed, best)


# ---- rows of the suite
_STATE: Final = f"{SAMPLES[0]} samples of each cost; all seeds fixed, so that rounds are equal"


def _percent(figure: Callable[[Study], float]) -> Callable[[int], Samples]:
    return lambda rounds: Samples([100 * figure(study())] * rounds)


def _over(rule: str, percent: int) -> Callable[[int], Samples]:
    return lambda rounds: Samples([study().mean(percent)] * rounds, [study().mean(percent, decider=rule)] * rounds)


def _rows(percent: int) -> Iterator[Row]:
    mean, p95 = _percent(lambda found: found.mean(percent)), _percent(lambda found: found.p95(percent))
    yield Row(f"mean_at_noise_{percent}", Metric.COST, "%", MAX_MEAN_PERCENT, None, mean, _STATE)
    yield Row(f"p95_at_noise_{percent}", Metric.COST, "%", MAX_P95_PERCENT, None, p95, _STATE)
    for rule in RULES:
        name = f"over_{rule}_at_noise_{percent}"
        yield Row(name, Metric.RATIO, "x mean", MAX_OVER_RULE, None, _over(rule, percent), _STATE)


ROWS: Final = tuple(row for percent in NOISE_PERCENT for row in _rows(percent))


def details() -> dict[str, object]:
    """What the record holds beside the rows: all figures, and those of the grid that the tests go through again."""
    return study().as_json() | {"short": study(SHORT).as_json()}
