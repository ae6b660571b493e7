"""The planning facet: the recent decisions of a backend, and the work of a dispatch before it is run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from vyre.adapters.replay_decision import ReplayPlanner
from vyre.domain.dispatch import DispatchConfig
from vyre.domain.ir.program import Program
from vyre.domain.launch_costs import LaunchCosts
from vyre.policies.journal import DecisionSink
from vyre.ports.planning import DispatchWork, PlannedExecution


class PlannedPipeline(Protocol):
    """A pipeline that tells the work of a dispatch."""

    def planned(self, input_nbytes: tuple[int, ...], sink: DecisionSink | None) -> DispatchWork:
        """Returns the work of a dispatch of inputs of these lengths.  ``sink`` receives the decisions about it."""


class PipelinePlanning:
    """``ExecutionPlanning`` over pipelines, which ``find`` returns first of a tuple."""

    __slots__ = ("_find", "_replays")

    def __init__(
        self, find: Callable[[Program, DispatchConfig], tuple[PlannedPipeline, object]], replays: ReplayPlanner
    ) -> None:
        self._find, self._replays = find, replays

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
        """Returns the operations of a dispatch, and the modes in which it could be run."""
        return self._find(program, config)[0].planned(input_nbytes, sink)
