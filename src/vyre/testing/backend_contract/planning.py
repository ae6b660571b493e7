"""Cases of what happens ahead of a launch: ``PreparablePipeline``, whose resources are made and nothing is launched;
``ExecutionPlanning``, whose plans follow the costs, are reported as decided, and change no byte; and ``CostProbe``,
which times empty work.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any, Final

from vyre.app.journal import DecisionJournal
from vyre.domain.dispatch import DispatchConfig, OutputArena
from vyre.domain.errors import InvalidConfig, InvalidInput, TrapError, UnsupportedFeature, VyreError
from vyre.domain.launch_costs import ASSUMED, LaunchCosts, Measured, Provenance
from vyre.policies.launching.execution_prices import ExecutionMode, Price
from vyre.policies.launching.plan_execution import plan_execution
from vyre.ports.cost_probe import CostExperiment
from vyre.ports.execution import PreparablePipeline
from vyre.ports.planning import DispatchWork, ExecutionPlanning, PlannedExecution
from vyre.testing.backend_contract.bench import (
    INCREMENT,
    SCALE,
    Bench,
    Skipped,
    Storage,
    at_once,
    equal,
    holds,
    refusal,
    u32s,
    view,
    words,
)
from vyre.testing.backend_contract.case import Group

PREPARED: Final = Group("prepared", "compiler")
_TRAP: Final = """
    workgroup_size 4, 1, 1
    buffer x @0 read_write u32[runtime]
    body { if x[gid.x] != 9u { trap(gid.x, "not nine") } x[gid.x] = 10u }
    """
MANY: Final = 160
"""A number of lengths that exceeds every cache of launches."""


def _pipeline(bench: Bench, kernel: str = SCALE, **config: Any) -> PreparablePipeline:
    pipeline = bench.compile(kernel, **config)
    if not isinstance(pipeline, PreparablePipeline):
        raise Skipped(f"pipelines of `{bench.backend.id}` prepare nothing")
    return pipeline


def _check(pipeline: PreparablePipeline, size: int) -> None:
    arena = OutputArena()
    pipeline.dispatch((view(words(*range(size))),), arena)
    equal(u32s(arena[0]), [k * 3 + k // 8 for k in range(size)], f"{size} elements")


@PREPARED.table({"none": 0, "one": 1, "several": 50})
def a_prepared_length_is_at_hand(bench: Bench, size: int) -> None:
    """A prepared length is reported as prepared, and its dispatch returns the same bytes as without preparation."""
    pipeline = _pipeline(bench)
    pipeline.prepare((4 * size,))
    holds(pipeline.is_prepared((4 * size,)), f"{size} elements were prepared, and are not")
    for _ in range(3):
        _check(pipeline, size)


@PREPARED.case("supports_trap_propagation")
def preparing_launches_nothing(bench: Bench) -> None:
    """A program that always traps is prepared without an error, and traps when it is dispatched."""
    pipeline = _pipeline(bench, _TRAP)
    pipeline.prepare((16,))
    storage = Storage()
    refusal(TrapError, lambda: pipeline.dispatch((view(words(9, 9, 1, 9)),), storage))
    pipeline.dispatch((view(words(9, 9, 9, 9)),), storage)
    equal(storage.outputs, (words(10, 10, 10, 10),))


@PREPARED.case()
def lengths_are_told_apart(bench: Bench) -> None:
    """Other lengths may be dispatched after one was prepared, before it is used and afterwards."""
    pipeline = _pipeline(bench)
    pipeline.prepare((4 * 20,))
    for size in (7, 20, 33, 20, 1):
        _check(pipeline, size)


@PREPARED.table({"no_input": (), "two_inputs": (4, 4), "half_an_element": (6,)})
def what_cannot_be_is_refused(bench: Bench, lengths: tuple[int, ...]) -> None:
    """Lengths that a dispatch refuses are refused, are never prepared, and leave the pipeline unchanged."""
    _refused(bench, lengths, InvalidInput)


@PREPARED.case()
def a_config_is_enforced_ahead(bench: Bench) -> None:
    """Lengths whose outputs the config does not allow are refused."""
    _refused(bench, (4 * 4,), InvalidConfig, max_output_bytes=12)


def _refused(bench: Bench, lengths: tuple[int, ...], expected: type[VyreError], **config: Any) -> None:
    pipeline = _pipeline(bench, **config)
    for _ in range(2):
        holds(not pipeline.is_prepared(lengths), f"{lengths} bytes cannot be, and are prepared")
        refusal(expected, lambda: pipeline.prepare(lengths))
    _check(pipeline, 3)


@PREPARED.case()
def many_lengths_are_prepared(bench: Bench) -> None:
    """Any number of lengths may be prepared; the latest stays prepared, and evicted ones still work."""
    pipeline = _pipeline(bench)
    for size in range(MANY):
        pipeline.prepare((4 * size,))
        holds(pipeline.is_prepared((4 * size,)), f"{size} elements were prepared last, and are not")
    for size in (0, 1, MANY - 1):
        _check(pipeline, size)


@PREPARED.case()
def threads_prepare_what_others_dispatch(bench: Bench) -> None:
    """Threads may prepare lengths of a pipeline while others dispatch the same and other ones."""
    pipeline = _pipeline(bench)

    def work(number: int) -> None:
        for size in (5, 17, 40, 17):
            if number % 2:
                pipeline.prepare((4 * size,))
            else:
                _check(pipeline, size)

    at_once(8, work)
    _check(pipeline, 40)


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
