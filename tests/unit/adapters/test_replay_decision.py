"""When a sequence is recorded: by the plan, for as many runs more as were seen, and seldom decided again."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import pytest

from vyre.adapters.replay_decision import (
    NEVER,
    GraphAfter,
    ReplayDecision,
    ReplayPlanner,
    Verdict,
    Work,
)
from vyre.app.journal import DecisionJournal
from vyre.domain.cost_limits import SETTLING_SAMPLES
from vyre.domain.launch_costs import ASSUMED, LaunchCosts, Measured, Provenance
from vyre.policies.launching.command_reuse import CommandReuseInputs
from vyre.policies.launching.cost_observation import CostCorrected
from vyre.policies.launching.execution_prices import ExecutionMode
from vyre.testing.recording_telemetry import RecordingTelemetry

WORK: Final = Work("a dispatch", operations=4, timed=1)
LOOP: Final = Work("a loop", operations=100, timed=100)


def ns(value: int) -> Measured:
    return Measured(value, 0, 0, 9, Provenance.MEASURED)


KNOWN: Final[dict[str, Any]] = {
    **dict.fromkeys(("round_trip", "launch_gap", "graph_gap", "graph_replay_node", "graph_update"), ns(0)),
    "launch": ns(3_000),
    "graph_record": ns(24_000),
    "graph_record_node": ns(4_000),
    "graph_replay": ns(2_000),
    "graph_update_node": ns(1_000),
}
COSTS: Final = replace(ASSUMED, **KNOWN)
"""Recording WORK takes 40 us, a replay of it 2 us, plain launches 12 us."""


def planner(
    after: GraphAfter = "costs",
    costs: LaunchCosts = COSTS,
    telemetry: RecordingTelemetry | None = None,
    times: Provenance = Provenance.EMULATED,
) -> ReplayPlanner:
    return ReplayPlanner(after, costs, times, telemetry or RecordingTelemetry())


def made(planner: ReplayPlanner, work: Work = WORK) -> ReplayDecision:
    found = planner.decision(work)
    assert found is not None
    return found


def replays(decision: ReplayDecision, batch: int = 1) -> bool:
    """One run that acts by the verdict: whether it is one by a graph, which is recorded in no time."""
    verdict = decision.verdict(batch)
    if verdict is Verdict.RECORD:
        decision.recorded(0)
    return verdict is not Verdict.PLAIN


def runs(decision: ReplayDecision, count: int, device_ns: int = 4_000, batch: int = 1) -> list[bool]:
    """So many runs, each timed: which of them were replays."""
    found = []
    for _ in range(count):
        found.append(replays(decision, batch))
        decision.took(device_ns, None, batch)
    return found


def test_it_records_where_as_many_runs_as_were_seen_pay_for_it() -> None:
    decision = made(planner())
    found = runs(decision, 20)
    first = found.index(True)
    # A replay saves 10 us, and recording takes 40 us: eight more pay for it, four only just do not.
    assert first == 8 and all(found[first:])


def test_kernels_that_hide_their_launches_are_not_recorded() -> None:
    quiet = made(planner(costs=replace(COSTS, graph_replay=ns(2_999))), LOOP)
    assert not any(runs(quiet, 1, device_ns=100 * 1_000_000))
    assert not any(runs(quiet, 6, device_ns=100 * 1_000_000, batch=100))


def test_a_loop_is_recorded_at_once_and_a_single_round_is_not() -> None:
    assert replays(made(planner(), LOOP), batch=50)
    assert not replays(made(planner(), LOOP))


def test_parameters_that_change_in_every_replay_may_end_replays() -> None:
    plans = planner(costs=replace(COSTS, graph_update_node=ns(11_000)))
    still, moving = made(plans), made(plans)
    assert runs(still, 40)[-1]
    found = []
    for _ in range(40):
        found += runs(moving, 1)
        moving.updated(found[-1])
    assert found.index(True) == 8 and found.index(False, 9) == 16 and not any(found[16:])
    assert plans.plans()[-1].inputs.workload.changed_nodes == 1
    looped = made(plans, LOOP)
    runs(looped, 3, batch=10)
    looped.updated(300)
    runs(looped, 3, batch=20)
    assert plans.plans()[-1].inputs.workload.changed_nodes == 0


def test_it_is_decided_again_when_twice_as_much_was_seen() -> None:
    plans = planner(costs=replace(COSTS, graph_record=ns(10**9)))
    runs(made(plans), 40)
    assert [plan.inputs.workload.repeats for plan in plans.plans()] == [2, 4, 8, 16, 32]
    assert {plan.work for plan in plans.plans()} == {"a dispatch"}


def test_a_run_that_repeats_more_is_decided_about() -> None:
    plans = planner()
    decision = made(plans, LOOP)
    assert [timed(decision, batch) for batch in (1, 2, 3, 3, 4)] == [False, True, True, True, True]
    assert [plan.inputs.workload.batch for plan in plans.plans()] == [2, 3, 4]


def timed(decision: ReplayDecision, batch: int) -> bool:
    (found,) = runs(decision, 1, batch=batch)
    return found


@pytest.mark.parametrize(("rounds", "verdict"), [(2, "PlainLaunches"), (3, "RecordAndReplay")])
def test_rounds_that_nobody_has_timed_are_decided_about_by_the_costs_of_the_host(rounds: int, verdict: str) -> None:
    """A replay saves 10 us, and recording takes 26 us."""
    journal = DecisionJournal()
    costs = replace(COSTS, graph_record=ns(10_000))
    plans = ReplayPlanner("costs", costs, Provenance.EMULATED, RecordingTelemetry(), journal)
    assert replays(made(plans), rounds) is (verdict == "RecordAndReplay")
    (decision,) = journal.decisions
    assert decision.arguments == (CommandReuseInputs(rounds, 4 * 3_000, 10_000 + 4 * 4_000, 2_000),)
    assert type(decision.verdict).__name__ == verdict and not plans.plans()


def test_new_costs_are_used_at_the_next_run() -> None:
    plans = planner(costs=replace(COSTS, launch=ns(2)))
    decision = made(plans)
    assert not any(runs(decision, 9))
    plans.use_costs(COSTS)
    assert runs(decision, 1) == [True]
    plans.use_costs(replace(COSTS, launch=ns(2)))
    assert runs(decision, 1) == [False]
    assert plans.plans()[-1].inputs.incumbent is ExecutionMode.GRAPH


def test_what_has_no_price_is_launched_plainly() -> None:
    plans = planner(costs=LaunchCosts(ASSUMED.source, 0))
    assert not any(runs(made(plans), 10))
    assert not any(runs(made(plans, LOOP), 10, batch=100))
    assert "no price" in str(plans.plans()[0].plan.why)


def test_after_so_many_runs_nothing_is_planned() -> None:
    plans = planner(3)
    decision = made(plans)
    assert runs(decision, 5, batch=100) == [False, False, False, True, True]
    plans.use_costs(ASSUMED)
    assert runs(decision, 1) == [True]
    assert plans.plans() == () and decision.due == NEVER
    assert made(planner(0)).verdict() is Verdict.RECORD


@pytest.mark.parametrize("work", [WORK._replace(operations=0), WORK._replace(operations=1025)])
def test_nothing_and_too_much_are_never_recorded(work: Work) -> None:
    assert planner(0).decision(work) is None
    assert planner(None).decision(WORK) is None


def test_a_graph_is_recorded_until_somebody_says_that_it_was() -> None:
    decision = made(planner(1))
    assert [decision.verdict() for _ in range(3)] == [Verdict.PLAIN, Verdict.RECORD, Verdict.RECORD]
    decision.recorded(0)
    assert [decision.verdict() for _ in range(3)] == [Verdict.REPLAY] * 3


def test_an_evicted_graph_begins_anew() -> None:
    decision = made(planner(2))
    assert runs(decision, 3)[-1]
    decision.begin_anew()
    assert [decision.verdict() for _ in range(3)] == [Verdict.PLAIN, Verdict.PLAIN, Verdict.RECORD]


def test_what_kernels_of_an_evicted_graph_took_is_forgotten() -> None:
    """A replay has gaps of 500 ns where plain launches have none."""
    plans = planner(costs=replace(COSTS, graph_gap=ns(500)))
    decision = made(plans, LOOP)
    assert all(runs(decision, 2, device_ns=100 * 9_600, batch=10))
    decision.begin_anew()
    runs(decision, 3, device_ns=100 * 12_100)
    kernel = plans.plans()[-1].inputs.workload.kernel
    assert kernel is not None and (kernel.median_ns, kernel.count) == (12_100, 2)


def test_rounds_after_an_eviction_are_not_those_that_the_plan_of_replays_spoke_of() -> None:
    telemetry = RecordingTelemetry()
    plans = planner(telemetry=telemetry)
    decision = made(plans, LOOP)
    for _ in range(3):
        replays(decision, 10)
        decision.took(50_000, 500_000, 10)
    decision.begin_anew()
    plans.use_costs(replace(COSTS, graph_record=ns(10**9)))
    for _ in range(8):
        assert not replays(decision)
        decision.took(50_000, 700_000)
    observed = {labels: value for (name, labels), value in telemetry.counts.items() if name == "vyre.plan.observed_ns"}
    assert observed.pop((("mode", "graph"),)) == 3 * 500_000
    assert all(told % 700_000 == 0 for told in observed.values())


def test_kernels_are_timed_net_of_what_lies_beside_them() -> None:
    plans = planner()
    runs(made(plans, LOOP._replace(operations=50, timed=50)), 3, device_ns=50 * 4_500)
    kernel = plans.plans()[0].inputs.workload.kernel
    assert kernel is not None and (kernel.median_ns, kernel.count, kernel.provenance) == (
        1_500,
        2,
        Provenance.EMULATED,
    )
    recorded = planner(costs=replace(COSTS, graph_gap=ns(500)))
    runs(made(recorded, LOOP), 17, device_ns=100 * 4_500)
    kernels = [plan.inputs.workload.kernel for plan in recorded.plans()]
    assert [kernel.median_ns for kernel in kernels if kernel is not None] == [1_500] * 3 + [4_000]


def test_every_plan_is_counted() -> None:
    telemetry = RecordingTelemetry()
    runs(made(planner(telemetry=telemetry)), 9)
    assert telemetry.counts["vyre.plan.chosen", (("mode", "plain"),)] == 2
    assert telemetry.counts["vyre.plan.chosen", (("mode", "graph"),)] == 1


def test_every_plan_is_told_to_who_keeps_decisions() -> None:
    journal = DecisionJournal()
    plans = ReplayPlanner("costs", COSTS, Provenance.EMULATED, sink=journal)
    runs(made(plans), 9)
    assert [decision.name for decision in journal.decisions] == ["plan_execution"] * 3
    assert [decision.verdict for decision in journal.decisions] == [plan.plan for plan in plans.plans()]


def test_what_a_plan_predicted_is_told_beside_what_was_observed() -> None:
    telemetry = RecordingTelemetry()
    plans = planner(telemetry=telemetry)
    decision = made(plans)
    for _ in range(300):
        replayed = replays(decision)
        decision.took(4_000, 9_000 if replayed else 14_000)
    told = {(name, labels[0][1]): value for (name, labels), value in telemetry.counts.items() if "plan." in name}
    assert {mode for _, mode in told} == {"plain", "graph"}
    for mode, each in (("plain", 14_000), ("graph", 9_000)):
        rounds = told["vyre.plan.observed_ns", mode] // each
        assert rounds > 4
        assert told["vyre.plan.observed_ns", mode] == rounds * each
        each_ns = [
            found.plan.predicted.batch_ns
            for found in plans.plans()
            if found.plan.mode.value == mode and found.plan.predicted
        ]
        assert rounds * min(each_ns) <= told["vyre.plan.predicted_ns", mode] <= rounds * max(each_ns)
        assert rounds < 60  # the last ones before each plan


def taking(decision: ReplayDecision, count: int, wall_ns: int) -> list[bool]:
    """So many runs, each of which took so long in all: which of them were replays."""
    found = []
    for _ in range(count):
        found.append(replays(decision))
        decision.took(0, wall_ns)
    return found


def test_a_launch_cost_that_runs_refute_is_not_planned_with_until_they_could_correct_it() -> None:
    dear = replace(COSTS, launch=ns(300_000))
    plans = planner(costs=dear, times=Provenance.MEASURED)
    assert taking(made(plans), 3, wall_ns=4 * 300_000) == [False, False, True]  # it holds
    refuted = made(plans)
    assert not any(taking(refuted, SETTLING_SAMPLES, wall_ns=4 * 550))
    assert len(plans.plans()) == 1
    assert not any(taking(refuted, 40, wall_ns=4 * 550))  # a replay saves 200 ns: 200 of them pay for the recording
    assert plans.plans()[-1].inputs.costs.launch == ns(550)


def test_a_refuted_cost_ends_no_replays() -> None:
    plans = planner()
    decision = made(plans)
    assert taking(decision, 20, wall_ns=4 * 3_000)[-1]
    plans.use_costs(replace(COSTS, launch=ns(300_000)))
    assert all(taking(decision, 20, wall_ns=9_000))


def test_rounds_of_a_loop_are_compared_one_by_one() -> None:
    telemetry = RecordingTelemetry()
    decision = made(planner(telemetry=telemetry), LOOP)
    for _ in range(8):
        replays(decision, 10)
        decision.took(1_000_000, 500_000, 10)
    counts = {name: value for (name, _), value in telemetry.counts.items()}
    assert counts["vyre.plan.observed_ns"] % 500_000 == 0
    assert counts["vyre.plan.predicted_ns"] > 0


def test_a_cost_that_is_trusted_more_is_not_corrected() -> None:
    """What an emulator takes does not replace what was measured; it is waited for all the same."""
    plans = planner(costs=replace(COSTS, launch=ns(300_000)))
    assert taking(made(plans), SETTLING_SAMPLES + 1, wall_ns=4 * 550)[-1]
    assert plans.plans()[-1].inputs.costs.launch == ns(300_000)


def test_a_correction_is_told_with_its_reason() -> None:
    journal = DecisionJournal()
    plans = ReplayPlanner("costs", replace(COSTS, launch=ns(300_000)), Provenance.MEASURED, sink=journal)
    taking(made(plans), SETTLING_SAMPLES + 1, wall_ns=4 * 550)
    verdicts = [decision.verdict for decision in journal.decisions if decision.name == "judge_cost"]
    assert [str(verdict.why) for verdict in verdicts if isinstance(verdict, CostCorrected)] == [
        "launch is at most 550 ns, not 300000 ns: 9 samples of what contains it take no longer"
    ]


def test_the_mode_in_use_is_left_only_for_a_gain_beyond_the_margin() -> None:
    """Also plain launches, once a replay was tried."""
    plans = planner(costs=replace(COSTS, launch=ns(2_000)))
    decision = made(plans, LOOP)
    assert runs(decision, 2, device_ns=0, batch=50) == [True, True]
    plans.use_costs(replace(COSTS, launch=ns(15)))
    assert runs(decision, 1, device_ns=0) == [False]
    for launch, mode in ((20.2, ExecutionMode.PLAIN), (25, ExecutionMode.GRAPH)):  # 100 of them, and a replay 2 us
        plans.use_costs(replace(COSTS, launch=ns(round(launch))))
        runs(decision, 1, device_ns=0)
        assert (plans.plans()[-1].inputs.incumbent, plans.plans()[-1].plan.mode) == (ExecutionMode.PLAIN, mode)


def test_long_kernels_are_timed_net_of_the_gap_between_launches() -> None:
    """A device that hides its launches tells exactly what kernels take; one that waits for them, the least."""
    plans = planner(costs=replace(COSTS, launch_gap=ns(1_000), graph_record=ns(10**9)))
    for each, kernel in ((4_900, 1_900), (5_100, 4_100)):
        runs(made(plans, LOOP), 3, device_ns=100 * each)
        found = plans.plans()[-1].inputs.workload.kernel
        assert found is not None and found.median_ns == kernel


def test_what_was_not_told_is_told_at_the_end() -> None:
    telemetry = RecordingTelemetry()
    decision = made(planner(telemetry=telemetry))
    taking(decision, 3, wall_ns=14_000)
    assert not [name for name, _ in telemetry.counts if name == "vyre.plan.observed_ns"]
    decision.end()
    decision.end()
    assert telemetry.counts["vyre.plan.observed_ns", (("mode", "plain"),)] == 14_000


def test_the_time_of_a_recording_is_no_time_of_the_run() -> None:
    telemetry = RecordingTelemetry()
    decision = made(planner(telemetry=telemetry), LOOP)
    assert decision.verdict(10) is Verdict.RECORD
    decision.recorded(400_000)
    decision.took(0, 500_000, 10)
    decision.end()
    assert telemetry.counts["vyre.plan.observed_ns", (("mode", "graph"),)] == 100_000
