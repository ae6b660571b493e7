"""Races between candidates: who is measured, who wins, and how often noise does."""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import product
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vyre.policies.tuning.successive_halving import (
    DEFAULT_THRESHOLDS,
    Estimates,
    HalvingThresholds,
    PairedGain,
    Race,
    Step,
    cheapest_estimate,
    next_measurement,
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
        step = next_measurement(Race(incumbent, tuple(challengers)), thresholds)
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


Samples = tuple[tuple[int, ...], ...]
SMALL: Final = HalvingThresholds(first_round=2, growth=3, final_pairs=1, error=0.5, min_gain_bps=100)
"""Rounds of 2 and 6 samples each; a final of one pair, which is significant (p = 1/2) if the challenger is faster."""
FIVE: Final[Samples] = ((9, 9), (8, 8), (5, 6), (7, 7), (6, 5))
"""A first round in which 2 and 4 are the faster half of the challengers."""
LONGER: Final[Samples] = ((9,) * 8, (8,) * 2, (5,) * 8, (7,) * 2, (4,) * 8)
"""Both rounds: 4 is the faster of the last two."""


@pytest.mark.parametrize(
    ("samples", "expected", "why"),
    [
        # everybody is measured as often as each other, the fewest first
        (((), (), ()), Step((0, 1, 2)), "3 candidates are left"),
        (((), (), (), (), ()), Step((0, 1, 2, 3, 4)), "5 candidates are left"),
        (((1,), (1,), (1,)), Step((0, 1, 2)), "3 candidates are left"),
        (((1, 1), (1,), (1, 1)), Step((1,)), "3 candidates are left"),
        (((1,), (1, 1), (1,)), Step((0, 2)), "3 candidates are left"),
        (((1,), (), (1, 1)), Step((1,)), "3 candidates are left"),
        # the half with the worse medians is dropped, one more if they are odd; candidate 0 stays
        (FIVE, Step((0, 2, 4)), "3 candidates are left"),
        (((1, 1), (5, 5), (5, 5), (5, 5), (5, 5)), Step((0, 1, 2)), "3 candidates are left"),  # ties to the first
        (((9, 9), (8, 8), (7, 7), (6, 6)), Step((0, 3), challenger=3), "candidate 3 is in the final"),
        # by the samples of the rounds so far, and whoever is dropped stays so
        (((9, 9), (2, 9), (5, 5)), Step((0, 2), challenger=2), "candidate 2 is in the final"),  # 5.5 is worse than 5
        (((9, 9), (7, 7), (8, 8, 1)), Step((0, 1), challenger=1), "candidate 1 is in the final"),
        ((*FIVE[:3], (7, 7, 1, 1, 1, 1, 1, 1), FIVE[4]), Step((0, 2, 4)), "3 candidates are left"),
        # the next round has three times as many
        (tuple(each[:7] for each in LONGER), Step((0, 2, 4)), "3 candidates are left"),
        (LONGER, Step((0, 4), challenger=4), "candidate 4 is in the final"),
        # the final is on samples of its own
        (((9,), (8,)), Step((), 1, 1), "candidate 1 wins: gain 1111 bps over 1 pairs, p = 0.5"),
        (((), ()), Step((0, 1), challenger=1), "candidate 1 is in the final"),
        (((9,), ()), Step((1,), challenger=1), "candidate 1 is in the final"),
        (((), (9,)), Step((0,), challenger=1), "candidate 1 is in the final"),
        (((9, 9, 9), (8, 8), (7, 7)), Step((2,), challenger=2), "candidate 2 is in the final"),
        (
            ((90, 90, 80), (80, 80), (70, 70, 80)),
            Step((), 0, 2),
            "candidate 2 is not proven faster: gain 0 bps over 1 pairs, p = 1",
        ),
        (
            ((80, 80, 90), (80, 80), (70, 70, 72)),
            Step((), 2, 2),
            "candidate 2 wins: gain 2000 bps over 1 pairs, p = 0.5",
        ),
        (
            ((*LONGER[0], 100, 1), *LONGER[1:4], (*LONGER[4], 50, 100)),
            Step((), 4, 4),
            "candidate 4 wins: gain 5000 bps over 1 pairs, p = 0.5",
        ),
        # a significant gain must be worth a change
        (((10_000,), (9_900,)), Step((), 1, 1), "candidate 1 wins: gain 100 bps over 1 pairs, p = 0.5"),
        (((10_000,), (9_901,)), Step((), 0, 1), "candidate 1 gains too little: gain 99 bps over 1 pairs, p = 0.5"),
        (((10,), (11,)), Step((), 0, 1), "candidate 1 is not proven faster: gain -1000 bps over 1 pairs, p = 1"),
        # one candidate is no race
        (((),), Step(), "there is nothing to choose from"),
        (((5, 5),), Step(), "there is nothing to choose from"),
    ],
)
def test_steps(samples: Samples, expected: Step, why: str) -> None:
    step = next_measurement(Race(samples[0], samples[1:]), SMALL)
    assert step == expected
    assert str(step.why) == why


@pytest.mark.parametrize(
    ("base", "new", "expected"),
    [
        ((), (), PairedGain(0, 1.0)),
        ((100,), (99,), PairedGain(100, 0.5)),
        ((100,), (200,), PairedGain(-10_000, 1.0)),
        ((3,), (2,), PairedGain(3_333, 0.5)),
        ((3,), (4,), PairedGain(-3_333, 1.0)),  # towards zero
        ((10, 10, 10), (10, 10, 5), PairedGain(0, 0.5)),  # equal times weigh in the median, but have no rank
        ((10, 10), (9, 11), PairedGain(0, 0.75)),  # two of rank 1.5: one of the two, or both
        ((10, 10), (9, 8), PairedGain(1_500, 0.25)),
    ],
)
def test_gains_of_pairs(base: tuple[int, ...], new: tuple[int, ...], expected: PairedGain) -> None:
    assert paired_gain(base, new) == expected


def test_a_time_without_its_pair_is_refused() -> None:
    for base, new in (((1, 1), (1,)), ((1,), (1, 1))):
        with pytest.raises(ValueError, match=r"shorter|longer"):
            paired_gain(base, new)


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


@pytest.mark.parametrize(
    ("costs", "expected", "why"),
    [
        ((), Step(), "there is nothing to choose from"),
        ((5,), Step(), "there is nothing to choose from"),
        ((100, 90), Step((), 1, 1), "the model saves 1000 bps with candidate 1"),
        ((100, 90, 80, 80), Step((), 2, 2), "the model saves 2000 bps with candidate 2"),
        ((20_000, 30_000, 9_999), Step((), 2, 2), "the model saves 5000 bps with candidate 2"),
        ((100, 0), Step((), 1, 1), "the model saves 10000 bps with candidate 1"),
        ((100, 98), Step((), 1, 1), "the model saves 200 bps with candidate 1"),
        ((10_000, 9_801), Step((), 0, 1), "the model saves 199 bps with candidate 1"),
        ((10_000_000, 9_800_001), Step((), 0, 1), "the model saves 199 bps with candidate 1"),  # rounded down
        ((100, 100), Step(), "the model saves 0 bps with candidate 0"),
        ((100, 101), Step(), "the model saves 0 bps with candidate 0"),
        ((0, 0), Step(), "the model saves 0 bps with candidate 0"),
        ((0, 5), Step(), "the model saves 0 bps with candidate 0"),
    ],
)
def test_estimates(costs: tuple[int, ...], expected: Step, why: str) -> None:
    step = cheapest_estimate(Estimates(costs))
    assert step == expected
    assert str(step.why) == why


def test_no_saving_is_never_worth_a_change() -> None:
    free = HalvingThresholds(min_gain_bps=0)
    assert cheapest_estimate(Estimates((100_000, 99_999)), free) == Step((), 0, 1)
    assert cheapest_estimate(Estimates((100_000, 99_990)), free) == Step((), 1, 1)
