"""Cases of ``ExecutionPlanning``: plans follow the costs, are reported as decided, and change no byte; and of
``CostProbe``, which times empty work.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any, Final

from vyre.app.journal import DecisionJournal
from vyre.domain.dispatch import DispatchConfig
from vyre.domain.errors import InvalidInput, UnsupportedFeature
from vyre.domain.launch_costs import ASSUMED, LaunchCosts, Measured, Provenance
from vyre.policies.launching.execution_prices import ExecutionMode, Price
from vyre.policies.launching.plan_execution import plan_execution
from vyre.ports.cost_probe import CostExperiment
from vyre.ports.planning import DispatchWork, ExecutionPlanning, PlannedExecution
from vyre.testing.backend_contract.bench import Bench, Storage, words
from vyre.testing.backend_contract.case import Group
from vyre.testing.backend_contract.expect import Skipped, equal, holds, refusal
from vyre.testing.backend_contract.kernels import INCREMENT

PLANNING: Final = Group("planning", "planning")
RUNS: Final = 40
"""Number of dispatches of one shape after which a decision about it exists."""


def _costing(ns: int) -> LaunchCosts:
    """Returns costs that are all ``ns``."""
    cost = Measured(ns, 0, 0, 0, Provenance.ASSUMED)
    every: dict[str, Any] = dict.fromkeys(ASSUMED.known(), cost)
    return replace(ASSUMED, **every)


def _planning(bench: Bench) -> ExecutionPlanning:
    planning = bench.backend.planning
    assert planning is not None
    return planning


def _work(bench: Bench, **config: Any) -> DispatchWork:
    """Returns the work of a dispatch of two elements.  ``config``: fields of ``DispatchConfig``."""
    return _planning(bench).work(bench.program(INCREMENT), DispatchConfig(**config), (8,))


def _need_decisions(bench: Bench) -> None:
    """Skips a case about decisions on a backend that runs a dispatch in one way, whatever it costs, and says so."""
    if fixed := _work(bench).fixed:
        raise Skipped(f"`{bench.backend.id}` decides nothing about a dispatch: {fixed}")


def _planned(bench: Bench) -> tuple[ExecutionPlanning, tuple[PlannedExecution, ...]]:
    """Returns the decisions after enough dispatches for there to be some."""
    _need_decisions(bench)
    planning = _planning(bench)
    for _ in range(RUNS):
        equal(bench.words(INCREMENT, words(1, 2)), [2, 3])
    plans = planning.plans()
    holds(len(plans) > 0, f"nothing was decided in {RUNS} dispatches")
    return planning, plans


@PLANNING.case()
def a_plan_is_what_the_policy_answers(bench: Bench) -> None:
    """Each decision is the verdict of ``plan_execution`` on its inputs, and names its subject."""
    for work, inputs, plan in _planned(bench)[1]:
        holds(bool(work), "it is about nothing")
        equal(plan, plan_execution(inputs), work)


@PLANNING.case()
def a_plan_is_one_that_can_be_executed(bench: Bench) -> None:
    """The planned mode is plain launches, or one that the backend reported as executable, and has a price."""
    for work, inputs, plan in _planned(bench)[1]:
        holds(plan.mode in {ExecutionMode.PLAIN, *inputs.executable}, f"{work}: {plan.mode} is not executable")
        holds(plan.mode is ExecutionMode.PLAIN or isinstance(plan.predicted, Price), f"{work}: it has no price")


@PLANNING.table({"free": 0, "dear": 10**9})
def costs_are_those_at_hand(bench: Bench, ns: int) -> None:
    """The next run is planned with the costs set last, and returns the same bytes."""
    with bench.elsewhere() as other:
        planning, before = _planned(other)
        costs = _costing(ns)
        planning.use_costs(costs)
        after = _planned(other)[1]
        holds(after != before, "nothing was decided again")
        equal(after[-1].inputs.costs.graph_record, costs.graph_record, "what recording a graph is taken to cost")


@PLANNING.case()
def plans_are_a_snapshot(bench: Bench) -> None:
    """Plans that were read do not change later."""
    _, first = _planned(bench)
    kept = tuple(first)
    for size in range(1, 9):
        for _ in range(RUNS // 8):
            bench.run(INCREMENT, words(*range(size)))
    equal(first, kept)


@PLANNING.table({"once": 1, "in a row": 5})
def work_is_what_plans_are_made_of(bench: Bench, iterations: int) -> None:
    """A dispatch is planned with as many nodes, and for the same modes, as ``work`` reports before the run."""
    with bench.elsewhere() as other:
        work = _work(other, fixpoint_iterations=iterations)
        _need_decisions(other)
        for _ in range(RUNS):
            other.run(INCREMENT, words(1, 2), fixpoint_iterations=iterations)
        inputs = _planning(other).plans()[-1].inputs
        equal(inputs.workload.nodes, work.operations, "nodes")
        equal(inputs.executable, work.executable, "modes besides plain launches")


@PLANNING.case()
def kernels_are_counted(bench: Bench) -> None:
    """Kernels are counted among the operations: for each iteration as many as a dispatch reports as launched."""
    once = _work(bench).kernels
    holds(once > 0, f"{once} kernels")
    for iterations in (1, 7):
        work = _work(bench, fixpoint_iterations=iterations)
        equal(work.kernels, iterations * once, f"kernels of {iterations} iterations")
        holds(work.kernels <= work.operations, f"{work.kernels} kernels among {work.operations} operations")
        timing = bench.execute(Storage(), INCREMENT, words(1, 2), fixpoint_iterations=iterations)
        holds(timing.launches in (None, 0, work.kernels), f"{timing.launches} were launched, {work.kernels} told")


@PLANNING.case()
def asking_for_work_decides_nothing(bench: Bench) -> None:
    """``work`` plans nothing, and the sink receives the verdicts of the policies."""
    with bench.elsewhere() as other:
        journal = DecisionJournal()
        for _ in range(RUNS):
            _planning(other).work(other.program(INCREMENT), DispatchConfig(), (8,), journal)
        equal(_planning(other).plans(), (), "plans")
        for policy, arguments, verdict in journal.decisions:
            equal(policy(*arguments), verdict, policy.__name__)


@PLANNING.case()
def what_cannot_be_run_has_no_work(bench: Bench) -> None:
    """Inputs that a dispatch refuses are refused by ``work``."""
    for input_nbytes in ((), (7,), (8, 8)):
        refusal(InvalidInput, partial(_planning(bench).work, bench.program(INCREMENT), DispatchConfig(), input_nbytes))


COSTS: Final = Group("costs", "cost_probe")
_SIZES: Final = (1, 3, 1, 257)


@COSTS.table({experiment.value: experiment for experiment in CostExperiment})
def an_experiment_takes_time(bench: Bench, experiment: CostExperiment) -> None:
    """An experiment runs at any size, in any order, any number of times, and takes positive time; an experiment that
    the backend does not offer is refused.
    """
    probe = bench.cost_probe
    with probe.measuring() as timed:
        if experiment not in probe.experiments:
            refusal(UnsupportedFeature, lambda: timed(experiment, 1))
            return
        times = [timed(experiment, size) for size in _SIZES]
    holds(all(type(time) is int and time >= 0 for time in times), f"{times} are no times in ns")
    holds(sum(times) > 0, "all of it took no time")


@COSTS.case()
def experiments_change_no_byte(bench: Bench) -> None:
    """Dispatches between and after experiments return the same bytes as before."""
    probe = bench.cost_probe
    if not probe.experiments:
        raise Skipped("experiments")
    some = min(probe.experiments, key=lambda each: each.value)
    equal(bench.words(INCREMENT, words(1, 2)), [2, 3])
    for _ in range(2):
        with probe.measuring() as timed:
            timed(some, 2)
            equal(bench.words(INCREMENT, words(1, 2)), [2, 3])
            timed(some, 2)
    equal(bench.words(INCREMENT, words(1, 2)), [2, 3])
