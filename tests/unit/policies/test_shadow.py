"""Which dispatches a shadow samples, and which samples it admits."""

from __future__ import annotations

import math
from itertools import accumulate
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vyre.domain.errors import InvalidField
from vyre.policies.evidence.shadow import (
    SampleDraw,
    ShadowAction,
    ShadowLimits,
    ShadowLoad,
    ShadowVerdict,
    admit_sample,
    next_sample,
)


def load(**changes: int) -> ShadowLoad:
    return ShadowLoad(
        **({"owed_ns": 0, "since_ns": 0, "dispatches": 0, "waiting": 0, "expected_ns": 0, "nbytes": 0} | changes)
    )


@pytest.mark.parametrize("rate", [0.5, 0.1, 0.01])
def test_as_many_dispatches_are_sampled_as_the_rate_says(rate: float) -> None:
    gaps = [next_sample(SampleDraw(7, sample, rate)) for sample in range(20_000)]
    assert min(gaps) == 1
    assert sum(gaps) / len(gaps) == pytest.approx(1 / rate, rel=0.03)
    within = sum(gap <= 1 / rate for gap in gaps) / len(gaps)
    assert within == pytest.approx(1 - (1 - rate) ** round(1 / rate), abs=0.02)


def test_every_place_of_a_loop_is_sampled() -> None:
    places = accumulate(next_sample(SampleDraw(1, sample, 0.1)) for sample in range(2_000))
    assert {place % 10 for place in places} == set(range(10))


def test_a_seed_draws_the_same_samples_again_and_another_one_others() -> None:
    one, again, other = ([next_sample(SampleDraw(seed, sample, 0.01)) for sample in range(100)] for seed in (1, 1, 2))
    assert one == again != other


def test_the_highest_and_the_lowest_rate() -> None:
    assert {next_sample(SampleDraw(0, sample, 1.0)) for sample in range(100)} == {1}
    assert next_sample(SampleDraw(2**64 - 1, 2**64 - 1, 5e-324)) == 2**52 + 1


@pytest.mark.parametrize("rate", [0.0, -0.1, 1.5, float("nan"), "1"])
def test_other_rates_are_refused(rate: Any) -> None:
    with pytest.raises(InvalidField):
        SampleDraw(0, 0, rate)


@pytest.mark.parametrize(
    ("given", "action", "owed"),
    [
        ({}, ShadowAction.RUN, 0),
        ({"owed_ns": 1_000, "since_ns": 49_999}, ShadowAction.OVER_BUDGET, 1),
        ({"owed_ns": 1_000, "since_ns": 50_000}, ShadowAction.RUN, 0),
        ({"owed_ns": 1_000, "since_ns": 10**12}, ShadowAction.RUN, 0),
        ({"waiting": 1, "expected_ns": 1}, ShadowAction.OVER_BUDGET, 0),
        ({"waiting": 7}, ShadowAction.RUN, 0),
        ({"waiting": 8}, ShadowAction.QUEUE_FULL, 0),
        ({"nbytes": 64 << 20}, ShadowAction.RUN, 0),
        ({"nbytes": (64 << 20) + 1}, ShadowAction.TOO_LARGE, 0),
    ],
)
def test_a_sample_is_admitted_while_nothing_is_exhausted(
    given: dict[str, int], action: ShadowAction, owed: int
) -> None:
    found = admit_sample(load(**given))
    assert (found.action, found.owed_ns) == (action, owed)
    assert str(found.why)


@pytest.mark.parametrize(
    ("limits", "given", "action"),
    [
        (ShadowLimits(budget=0.5), {"owed_ns": 1_000, "since_ns": 2_000}, ShadowAction.RUN),
        (ShadowLimits(budget=None), {"owed_ns": 10**15}, ShadowAction.RUN),
        (ShadowLimits(most_waiting=1), {"waiting": 1}, ShadowAction.QUEUE_FULL),
        (ShadowLimits(most_bytes=10), {"nbytes": 11}, ShadowAction.TOO_LARGE),
        (ShadowLimits(most_bytes=0), {"nbytes": 1, "owed_ns": 1}, ShadowAction.OVER_BUDGET),
        (ShadowLimits(most_bytes=0, most_waiting=1), {"nbytes": 1, "waiting": 1}, ShadowAction.TOO_LARGE),
        (ShadowLimits(most_waiting=1), {"waiting": 1, "expected_ns": 1}, ShadowAction.QUEUE_FULL),
        (ShadowLimits(dispatch_ns=0), {"owed_ns": 20, "since_ns": 1_000, "dispatches": 9}, ShadowAction.RUN),
        (ShadowLimits(dispatch_ns=1), {"owed_ns": 20, "since_ns": 1_000, "dispatches": 9}, ShadowAction.OVER_BUDGET),
    ],
)
def test_every_limit_moves_the_answer(limits: ShadowLimits, given: dict[str, int], action: ShadowAction) -> None:
    assert admit_sample(load(**given), limits).action is action


@given(
    owed=st.integers(1, 10**13),
    budget=st.floats(0.001, 1.0),
    part=st.floats(0.0, 1.0, exclude_max=True),
    dispatches=st.integers(0, 10**6),
    nbytes=st.integers(0, 2**30),
)
def test_until_a_refusal_ends_every_sample_is_refused_and_then_none_is_for_what_was_owed(
    owed: int, budget: float, part: float, dispatches: int, nbytes: int
) -> None:
    limits = ShadowLimits(budget, dispatch_ns=500)
    refused = admit_sample(load(owed_ns=owed), limits)
    assert (refused.action, refused.owed_ns) == (ShadowAction.OVER_BUDGET, owed) and refused.refused_ns > 0
    within = load(owed_ns=owed, since_ns=int(part * refused.refused_ns), dispatches=dispatches, nbytes=nbytes)
    assert admit_sample(within, limits).action is ShadowAction.OVER_BUDGET
    after = load(owed_ns=owed, since_ns=refused.refused_ns + math.ceil(1 / budget) + 1)
    assert admit_sample(after, limits) == ShadowVerdict(ShadowAction.RUN, 0, 0)


@pytest.mark.parametrize("budget", [5e-324, 1e-300, 1e-12])
def test_the_smallest_budget_refuses_for_a_time_that_a_number_of_64_bits_holds(budget: float) -> None:
    refusal = admit_sample(load(owed_ns=10**9), ShadowLimits(budget=budget))
    assert refusal.action is ShadowAction.OVER_BUDGET
    assert refusal.refused_ns == min(math.floor(10**9 / budget) if budget > 1e-200 else 2**63, 2**63)


def test_only_a_refusal_for_what_is_owed_says_for_how_long_it_holds() -> None:
    assert admit_sample(load(owed_ns=1_000)).refused_ns == 50_000
    for other in (load(), load(waiting=1, expected_ns=1), load(waiting=8), load(nbytes=2**40)):
        assert admit_sample(other).refused_ns == 0


@pytest.mark.parametrize(
    ("dispatches", "owed"), [(0, 800_000), (100, 875_000), (200, 950_000), (201, 950_000), (10**9, 950_000)]
)
def test_dispatches_are_charged_but_at_most_three_quarters_of_what_time_pays_back(dispatches: int, owed: int) -> None:
    found = admit_sample(load(owed_ns=1_000_000, since_ns=10_000_000, dispatches=dispatches))
    assert found.owed_ns == owed


def test_over_a_long_time_the_shadow_takes_its_share_and_one_run_at_most() -> None:
    run, step, spent, owed = 3_000_000, 100_000, 0, 0
    for _ in range(100_000):
        found = admit_sample(load(owed_ns=owed, since_ns=step))
        owed = found.owed_ns
        if found.action is ShadowAction.RUN:
            owed, spent = owed + run, spent + run
    total = 100_000 * step
    assert 0.019 * total < spent <= 0.02 * total + run
