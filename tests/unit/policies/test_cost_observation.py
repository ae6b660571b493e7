"""Costs that were observed: when they are believed, when they are corrected, and what is said of it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.launch_costs import launch_costs, measured
from vyre.domain.launch_costs import Measured, Provenance
from vyre.policies.launching.cost_observation import (
    CostCorrected,
    CostKept,
    CostSamples,
    CostUnsettled,
    ObservationThresholds,
    judge_cost,
)
from vyre.policies.launching.execution_prices import ExecutionMode, Workload
from vyre.policies.launching.plan_execution import ExecutionInputs, plan_execution

NINE = (3_000,) * 9


def samples(*times: int, **changes: Any) -> CostSamples:
    given: dict[str, Any] = {
        "cost": "launch",
        "believed": measured(300_000, 100),
        "samples_ns": times or NINE,
        "provenance": Provenance.MEASURED,
    }
    return CostSamples(**given | changes)


CASES: dict[str, tuple[CostSamples, type, int | None, str]] = {
    "too few": (samples(*NINE[1:]), CostUnsettled, None, "launch: 8 samples, of 9 that it takes"),
    "far too large": (
        samples(),
        CostCorrected,
        3_000,
        "launch is 3000 ns, not 300000 ns: 9 samples, 297000 ns off, more than 75000 ns",
    ),
    "far too small": (
        samples(believed=measured(30)),
        CostCorrected,
        3_000,
        "launch is 3000 ns, not 30 ns: 9 samples, 2970 ns off, more than 7 ns",
    ),
    "at the margin": (
        samples(believed=measured(4_000)),
        CostKept,
        4_000,
        "launch: 3000 ns in 9 samples, 1000 ns off, no more than 1000 ns",
    ),
    "beyond the margin": (
        samples(believed=measured(4_001)),
        CostCorrected,
        3_000,
        "launch is 3000 ns, not 4001 ns: 9 samples, 1001 ns off, more than 1000 ns",
    ),
    "as uncertain as that": (
        samples(believed=measured(300_000, 74_250)),
        CostKept,
        300_000,
        "launch: 3000 ns in 9 samples, 297000 ns off, no more than 297000 ns",
    ),
    "free": (
        samples(believed=measured(0)),
        CostCorrected,
        3_000,
        "launch is 3000 ns, not 0 ns: 9 samples, 3000 ns off, more than 0 ns",
    ),
    "unknown": (samples(believed=None), CostCorrected, 3_000, "launch was unknown and is 3000 ns in 9 samples"),
    "a bound of what is larger": (
        samples(bounds=True),
        CostCorrected,
        3_000,
        "launch is at most 3000 ns, not 300000 ns: 9 samples of what contains it take no longer",
    ),
    "a bound of what is smaller": (
        samples(bounds=True, believed=measured(30)),
        CostKept,
        30,
        "launch: 9 samples contain it and take 3000 ns",
    ),
    "a bound of the same": (
        samples(bounds=True, believed=measured(3_000)),
        CostKept,
        3_000,
        "launch: 9 samples contain it and take 3000 ns",
    ),
    "a bound of a little more": (
        samples(bounds=True, believed=measured(4_000)),
        CostKept,
        4_000,
        "launch: 3000 ns in 9 samples, 1000 ns off, no more than 1000 ns",
    ),
    "a bound of what is unknown": (
        samples(bounds=True, believed=None),
        CostUnsettled,
        None,
        "launch is unknown, and 9 samples only contain it",
    ),
    "emulated, of what was measured": (
        samples(provenance=Provenance.EMULATED),
        CostKept,
        300_000,
        "launch was measured, the samples are emulated",
    ),
    "emulated, of what is assumed": (
        samples(provenance=Provenance.EMULATED, believed=measured(300_000, provenance=Provenance.ASSUMED)),
        CostCorrected,
        3_000,
        "launch is 3000 ns, not 300000 ns: 9 samples, 297000 ns off, more than 75000 ns",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_verdict_and_its_reason(case: str) -> None:
    inputs, kind, value, why = CASES[case]
    found = judge_cost(inputs)
    assert type(found) is kind
    assert str(found.why) == why
    assert found.cost == "launch"
    if isinstance(found, CostKept):
        assert found.value == inputs.believed
        assert found.value.median_ns == value
    if isinstance(found, CostCorrected):
        assert found.before == inputs.believed
        assert found.value == Measured(3_000, 0, 0, 9, inputs.provenance)
        assert found.upper_bound is inputs.bounds


def test_the_uncertainty_of_both_counts() -> None:
    spread = tuple(range(2_000, 4_001, 250))  # nine, with a standard error of 310
    alike = ObservationThresholds(min_change_bps=0, standard_errors=1)
    assert isinstance(judge_cost(samples(*spread, believed=measured(3_310)), alike), CostKept)
    assert isinstance(judge_cost(samples(*spread, believed=measured(3_311)), alike), CostCorrected)
    assert isinstance(judge_cost(samples(*spread, believed=measured(3_311, 25)), alike), CostKept)


TIMES = st.integers(2_500, 3_500)


@given(st.data(), st.lists(TIMES, min_size=9, max_size=64))
def test_fewer_than_a_quarter_of_outliers_correct_nothing_wrong(data: st.DataObject, good: list[int]) -> None:
    most = (len(good) - 1) // 3
    bad = data.draw(st.lists(st.integers(0, 2**63), max_size=most))
    mixed = data.draw(st.permutations([*good, *bad]))
    found = judge_cost(samples(*mixed))
    assert isinstance(found, CostCorrected)
    assert min(good) <= found.value.median_ns <= max(good)
    assert found.value.spread_ns <= max(good) - min(good)


@given(st.lists(TIMES, min_size=1, max_size=64), st.integers(0, 2**40), st.sampled_from(Provenance))
def test_a_bound_never_raises_a_cost(times: list[int], believed: int, trusted: Provenance) -> None:
    found = judge_cost(samples(*times, believed=measured(believed, provenance=trusted), bounds=True))
    if isinstance(found, CostCorrected):
        assert found.value.median_ns < believed


@given(st.integers(500, 100_000), st.sampled_from((1, 100)), st.lists(st.floats(0.7, 1.4), min_size=50, max_size=50))
def test_a_cost_that_is_a_hundred_times_too_large_or_small_is_corrected_within_50_dispatches(
    truth: int, smaller: int, noise: list[float]
) -> None:
    """And a plan that rests on it changes."""
    wrong = truth * 100 if smaller == 1 else truth // 100
    believed, seen, corrected_after = measured(wrong), list[int](), 0
    for dispatch, factor in enumerate(noise, start=1):
        seen.append(round(truth * factor))
        found = judge_cost(samples(*seen, believed=believed))
        if isinstance(found, CostCorrected):
            believed, corrected_after = found.value, dispatch
            assert str(wrong) in str(found.why)
            break
    assert 0 < corrected_after <= 50
    assert truth * 0.7 - 1 <= believed.median_ns <= truth * 1.4 + 1


def test_a_plan_that_rests_on_a_wrong_launch_cost_changes() -> None:
    workload = Workload(1, 1, 1, measured(10_000))

    def planned(launch: Measured) -> ExecutionMode:
        costs = launch_costs(launch=launch, graph_record=50_000)
        return plan_execution(ExecutionInputs(workload, costs, frozenset((ExecutionMode.GRAPH,)))).mode

    corrected = judge_cost(samples())
    assert isinstance(corrected, CostCorrected)
    assert (planned(measured(300_000)), planned(corrected.value)) == (ExecutionMode.GRAPH, ExecutionMode.PLAIN)
