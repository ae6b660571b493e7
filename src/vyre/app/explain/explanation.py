"""Explanations: the decisions about running a program, with their numbers and reasons.

Every line is the verdict of a policy; nothing is launched.  A number that was not measured is marked as assumed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from vyre.adapters.optimizing import optimized, passes_for
from vyre.app.journal import DecisionJournal
from vyre.app.views import as_html
from vyre.domain.analysis.lane_facts import lane_facts
from vyre.domain.frozen import frozen
from vyre.domain.launch_costs import LaunchCosts, Measured, Provenance
from vyre.domain.specialization import spec_literals
from vyre.policies.journal import Decision, DecisionSink, decide, name_of, verdict_label
from vyre.policies.launching.bindless import plan_resource_table
from vyre.policies.launching.execution_prices import (
    ExecutionMode,
    Price,
    PriceInputs,
    Quote,
    Unavailable,
    Workload,
    quote,
)
from vyre.policies.launching.grid_sync_mode import choose_grid_sync
from vyre.policies.launching.param_inlining import decide_param_inlining
from vyre.policies.launching.plan_execution import ExecutionInputs, ExecutionPlan, plan_execution
from vyre.policies.optimizing.program_passes import choose_passes
from vyre.policies.record import Reason
from vyre.policies.tuning.workgroup_candidates import LaunchFacts, WorkgroupCandidates, workgroup_candidates
from vyre.ports.planning import DispatchWork

if TYPE_CHECKING:
    from vyre.app.dialects.lowered import LoweringChoice
    from vyre.domain.dispatch import DispatchConfig
    from vyre.domain.ir.program import Program
    from vyre.domain.optimize.passes import PassResult
    from vyre.ports.backend import Backend

KERNEL_NS: Final = 5_000
"""Assumed device time of a kernel without measured time: a short one, for which launch costs matter."""


class Question(NamedTuple):
    """The subject of an explanation: ``batch`` runs on inputs of these lengths, submitted together, ``repeats`` times.

    ``kernel``: device time of a launch; None if unknown.  ``costs``, and ``why_costs``: their origin.  ``optimize``:
    whether the session allows the optimizer.
    """

    program: Program
    config: DispatchConfig
    input_nbytes: tuple[int, ...]
    batch: int
    repeats: int
    kernel: Measured | None
    costs: LaunchCosts
    why_costs: str
    optimize: bool = True


class DecisionSummary(NamedTuple):
    """One decision for readers: its topic, the verdict in a few words, and the reason."""

    topic: str
    verdict: str
    why: str


class Offer(NamedTuple):
    """A mode in which a dispatch is not run, and the ``call`` of a session that runs the same work in it.

    ``quote``: the price of the runs in that mode, or why this program cannot be run so.
    """

    call: str
    quote: Quote


def answer(decision: Decision) -> DecisionSummary:
    """Returns a decision as an answer."""
    topic, words = _TOPICS.get(decision.name, (decision.name.replace("_", " "), verdict_label))
    verdict: Any = decision.verdict
    return DecisionSummary(topic, words(verdict), str(getattr(verdict, "why", verdict)))


@frozen
class Explanation:
    """The decisions about running a program; ``print`` it.

    ``plan``: the verdict of ``plan_execution`` on ``inputs``.  ``costs``: the origin of the costs in them. ``work``:
    the operations of each run.  ``notes``: limits of the numbers' validity.  ``others``: further decisions about the
    program.  ``decisions``: all of them, as they are recorded.  ``offers``: modes in which other calls of the session
    run the same work.  ``passes``: the result of each pass of the optimizer before compilation.  ``lowerings``: for
    each operation that the program calls and that has a lowering for the backend, whether it is used.
    """

    program: str
    backend: str
    work: DispatchWork
    inputs: ExecutionInputs
    plan: ExecutionPlan
    costs: str
    notes: tuple[str, ...]
    others: tuple[DecisionSummary, ...]
    decisions: tuple[Decision, ...]
    offers: tuple[Offer, ...] = ()
    passes: tuple[PassResult, ...] = ()
    lowerings: tuple[LoweringChoice, ...] = ()

    def offer(self, mode: ExecutionMode) -> Offer | None:
        """Returns the call that runs the work in a mode that a dispatch does not use, or None."""
        return next((offer for offer in self.offers if offer.quote.mode is mode), None)

    def at(self, batch: int) -> dict[ExecutionMode, Price]:
        """Returns the price of each mode that has one, for a batch of another size."""
        inputs = self.inputs
        workload = replace(inputs.workload, batch=batch)
        quotes = quote(PriceInputs(workload, inputs.costs, inputs.executable))
        return {price.mode: price for price in quotes if isinstance(price, Price)}

    _repr_html_ = as_html

    def __str__(self) -> str:
        work = self.inputs.workload
        lines = [f"`{self.program}` on `{self.backend}`, a batch of {work.batch}: {self.plan.mode.value}"]
        lines += [f"  {mode}: {text}" for mode, text in modes(self)]
        lines += [f"  {topic}: {verdict}: {why}" for topic, verdict, why in self.others]
        lines += [f"  operation {choice}" for choice in self.lowerings]
        lines += [f"  pass {result}" for result in self.passes]
        return "\n".join((f"{lines[0]}, since {self.plan.why}", *lines[1:], *(f"note: {note}" for note in self.notes)))


def modes(explanation: Explanation) -> Iterator[tuple[str, str]]:
    """Yields each mode with its predicted time, or the reason why it has none."""
    for quoted in explanation.plan.quotes:
        offer = explanation.offer(quoted.mode)
        yield quoted.mode.value, _text(quoted) if offer is None else f"{_text(offer.quote)} ({offer.call})"


def _text(quoted: Quote) -> str:
    return f"{quoted.total_ns} ns" if isinstance(quoted, Price) else f"unavailable: {quoted.why}"


def explain(backend: Backend, question: Question, sink: DecisionSink | None = None) -> Explanation:
    """Explains the question; ``sink`` receives the decisions too.

    Raises ``InvalidField`` for a question outside the domain of ``Workload``, and what ``ExecutionPlanning.work``
    raises.
    """
    journal = DecisionJournal()
    program, kernel, costs = question.program, question.kernel, question.costs
    work = _work(backend, question, journal)
    passes = _passes(backend, question, journal)
    declared = program.workgroup_size
    decide(journal, workgroup_candidates, lane_facts(program), LaunchFacts(declared, declared[0] * _WHOLE))
    others = tuple(map(answer, journal.decisions))
    notes = []
    if work.fixed:
        notes.append(f"costs do not decide here: {work.fixed}")
    if kernel is None:
        kernel = Measured(KERNEL_NS, KERNEL_NS, KERNEL_NS, 0, Provenance.ASSUMED)
        notes.append(f"nobody timed the kernel: {KERNEL_NS} ns are assumed")
    if costs.provenance is not Provenance.MEASURED:
        notes.append(f"launch costs are {question.why_costs}")
    if not work.operations:
        notes.append("nothing runs, because the grid is empty; the prices are those of one operation")
    workload = Workload(max(1, work.operations), question.batch, question.repeats, _mean(kernel, work))
    inputs = ExecutionInputs(workload, costs, work.executable)
    plan = decide(journal, plan_execution, inputs)
    if sink is not None:
        for decision in journal.decisions:
            sink.note(decision)
    return Explanation(
        program=program.name or "a program",
        backend=str(backend.id),
        work=work,
        inputs=inputs,
        plan=plan,
        costs=question.why_costs,
        notes=tuple(notes),
        others=others,
        decisions=journal.decisions,
        offers=tuple(_offers(backend, question, kernel, work)),
        passes=passes,
    )


def _passes(backend: Backend, question: Question, sink: DecisionSink) -> tuple[PassResult, ...]:
    """Takes the decision about the optimizer again, and returns what the chosen passes do to the program."""
    if backend.optimizes is None:
        return ()
    program, config = question.program, question.config
    passes = passes_for(program, config, backend.optimizes, question.optimize, sink)
    return optimized(program, spec_literals(program, config.spec), passes).results


def _offers(backend: Backend, question: Question, kernel: Measured, work: DispatchWork) -> Iterator[Offer]:
    """Yields the modes that only other calls of a session use: a job of a persistent engine is one item, whatever a
    dispatch copies, and steps are joined where there are several.
    """
    if backend.persistent is not None and ExecutionMode.PERSISTENT not in work.executable:
        item = Workload(1, question.batch, question.repeats, _times(kernel, work.kernels))
        priced = quote(PriceInputs(item, question.costs, frozenset({ExecutionMode.PERSISTENT})))
        quoted = next(each for each in priced if each.mode is ExecutionMode.PERSISTENT)
        yield Offer("session.persistent(program)", quoted)
    if backend.resident_executor is not None and ExecutionMode.FUSED not in work.executable:
        why = Reason("one program has no steps that could be joined")
        yield Offer("session.sequence(steps) joins steps", Unavailable(ExecutionMode.FUSED, why=why))


def _times(kernel: Measured, count: int) -> Measured:
    return replace(
        kernel,
        median_ns=kernel.median_ns * count,
        spread_ns=kernel.spread_ns * count,
        standard_error_ns=kernel.standard_error_ns * count,
    )


def _work(backend: Backend, question: Question, sink: DecisionSink) -> DispatchWork:
    """Returns the work as the backend plans it; for a backend without planning, plain launches only."""
    if backend.planning is not None:
        return backend.planning.work(question.program, question.config, question.input_nbytes, sink)
    launches = question.config.launches
    return DispatchWork(launches, launches, frozenset())


def _mean(kernel: Measured, work: DispatchWork) -> Measured:
    """Returns the device time of an operation: besides kernels, copies and fills count as zero, as in plans."""

    def share(ns: int) -> int:
        return ns * work.kernels // max(1, work.operations)

    return replace(
        kernel,
        median_ns=share(kernel.median_ns),
        spread_ns=share(kernel.spread_ns),
        standard_error_ns=share(kernel.standard_error_ns),
    )


def _sizes(verdict: WorkgroupCandidates) -> str:
    return f"{', '.join(map(str, verdict.sizes))} lanes"


_WHOLE: Final = 1_024
"""Workgroups of a launch whose lanes every size divides."""
_TOPICS: Final[dict[str, tuple[str, Callable[[Any], str]]]] = {
    name_of(choose_grid_sync): ("grid barriers", lambda verdict: verdict.mode.value),
    name_of(workgroup_candidates): ("workgroup sizes", _sizes),
    name_of(choose_passes): ("optimizer", verdict_label),
    name_of(decide_param_inlining): ("uniform buffer", verdict_label),
    name_of(plan_resource_table): ("addresses of buffers", verdict_label),
}
"""The topic of each policy, and a function that puts its verdict in a few words; the name and the label of others."""
