"""Prices where the host runs the launches itself: every cost is paid, worked by hand."""

from __future__ import annotations

from typing import Any

from support.launch_costs import EVERY_MODE, launch_costs, measured
from vyre.policies.concurrency.hazards import AccessMode
from vyre.policies.launching.execution_prices import (
    Around,
    ExecutionMode,
    Fusion,
    Price,
    PriceInputs,
    Workload,
    quote,
)
from vyre.policies.launching.plan_execution import ExecutionInputs, plan_execution
from vyre.policies.stage_fusion.launch_fusion import (
    AccessRelation,
    BufferUse,
    DataflowInputs,
    DataflowStage,
    StageBuffer,
)

PLAIN, GRAPH, PERSISTENT, FUSED = ExecutionMode
COSTS = launch_costs(
    round_trip=1_000,
    launch=500,
    bind=30_000,
    graph_record=50_000,
    graph_record_node=20_000,
    graph_replay=6_000,
    graph_replay_node=100,
    graph_gap=10,
)
AROUND = 8_000
KERNEL = 200


def chain(length: int) -> DataflowInputs:
    """Stages each of which reads what its own lanes wrote: they are one launch."""
    stages = [
        DataflowStage(
            place,
            0,
            0,
            False,
            (BufferUse(place, AccessMode.READ, AccessRelation.POINTWISE), BufferUse(place + 1, AccessMode.WRITE)),
        )
        for place in range(length)
    ]
    return DataflowInputs(tuple(stages), tuple(StageBuffer(each, 8) for each in range(length + 1)), 1_000)


def workload(nodes: int, batch: int, repeats: int = 1, **more: Any) -> Workload:
    fields: dict[str, Any] = {"recorded": True, "around": Around(listed=measured(AROUND)), "overlaps": False} | more
    return Workload(nodes, batch, repeats, measured(KERNEL), **fields)


def prices(given: Workload) -> dict[ExecutionMode, Price]:
    found = {each.mode: each for each in quote(PriceInputs(given, COSTS, EVERY_MODE)) if isinstance(each, Price)}
    for price in found.values():
        assert price.total_ns == price.once_ns + given.repeats * price.batch_ns
        assert price.total_ns == sum(term.times * term.each_ns for term in price.terms)
    return found


def test_a_plain_launch_costs_a_launch_and_its_kernel() -> None:
    found = prices(workload(4, 10, 3))[PLAIN]
    assert found.total_ns == 3 * (AROUND + 40 * (500 + KERNEL))
    assert not found.together


def test_all_runs_of_a_batch_are_one_list() -> None:
    found = prices(workload(4, 10, 3))[GRAPH]
    assert found.total_ns == 3 * (AROUND + 1_000 + 6_000 + 4 * 100 + 10 * 4 * (KERNEL + 10))
    assert found.together


def test_overlapping_hides_what_does_not_overlap_here() -> None:
    """The control: the same costs with overlap are lower for plain launches, and pay a submission for each run."""
    given = workload(4, 10)
    over = workload(4, 10, overlaps=True, around=Around())
    assert prices(over)[PLAIN].total_ns == 1_000 + 500 + 40 * (KERNEL + 1_000) - 1_000
    assert prices(over)[GRAPH].batch_ns > 10 * 6_000 > prices(given)[GRAPH].batch_ns


def test_what_is_prepared_first_costs_once() -> None:
    found, fresh = prices(workload(4, 1, 5)), prices(workload(4, 1, 5, recorded=False))
    assert fresh[PLAIN] == found[PLAIN]
    assert fresh[GRAPH].once_ns == fresh[GRAPH].total_ns - found[GRAPH].total_ns == 50_000 + 4 * 20_000


def test_joined_launches_are_submitted_as_is_cheaper() -> None:
    """One by one for few rounds, as one list for many; a fixed way is priced even where it is dearer."""
    for batch, together in ((1, False), (100, True)):
        fusion = Fusion(chain(4), measured(300), None, None)
        found = prices(workload(4, batch, fusion=fusion))[FUSED]
        assert found.together is together
        apart = AROUND + batch * (500 + 300)
        listed = AROUND + 1_000 + 6_000 + 100 + batch * (300 + 10)
        assert found.total_ns == min(apart, listed)
        for fixed, total_ns in ((False, apart), (True, listed)):
            fusion = Fusion(chain(4), measured(300), None, fixed)
            assert prices(workload(4, batch, fusion=fusion))[FUSED].total_ns == total_ns


def test_the_mode_changes_where_the_prices_cross() -> None:
    """A list costs 7 100 ns more at its start, and each launch 490 ns less."""
    chosen = {}
    for batch in (1, 14, 15, 1000):
        inputs = ExecutionInputs(workload(1, batch), COSTS, frozenset({GRAPH}))
        chosen[batch] = plan_execution(inputs).mode
    assert chosen == {1: PLAIN, 14: PLAIN, 15: GRAPH, 1000: GRAPH}


def test_what_is_around_a_batch_depends_on_how_it_is_submitted() -> None:
    """A way of which nothing is known takes the nearest: the same launches, else the same submission."""
    every = Around(measured(1), measured(20), measured(300), measured(4_000))
    cases = {
        every: (1, 20, 300, 4_000),
        Around(measured(1), measured(20)): (1, 20, 1, 20),
        Around(listed=measured(20)): (20, 20, 20, 20),
        Around(joined_listed=measured(4_000)): (4_000, 4_000, 4_000, 4_000),
        Around(measured(1), None, None, measured(4_000)): (1, 1, 1, 4_000),
        Around(): (0, 0, 0, 0),
    }
    for around, wanted in cases.items():
        found = []
        for together in (False, True):
            given = workload(4, 10, around=around, fusion=Fusion(chain(4), measured(300), None, together))
            bare = workload(4, 10, around=Around(), fusion=Fusion(chain(4), measured(300), None, together))
            with_it, without = prices(given), prices(bare)
            mode = GRAPH if together else PLAIN
            found += [with_it[each].total_ns - without[each].total_ns for each in (mode, FUSED)]
        assert (found[0], found[2], found[1], found[3]) == wanted, around


def test_a_launch_that_was_timed_with_its_kernel_needs_no_sum() -> None:
    fusion = Fusion(chain(4), measured(300), None, False, measured(777))
    found = prices(workload(4, 10, launched=measured(650), fusion=fusion))
    assert found[PLAIN].total_ns == AROUND + 40 * 650
    assert found[FUSED].total_ns == AROUND + 10 * 777
    assert found[GRAPH].total_ns == prices(workload(4, 10))[GRAPH].total_ns, "a list launches nothing by itself"
    over = prices(workload(4, 10, launched=measured(650), overlaps=True, around=Around()))
    assert over[PLAIN].total_ns == prices(workload(4, 10, overlaps=True, around=Around()))[PLAIN].total_ns


def test_a_launch_may_be_timed_shorter_than_its_kernel_in_a_list() -> None:
    """Times vary: the plan compares the prices all the same."""
    for launched, mode in ((KERNEL - 50, PLAIN), (KERNEL + 50, GRAPH)):
        given = workload(4, 1000, 3, launched=measured(launched))
        assert plan_execution(ExecutionInputs(given, COSTS, frozenset({GRAPH}))).mode is mode
