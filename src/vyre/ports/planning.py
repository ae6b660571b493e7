"""The facet of backends that choose, by their costs, between ways to run the same launches."""

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
    """A decision: ``plan`` is the result of ``plan_execution`` for ``inputs``, and ``work`` describes the launches in
    a few words.
    """

    work: str
    inputs: ExecutionInputs
    plan: ExecutionPlan


class DispatchWork(NamedTuple):
    """The work of one dispatch of a program.

    ``operations`` counts launches, copies and fills; each of them is a node of the plan.  ``kernels`` counts the
    launches among them.  ``executable`` holds the modes that can be planned besides plain launches.  ``fixed``
    describes, in a few words, a mode that is used whatever it costs; it is empty where costs decide.
    """

    operations: int
    kernels: int
    executable: frozenset[ExecutionMode]
    fixed: str = ""


class ExecutionPlanning(Protocol):
    """Plans of executions.  Decisions are repeated as more observations arrive; no decision changes a byte of any
    result.
    """

    def use_costs(self, costs: LaunchCosts, /) -> None:
        """Decides with these costs from now on; earlier decisions are repeated when their work is run next."""

    def plans(self) -> tuple[PlannedExecution, ...]:
        """Returns the latest decisions, oldest first."""

    def work(
        self,
        program: Program,
        config: DispatchConfig,
        input_nbytes: tuple[int, ...],
        sink: DecisionSink | None = None,
        /,
    ) -> DispatchWork:
        """Returns the work of a dispatch on host memory with inputs of these lengths in bytes; launches nothing.

        ``sink`` receives the decisions about how the program is launched.  Raises the errors that compiling and
        dispatching raise before a launch.
        """
