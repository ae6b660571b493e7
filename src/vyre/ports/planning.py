"""The facet of backends that choose by what launching costs between ways to run the same launches."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from vyre.domain.launch_costs import LaunchCosts
from vyre.policies.plan_execution import ExecutionInputs, ExecutionPlan


class PlannedExecution(NamedTuple):
    """``plan`` is what ``plan_execution`` answered to ``inputs``; ``work``: what is run, in a few words."""

    work: str
    inputs: ExecutionInputs
    plan: ExecutionPlan


class ExecutionPlanning(Protocol):
    """Decisions are taken again as more is seen of what they rest on; no decision changes a byte of any result."""

    def use_costs(self, costs: LaunchCosts, /) -> None:
        """Decide with these from now on; what was decided before is decided again when it is run next."""
        ...

    def plans(self) -> tuple[PlannedExecution, ...]:
        """The latest decisions, oldest first."""
        ...
