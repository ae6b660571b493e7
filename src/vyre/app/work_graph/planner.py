"""The planner of a work graph: which steps are joined, and how the launches are submitted."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple

from vyre.app.work_graph.description import Work
from vyre.app.work_graph.modes import Modes
from vyre.app.work_graph.plan import WorkGroup, WorkPlan
from vyre.app.work_graph.structure import Structure, Unit, apart
from vyre.domain.dispatch import DispatchTiming
from vyre.domain.errors import UnsupportedFeature
from vyre.policies.launching.execution_prices import ExecutionMode
from vyre.ports.backend import SequenceSubmission

if TYPE_CHECKING:
    from vyre.domain.launch_costs import LaunchCosts
    from vyre.policies.journal import DecisionSink
    from vyre.ports.backend import Backend

_DEFAULTS: Final = {
    SequenceSubmission.EACH: (ExecutionMode.PLAIN, "the backend runs the steps of a sequence one by one"),
    SequenceSubmission.LIST: (ExecutionMode.GRAPH, "a run is one list of commands"),
    SequenceSubmission.CHOSEN: (ExecutionMode.GRAPH, "the backend replays a round as a graph where that pays"),
}


class Chosen(NamedTuple):
    """A plan, and the launches that carry it out; ``one_by_one``: the host launches each by itself."""

    plan: WorkPlan
    structure: Structure
    one_by_one: bool

    def is_like(self, other: Chosen) -> bool:
        """Returns whether what was prepared for this serves the other."""
        return self.structure is other.structure and self.one_by_one is other.one_by_one


class WorkPlanner:
    """Decides about one work graph.  Raises ``UnsupportedFeature`` for a forced mode that cannot run."""

    def __init__(
        self,
        backend: Backend,
        work: Work,
        modes: Modes,
        costs: Callable[[], LaunchCosts],
        sink: DecisionSink | None,
    ) -> None:
        self._backend, self._work, self._modes, self._costs, self._sink = backend, work, modes, costs, sink
        self._apart = apart(work)
        if modes.graph and backend.submission is SequenceSubmission.EACH:
            raise _cannot("graph", backend, "it launches the steps of a sequence one by one")
        if modes.persistent:
            raise _cannot("persistent", backend, "no resident workers take launches on resident memory")

    def choose(self, rounds: int, *, seen: bool = True) -> Chosen:
        """Returns the plan for a run of so many rounds; ``seen`` False: nothing is run by it."""
        return self._chosen(self._apart)

    def took(self, chosen: Chosen, rounds: int, timing: DispatchTiming) -> None:
        """Records the time of a run."""

    def _chosen(self, structure: Structure) -> Chosen:
        mode, why = _DEFAULTS[self._backend.submission]
        if self._modes.graph is not None:
            mode = ExecutionMode.GRAPH if self._modes.graph else ExecutionMode.PLAIN
            why = "asked for"
        one_by_one = mode is ExecutionMode.PLAIN and self._backend.submission is not SequenceSubmission.EACH
        groups = tuple(_group(unit, mode) for unit in structure.units)
        plan = WorkPlan(mode, why, groups, (), structure.temporary_bytes)
        return Chosen(plan, structure, one_by_one)


def _group(unit: Unit, mode: ExecutionMode) -> WorkGroup:
    name = unit.launch.step.program.name or "unnamed"
    return WorkGroup(unit.places, ExecutionMode.FUSED if unit.is_joined else mode, name, unit.why)


def _cannot(mode: str, backend: Backend, why: str) -> UnsupportedFeature:
    return UnsupportedFeature(
        feature=f"the forced mode {mode}",
        backend=backend.id,
        fix=f"leave the mode to the planner: {why}.",
    )
