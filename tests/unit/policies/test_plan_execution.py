"""Prices of ways to run a batch, worked by hand, and what is chosen for which reason."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from support.launch_costs import EVERY_MODE, launch_costs, measured
from vyre.domain.errors import InvalidField
from vyre.domain.launch_costs import ASSUMED, LaunchCosts, Provenance
from vyre.domain.printable import shown
from vyre.policies.concurrency.hazards import AccessMode
from vyre.policies.launching.execution_prices import (
    ExecutionMode,
    Fusion,
    Price,
    PriceInputs,
    Term,
    Unavailable,
    Workload,
    error_of_difference_ns,
    quote,
)
from vyre.policies.launching.plan_execution import ExecutionInputs, plan_execution
from vyre.policies.record import U64_MAX
from vyre.policies.stage_fusion.launch_fusion import (
    AccessRelation,
    BufferUse,
    DataflowInputs,
    DataflowStage,
    StageBuffer,
)

PLAIN, GRAPH, PERSISTENT, FUSED = ExecutionMode
COSTS = launch_costs()
LAUNCH, GAP, POLL, SETUP = 3_000, 1_000, 400, 50_000
REPLAY, NODE, NODE_GAP = 2_500, 10, 600
RECORD, RECORD_NODE = 20_000, 4_000


def stages(*joined_to_the_one_before: bool, budget: int = 1_000) -> DataflowInputs:
    """A chain; a stage is joined if it reads what its own lanes wrote."""
    chain = []
    for place, joined in enumerate((False, *joined_to_the_one_before)):
        relation = AccessRelation.POINTWISE if joined else AccessRelation.GLOBAL
        uses = (BufferUse(place, AccessMode.READ, relation), BufferUse(place + 1, AccessMode.WRITE))
        chain.append(DataflowStage(place, 0, 0, False, uses))
    buffers = tuple(StageBuffer(resource, 8) for resource in range(len(chain) + 1))
    return DataflowInputs(tuple(chain), buffers, budget)


def workload(nodes: int = 1, batch: int = 1, repeats: int = 1, kernel: int = 2_000, **more: Any) -> Workload:
    return Workload(nodes, batch, repeats, measured(kernel), **more)


def price(mode: ExecutionMode, given: Workload, costs: LaunchCosts = COSTS) -> Price:
    found = next(each for each in quote(PriceInputs(given, costs, EVERY_MODE)) if each.mode is mode)
    assert isinstance(found, Price)
    assert found.total_ns == found.once_ns + given.repeats * found.batch_ns
    assert found.total_ns == sum(term.times * term.each_ns for term in found.terms)
    assert all(term.times > 0 for term in found.terms)
    return found


def unavailable(mode: ExecutionMode, given: Workload, costs: LaunchCosts = COSTS, **more: Any) -> Unavailable:
    inputs = PriceInputs(given, costs, more.get("executable", EVERY_MODE))
    found = next(each for each in quote(inputs) if each.mode is mode)
    assert isinstance(found, Unavailable)
    return found


# ---- prices
@pytest.mark.parametrize(
    ("mode", "given", "total"),
    [
        # Alone, a kernel waits for its launch.
        (PLAIN, workload(), LAUNCH + 2_000),
        (PLAIN, workload(kernel=9_000), LAUNCH + 9_000),
        # Short kernels hide behind launches, but for the last.
        (PLAIN, workload(batch=10, kernel=1_500), 10 * LAUNCH + 1_500),
        (PLAIN, workload(nodes=5, batch=2, kernel=1_500), 10 * LAUNCH + 1_500),
        # Launches hide behind long kernels, but for the first.
        (PLAIN, workload(batch=10, kernel=9_000), LAUNCH + 10 * 9_000 + 9 * GAP),
        (PLAIN, workload(batch=10, kernel=9_000, repeats=3), 3 * (LAUNCH + 10 * 9_000 + 9 * GAP)),
        # A graph of one node is a launch that costs another time.
        (GRAPH, workload(batch=10, kernel=9_000, recorded=True), REPLAY + NODE + 10 * 9_000 + 9 * GAP),
        (
            GRAPH,
            workload(batch=10, kernel=9_000, repeats=3),
            RECORD + RECORD_NODE + 3 * (REPLAY + NODE + 10 * 9_000 + 9 * GAP),
        ),
        (GRAPH, workload(batch=10, kernel=100, recorded=True), 10 * (REPLAY + NODE) + 100),
        (
            GRAPH,
            workload(nodes=8, batch=10, kernel=1_000, recorded=True),
            REPLAY + 8 * NODE + 10 * (8 * 1_000 + 7 * NODE_GAP) + 9 * GAP,
        ),
        (
            GRAPH,
            workload(nodes=8, batch=10, kernel=1_000, recorded=True, changed_nodes=8),
            REPLAY + 8 * NODE + 500 + 8 * 1_000 + 10 * (8 * 1_000 + 7 * NODE_GAP) + 9 * GAP,
        ),
        (
            GRAPH,
            workload(nodes=8, batch=10, kernel=100, recorded=True, changed_nodes=3),
            10 * (REPLAY + 8 * NODE + 500 + 3 * 1_000) + 8 * 100 + 7 * NODE_GAP,
        ),
        (PERSISTENT, workload(nodes=5, batch=20), SETUP + 100 * (2_000 + POLL)),
        (PERSISTENT, workload(nodes=5, batch=20, repeats=3), 3 * (SETUP + 100 * (2_000 + POLL))),
        (PERSISTENT, workload(batch=20, resident_kernel=measured(2_500)), SETUP + 20 * (2_500 + POLL)),
    ],
)
def test_a_price_worked_by_hand(mode: ExecutionMode, given: Workload, total: int) -> None:
    assert price(mode, given).total_ns == total


FUSION = Fusion(stages(True, False, True))


@pytest.mark.parametrize(
    ("fusion", "kernel", "total"),
    [
        # Four stages become two launches, each as long as two.
        (FUSION, 5_000, LAUNCH + 20 * 2 * 5_000 + 19 * GAP),
        (FUSION, 500, 20 * LAUNCH + 2 * 500),
        (replace(FUSION, kernel=measured(7_000)), 5_000, LAUNCH + 20 * 7_000 + 19 * GAP),
        (replace(FUSION, kernel=measured(700)), 5_000, 20 * LAUNCH + 700),
        (replace(FUSION, build=measured(90_000)), 500, 90_000 + 20 * LAUNCH + 2 * 500),
        # Three of four stages are one launch, and the last is alone: it is taken to be a mean one.
        (Fusion(stages(True, True, False)), 500, 20 * LAUNCH + 2 * 500),
    ],
)
def test_the_price_of_fused_stages(fusion: Fusion, kernel: int, total: int) -> None:
    assert price(FUSED, workload(nodes=4, batch=10, kernel=kernel, fusion=fusion)).total_ns == total


def test_the_longer_way_through_a_batch_counts() -> None:
    """Of two launches for three stages: near the tie of host and device it is the last launch that decides."""
    fusion = Fusion(stages(True, False))
    assert price(FUSED, workload(nodes=3, kernel=1_500, fusion=fusion)).total_ns == 2 * LAUNCH + 2 * 1_500
    assert price(FUSED, workload(nodes=3, kernel=2_500, fusion=fusion)).total_ns == LAUNCH + 3 * 2_500 + GAP


def test_a_launch_may_hide_in_a_gap() -> None:
    found = price(PLAIN, workload(batch=10, kernel=500), launch_costs(launch=100))
    assert found.total_ns == 100 + 10 * 500 + 9 * GAP
    assert found.start_ns == 100 - GAP


def test_a_graph_that_is_recorded_costs_nothing_once() -> None:
    given = workload(nodes=3, batch=4)
    assert price(GRAPH, given).once_ns == RECORD + 3 * RECORD_NODE
    assert price(GRAPH, replace(given, recorded=True)).once_ns == 0


def test_a_resident_kernel_is_set_up_no_faster_than_a_kernel_is_launched() -> None:
    given = workload(batch=10)
    assert price(PERSISTENT, given, launch_costs(persistent_setup=10)).start_ns == LAUNCH
    assert price(PERSISTENT, given, launch_costs(persistent_setup=LAUNCH + 1)).start_ns == LAUNCH + 1


def test_terms_and_steps_are_the_price() -> None:
    found = price(PLAIN, Workload(2, 5, 3, measured(9_000, 70)), launch_costs(launch=measured(3_000, 20)))
    assert (found.once_ns, found.start_ns, found.step_ns, found.steps) == (0, LAUNCH - GAP, 10_000, 10)
    assert found.terms == (
        Term("round_trip", 3, 0, 0),
        Term("launch", 3, 3_000, 20),
        Term("launch_gap", 27, 1_000, 0),
        Term("kernel", 30, 9_000, 70),
    )


@pytest.mark.parametrize("mode", ExecutionMode)
def test_every_batch_waits_for_a_round_trip_once(mode: ExecutionMode) -> None:
    given = workload(nodes=4, batch=5, repeats=7, fusion=FUSION)
    near, far = price(mode, given), price(mode, given, launch_costs(round_trip=2_000))
    assert (far.batch_ns - near.batch_ns, far.total_ns - near.total_ns) == (2_000, 7 * 2_000)


def test_a_price_is_as_good_as_its_weakest_cost() -> None:
    costs = launch_costs(graph_record_node=measured(1, 0, Provenance.EMULATED))
    assert price(GRAPH, workload(), costs).provenance is Provenance.EMULATED
    assert price(GRAPH, workload(recorded=True), costs).provenance is Provenance.MEASURED
    assert price(PLAIN, workload(), costs).provenance is Provenance.MEASURED
    assert price(PLAIN, workload(), ASSUMED).provenance is Provenance.ASSUMED


def test_what_two_prices_share_is_certain() -> None:
    costs = launch_costs(launch=measured(3_000, 100), launch_gap=measured(1_000, 30), graph_replay=measured(2_500, 40))
    given = Workload(1, 10, 1, measured(9_000, 10**6), recorded=True)
    plain, graph = price(PLAIN, given, costs), price(GRAPH, given, costs)
    assert error_of_difference_ns(plain, plain) == 0
    # 1 launch of +-100 against 1 replay of +-40: sqrt(11 600) = 107.7
    assert error_of_difference_ns(plain, graph) == error_of_difference_ns(graph, plain) == 108
    resident = price(PERSISTENT, replace(given, resident_kernel=measured(9_000, 3)), costs)
    assert error_of_difference_ns(plain, resident) > 10**7, "another kernel shares nothing"


@pytest.mark.parametrize(("launch", "replay", "error"), [(3, 4, 5), (1, 0, 1), (1, 1, 2), (0, 0, 0)])
def test_standard_errors_are_rounded_up(launch: int, replay: int, error: int) -> None:
    costs = launch_costs(launch=measured(3_000, launch), graph_replay=measured(2_500, replay))
    given = workload(kernel=9_000, recorded=True)
    assert error_of_difference_ns(price(PLAIN, given, costs), price(GRAPH, given, costs)) == error


# ---- what has no price
@pytest.mark.parametrize(
    ("missing", "modes"),
    [
        ("round_trip", set(ExecutionMode)),
        ("launch", {PLAIN, PERSISTENT, FUSED}),
        ("launch_gap", {PLAIN, GRAPH, FUSED}),
        ("graph_record", {GRAPH}),
        ("graph_record_node", {GRAPH}),
        ("graph_update", {GRAPH}),
        ("graph_update_node", {GRAPH}),
        ("graph_replay", {GRAPH}),
        ("graph_replay_node", {GRAPH}),
        ("graph_gap", {GRAPH}),
        ("persistent_setup", {PERSISTENT}),
        ("persistent_poll", {PERSISTENT}),
        ("event_pair", set()),
        ("grid_barrier", set()),
        ("build", set()),
        ("kernel", set(ExecutionMode)),
    ],
)
def test_an_unknown_cost_makes_modes_unavailable(missing: str, modes: set[ExecutionMode]) -> None:
    given = workload(nodes=4, changed_nodes=1, fusion=FUSION)
    costs = COSTS
    if missing == "kernel":
        given = replace(given, kernel=None)
    else:
        costs = launch_costs(**{missing: None})
    found = {q.mode: q for q in quote(PriceInputs(given, costs, EVERY_MODE)) if isinstance(q, Unavailable)}
    assert found.keys() == modes
    for each in found.values():
        assert (each.unknown, str(each.why)) == ((missing,), f"unknown: {missing}")


def test_all_unknown_costs_are_named() -> None:
    found = unavailable(GRAPH, workload(), launch_costs(graph_replay=None, graph_record=None))
    assert str(found.why) == "unknown: graph_replay, graph_record"


def test_costs_that_are_not_paid_may_be_unknown() -> None:
    costs = launch_costs(graph_record=None, graph_record_node=None, graph_update=None, graph_update_node=None)
    assert price(GRAPH, workload(recorded=True), costs)
    own = Fusion(stages(True), kernel=measured(1))
    assert price(FUSED, replace(workload(nodes=2), fusion=own))


@pytest.mark.parametrize(
    ("fusion", "why"),
    [
        (None, "nothing is known of stages that could be joined"),
        (Fusion(stages(False, False, False)), "none of the 4 stages can be joined to the one before"),
        (Fusion(stages(True, True, True, budget=15)), "the stages cannot be joined: stage over budget"),
    ],
)
def test_stages_that_stay_apart(fusion: Fusion | None, why: str) -> None:
    found = unavailable(FUSED, workload(nodes=4, fusion=fusion))
    assert found.unknown == ()
    assert str(found.why).startswith(why)


def test_a_backend_says_what_it_executes() -> None:
    found = quote(PriceInputs(workload(nodes=4, fusion=FUSION), COSTS, frozenset({GRAPH})))
    assert [type(each) for each in found] == [Price, Price, Unavailable, Unavailable]
    assert {str(each.why) for each in found if isinstance(each, Unavailable)} == {"the backend does not execute it"}
    assert [each.mode for each in found] == list(ExecutionMode)


@pytest.mark.parametrize(
    ("more", "why"),
    [
        (
            {"nodes": 2**16, "batch": 2**16},
            "batch = 65536 is not a number of runs with at most 4294967295 launches in all",
        ),
        ({"nodes": 3, "changed_nodes": 4}, "changed_nodes = 4 is not at most 3, the number of nodes"),
        (
            {"nodes": 3, "fusion": FUSION},
            f"fusion = {shown(FUSION)} is not a fusion of 3 stages, one for each node",
        ),
    ],
    ids=["batch", "changed_nodes", "fusion"],
)
def test_a_workload_is_checked(more: dict[str, Any], why: str) -> None:
    with pytest.raises(InvalidField) as error:
        workload(**more)
    assert str(error.value).startswith(f"Workload.{why}. Fix: ")


def test_a_batch_may_have_as_many_launches_as_32_bits_count() -> None:
    assert workload(nodes=2**16 + 1, batch=2**16 - 1).launches == 2**32 - 1


# ---- choices
SHORT_LOOP = workload(nodes=100, kernel=500, repeats=100)
LONG_KERNELS = workload(batch=10, kernel=10**6)


def plan_of(given: Workload, incumbent: ExecutionMode | None = PLAIN, costs: LaunchCosts = COSTS, **more: Any) -> Any:
    executable = more.pop("executable", EVERY_MODE)
    return plan_execution(ExecutionInputs(given, costs, executable, incumbent))


@pytest.mark.parametrize(
    ("given", "mode"),
    [
        (workload(), PLAIN),
        (LONG_KERNELS, PLAIN),
        (SHORT_LOOP, GRAPH),
        (workload(batch=10_000, kernel=500), PERSISTENT),
        (workload(nodes=4, kernel=500, repeats=100, fusion=Fusion(stages(True, True, True))), FUSED),
    ],
)
def test_each_mode_has_its_place(given: Workload, mode: ExecutionMode) -> None:
    found = plan_of(given)
    assert found.mode is mode
    assert found.predicted == price(mode, given)
    assert found.predicted.total_ns == min(q.total_ns for q in found.quotes if isinstance(q, Price))
    assert plan_of(given, mode).mode is mode


def test_launches_that_kernels_hide_are_not_saved() -> None:
    """100 kernels of 10 us against launches of 3 us: taken as they are, launches seem to cost 300 us."""
    given = workload(batch=100, kernel=10_000)
    assert plan_of(given, costs=launch_costs(launch_gap=0)).mode is PLAIN


def test_fused_launches_that_gain_nothing_are_not_built() -> None:
    def fused(build: int) -> Workload:
        fusion = Fusion(stages(True), build=measured(build))
        return workload(nodes=2, kernel=9_000, fusion=fusion)

    modes = [plan_of(fused(build), None, executable=frozenset({FUSED})).mode for build in (GAP - 1, GAP)]
    assert modes == [FUSED, PLAIN]


def replayed_for(ns: int, error: int = 0) -> LaunchCosts:
    """Plain launches of 10 000 ns, and replays of so much."""
    return launch_costs(launch=10_000, launch_gap=0, graph_replay=measured(ns, error), graph_replay_node=0)


ONE = workload(kernel=0, recorded=True)


@pytest.mark.parametrize(
    ("ns", "error", "mode", "why"),
    [
        (9_799, 0, GRAPH, "graph gains 201 ns over plain, more than 200 ns"),
        (9_800, 0, PLAIN, "plain stays: graph gains 200 ns, no more than 200 ns"),
        (7_000, 1_499, GRAPH, "graph gains 3000 ns over plain, more than 2998 ns"),
        (7_000, 1_500, PLAIN, "plain stays: graph gains 3000 ns, no more than 3000 ns"),
        (10_000, 0, PLAIN, "plain is in use and cheapest"),
        (10_001, 0, PLAIN, "plain is in use and cheapest"),
    ],
)
def test_the_incumbent_stays_within_the_margin(ns: int, error: int, mode: ExecutionMode, why: str) -> None:
    found = plan_of(ONE, costs=replayed_for(ns, error))
    assert (found.mode, str(found.why)) == (mode, why)


def test_gain_and_margin_are_told() -> None:
    found = plan_of(ONE, costs=replayed_for(7_000, 100))
    assert (found.gain_ns, found.margin_ns) == (3_000, 200)
    same = plan_of(ONE, GRAPH, replayed_for(7_000))
    assert (same.gain_ns, same.margin_ns) == (0, 0)
    first = plan_of(ONE, None, replayed_for(9_999))
    assert (first.mode, first.gain_ns, first.margin_ns) == (GRAPH, 1, 0)
    assert str(first.why) == "graph is cheapest, 1 ns below plain launches"
    dear = plan_of(ONE, None, replayed_for(10_000))
    assert (dear.mode, dear.gain_ns, dear.margin_ns) == (PLAIN, 0, 0)
    assert str(dear.why) == "plain launches are cheapest"
    lone = plan_of(ONE, None, replayed_for(1), executable=frozenset())
    assert (lone.mode, lone.gain_ns, lone.margin_ns) == (PLAIN, 0, 0)
    assert str(lone.why) == "nothing but plain launches has a price"


def test_a_graph_in_use_stays_within_the_margin_too() -> None:
    assert plan_of(ONE, GRAPH, replayed_for(10_200)).mode is GRAPH
    assert plan_of(ONE, GRAPH, replayed_for(10_300)).mode is PLAIN


def test_an_incumbent_that_cannot_be_executed_counts_for_nothing() -> None:
    found = plan_of(ONE, PERSISTENT, replayed_for(9_999), executable=frozenset({GRAPH}))
    assert (found.mode, found.margin_ns) == (GRAPH, 0)
    assert plan_of(ONE, FUSED, replayed_for(9_999)).mode is GRAPH, "there is nothing to fuse"


def test_an_incumbent_without_a_price_stays() -> None:
    found = plan_of(ONE, GRAPH, launch_costs(graph_gap=None))
    assert (found.mode, found.predicted) == (GRAPH, None)
    assert (found.gain_ns, found.margin_ns) == (0, 0)
    assert str(found.why) == "graph has no price, so nothing has a predicted gain"


@pytest.mark.parametrize(
    ("incumbent", "mode"), [(None, PLAIN), (PLAIN, PLAIN), (GRAPH, GRAPH), (PERSISTENT, PERSISTENT), (FUSED, PLAIN)]
)
def test_without_a_price_of_plain_launches_nothing_changes(
    incumbent: ExecutionMode | None, mode: ExecutionMode
) -> None:
    found = plan_of(workload(), incumbent, launch_costs(launch=None))
    assert (found.mode, found.gain_ns, found.margin_ns) == (mode, 0, 0)
    assert str(found.why) == "plain launches have no price, so nothing has a predicted gain"
    assert (found.price(PLAIN) is None) and (found.price(GRAPH) is not None)


def test_times_beyond_64_bits_are_as_long_as_64_bits_hold() -> None:
    given = workload(batch=2**31, repeats=2**31, kernel=0)
    costs = launch_costs(launch=U64_MAX, graph_replay=U64_MAX, persistent_setup=U64_MAX)
    found = plan_of(given, None, costs)
    assert found.predicted.total_ns > U64_MAX
    assert found.mode is PERSISTENT


def test_what_is_assumed_moves_nobody_easily() -> None:
    given = workload(nodes=16, batch=100, kernel=1_000)
    assert plan_of(given, None, ASSUMED).mode is GRAPH
    found = plan_of(given, PLAIN, ASSUMED)
    assert found.mode is PLAIN
    assert found.margin_ns > found.gain_ns > 0
