"""Decisions against the clock: on a grid of work, is the mode that the planner chooses the fastest one measured?

Each cell is work of a sequence on resident memory: ``chain`` launches of a program on arrays of ``size`` elements, each
reading what the one before wrote; ``batch`` rounds of them in a run; ``repeats`` runs.  Costs are those that
``Session.calibrate`` measures through the port.  The time of a kernel is measured once for a program, size and chain,
in a run of some rounds; so is the time of the joined launches.  From these, ``plan_execution`` predicts and
chooses for every batch.  Then every mode that can run is forced and timed, in turns, as a caller sees it; programs are
compiled and memory is allocated before.

``python -m benchmarks --suite decision-clock`` measures all cells.  What was measured is kept in a file of the
temporary directory until all is done, so that an interrupted run goes on where it was.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from itertools import product
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

import vyre
from benchmarks.clock_judge import Judged, Shares, as_json, from_json, judge, shares, timed
from benchmarks.harness import Metric, NotMeasured, Row, Samples
from vyre import ProgramBuilder, Step, f32
from vyre.app.work_graph.planner import stages_of
from vyre.app.work_graph.times import RunTimes
from vyre.domain.errors import UnsupportedFeature
from vyre.domain.launch_costs import LaunchCosts
from vyre.policies.launching.execution_prices import ExecutionMode, Fusion, Price, Workload
from vyre.policies.launching.plan_execution import ExecutionInputs, ExecutionPlan, plan_execution

SIZES: Final = (64, 512, 4096, 16384, 65536, 262144)
CHAINS: Final = (1, 2, 4, 8, 16)
BATCHES: Final = (1, 4, 16, 64, 256)
REPEATS: Final = (1, 6)
THREADS: Final = 1
"""The threads of a launch: sharing it among several is no mode, and depends on what else the machine does."""
CALIBRATION: Final = 5
"""The rounds of the calibration before each cell."""
KNOWN_RUNS: Final = 15
"""The runs of which the median is the time of a kernel."""
MOST_LANES: Final = 1 << 22
"""The lanes of all launches of a cell, times the weight of the program, beyond which it is left out."""
LEAST_TIME_NS: Final = 8_000_000
"""How long each way of a cell is measured at least, unless ``MOST_SAMPLES`` were taken."""
LEAST_SAMPLES, MOST_SAMPLES = 11, 151
SETTLING: Final = 70
"""The runs before the first sample, at most, in which code is chosen anew and launches are looked at closely."""
SETTLING_NS: Final = 8_000_000
WARMED_NS: Final = 300_000
"""The time below which a sample follows an unmeasured run of the same way, whose code is then in the caches."""
KNOWN_NS: Final = 60_000
"""How long the run at least takes in which the time of a kernel is measured, unless it has ``MOST_ROUNDS`` rounds."""
MOST_ROUNDS: Final = 256
WAYS: Final[dict[str, dict[str, bool]]] = {
    "plain": {"plain": True},
    "graph": {"graph": True, "fused": False},
    "fused": {"graph": False, "fused": True},
    "fused graph": {"graph": True, "fused": True},
}
"""The ways to run a sequence on ``cpu``, and the modes that force them."""
RESULTS: Final = Path(__file__).parent / "results" / "decision-clock.json"
KEPT: Final = Path(tempfile.gettempdir()) / "vyre-decision-clock.jsonl"


class Kind(NamedTuple):
    """A program: ``y`` from ``x``; ``weight`` is about the time of an element in that of the lightest."""

    name: str
    program: vyre.Program
    weight: int


def _map(name: str, steps: int) -> vyre.Program:
    with ProgramBuilder(name, workgroup=64) as p:
        x = p.input("x", f32)
        y = p.output("y", f32, like=x)
        i = p.global_id()
        with p.if_(i < x.length):
            value = x[i]
            for _ in range(steps):
                value = p.let(value * 0.96875 + 0.25)
            y[i] = value
    return p.build()


def _neighbours() -> vyre.Program:
    """``y[i] = x[i] + x[i + 1]``: a later launch reads what other workgroups wrote, so no two are joined."""
    with ProgramBuilder("neighbours", workgroup=64) as p:
        x = p.input("x", f32)
        y = p.output("y", f32, like=x)
        i = p.global_id()
        with p.if_(i + 1 < x.length):
            y[i] = (x[i] + x[i + 1]) * 0.5
    return p.build()


@cache
def kinds() -> tuple[Kind, ...]:
    """Returns the programs: little and much arithmetic for each element, and one whose launches cannot be joined."""
    return Kind("map", _map("map", 1), 1), Kind("steps", _map("steps", 24), 6), Kind("near", _neighbours(), 1)


class Shape(NamedTuple):
    """Work but for its batch and repeats, by the number of its program."""

    kind: int
    size: int
    chain: int


class Cell(NamedTuple):
    shape: Shape
    batch: int
    repeats: int

    @property
    def name(self) -> str:
        kind, size, chain = self.shape
        return f"{kinds()[kind].name} {size} x{chain} batch {self.batch} repeats {self.repeats}"

    def as_json(self) -> dict[str, Any]:
        """Returns what the cell is, for the record."""
        kind, size, chain = self.shape
        work = {"kind": kinds()[kind].name, "size": size, "chain": chain}
        return work | {"batch": self.batch, "repeats": self.repeats}


def grid() -> list[Cell]:
    """Returns all cells, those of one shape after each other."""
    found = []
    for kind, size, chain in product(range(len(kinds())), SIZES, CHAINS):
        for batch, repeats in product(BATCHES, REPEATS):
            lanes = kinds()[kind].weight * size * chain * batch * repeats
            if lanes <= MOST_LANES or batch == repeats == 1:
                found.append(Cell(Shape(kind, size, chain), batch, repeats))
    return found


# ---------------------------------------------------------------- measuring
class Bench:
    """The sequences of one shape, one for each way."""

    def __init__(self, session: vyre.Session, shape: Shape) -> None:
        program = kinds()[shape.kind].program
        data = np.linspace(0.0, 1.0, shape.size, dtype=np.float32)
        self._arrays = [session.resident(data) for _ in range(shape.chain + 1)]
        steps = [Step(program, {"x": x, "y": y}) for x, y in zip(self._arrays, self._arrays[1:], strict=False)]
        self.sequences: dict[str, vyre.StepSequence] = {}
        for way, modes in WAYS.items():
            with contextlib.suppress(UnsupportedFeature):  # where nothing can be joined
                self.sequences[way] = session.sequence(steps, modes=modes)
        self._chain = shape.chain
        for sequence in self.sequences.values():
            _settle(partial(sequence, 1))
        self._rounds = 1
        one = self.sequences["graph"]
        while self._rounds < MOST_ROUNDS and (one(self._rounds).timing.device_ns or 0) < KNOWN_NS:
            self._rounds *= 2

    def learn(self, costs: LaunchCosts) -> None:
        """Measures the launches as they are and joined, in turns."""
        self._costs = costs
        self._times, self._calls = RunTimes(overlaps=False), RunTimes(overlaps=False)
        known = [self.sequences[way] for way in ("graph", "fused graph") if way in self.sequences]
        rounds = self._rounds
        for sequence in known:
            _settle(partial(sequence, rounds), SETTLING_NS // 4)
        plain = self.sequences["plain"]
        for _ in range(KNOWN_RUNS):
            plain(1)
            for sequence in known:
                sequence(rounds)
                self._took(self._times, sequence, rounds)
            plain(1)
            known[0](1)
            self._took(self._calls, known[0], 1)

    @staticmethod
    def _took(times: RunTimes, sequence: vyre.StepSequence, rounds: int) -> None:
        began = time.perf_counter_ns()
        run = sequence(rounds)
        whole = time.perf_counter_ns() - began
        times.took(sequence.structure, run.kernels, run.timing, one_by_one=False, whole_ns=whole)

    def plan(self, cell: Cell, *, together: bool | None = None) -> ExecutionPlan:
        """Returns what the planner decides about a cell; ``together`` leaves joined launches one way of two."""
        executable = {ExecutionMode.GRAPH}
        fusion = None
        joined = self.sequences.get("fused graph")
        if joined is not None:
            executable.add(ExecutionMode.FUSED)
            kernel = self._times.kernel(joined.structure, self._costs)
            fusion = Fusion(stages_of(joined.structure), kernel, None, together)
        workload = Workload(
            nodes=self._chain,
            batch=cell.batch,
            repeats=cell.repeats,
            kernel=self._times.kernel(self.sequences["graph"].structure, self._costs),
            recorded=True,
            fusion=fusion,
            overlaps=False,
            around=self._calls.around(self._costs),
        )
        return plan_execution(ExecutionInputs(workload, self._costs, frozenset(executable)))

    def measure(self, cell: Cell) -> dict[str, list[int]]:
        """Returns the times of every way in ns, taken in turns."""
        runs = {way: self._run(sequence, cell) for way, sequence in self.sequences.items()}
        slowest = 0
        for run in runs.values():
            slowest = max(slowest, _settle(run))
        count = min(MOST_SAMPLES, max(LEAST_SAMPLES, LEAST_TIME_NS // max(1, slowest)))
        found: dict[str, list[int]] = {way: [] for way in runs}
        ways = list(runs)
        gc.collect()
        gc.disable()
        try:
            for number in range(count):
                for way in (*ways[number % len(ways) :], *ways[: number % len(ways)]):
                    if slowest < WARMED_NS:
                        self.sequences[way](cell.batch)
                    found[way].append(_once(runs[way]))
        finally:
            gc.enable()
        return found

    @staticmethod
    def _run(sequence: vyre.StepSequence, cell: Cell) -> Callable[[], object]:
        batch, repeats = cell.batch, cell.repeats
        if repeats == 1:
            return lambda: sequence(batch)

        def run() -> None:
            for _ in range(repeats):
                sequence(batch)

        return run

    def close(self) -> None:
        for sequence in self.sequences.values():
            sequence.close()
        for array in self._arrays:
            array.close()


def _once(run: Callable[[], object]) -> int:
    began = time.perf_counter_ns()
    run()
    return time.perf_counter_ns() - began


def _settle(run: Callable[[], object], most_ns: int = SETTLING_NS) -> int:
    """Runs until launches are as later ones, and returns the time of the last run in ns."""
    began = time.perf_counter_ns()
    for _ in range(SETTLING):
        took = _once(run)
        if time.perf_counter_ns() - began > most_ns:
            break
    return took


def way_of(price: Price) -> str:
    """Returns the way that a price is of."""
    if price.mode is ExecutionMode.FUSED:
        return "fused graph" if price.together else "fused"
    return str(price.mode.value)


def judged(bench: Bench, cell: Cell) -> Judged:
    """Decides about a cell and then measures it."""
    plan = bench.plan(cell)
    plans = [bench.plan(cell, together=together) for together in (False, True)]
    quotes = [quote for each in plans for quote in each.quotes if isinstance(quote, Price)]
    predicted = {way_of(quote): quote.total_ns for quote in quotes}
    assert plan.predicted is not None
    samples = bench.measure(cell)
    return judge({way: timed(found, predicted.get(way)) for way, found in samples.items()}, way_of(plan.predicted))


def measured(cells: Sequence[Cell], kept: Path | None = None) -> Iterator[tuple[Cell, Judged]]:
    """Yields all cells, measured now or kept by an earlier run that was interrupted."""
    done = kept_rows(kept)
    with vyre.open("cpu", cache=False, threads=THREADS) as session:
        shape, bench = None, None
        try:
            for cell in cells:
                row = done.get(cell.name)
                if row is not None:
                    yield cell, from_json(row)
                    continue
                if bench is None or shape != cell.shape:
                    if bench is not None:
                        bench.close()
                    shape, bench = cell.shape, Bench(session, cell.shape)
                bench.learn(session.calibrate(rounds=CALIBRATION).costs)  # the speed of a machine in use changes
                found = judged(bench, cell)
                if kept is not None:
                    with kept.open("a", encoding="utf-8") as file:
                        file.write(json.dumps({"cell": cell.name} | as_json(found)) + "\n")
                yield cell, found
        finally:
            if bench is not None:
                bench.close()


def kept_rows(path: Path | None) -> dict[str, dict[str, Any]]:
    """Returns the rows that an interrupted run wrote, by the names of their cells, without one that was cut off."""
    if path is None or not path.exists():
        return {}
    rows = []
    for line in path.read_text(encoding="utf-8").splitlines():
        with contextlib.suppress(json.JSONDecodeError):
            rows.append(json.loads(line))
    return {row.pop("cell"): row for row in rows}


# ---------------------------------------------------------------- rows of the suite
@cache
def study() -> tuple[tuple[Cell, Judged], ...]:
    """Measures the whole grid once."""
    try:
        found = tuple(measured(grid(), KEPT))
    except UnsupportedFeature as error:
        raise NotMeasured(str(error)) from None
    KEPT.unlink(missing_ok=True)
    return found


def _percent(figure: Callable[[Shares], float]) -> Callable[[int], Samples]:
    return lambda rounds: Samples([100 * figure(shares(one for _, one in study()))] * rounds)


_STATE: Final = "programs compiled, memory allocated; every way forced and timed in turns; medians"
ROWS: Final = (
    Row("right_choices", Metric.RATE, "% of cells", 95, None, _percent(lambda found: found.right), _STATE),
    Row("true_predictions", Metric.RATE, "% of cells", 80, None, _percent(lambda found: found.true), _STATE),
    Row("true_predictions_of_all_ways", Metric.RATE, "% of times", None, 80, _percent(lambda f: f.true_of_all), _STATE),
)


def details() -> dict[str, object]:
    """Returns all cells for the record."""
    return {"cells": [{"cell": cell.name} | cell.as_json() | as_json(one) for cell, one in study()]}


def main() -> None:
    """Prints every cell that is not right or not true, and the shares."""
    import sys

    every = int(sys.argv[1]) if len(sys.argv) > 1 else 1
    cells = grid()[::1]
    shapes = list(dict.fromkeys(cell.shape for cell in cells))[::every]
    found = []
    began = time.perf_counter()
    for cell, one in measured([cell for cell in cells if cell.shape in shapes]):
        found.append(one)
        if not (one.right and one.is_true):
            text = " ".join(
                f"{way}={t.median_ns / 1e3:.1f}({'-' if t.off is None else format(100 * t.off, '+.0f')}%)"
                for way, t in one.ways.items()
            )
            flag = ("" if one.right else "WRONG ") + ("" if one.is_true else "OFF ")
            print(f"{flag:11}{cell.name}: {one.chosen} not {one.fastest}, loss {one.loss:.0%}: {text}", flush=True)
    print(shares(found), f"{time.perf_counter() - began:.0f} s", os.getloadavg())


if __name__ == "__main__":
    main()
