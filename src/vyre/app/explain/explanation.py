"""What would be decided about running a program, with the numbers and the reasons.

Every line is the verdict of a policy; nothing is launched.  A number that nobody measured says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from vyre.domain.grid_sync import has_grid_barriers, plan_grid_sync
from vyre.domain.lane_facts import lane_facts
from vyre.domain.launch_costs import LaunchCosts, Measured, Provenance
from vyre.policies.bindless import plan_resource_table
from vyre.policies.emission.grid_sync_mode import GridSyncInputs, GridSyncMode, GridSyncVerdict, choose_grid_sync
from vyre.policies.execution_prices import ExecutionMode, Price, PriceInputs, Workload, quote
from vyre.policies.journal import Decision, DecisionJournal, DecisionSink, decide, name_of, verdict_label
from vyre.policies.param_inlining import decide_param_inlining
from vyre.policies.plan_execution import ExecutionInputs, ExecutionPlan, plan_execution
from vyre.policies.workgroup_candidates import LaunchFacts, WorkgroupCandidates, workgroup_candidates

if TYPE_CHECKING:
    from vyre.domain.ir.program import Program
    from vyre.ports.backend import Backend

KERNEL_NS: Final = 5_000
"""Device time of a kernel that nobody timed: that of a short one, for which launching matters."""


class Question(NamedTuple):
    """What is to be explained.  ``batch`` runs, submitted together, ``repeats`` times.

    ``kernel``: device time of a launch; None: nobody knows.  ``costs``, and ``why_costs``: what they are.
    """

    batch: int
    repeats: int
    kernel: Measured | None
    costs: LaunchCosts
    why_costs: str


class Answer(NamedTuple):
    """One decision for people: what it is about, the verdict in a few words, and why."""

    topic: str
    verdict: str
    why: str


def answer(decision: Decision) -> Answer:
    topic, words = _TOPICS[decision.name]
    verdict: Any = decision.verdict
    return Answer(topic, words(verdict), str(verdict.why))


@dataclass(frozen=True, slots=True)
class Explanation:
    """``plan``: what ``plan_execution`` answers to ``inputs``.  ``costs``: what the costs in them are.

    ``notes``: what whoever believes the numbers has to know.  ``others``: further decisions about the program.
    ``decisions``: all of them, as they are recorded.
    """

    program: str
    backend: str
    inputs: ExecutionInputs
    plan: ExecutionPlan
    costs: str
    notes: tuple[str, ...]
    others: tuple[Answer, ...]
    decisions: tuple[Decision, ...]

    def at(self, batch: int) -> dict[ExecutionMode, Price]:
        """What the modes that have a price would cost for a batch of another size."""
        inputs = self.inputs
        workload = replace(inputs.workload, batch=batch)
        found = quote(PriceInputs(workload, inputs.costs, inputs.executable))
        return {price.mode: price for price in found if isinstance(price, Price)}

    def __str__(self) -> str:
        work = self.inputs.workload
        lines = [f"`{self.program}` on `{self.backend}`, a batch of {work.batch}: {self.plan.mode.value}"]
        lines += [f"  {mode}: {text}" for mode, text in modes(self.plan)]
        lines += [f"  {topic}: {verdict}: {why}" for topic, verdict, why in self.others]
        return "\n".join((f"{lines[0]}, since {self.plan.why}", *lines[1:], *(f"note: {note}" for note in self.notes)))


def modes(plan: ExecutionPlan) -> Iterator[tuple[str, str]]:
    """Each mode, and its predicted time or why it has none."""
    for found in plan.quotes:
        text = f"{found.total_ns} ns" if isinstance(found, Price) else f"unavailable: {found.why}"
        yield found.mode.value, text


def explain(program: Program, backend: Backend, question: Question, sink: DecisionSink | None = None) -> Explanation:
    """``sink``: is told the decisions too.

    Raises ``InvalidField`` for a question outside the domain of ``Workload``.
    """
    journal = DecisionJournal()
    _decide_others(program, backend, journal)
    others = tuple(map(answer, journal.decisions))
    notes = []
    kernel, costs = question.kernel, question.costs
    if kernel is None:
        kernel = Measured(KERNEL_NS, KERNEL_NS, KERNEL_NS, 0, Provenance.ASSUMED)
        notes.append(f"nobody timed the kernel: {KERNEL_NS} ns are assumed")
    if costs.provenance is not Provenance.MEASURED:
        notes.append(f"nothing was measured, launch costs are {question.why_costs}")
    workload = Workload(_launches(program, journal.decisions), question.batch, question.repeats, kernel)
    inputs = ExecutionInputs(workload, costs, executable_modes(backend))
    plan = decide(journal, plan_execution, inputs)
    if sink is not None:
        for decision in journal.decisions:
            sink.note(decision)
    return Explanation(
        program=program.name or "a program",
        backend=str(backend.id),
        inputs=inputs,
        plan=plan,
        costs=question.why_costs,
        notes=tuple(notes),
        others=others,
        decisions=journal.decisions,
    )


def executable_modes(backend: Backend) -> frozenset[ExecutionMode]:
    """What the backend declares that it can do besides launching plainly."""
    declared = {
        ExecutionMode.GRAPH: backend.planning is not None,
        ExecutionMode.PERSISTENT: backend.profile.supports_persistent_threads,
    }
    return frozenset(mode for mode, holds in declared.items() if holds)


def _launches(program: Program, decisions: Iterable[Decision]) -> int:
    """Kernels of a run."""
    verdicts = (decision.verdict for decision in decisions)
    split = any(isinstance(found, GridSyncVerdict) and found.mode is GridSyncMode.SPLIT for found in verdicts)
    return len(plan_grid_sync(program)) if split else 1


def _decide_others(program: Program, backend: Backend, journal: DecisionJournal) -> None:
    """What is decided about the program whatever it is launched on."""
    if has_grid_barriers(program):
        profile = backend.profile
        # The launch is not known yet: the least there can be, one workgroup, and one to a compute unit.
        asked = GridSyncInputs(profile.supports_grid_sync, 1, profile.compute_units or 1, 1)
        decide(journal, choose_grid_sync, asked)
    declared = program.workgroup_size
    decide(journal, workgroup_candidates, lane_facts(program), LaunchFacts(declared, declared[0] * _WHOLE))
    if backend.stores_code:
        from vyre.adapters.cuda.ptx.abi import inlined_uniforms, uses_table
        from vyre.adapters.cuda.ptx.options import EmitOptions

        options = EmitOptions()
        uses_table(program, inlined_uniforms(program, options, journal), options, journal)


def _sizes(verdict: WorkgroupCandidates) -> str:
    return f"{', '.join(map(str, verdict.sizes))} lanes"


_WHOLE: Final = 1_024
"""Workgroups of a launch whose lanes every size divides."""
_TOPICS: Final[dict[str, tuple[str, Callable[[Any], str]]]] = {
    name_of(choose_grid_sync): ("grid barriers", lambda verdict: verdict.mode.value),
    name_of(workgroup_candidates): ("workgroup sizes", _sizes),
    name_of(decide_param_inlining): ("uniform buffer", verdict_label),
    name_of(plan_resource_table): ("addresses of buffers", verdict_label),
}
"""What a policy is about, and its verdict in a few words."""
