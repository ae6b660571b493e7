"""Sequences of one shape, run in every way: predicted by the planner's prices, and timed."""

from __future__ import annotations

import contextlib
import time
from dataclasses import replace
from functools import partial
from typing import Final

import numpy as np

import vyre
from benchmarks.clock_cells import Cell, Family, Shape, kinds
from benchmarks.clock_judge import Judged, judge, timed
from benchmarks.clock_turns import Costs, once, settle, take_turns, warm
from vyre import Step
from vyre.app.sequences.planner import stages_of
from vyre.app.sequences.times import RunTimes
from vyre.domain.cost_limits import TELLING_LAUNCHES
from vyre.domain.errors import UnsupportedFeature
from vyre.domain.launch_costs import LaunchCosts, Measured, Provenance
from vyre.policies.launching.execution_prices import Around, ExecutionMode, Fusion, Price, Workload
from vyre.policies.launching.plan_execution import ExecutionInputs, ExecutionPlan, plan_execution
from vyre.ports.cost_probe import CostExperiment

WAYS: Final[dict[str, dict[str, bool]]] = {
    "plain": {"plain": True},
    "graph": {"graph": True, "fused": False},
    "fused": {"graph": False, "fused": True},
    "fused graph": {"graph": True, "fused": True},
    "persistent": {"persistent": True, "fused": False},
}
"""The ways to run a sequence on ``cpu``, and the modes that force them."""
PARTNERS: Final = {
    "plain": "graph",
    "graph": "graph",
    "fused": "fused graph",
    "fused graph": "fused graph",
    "persistent": "graph",
}
"""The way whose structure a way has, in which the device itself tells the times of its launches."""
EXPERIMENTS: Final = frozenset(
    {
        CostExperiment.ROUND_TRIP,
        CostExperiment.LAUNCHES,
        CostExperiment.GRAPH_REPLAY,
        CostExperiment.GRAPH_KERNELS,
        CostExperiment.PERSISTENT,
    }
)
PREPARING: Final = frozenset({CostExperiment.BIND, CostExperiment.GRAPH_RECORD})
NOTHING: Final = Measured(0, 0, 0, 0, Provenance.ASSUMED)
KNOWN_NS: Final = 60_000
"""How long the run at least takes in which the time of a kernel is measured, unless it has ``MOST_ROUNDS`` rounds."""
MOST_ROUNDS: Final = 256


class SequenceBench:
    """The sequences of one shape, one for each way."""

    def __init__(self, session: vyre.Session, shape: Shape) -> None:
        program = kinds()[shape.kind].program
        data = np.linspace(0.0, 1.0, shape.size, dtype=np.float32)
        self._session = session
        self._arrays = [session.resident(data) for _ in range(shape.chain + 1)]
        pairs = zip(self._arrays, self._arrays[1:], strict=False)
        self._steps = [Step(program, {"x": x, "y": y}) for x, y in pairs]
        self._fresh = shape.family is Family.FIRST
        self._costs = Costs(session, EXPERIMENTS | PREPARING if self._fresh else EXPERIMENTS)
        self.sequences: dict[str, vyre.StepSequence] = {}
        for way in ("plain", "graph") if self._fresh else WAYS:
            with contextlib.suppress(UnsupportedFeature):  # where nothing can be joined
                self.sequences[way] = self._made(way)
        self._chain = shape.chain
        self._one_ns = {way: settle(partial(sequence, 1)) for way, sequence in self.sequences.items()}
        self._rounds = 1
        listed = self.sequences["graph"]
        while self._rounds < MOST_ROUNDS and (listed(self._rounds).timing.device_ns or 0) < KNOWN_NS:
            self._rounds *= 2
        self._times = RunTimes(overlaps=False)

    def _made(self, way: str) -> vyre.StepSequence:
        return self._session.sequence(self._steps, modes=WAYS[way])

    def judged(self, cell: Cell) -> Judged:
        """Times all ways of a cell and what is known of them in turns, decides about it, and judges the decision."""
        self._times = RunTimes(overlaps=False)
        self._costs.restart()
        runs = {way: self._run(sequence, cell) for way, sequence in self.sequences.items()}
        expected = {way: settle(run) for way, run in runs.items()}
        first = next(iter(runs))

        def learn(number: int, way: str) -> None:
            if way == first:
                self._costs.take_round(number)
            self._learn(way)

        def sample(way: str) -> int:
            if self._fresh:
                return self._first_runs(way, cell)
            warm(partial(self.sequences[way], cell.batch), expected[way] // cell.repeats)
            return once(runs[way])

        found = take_turns(tuple(runs), expected, learn, sample)
        costs = self._costs.found()
        plan = self._plan(cell, costs)
        plans = [self._plan(cell, costs, together=together) for together in (False, True)]
        quotes = [quote for each in plans for quote in each.quotes if isinstance(quote, Price)]
        predicted = {way_of(quote): quote.total_ns for quote in quotes}
        assert plan.predicted is not None
        ways = {way: timed(samples, predicted.get(way)) for way, samples in found.items()}
        return judge(ways, way_of(plan.predicted))

    def _learn(self, way: str) -> None:
        """Times short runs of a way, and long ones."""
        sequence = self.sequences[way]
        one_by_one = way in ("plain", "fused")
        long = min(self._rounds, TELLING_LAUNCHES) if one_by_one else self._rounds
        for rounds in (1, long) if long > 1 else (1,):
            warm(partial(sequence, rounds), self._one_ns[way] if rounds == 1 else KNOWN_NS)
            began = time.perf_counter_ns()
            run = sequence(rounds)
            whole = time.perf_counter_ns() - began
            structure = self.sequences[PARTNERS[way]]._structure
            if way == "persistent":
                self._times.took_by_workers(structure, run.kernels, run.timing, whole)
            else:
                self._times.took(structure, run.kernels, run.timing, one_by_one=one_by_one, whole_ns=whole)

    def _plan(self, cell: Cell, costs: LaunchCosts, *, together: bool | None = None) -> ExecutionPlan:
        """Returns what the planner decides about a cell; ``together`` leaves joined launches one way of two."""
        executable = {ExecutionMode.GRAPH}
        structures = [None if way not in self.sequences else self.sequences[way]._structure for way in _LISTED]
        apart, joined = structures
        fusion = None
        if joined is not None:
            executable.add(ExecutionMode.FUSED)
            launched, kernel = self._times.launched(joined), self._times.kernel(joined, costs)
            fusion = Fusion(stages_of(joined), kernel, None, together, launched)
        assert apart is not None
        around = Around(
            *(
                None if structure is None else self._times.around(structure, costs, one_by_one=one_by_one)
                for structure in structures
                for one_by_one in (True, False)
            )
        )
        if self._fresh and costs.bind is not None:  # each batch that is launched one by one has its share of binding
            bound_ns = self._chain * costs.bind.median_ns // cell.repeats
            share = replace(costs.bind, median_ns=bound_ns + (around.one_by_one or NOTHING).median_ns)
            around = replace(around, one_by_one=share, listed=around.listed or NOTHING)
        resident = None
        if "persistent" in self.sequences:
            executable.add(ExecutionMode.PERSISTENT)
            resident, costs = self._times.kept(apart, around.one_by_one or around.listed, costs)
        workload = Workload(
            nodes=self._chain,
            batch=cell.batch,
            repeats=cell.repeats,
            kernel=self._times.kernel(apart, costs),
            recorded=not self._fresh,
            fusion=fusion,
            overlaps=False,
            launched=self._times.launched(apart),
            around=around,
            resident_kernel=resident,
        )
        return plan_execution(ExecutionInputs(workload, costs, frozenset(executable)))

    def _first_runs(self, way: str, cell: Cell) -> int:
        """Returns the time of the runs of a new sequence, without that of making it."""
        with self._made(way) as sequence:
            return once(self._run(sequence, cell))

    @staticmethod
    def _run(sequence: vyre.StepSequence, cell: Cell) -> partial[None]:
        return partial(_repeated, sequence, cell.batch, cell.repeats)

    def close(self) -> None:
        """Closes the sequences and arrays."""
        self._costs.close()
        for sequence in self.sequences.values():
            sequence.close()
        for array in self._arrays:
            array.close()


_LISTED: Final = ("graph", "fused graph")


def _repeated(sequence: vyre.StepSequence, batch: int, repeats: int) -> None:
    for _ in range(repeats):
        sequence(batch)


def way_of(price: Price) -> str:
    """Returns the way that a price is of."""
    if price.mode is ExecutionMode.FUSED:
        return "fused graph" if price.together else "fused"
    return str(price.mode.value)
