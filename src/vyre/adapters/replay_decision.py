"""Whether the runs of a sequence of launches are replays of a graph.

``plan_execution`` decides with the known costs, and assumes as many further runs as were seen.  The first run of many
rounds, whose kernels nobody has timed, is decided about by the costs of the host alone (``command_reuse``).  If no run
follows the recording, it has cost no more than the time that was lost by not recording earlier.  The warm path
compares two numbers: a decision is taken again when twice as many runs were seen (after 2, 4, 8 runs and so on), when
a run is to repeat the sequence twice as often, and when costs are replaced.

No launch takes longer than a run that consists of such operations, divided by their number.  For example, a run of 10
launches in 30 us proves that a launch takes at most 3 us.  If that refutes the known launch cost, runs stay plain until
there are enough of them for ``cost_observation`` to correct it.

Units: nanoseconds.
"""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from enum import Enum
from typing import Final, Literal, NamedTuple, TypeAlias
from weakref import WeakSet

from vyre.adapters.forks import process_lock
from vyre.domain.cost_limits import LEAST_SAMPLES, SETTLING_SAMPLES
from vyre.domain.launch_costs import ASSUMED, LaunchCosts, Measured, Provenance, of_samples
from vyre.domain.record import U32_MAX
from vyre.domain.shared_dicts import members_of
from vyre.policies.journal import DecisionSink, decide
from vyre.policies.launching.command_reuse import (
    CommandReuseInputs,
    CommandReuseVerdict,
    RecordAndReplay,
    decide_command_reuse,
)
from vyre.policies.launching.cost_observation import CostCorrected, CostSamples, CostVerdict, judge_cost
from vyre.policies.launching.execution_prices import ExecutionMode, Workload
from vyre.policies.launching.plan_execution import ExecutionInputs, ExecutionPlan, plan_execution
from vyre.ports.interrupts import sealed
from vyre.ports.planning import PlannedExecution
from vyre.ports.support import SILENT, Telemetry

GraphAfter: TypeAlias = int | Literal["costs"] | None
"""The runs after which a sequence is recorded: a number, "costs" (when that pays by the launch costs), or None
(never).
"""

NODE_LIMIT: Final = 1024
"""The number of nodes beyond which recording costs more than it saves in memory and time."""
SEEN_FIRST: Final = 2
"""The runs before the first decision, which itself takes as long as some launches."""
LOOP: Final = 2
"""The rounds of one run that justify a decision before any run was seen."""
SAMPLES: Final = 9
BUSY_PERCENT: Final = 60
"""If submitting takes less than this part of the device's time, the device does not wait for the host."""
KEPT: Final = 256
"""The number of latest decisions that are kept."""
NEVER: Final = 1 << 62
_HOST_COSTS: Final = ("launch", "graph_record", "graph_record_node", "graph_replay", "graph_replay_node")
_EXECUTABLE: Final = frozenset({ExecutionMode.GRAPH})


class Work(NamedTuple):
    """A sequence that may be recorded.

    ``operations`` counts launches, copies and fills, each of which is one call, or one node of the graph.  ``timed`` is
    the number of them between the events that time a run.
    """

    title: str
    operations: int
    timed: int


class Verdict(Enum):
    """The way in which a run is executed: operation by operation, or as a graph, which is recorded first or exists."""

    PLAIN = "plain"
    RECORD = "record"
    REPLAY = "replay"


class ReplayPlanner:
    """Decides for the sequences of one device; the planning facet of its backend shows the decisions.

    ``costs`` is None for assumed costs.  ``times`` is the provenance of the times that are measured on this device.
    """

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
        self._lock = process_lock()

    def decision(self, work: Work) -> ReplayDecision | None:
        """Returns the decision about one sequence; None if it is never recorded."""
        if not self.may_record(work):
            return None
        decision = ReplayDecision(self, work)
        with self._lock, sealed:
            self._open.add(decision)
        return decision

    def may_record(self, work: Work) -> bool:
        """Returns whether the options and the size limit of a graph allow recording."""
        return self.after is not None and 0 < work.operations <= NODE_LIMIT

    def use_costs(self, costs: LaunchCosts, /) -> None:
        """Replaces the costs; every open decision is taken again at its next run."""
        self.costs = costs
        with self._lock, sealed:
            for decision in members_of(self._open):
                decision.due = 0

    def plans(self) -> tuple[PlannedExecution, ...]:
        """Returns the latest decisions, the oldest first."""
        return tuple(self._latest)

    def plan(self, title: str, inputs: ExecutionInputs) -> ExecutionPlan:
        """Returns the policy's decision, after keeping, counting and reporting it."""
        plan = decide(self._sink, plan_execution, inputs)
        self._latest.append(PlannedExecution(title, inputs, plan))
        self._telemetry.count("vyre.plan.chosen", mode=plan.mode.value)
        return plan

    def reuse(self, inputs: CommandReuseInputs) -> CommandReuseVerdict:
        """Returns the policy's verdict on a sequence whose kernels were not timed, after counting and reporting it."""
        verdict = decide(self._sink, decide_command_reuse, inputs)
        mode = ExecutionMode.GRAPH if isinstance(verdict, RecordAndReplay) else ExecutionMode.PLAIN
        self._telemetry.count("vyre.plan.chosen", mode=mode.value)
        return verdict

    def judge(self, samples: CostSamples) -> CostVerdict:
        """Returns the policy's verdict on a cost, after reporting it."""
        return decide(self._sink, judge_cost, samples)

    def compared(self, mode: str, predicted_ns: int, observed_ns: int) -> None:
        """Counts the predicted and the observed time of the same rounds."""
        self._telemetry.count("vyre.plan.predicted_ns", predicted_ns, mode=mode)
        self._telemetry.count("vyre.plan.observed_ns", observed_ns, mode=mode)


class ReplayDecision:
    """The decision about one sequence, used by the thread that runs the sequence.

    It only judges: whoever runs the sequence asks for the ``verdict`` on each run, acts by it, and reports what
    happened.  ``due`` is the run at which the decision is taken again.
    """

    def __init__(self, planner: ReplayPlanner, work: Work) -> None:
        self._planner, self._work = planner, work
        self._samples: deque[int] = deque(maxlen=SAMPLES)  # device time of a round
        self._predicted_ns = self._observed_ns = self._rounds = 0
        self._plain_ns: deque[int] = deque(maxlen=SETTLING_SAMPLES)  # wall time of a round
        self._verdict = Verdict.PLAIN
        self.begin_anew()

    def verdict(self, batch: int = 1, wanted: bool | None = None) -> Verdict:
        """Returns how the run that begins now, of ``batch`` rounds, is executed.

        ``wanted``: whether the caller wants a replay; None: costs decide.  Runs that costs do not decide about are not
        counted.
        """
        if wanted is not None:
            if not wanted:
                return Verdict.PLAIN
            return Verdict.REPLAY if self._recorded else Verdict.RECORD
        self._runs += 1
        if self._runs >= self.due or batch >= self._batch:
            self._decide(batch)
        return self._verdict

    def recorded(self, ns: int) -> None:
        """Notes that this run has recorded the graph, in ``ns`` that are not counted as a part of its time."""
        self._recorded = True
        if self._verdict is Verdict.RECORD:  # else a caller wanted it, which decides nothing about other runs
            self._verdict = Verdict.REPLAY
        self._observed_ns -= ns

    def updated(self, kernels: int) -> None:
        """Notes that this run has updated the parameters of so many kernels of the graph."""
        self._changed += kernels

    def took(self, device_ns: int, wall_ns: int | None, batch: int = 1) -> None:
        """Records the time of a run of ``batch`` rounds.

        ``device_ns`` is the device time of each round.  ``wall_ns`` is the time from the first call until the end was
        seen; None if the thread did other work in between.  Of all runs between two decisions, only the last ones are
        recorded.
        """
        if self._runs < self._attended:
            return
        self._samples.append(device_ns)
        if wall_ns is not None:
            self._observed_ns += wall_ns
            self._rounds += batch
            if not self._replays:
                self._plain_ns.append(wall_ns if batch == 1 else wall_ns // batch)

    def end(self) -> None:
        """Reports the comparison that was not reported yet: the sequence is not run any more."""
        self._compare()

    def begin_anew(self) -> None:
        """Starts again as if no run had been seen, because the graph no longer exists."""
        self._compare()
        self._samples.clear()
        self._mode, self._predicted_ns = "", 0
        after = self._planner.after
        self._recorded = False
        self._choose(False)
        self._runs = self._since = self._changing = self._changed = 0
        self.due: int = 1 + (SEEN_FIRST if after == "costs" else after or 0)
        self._batch = LOOP
        self._attended = 0

    # ---- details
    def _decide(self, batch: int) -> None:
        planner, seen = self._planner, self._runs - 1
        if planner.after != "costs":
            self._choose(seen >= (planner.after or 0))
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
        if batch >= LOOP and not self._samples:
            replays = self._pays_untimed(costs, max(1, seen) * batch)
        else:
            plan = planner.plan(self._work.title, self._inputs(costs, max(1, seen), batch))
            replays = plan.mode is ExecutionMode.GRAPH
            self._mode = plan.mode.value
            self._predicted_ns = 0 if plan.predicted is None else plan.predicted.batch_ns // batch
        if replays is not self._replays:
            self._samples.clear()
        self._choose(replays)
        self._since, self._changed = seen, 0

    def _pays_untimed(self, costs: LaunchCosts, rounds: int) -> bool:
        """Returns whether so many rounds are replayed, by what the host spends: with kernels the recording would weigh
        less.
        """
        nodes, known = self._work.operations, costs.known()
        self._mode, self._predicted_ns = "", 0
        if not known.keys() >= set(_HOST_COSTS):
            return False
        launch, record, record_node, replay, replay_node = (known[name].median_ns for name in _HOST_COSTS)
        inputs = CommandReuseInputs(
            repeat_count=min(rounds, U32_MAX),
            per_launch_overhead_ns=nodes * launch,
            record_overhead_ns=0 if self._recorded else record + nodes * record_node,
            replay_overhead_ns=replay + nodes * replay_node,
        )
        replays = isinstance(self._planner.reuse(inputs), RecordAndReplay)
        self._mode = (ExecutionMode.GRAPH if replays else ExecutionMode.PLAIN).value
        self._predicted_ns = inputs.replay_overhead_ns if replays else inputs.per_launch_overhead_ns
        return replays

    def _choose(self, replays: bool) -> None:
        self._replays = replays
        graph = Verdict.REPLAY if self._recorded else Verdict.RECORD
        self._verdict = graph if replays else Verdict.PLAIN

    def _compare(self) -> None:
        """Reports the time that the last plan predicted for the rounds since then, and the time that they took."""
        if self._predicted_ns and self._rounds:
            self._planner.compared(self._mode, self._predicted_ns * self._rounds, self._observed_ns)
        self._observed_ns = self._rounds = 0

    def _refuted(self, launch: Measured | None) -> bool:
        """Returns whether some plain run took less time than the known cost of its launches."""
        if launch is None or not self._plain_ns:
            return False
        return launch.median_ns * self._work.operations > min(self._plain_ns)

    def _corrected(self, costs: LaunchCosts) -> LaunchCosts:
        """Returns costs with a launch that takes no more than plain runs took per operation."""
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
            kernel=self._kernel(costs),
            recorded=self._recorded,
            changed_nodes=changing if batch == 1 else 0,  # several rounds share one update
        )
        return ExecutionInputs(workload, costs, _EXECUTABLE, self._incumbent())

    def _incumbent(self) -> ExecutionMode | None:
        """Returns the mode in use; None before the first replay, because plain launches were not chosen by a
        decision.
        """
        if self._replays:
            return ExecutionMode.GRAPH
        return ExecutionMode.PLAIN if self._recorded else None

    def _changed_nodes(self) -> int:
        """Returns the nodes updated per run, rounded up, when the sequence was last replayed; 0 if it never was."""
        if self._replays:
            runs = self._runs - 1 - self._since
            self._changing = min(-(-self._changed // max(1, runs)), self._work.operations)
        return self._changing

    def _kernel(self, costs: LaunchCosts) -> Measured | None:
        """Returns the device time of an operation: that of a run, less the gaps.

        Between plain launches the device may have waited for the host, unless the run took far longer than submitting
        it. Then the time of submitting is subtracted, so that the result is a lower bound.
        """
        samples = tuple(self._samples)
        if not samples:
            return None
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
