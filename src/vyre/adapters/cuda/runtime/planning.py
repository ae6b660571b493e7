"""The planning facet: the recent decisions of a device, and the work of a dispatch before it is run."""

from __future__ import annotations

from vyre.adapters.cuda.runtime.executor import CudaExecutor
from vyre.adapters.replay_decision import ReplayPlanner
from vyre.domain.dispatch import DispatchConfig
from vyre.domain.ir.program import Program
from vyre.domain.launch_costs import LaunchCosts
from vyre.policies.journal import DecisionSink
from vyre.policies.launching.execution_prices import ExecutionMode
from vyre.ports.planning import DispatchWork, PlannedExecution


class CudaPlanning:
    """``ExecutionPlanning`` of one device."""

    __slots__ = ("_executor", "_replays")

    def __init__(self, executor: CudaExecutor, replays: ReplayPlanner) -> None:
        self._executor, self._replays = executor, replays

    def use_costs(self, costs: LaunchCosts, /) -> None:
        """Replaces the launch costs; every open decision is taken again at its next run."""
        self._replays.use_costs(costs)

    def plans(self) -> tuple[PlannedExecution, ...]:
        """Returns the latest decisions, at most 256, the oldest first."""
        return self._replays.plans()

    def work(
        self,
        program: Program,
        config: DispatchConfig,
        input_nbytes: tuple[int, ...],
        sink: DecisionSink | None = None,
        /,
    ) -> DispatchWork:
        """Returns the operations that a dispatch would enqueue, and the modes in which it could be run."""
        planned = self._executor.pipeline(program, config)[0].planned(input_nbytes, sink)
        work = planned.work
        if not (planned.recordable and self._replays.may_record(work)):
            return DispatchWork(work.operations, work.timed, frozenset())
        after = self._replays.after
        fixed = "" if after == "costs" else f"replayed as a graph after {after} runs"
        return DispatchWork(work.operations, work.timed, frozenset({ExecutionMode.GRAPH}), fixed)
