"""A claim of speed needs samples of both sides, of one run and one device, that put its bound above the factor."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vyre.policies.evidence.claims import ClaimInputs, ClaimRefusal, ClaimThresholds, MeasuredSide, judge_claim

FAST = MeasuredSide("fast", "device", "run", (10.0,) * 20)
SLOW = MeasuredSide("slow", "device", "run", tuple(100.0 + i for i in range(20)))


def of(count: int, factor: float = 1.0, *, faster: MeasuredSide = FAST, slower: MeasuredSide = SLOW) -> ClaimInputs:
    return ClaimInputs(
        replace(faster, samples=faster.samples[:count]), replace(slower, samples=slower.samples[:count]), factor
    )


def test_the_claim_is_the_median_and_its_bound_must_exceed_the_factor() -> None:
    sure = judge_claim(of(20, 9.0))
    assert (sure.supported, sure.refusal) == (True, None)
    assert (sure.median_x, sure.lower_bound_x) == (10.95, 10.5)  # the 6th smallest of 20 ratios
    at_the_bound = judge_claim(of(20, 10.5))
    assert (at_the_bound.supported, at_the_bound.refusal) == (False, ClaimRefusal.NOT_REACHED)


def test_few_samples_have_no_bound() -> None:
    few = judge_claim(of(5))
    assert (few.refusal, few.median_x, few.lower_bound_x) == (ClaimRefusal.TOO_FEW, 10.2, None)
    assert judge_claim(of(6)).lower_bound_x == 10.0  # 2^-6 is below 2.5 %
    assert judge_claim(of(5), ClaimThresholds(40_000)).lower_bound_x == 10.0
    none = judge_claim(of(0))
    assert (none.refusal, none.median_x) == (ClaimRefusal.TOO_FEW, None)


def test_an_error_is_met_exactly() -> None:
    assert judge_claim(of(1), ClaimThresholds(1_000_000)).lower_bound_x == 10.0
    assert judge_claim(of(1), ClaimThresholds(500_000)).lower_bound_x == 10.0  # right half of the time, exactly
    assert judge_claim(of(1), ClaimThresholds(499_999)).lower_bound_x is None
    assert judge_claim(of(3), ClaimThresholds(500_000)).lower_bound_x == 10.1


@pytest.mark.parametrize(
    ("inputs", "refusal"),
    [
        (of(20, 0.0), ClaimRefusal.INVALID_FACTOR),
        (of(20, -1.0), ClaimRefusal.INVALID_FACTOR),
        (of(20, float("inf")), ClaimRefusal.INVALID_FACTOR),
        (of(20, float("nan")), ClaimRefusal.INVALID_FACTOR),
        (ClaimInputs(None, SLOW, 1.0), ClaimRefusal.NOT_MEASURED),
        (ClaimInputs(FAST, None, 1.0), ClaimRefusal.NOT_MEASURED),
        (ClaimInputs(FAST, replace(SLOW, name="fast"), 1.0), ClaimRefusal.SAME_SIDE),
        (ClaimInputs(FAST, replace(SLOW, run="another"), 1.0), ClaimRefusal.OTHER_RUN),
        (ClaimInputs(FAST, replace(SLOW, device="another"), 1.0), ClaimRefusal.OTHER_DEVICE),
        (ClaimInputs(FAST, replace(SLOW, samples=SLOW.samples[1:]), 1.0), ClaimRefusal.UNPAIRED),
        (ClaimInputs(FAST, replace(SLOW, samples=(*SLOW.samples[1:], 0.0)), 1.0), ClaimRefusal.INVALID_SAMPLE),
        (ClaimInputs(replace(FAST, samples=(*FAST.samples[1:], -1.0)), SLOW, 1.0), ClaimRefusal.INVALID_SAMPLE),
        (ClaimInputs(FAST, replace(SLOW, samples=(*SLOW.samples[1:], float("nan"))), 1.0), ClaimRefusal.INVALID_SAMPLE),
        (ClaimInputs(FAST, replace(SLOW, samples=(*SLOW.samples[1:], float("inf"))), 1.0), ClaimRefusal.INVALID_SAMPLE),
    ],
)
def test_what_was_not_measured_is_refused(inputs: ClaimInputs, refusal: ClaimRefusal) -> None:
    found = judge_claim(inputs)
    assert (found.refusal, found.supported, found.median_x, found.lower_bound_x) == (refusal, False, None, None)


@given(st.lists(st.tuples(st.floats(1e-3, 1e3), st.floats(1e-3, 1e3)), max_size=40), st.floats(1e-3, 1e3))
def test_a_supported_claim_supports_every_smaller_one(pairs: list[tuple[float, float]], factor: float) -> None:
    faster = replace(FAST, samples=tuple(a for a, _ in pairs))
    slower = replace(SLOW, samples=tuple(b for _, b in pairs))
    found = judge_claim(ClaimInputs(faster, slower, factor))
    if found.lower_bound_x is not None and found.median_x is not None:
        assert found.lower_bound_x <= found.median_x
        assert found.supported is (found.lower_bound_x > factor)
    if found.supported:
        assert judge_claim(ClaimInputs(faster, slower, factor / 2)).supported
        assert not judge_claim(ClaimInputs(slower, faster, 1 / factor)).supported
