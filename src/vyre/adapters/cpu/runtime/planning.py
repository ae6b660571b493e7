"""The planning facet: the recent decisions of the backend, and the work of a dispatch before it is run."""

from __future__ import annotations

from vyre.adapters.cpu.runtime.pipeline import CpuExecutor
from vyre.adapters.replay_decision import ReplayPlanner
from vyre.domain.dispatch import DispatchConfig
from vyre.domain.ir.program import Program
from vyre.domain.launch_costs import LaunchCosts
from vyre.policies.journal import DecisionSink
from vyre.ports.planning import DispatchWork, PlannedExecution


class CpuPlanning:
    """``ExecutionPlanning``: operations run by one native call each, or all by one call as a command list, which
    takes the place of a graph.
    """

    __slots__ = ("_executor", "_planner")

    def __init__(self, executor: CpuExecutor, planner: ReplayPlanner) -> None:
        self._executor, self._planner = executor, planner

    def use_costs(self, costs: LaunchCosts, /) -> None:
        """Replaces the launch costs; every open decision is taken again at its next run."""
        self._planner.use_costs(costs)

    def plans(self) -> tuple[PlannedExecution, ...]:
        """Returns the latest decisions, at most 256, the oldest first."""
        return self._planner.plans()

    def work(
        self,
        program: Program,
        config: DispatchConfig,
        input_nbytes: tuple[int, ...],
        sink: DecisionSink | None = None,
        /,
    ) -> DispatchWork:
        """Returns the operations of a dispatch, and the modes in which it could be run."""
        return self._executor.pipeline(program, config)[0].planned(input_nbytes, sink)
