"""What holds of prices and plans, whatever the costs and the workload."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import assume, given
from hypothesis import strategies as st

from support.launch_costs import EVERY_MODE, launch_costs
from support.optimizer.priced_rules import replay_rule, resident_rule
from vectors.seeds.dispatch_policy import (
    RunCommandReuse,
    RunPersistentKernel,
    RunPlainLaunches,
    select_primary_execution_mode,
)
from vyre.domain.launch_costs import LaunchCosts, Measured, Provenance, from_text, of_samples, to_text
from vyre.policies.launching.command_reuse import RecordAndReplay
from vyre.policies.launching.execution_prices import (
    ExecutionMode,
    Price,
    PriceInputs,
    Unavailable,
    Workload,
    error_of_difference_ns,
    quote,
)
from vyre.policies.launching.persistent_kernel import PersistentKernel
from vyre.policies.launching.plan_execution import ExecutionInputs, ExecutionThresholds, plan_execution

PLAIN, GRAPH, PERSISTENT, FUSED = ExecutionMode
TIMES = st.builds(
    lambda ns, error: Measured(ns, error, error, 9, Provenance.MEASURED),
    st.integers(0, 30) | st.integers(0, 200_000),
    st.integers(0, 3) | st.integers(0, 20_000),
)
PRICED = tuple(launch_costs().known())
LAUNCHING = st.fixed_dictionaries(dict.fromkeys(PRICED, TIMES)).map(lambda found: launch_costs(**found))
PARTLY_KNOWN = st.fixed_dictionaries(dict.fromkeys(PRICED, TIMES | st.none())).map(lambda found: launch_costs(**found))
MODES = st.frozensets(st.sampled_from(ExecutionMode))
MODE_OF = {RunPlainLaunches: PLAIN, RunCommandReuse: GRAPH, RunPersistentKernel: PERSISTENT}
INCUMBENTS = st.sampled_from(ExecutionMode) | st.none()


@st.composite
def workloads(draw: st.DrawFn, kernel: st.SearchStrategy[Measured | None] = TIMES) -> Workload:
    nodes = draw(st.integers(1, 4) | st.integers(1, 200))
    return Workload(
        nodes,
        batch=draw(st.integers(1, 4) | st.integers(1, 2_000)),
        repeats=draw(st.integers(1, 4) | st.integers(1, 2_000)),
        kernel=draw(kernel),
        resident_kernel=draw(st.none() | TIMES),
        recorded=draw(st.booleans()),
        changed_nodes=draw(st.integers(0, nodes)),
    )


def prices(
    workload: Workload, costs: LaunchCosts, executable: frozenset[ExecutionMode] = EVERY_MODE
) -> dict[Any, Price]:
    found = quote(PriceInputs(workload, costs, executable))
    return {each.mode: each for each in found if isinstance(each, Price)}


@given(workloads(), LAUNCHING)
def test_the_rules_save_what_the_prices_differ_by(workload: Workload, costs: LaunchCosts) -> None:
    """So that a rule and a price cannot contradict each other, and the cheapest mode is the one of the rules."""
    priced = prices(workload, costs)
    assert workload.kernel is not None
    kernel_ns = workload.kernel.median_ns
    reuse = replay_rule(priced[PLAIN], priced[GRAPH], workload.repeats, kernel_ns)
    persistent = resident_rule(priced[PLAIN], priced[PERSISTENT], kernel_ns)
    replayed = priced[PLAIN].total_ns - priced[GRAPH].total_ns
    resident = priced[PLAIN].batch_ns - priced[PERSISTENT].batch_ns
    assert isinstance(reuse, RecordAndReplay) is (replayed > 0)
    assert isinstance(persistent, PersistentKernel) is (resident > 0)
    if isinstance(reuse, RecordAndReplay):
        assert reuse.savings_ns == replayed
    if isinstance(persistent, PersistentKernel):
        assert persistent.savings_ns == resident
        persistent = PersistentKernel(resident * workload.repeats)
    chosen = plan_execution(ExecutionInputs(workload, costs, frozenset({GRAPH, PERSISTENT})))
    assert chosen.mode is MODE_OF[type(select_primary_execution_mode(persistent, reuse))]


@given(workloads(), LAUNCHING, MODES)
def test_without_an_incumbent_the_cheapest_is_chosen(
    workload: Workload, costs: LaunchCosts, executable: frozenset[ExecutionMode]
) -> None:
    found = plan_execution(ExecutionInputs(workload, costs, executable))
    priced = prices(workload, costs, executable)
    assert priced[found.mode].total_ns == min(each.total_ns for each in priced.values())
    assert found.predicted == priced[found.mode]
    assert found.gain_ns == priced[PLAIN].total_ns - priced[found.mode].total_ns


@given(workloads(), LAUNCHING, MODES, st.sampled_from(ExecutionMode))
def test_nothing_cheaper_is_further_away_than_the_margin(
    workload: Workload, costs: LaunchCosts, executable: frozenset[ExecutionMode], incumbent: ExecutionMode
) -> None:
    priced = prices(workload, costs, executable)
    assume(incumbent in priced)
    found = plan_execution(ExecutionInputs(workload, costs, executable, incumbent))
    least = min(each.total_ns for each in priced.values())
    gain = priced[incumbent].total_ns - least
    assert priced[found.mode].total_ns - least <= found.margin_ns
    assert found.gain_ns == gain
    if found.mode is not incumbent:
        assert priced[found.mode].total_ns == least
        assert gain > found.margin_ns >= 2 * error_of_difference_ns(priced[incumbent], priced[found.mode])
        assert 10_000 * gain > 200 * priced[incumbent].total_ns
    again = plan_execution(ExecutionInputs(workload, costs, executable, found.mode))
    assert again.mode is found.mode, "a choice stands when it is asked about again"


@given(workloads(st.none() | TIMES), PARTLY_KNOWN, MODES, INCUMBENTS)
def test_only_what_can_be_executed_is_chosen(
    workload: Workload, costs: LaunchCosts, executable: frozenset[ExecutionMode], incumbent: ExecutionMode | None
) -> None:
    found = plan_execution(ExecutionInputs(workload, costs, executable, incumbent))
    assert [each.mode for each in found.quotes] == list(ExecutionMode)
    assert found.mode is PLAIN or found.mode in executable - {FUSED}, "no stages are known"
    for each in found.quotes:
        if isinstance(each, Unavailable):
            assert str(each.why)
            assert all(name == "kernel" or getattr(costs, name) is None for name in each.unknown)
            assert each.mode in executable | {PLAIN} or not each.unknown
            assert found.mode is not each.mode or found.mode is incumbent or found.mode is PLAIN


@given(workloads(), LAUNCHING, st.sampled_from(PRICED), st.integers(1, 10**6))
def test_nothing_gets_cheaper_when_a_cost_rises(workload: Workload, costs: LaunchCosts, name: str, more: int) -> None:
    value: Measured = getattr(costs, name)
    dearer: dict[str, Any] = {name: replace(value, median_ns=value.median_ns + more)}
    before, after = prices(workload, costs), prices(workload, replace(costs, **dearer))
    assert all(after[mode].total_ns >= before[mode].total_ns for mode in before)


@given(workloads(), LAUNCHING, st.integers(1, 10**6))
def test_nothing_gets_cheaper_when_kernels_take_longer(workload: Workload, costs: LaunchCosts, more: int) -> None:
    assert workload.kernel is not None
    longer = replace(workload, kernel=replace(workload.kernel, median_ns=workload.kernel.median_ns + more))
    before, after = prices(workload, costs), prices(longer, costs)
    for mode in before:
        own = workload.resident_kernel is not None and mode is PERSISTENT
        assert after[mode].total_ns >= before[mode].total_ns
        assert own or after[mode].total_ns <= before[mode].total_ns + more * workload.launches * workload.repeats


@given(workloads(), LAUNCHING)
def test_no_batch_is_shorter_than_its_kernels(workload: Workload, costs: LaunchCosts) -> None:
    for mode, found in prices(workload, costs).items():
        kernel = workload.resident_kernel if mode is PERSISTENT and workload.resident_kernel else workload.kernel
        assert kernel is not None
        assert found.batch_ns >= workload.launches * kernel.median_ns


@given(workloads(), LAUNCHING, INCUMBENTS)
def test_more_certainty_never_keeps_an_incumbent(
    workload: Workload, costs: LaunchCosts, incumbent: ExecutionMode | None
) -> None:
    inputs = ExecutionInputs(workload, costs, EVERY_MODE, incumbent)
    careless = ExecutionThresholds(standard_errors=0, min_gain_bps=0)
    careful, quick = plan_execution(inputs), plan_execution(inputs, careless)
    assert careful.mode in (quick.mode, incumbent)
    assert quick.predicted is not None
    assert careful.predicted is not None
    assert quick.predicted.total_ns <= careful.predicted.total_ns


@given(st.lists(st.integers(0, 2**64 - 1), min_size=5, max_size=30), st.randoms(use_true_random=False))
def test_samples_have_no_order(samples: list[int], random: Any) -> None:
    found = of_samples(samples, Provenance.MEASURED)
    assert min(samples) <= found.median_ns <= max(samples)
    assert found.spread_ns <= max(samples) - min(samples)
    random.shuffle(samples)
    assert of_samples(samples, Provenance.MEASURED) == found


@given(PARTLY_KNOWN)
def test_text_reads_back(costs: LaunchCosts) -> None:
    text = to_text(costs)
    assert from_text(text) == costs
    assert to_text(from_text(text)) == text
