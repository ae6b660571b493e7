"""``ExecutionPlanning``: decided by costs, shown as it was decided, and seen in no byte."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from vyre.domain.launch_costs import ASSUMED, LaunchCosts, Measured, Provenance
from vyre.policies.execution_prices import ExecutionMode, Price
from vyre.policies.plan_execution import plan_execution
from vyre.ports.planning import ExecutionPlanning, PlannedExecution
from vyre.testing.backend_contract.bench import Bench, words
from vyre.testing.backend_contract.case import Group
from vyre.testing.backend_contract.expect import equal, holds

PLANNING: Final = Group("planning", "planning")
RUNS: Final = 40
"""Dispatches of one shape after which something has been decided about it."""
_ADD: Final = """
    workgroup_size 4, 1, 1
    buffer x @0 read_write u32[runtime]
    body { x[gid.x] = x[gid.x] + 1u }
    """


def _costing(ns: int) -> LaunchCosts:
    """Costs of which every one is ``ns``."""
    cost = Measured(ns, 0, 0, 0, Provenance.ASSUMED)
    every: dict[str, Any] = dict.fromkeys(ASSUMED.known(), cost)
    return replace(ASSUMED, **every)


def _planned(bench: Bench) -> tuple[ExecutionPlanning, tuple[PlannedExecution, ...]]:
    """The decisions after so many dispatches that there are some."""
    planning = bench.backend.planning
    assert planning is not None
    for _ in range(RUNS):
        equal(bench.words(_ADD, words(1, 2)), [2, 3])
    found = planning.plans()
    holds(len(found) > 0, f"nothing was decided in {RUNS} dispatches")
    return planning, found


@PLANNING.case()
def a_plan_is_what_the_policy_answers(bench: Bench) -> None:
    """Each decision is the verdict of ``plan_execution`` on its inputs, and says what it is about."""
    for work, inputs, plan in _planned(bench)[1]:
        holds(bool(work), "it is about nothing")
        equal(plan, plan_execution(inputs), work)


@PLANNING.case()
def a_plan_is_one_that_can_be_executed(bench: Bench) -> None:
    """What is to be used is plain launches, or among what the backend said that it executes, and has a price."""
    for work, inputs, plan in _planned(bench)[1]:
        holds(plan.mode in {ExecutionMode.PLAIN, *inputs.executable}, f"{work}: {plan.mode} is not executable")
        holds(plan.mode is ExecutionMode.PLAIN or isinstance(plan.predicted, Price), f"{work}: it has no price")


@PLANNING.table({"free": 0, "dear": 10**9})
def costs_are_those_at_hand(bench: Bench, ns: int) -> None:
    """What is run next is decided by the costs given last, and gives the same bytes."""
    with bench.elsewhere() as other:
        other.backend.lifecycle.prepare()
        planning, before = _planned(other)
        costs = _costing(ns)
        planning.use_costs(costs)
        after = _planned(other)[1]
        holds(after != before, "nothing was decided again")
        equal(after[-1].inputs.costs.graph_record, costs.graph_record, "what recording a graph is taken to cost")


@PLANNING.case()
def plans_are_a_snapshot(bench: Bench) -> None:
    """What was read before does not change later."""
    _, first = _planned(bench)
    kept = tuple(first)
    for size in range(1, 9):
        for _ in range(RUNS // 8):
            bench.run(_ADD, words(*range(size)))
    equal(first, kept)
