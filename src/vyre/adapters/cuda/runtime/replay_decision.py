"""Are the runs of a sequence of launches to be replays of a graph?

Decided by ``plan_execution`` with the costs at hand, for as many runs more as were seen: if nothing comes after the
recording, it has cost no more than what had been wasted by not recording earlier.  The warm path compares two numbers:
a decision is taken again when twice as many runs were seen, when a run is to repeat the sequence twice as often, and
when costs are replaced.

No launch takes longer than a run that consists of such operations, divided by their number.  Where that refutes the
launch cost at hand, runs stay plain until there are enough of them for ``cost_observation`` to correct it.

Units: nanoseconds.
"""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from threading import Lock
from typing import Final, Literal, NamedTuple, TypeAlias
from weakref import WeakSet

from vyre.adapters.cuda.runtime.graphs import NODE_LIMIT
from vyre.domain.cost_limits import LEAST_SAMPLES, SETTLING_SAMPLES
from vyre.domain.launch_costs import ASSUMED, LaunchCosts, Measured, Provenance, of_samples
from vyre.policies.journal import DecisionSink, decide
from vyre.policies.launching.cost_observation import CostCorrected, CostSamples, CostVerdict, judge_cost
from vyre.policies.launching.execution_prices import ExecutionMode, Workload
from vyre.policies.launching.plan_execution import ExecutionInputs, ExecutionPlan, plan_execution
from vyre.ports.planning import PlannedExecution
from vyre.ports.support import SILENT, Telemetry

GraphAfter: TypeAlias = int | Literal["costs"] | None
"""Runs after which a sequence is recorded; by what launching costs; never."""

SEEN_FIRST: Final = 2
"""Runs that a decision waits for: its own time is that of some launches."""
LOOP: Final = 2
"""Rounds of one run that are worth a decision before any run was seen."""
SAMPLES: Final = 9
BUSY_PERCENT: Final = 60
"""A device that is submitted to for less than this part of its time does not wait for the host."""
KEPT: Final = 256
"""The latest decisions that can be looked at."""
NEVER: Final = 1 << 62
_EXECUTABLE: Final = frozenset({ExecutionMode.GRAPH})
_SHORT: Final = Measured(0, 0, 0, 0, Provenance.ASSUMED)
"""What kernels are taken for that were not timed: longer ones make the recording weigh less beside them."""


class Work(NamedTuple):
    """A sequence that may be recorded.

    ``operations``: launches, copies and fills, each of which is one call, and one node of the graph.  ``timed``: how
    many of them lie between the events that time a run.
    """

    title: str
    operations: int
    timed: int


class ReplayPlanner:
    """``ExecutionPlanning`` of one device.  ``costs``: None for assumed ones.  ``times``: what its events are worth."""

    def __init__(
        self,
        after: GraphAfter,
        costs: LaunchCosts | None,
        times: Provenance,
        telemetry: Telemetry = SILENT,
        sink: DecisionSink | None = None,
    ) -> None:
        self.after: Final = after
        self.times: Final = times
        self.costs: LaunchCosts = costs or ASSUMED
        self._telemetry, self._sink = telemetry, sink
        self._latest: deque[PlannedExecution] = deque(maxlen=KEPT)
        self._open: WeakSet[ReplayDecision] = WeakSet()
        self._lock = Lock()

    def decision(self, work: Work) -> ReplayDecision | None:
        """About one sequence; None if it is never recorded."""
        if not self.may_record(work):
            return None
        made = ReplayDecision(self, work)
        with self._lock:
            self._open.add(made)
        return made

    def may_record(self, work: Work) -> bool:
        """Whether the options and the size of a graph allow it."""
        return self.after is not None and 0 < work.operations <= NODE_LIMIT

    def use_costs(self, costs: LaunchCosts, /) -> None:
        self.costs = costs
        with self._lock:
            for decision in self._open:
                decision.due = 0

    def plans(self) -> tuple[PlannedExecution, ...]:
        return tuple(self._latest)

    def plan(self, title: str, inputs: ExecutionInputs) -> ExecutionPlan:
        """What the policy answers; it is kept, counted and told."""
        found = decide(self._sink, plan_execution, inputs)
        self._latest.append(PlannedExecution(title, inputs, found))
        self._telemetry.count("vyre.cuda.plan", mode=found.mode.value)
        return found

    def judge(self, samples: CostSamples) -> CostVerdict:
        return decide(self._sink, judge_cost, samples)

    def compared(self, mode: str, predicted_ns: int, observed_ns: int) -> None:
        """Of the same rounds."""
        self._telemetry.count("vyre.plan.predicted_ns", predicted_ns, mode=mode)
        self._telemetry.count("vyre.plan.observed_ns", observed_ns, mode=mode)


class ReplayDecision:
    """About one sequence; for the thread that runs it.

    ``samples``: device time of a round of the latest runs.  ``changed``: kernels of the graph that got other parameters
    since the last time.  ``due``: the run at which it is taken again.  ``recorded``: whether there is a graph.
    """

    __slots__ = (
        "__weakref__",
        "_attended",
        "_batch",
        "_changing",
        "_mode",
        "_observed_ns",
        "_plain_ns",
        "_planner",
        "_predicted_ns",
        "_replays",
        "_rounds",
        "_runs",
        "_since",
        "_work",
        "changed",
        "due",
        "recorded",
        "samples",
    )

    def __init__(self, planner: ReplayPlanner, work: Work) -> None:
        self._planner, self._work = planner, work
        self.samples: Final[deque[int]] = deque(maxlen=SAMPLES)
        self._predicted_ns = self._observed_ns = self._rounds = 0
        self._plain_ns: deque[int] = deque(maxlen=SETTLING_SAMPLES)  # of a round, in all
        self.begin_anew()

    def replays(self, batch: int = 1) -> bool:
        """Whether the run that begins now, of ``batch`` rounds, is a replay."""
        self._runs += 1
        if self._runs >= self.due or batch >= self._batch:
            self._decide(batch)
        return self._replays

    def took(self, device_ns: int, wall_ns: int | None, batch: int = 1) -> None:
        """What a run of ``batch`` rounds took: each of them on the device, and all until their end was seen.

        ``wall_ns``: from the first call on; None if there was something else in between.  Of all runs between two
        decisions, only the last ones are looked at.
        """
        if self._runs < self._attended:
            return
        self.samples.append(device_ns)
        if wall_ns is not None:
            self._observed_ns += wall_ns
            self._rounds += batch
            if not self._replays:
                self._plain_ns.append(wall_ns if batch == 1 else wall_ns // batch)

    def leave_out(self, ns: int) -> None:
        """So much of the time of this run goes into what later runs need too."""
        self._observed_ns -= ns

    def end(self) -> None:
        """Tell what was not told yet: nothing is run any more."""
        self._compare()

    def begin_anew(self) -> None:
        """The graph is gone: decide as if nothing had been run before."""
        self._compare()
        self.samples.clear()
        self._mode, self._predicted_ns = "", 0
        after = self._planner.after
        self.recorded: bool = False
        self._replays = False
        self._runs = self._since = self._changing = 0
        self.changed: int = 0
        self.due: int = 1 + (SEEN_FIRST if after == "costs" else after or 0)
        self._batch = LOOP
        self._attended = 0

    # ---- details
    def _decide(self, batch: int) -> None:
        planner, seen = self._planner, self._runs - 1
        if planner.after != "costs":
            self._replays = seen >= (planner.after or 0)
            self.due, self._batch = (NEVER if self._replays else self._runs + 1), NEVER
            return
        self.due, self._batch = max(self.due, 2 * seen + 1), 2 * batch  # before the costs are read: they may change
        self._attended = self.due - SAMPLES
        costs = planner.costs
        if self._refuted(costs.launch):
            missing = SETTLING_SAMPLES - len(self._plain_ns)
            if missing and not self._replays:
                self.due = self._runs + missing
                return
            costs = self._corrected(costs)
        self._compare()
        plan = planner.plan(self._work.title, self._inputs(costs, max(1, seen), batch))
        replays = plan.mode is ExecutionMode.GRAPH
        self._mode = plan.mode.value
        self._predicted_ns = 0 if plan.predicted is None else plan.predicted.batch_ns // batch
        if replays is not self._replays:
            self.samples.clear()
        self._replays = replays
        self._since, self.changed = seen, 0

    def _compare(self) -> None:
        """Tell what the last plan said of the rounds since, and what they took."""
        if self._predicted_ns and self._rounds:
            self._planner.compared(self._mode, self._predicted_ns * self._rounds, self._observed_ns)
        self._observed_ns = self._rounds = 0

    def _refuted(self, launch: Measured | None) -> bool:
        """Whether some plain run took less than so many launches."""
        if launch is None or not self._plain_ns:
            return False
        return launch.median_ns * self._work.operations > min(self._plain_ns)

    def _corrected(self, costs: LaunchCosts) -> LaunchCosts:
        """A launch takes no more than what plain runs took for each of theirs."""
        planner, operations = self._planner, self._work.operations
        within = tuple([ns // operations for ns in self._plain_ns])
        verdict = planner.judge(CostSamples("launch", costs.launch, within, planner.times, bounds=True))
        return replace(costs, launch=verdict.value) if isinstance(verdict, CostCorrected) else costs

    def _inputs(self, costs: LaunchCosts, repeats: int, batch: int) -> ExecutionInputs:
        work, changing = self._work, self._changed_nodes()
        workload = Workload(
            nodes=work.operations,
            batch=batch,
            repeats=repeats,
            kernel=self._kernel(costs, batch),
            recorded=self.recorded,
            changed_nodes=changing if batch == 1 else 0,  # else once for all rounds
        )
        return ExecutionInputs(workload, costs, _EXECUTABLE, self._incumbent())

    def _incumbent(self) -> ExecutionMode | None:
        """The mode in use; None before the first replay: nobody has decided for plain launches so far."""
        if self._replays:
            return ExecutionMode.GRAPH
        return ExecutionMode.PLAIN if self.recorded else None

    def _changed_nodes(self) -> int:
        """In a run, rounded up, when it was replayed last; none, as long as it was not."""
        if self._replays:
            runs = self._runs - 1 - self._since
            self._changing = min(-(-self.changed // max(1, runs)), self._work.operations)
        return self._changing

    def _kernel(self, costs: LaunchCosts, batch: int) -> Measured | None:
        """Device time of an operation: of a run, less the gaps.

        Between plain launches the device may have waited for the host, unless they took far longer than submitting
        them; then what submitting takes is taken off, so that this is the least that they can have taken.
        """
        samples = tuple(self.samples)
        if not samples:
            return _SHORT if batch >= LOOP else None
        work = self._work
        if self._replays:
            off = _total(costs.graph_gap, work.timed)
        else:
            off = _total(costs.launch, work.timed)
            if costs.launch_gap is not None and min(samples) * BUSY_PERCENT > 100 * off:
                off = _total(costs.launch_gap, work.timed)
        each = sorted(max(0, ns - off) // work.operations for ns in samples)
        if len(each) >= LEAST_SAMPLES:
            return of_samples(each, self._planner.times)
        apart = each[-1] - each[0]
        return Measured(each[len(each) // 2], apart, apart, len(each), self._planner.times)


def _total(cost: Measured | None, times: int) -> int:
    return 0 if cost is None else cost.median_ns * times
