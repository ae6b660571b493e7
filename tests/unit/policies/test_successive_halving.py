"""Races between candidates: who is measured, who wins, and how often noise does."""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vyre.policies.successive_halving import (
    DEFAULT_THRESHOLDS,
    Estimates,
    HalvingThresholds,
    Race,
    Step,
    cheapest_estimate,
    next_step,
    paired_gain,
)

RACES = 500


def run_race(
    times: list[Callable[[random.Random], float]], seed: int, thresholds: HalvingThresholds = DEFAULT_THRESHOLDS
) -> tuple[Step, list[list[int]]]:
    """Measure as told until it is over; ``times`` draw a run's ns."""
    draw = random.Random(seed)
    samples: list[list[int]] = [[] for _ in times]
    while True:
        incumbent, *challengers = map(tuple, samples)
        step = next_step(Race(incumbent, tuple(challengers)), thresholds)
        if not step.measure:
            return step, samples
        for one in step.measure:
            samples[one].append(max(1, round(times[one](draw))))


def noisy(mean: float, sigma: float = 0.1) -> Callable[[random.Random], float]:
    """Log-normal times, with one run in twenty disturbed for long."""
    return lambda draw: mean * draw.lognormvariate(0, sigma) * (5 if draw.random() < 0.05 else 1)


@pytest.mark.parametrize("candidates", [2, 6, 12])
def test_noise_wins_no_more_often_than_stated(candidates: int) -> None:
    thresholds = HalvingThresholds(error=0.05, min_gain_bps=0)
    wins = sum(run_race([noisy(1e6)] * candidates, seed, thresholds)[0].winner > 0 for seed in range(RACES))
    # Binomial: 5 % of the races, and three standard deviations on top.
    assert wins <= 0.05 * RACES + 3 * (RACES * 0.05 * 0.95) ** 0.5


def test_with_the_defaults_noise_hardly_ever_wins() -> None:
    wins = sum(run_race([noisy(1e6)] * 6, seed)[0].winner > 0 for seed in range(RACES))
    assert wins <= 0.01 * RACES + 3 * (RACES * 0.01 * 0.99) ** 0.5


def test_the_fresh_final_is_what_keeps_noise_out() -> None:
    """Judged by the samples that it was chosen by, the luckiest of twelve wins far more often than stated."""
    thresholds = HalvingThresholds(error=0.05, min_gain_bps=0, first_round=20)
    lucky = 0
    for seed in range(200):
        draw = random.Random(seed)
        samples = [tuple(round(noisy(1e6)(draw)) for _ in range(20)) for _ in range(12)]
        lucky += min(paired_gain(samples[0], other).p for other in samples[1:]) <= thresholds.error
    assert lucky > 0.2 * 200


def test_a_faster_candidate_is_found() -> None:
    for planted in range(1, 6):
        times = [noisy(1e6) for _ in range(6)]
        times[planted] = noisy(7e5)
        found = sum(run_race(times, seed)[0].winner == planted for seed in range(100))
        assert found >= 90


def test_a_slower_candidate_never_wins() -> None:
    assert not any(run_race([noisy(1e6), noisy(1.2e6), noisy(1.3e6)], seed)[0].winner for seed in range(300))


def test_a_gain_that_is_certain_but_small_changes_nothing() -> None:
    step, _ = run_race([lambda _: 1_000_000, lambda _: 990_000], 0)
    assert (step.winner, step.challenger) == (0, 1)
    assert "gains too little" in str(step.why)


def test_the_good_are_measured_more() -> None:
    times = [noisy(mean, 0.01) for mean in (1e6, 5e5, 2e6, 3e6, 4e6, 5e6)]
    step, samples = run_race(times, 1)
    assert step.winner == 1
    assert [len(each) for each in samples] == [35, 35, 15, 5, 5, 5]


def test_one_candidate_is_no_race() -> None:
    assert next_step(Race(())) == Step()


@given(st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9)), max_size=9))
def test_p_is_what_enumerating_all_signs_gives(pairs: list[tuple[int, int]]) -> None:
    base, new = tuple(a for a, _ in pairs), tuple(b for _, b in pairs)
    gains = sorted((a - b) / a for a, b in pairs if a != b)
    sizes = [abs(gain) for gain in gains]
    ranks = [sum(other < size for other in sizes) + (sizes.count(size) + 1) / 2 for size in sizes]
    reached = sum(rank for rank, gain in zip(ranks, gains, strict=True) if gain > 0)
    signs = list(product((0, 1), repeat=len(ranks)))
    as_clear = sum(sum(r for r, up in zip(ranks, choice, strict=True) if up) >= reached for choice in signs)
    assert paired_gain(base, new).p == pytest.approx(as_clear / len(signs))


def test_estimates_are_compared_without_ceremony() -> None:
    assert cheapest_estimate(Estimates((100, 90, 80, 80))).winner == 2
    assert cheapest_estimate(Estimates((100, 99))).winner == 0, "less than the least gain"
    assert cheapest_estimate(Estimates((0, 0))).winner == 0
    assert cheapest_estimate(Estimates((5,))).winner == 0
