"""The facet of backends that choose by what launching costs between ways to run the same launches."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from vyre.domain.launch_costs import LaunchCosts
from vyre.policies.launching.execution_prices import ExecutionMode
from vyre.policies.launching.plan_execution import ExecutionInputs, ExecutionPlan

if TYPE_CHECKING:
    from vyre.domain.dispatch import DispatchConfig
    from vyre.domain.ir.program import Program
    from vyre.policies.journal import DecisionSink


class PlannedExecution(NamedTuple):
    """``plan`` is what ``plan_execution`` answered to ``inputs``; ``work``: what is run, in a few words."""

    work: str
    inputs: ExecutionInputs
    plan: ExecutionPlan


class DispatchWork(NamedTuple):
    """What one dispatch of a program consists of.

    ``operations``: launches, copies and fills, each of which is a node of what is planned.  ``kernels``: the launches
    among them.  ``executable``: what can be planned besides launching plainly.  ``fixed``: what is done whatever it
    costs, in a few words; empty where costs decide.
    """

    operations: int
    kernels: int
    executable: frozenset[ExecutionMode]
    fixed: str = ""


class ExecutionPlanning(Protocol):
    """Decisions are taken again as more is seen of what they rest on; no decision changes a byte of any result."""

    def use_costs(self, costs: LaunchCosts, /) -> None:
        """Decide with these from now on; what was decided before is decided again when it is run next."""
        ...

    def plans(self) -> tuple[PlannedExecution, ...]:
        """The latest decisions, oldest first."""
        ...

    def work(
        self,
        program: Program,
        config: DispatchConfig,
        input_nbytes: tuple[int, ...],
        sink: DecisionSink | None = None,
        /,
    ) -> DispatchWork:
        """What plans about dispatches on host memory are made of, for inputs of these lengths; launches nothing.

        ``sink``: is told what is decided about how the program is launched.  Raises what compiling and dispatching
        raise before anything is launched.
        """
        ...
