"""One program over many inputs: dispatches, or jobs of a persistent engine that is kept open."""

from __future__ import annotations

from collections import deque
from functools import partial
from statistics import median
from typing import Any, Final

import numpy as np

import vyre
from benchmarks.clock_cells import Cell, Shape, kinds
from benchmarks.clock_judge import Judged, judge, timed
from benchmarks.clock_turns import Costs, once, settle, take_turns, warm
from vyre.app.persistent.many import item_costs, no_times, pays, run_all
from vyre.app.persistent.tickets import Ticket
from vyre.domain.launch_costs import Provenance
from vyre.policies.launching.persistent_kernel import decide_persistent_kernel
from vyre.ports.cost_probe import CostExperiment

WAYS: Final = ("dispatch", "engine")
EXPERIMENTS: Final = frozenset(
    {CostExperiment.ROUND_TRIP, CostExperiment.LAUNCHES, CostExperiment.KERNELS, CostExperiment.PERSISTENT}
)
KNOWN_ITEMS: Final = 64
"""The items of the batches that tell what an item costs."""


class JobsBench:
    """Batches of one program on arrays of one size."""

    def __init__(self, session: vyre.Session, shape: Shape) -> None:
        self._session, self._program = session, kinds()[shape.kind].program
        self._data = {"x": np.linspace(0.0, 1.0, shape.size, dtype=np.float32)}
        self._pipeline = session.compile(self._program)
        self._costs = Costs(session, EXPERIMENTS)
        self._times = no_times()
        self._jobs = session.persistent(self._program, self._data, backpressure=True)

    def judged(self, cell: Cell) -> Judged:
        """Times both ways of a cell and what is known of them in turns, decides about it, and judges the decision."""
        self._times = no_times()
        self._costs.restart()
        runs = {"dispatch": partial(self._dispatch, cell.batch), "engine": partial(self._engine, cell.batch)}
        expected = {way: settle(run) for way, run in runs.items()}

        def learn(number: int, way: str) -> None:
            if way == "dispatch":
                self._costs.take_round(number)
                self._dispatch(KNOWN_ITEMS, self._times.dispatched)
            else:
                self._engine(KNOWN_ITEMS, self._times.kept, self._times.waking)

        def sample(way: str) -> int:
            warm(runs[way], expected[way])
            return once(runs[way])

        found = take_turns(WAYS, expected, learn, sample)
        kernels = [timing.device_ns for timing in self._pipeline.timings if timing.device_ns is not None]
        costs = self._costs.found()
        inputs = item_costs(cell.batch, self._times, kernels, costs, Provenance.MEASURED, is_open=True)
        assert inputs is not None
        dispatched_ns = cell.batch * int(median(self._times.dispatched)) + inputs.per_item_kernel_ns
        saved_ns = cell.batch * inputs.per_launch_overhead_ns - inputs.persistent_setup_overhead_ns
        predicted = {"dispatch": dispatched_ns, "engine": dispatched_ns - saved_ns}
        ways = {way: timed(samples, predicted.get(way)) for way, samples in found.items()}
        return judge(ways, "engine" if pays(decide_persistent_kernel(inputs)) else "dispatch")

    def _dispatch(self, items: int, times: deque[int] | None = None) -> None:
        submit = partial(self._session.submit, self._program)
        run_all([self._data] * items, submit, _failure, deque() if times is None else times)

    def _engine(self, items: int, times: deque[int] | None = None, waking: deque[int] | None = None) -> None:
        kept = deque[int]() if times is None else times
        run_all([self._data] * items, self._jobs.submit, Ticket.exception, kept, waking)

    def close(self) -> None:
        """Closes the engine, and gives the resources of the costs back."""
        self._jobs.close()
        self._costs.close()


def _failure(future: Any) -> BaseException | None:
    found: BaseException | None = future.exception()
    return found
