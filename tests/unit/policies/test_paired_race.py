"""Races of two variants: what a bet wins, when a race ends, and how often it ends wrongly."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import replace
from statistics import median
from typing import Any

import pytest

from vyre.adapters.policy_sources import find_policy, version_of
from vyre.app.journal import DecisionJournal
from vyre.domain.errors import InvalidField
from vyre.policies.decision_records import ReplayOutcome, from_lines, replay, to_lines
from vyre.policies.journal import decide
from vyre.policies.tuning.paired_race import (
    DEFAULT_THRESHOLDS,
    Bet,
    PairedRace,
    RaceOutcome,
    RaceThresholds,
    RaceVerdict,
    judge_race,
)

EVEN = Bet(0.0, True)
STAKED_LINES = (-math.log(0.98), 0.0, -math.log(0.9))


@pytest.mark.parametrize(
    ("bet", "gain", "usual", "capitals"),
    [
        (EVEN, 0.3, 0.0, (1.125, 1.25, 1.5, 2.0)),
        (EVEN, -0.3, 0.0, (0.875, 0.75, 0.5, 0.0)),
        (EVEN, 0.0, 0.0, (1.0, 1.0, 1.0, 1.0)),
        (EVEN, 0.1, 0.2, (1.0625, 1.125, 1.25, 1.5)),
        (EVEN, 9.0, 0.2, (1.125, 1.25, 1.5, 2.0)),
        (EVEN, -9.0, 0.2, (0.875, 0.75, 0.5, 0.0)),
        (Bet(0.5, True), 0.75, 0.5, (1.0625, 1.125, 1.25, 1.5)),
        (Bet(0.5, False), 0.75, 0.5, (0.9375, 0.875, 0.75, 0.5)),
        (replace(EVEN, capitals=(8.0, 4.0, 2.0, 0.0)), 0.3, 0.0, (9.0, 5.0, 3.0, 0.0)),
    ],
)
def test_what_a_bet_wins(bet: Bet, gain: float, usual: float, capitals: tuple[float, ...]) -> None:
    settled = bet.settle(gain, usual)
    assert settled.capitals == capitals
    assert settled.distance == abs(gain - bet.line)
    assert settled.capital == sum(capitals) / 4
    assert (settled.line, settled.above) == (bet.line, bet.above)


def test_distances_add_up_to_what_is_usual() -> None:
    """Gains of ln 2, ln 4 and ln 2: of the last, the usual distance from 0 was ln 2 * 3 / 2, so 2/3 is at stake."""
    race = PairedRace.start().record(200, 100).record(400, 100).record(200, 100)
    assert race.gains == pytest.approx([math.log(2), math.log(4), math.log(2)])
    assert race.faster.distance == race.slower.distance == pytest.approx(math.log(16))
    assert race.faster.capitals[-1] == pytest.approx(2 * 2 * (1 + 2 / 3))
    assert race.slower.capitals[-1] == 0.0
    assert race.slower.capitals[0] == pytest.approx(0.875 * 0.875 * (1 - 1 / 12))
    second = PairedRace.start().record(400, 100).record(200, 100)
    assert second.faster.capitals[-1] == pytest.approx(2 * (1 + 1 / 2)), "half as far as the only one before"


def test_lines_are_logarithms_of_the_time_saved() -> None:
    race = PairedRace.start(RaceThresholds(min_gain_bps=200, worth_bps=1_000))
    assert [bet.line for bet in (race.faster, race.slower, race.futile)] == pytest.approx(STAKED_LINES)
    assert [bet.above for bet in (race.faster, race.slower, race.futile)] == [True, False, False]


def staked(faster: float = 0.0, slower: float = 0.0, futile: float = 0.0, pairs: int = 3) -> PairedRace:
    """A race whose bets are worth so much; each pair gained a tenth."""
    one, other, third = (replace(EVEN, capitals=(worth,) * 4) for worth in (faster, slower, futile))
    return PairedRace(DEFAULT_THRESHOLDS, one, other, third, (-math.log(0.9),) * pairs)


@pytest.mark.parametrize(
    ("race", "outcome"),
    [
        (staked(40.0, 40.0, 40.0), RaceOutcome.FASTER),
        (staked(39.9, 40.0, 40.0), RaceOutcome.SLOWER),
        (staked(39.9, 39.9, 40.0), RaceOutcome.FUTILE),
        (staked(39.9, 39.9, 39.9), RaceOutcome.KEEP_RACING),
        (staked(pairs=199), RaceOutcome.KEEP_RACING),
        (staked(pairs=200), RaceOutcome.FUTILE),
        (staked(40.0, pairs=200), RaceOutcome.FASTER),
    ],
)
def test_how_races_end(race: PairedRace, outcome: RaceOutcome) -> None:
    assert judge_race(race) == RaceVerdict(outcome, 1_000)


@pytest.mark.parametrize("race", [staked(3.0, 1.0, 2.0), staked(1.0, 3.0, 2.0), staked(1.0, 2.0, 3.0)])
def test_the_best_bet_is_told(race: PairedRace) -> None:
    assert str(judge_race(race).why) == "1000 bps gained over 3 pair(s); the best bet is worth 3.0 of 40"


def test_the_gain_is_the_median_of_all_pairs() -> None:
    race = PairedRace.start()
    assert judge_race(race) == RaceVerdict(RaceOutcome.KEEP_RACING, 0)
    for challenger in (100, 80, 1):
        race = race.record(100, challenger)
    assert judge_race(race).gain_bps == 2_000
    assert judge_race(race.record(100, 110)).gain_bps == round((1 - math.sqrt(0.8)) * 10_000)
    assert judge_race(PairedRace.start().record(100, 125)).gain_bps == -2_500


def test_a_full_race_stays_as_it_is() -> None:
    race = PairedRace.start(RaceThresholds(max_pairs=2)).record(10, 10).record(10, 10)
    assert race.record(10, 1) is race
    assert race.pairs == 2
    longest = PairedRace.start(RaceThresholds(max_pairs=1_000))
    for _ in range(1_000):
        longest = longest.record(2, 1)
    assert judge_race(longest).outcome is RaceOutcome.FASTER


def test_who_runs_first() -> None:
    race, first = PairedRace.start(), ""
    for _ in range(8):
        first += "AB"[not race.baseline_first]
        race = race.record(1, 1)
    assert first == "ABBABAAB"


@pytest.mark.parametrize("times", [(0, 1), (1, 0), (1.0, 1), (1, -3), (True, 1)])
def test_pairs_must_have_times(times: tuple[Any, Any]) -> None:
    with pytest.raises(InvalidField, match="_ns"):
        PairedRace.start().record(*times)


Gain = Callable[[random.Random, int], float]


def ended(gain: Gain, seed: int, thresholds: RaceThresholds = DEFAULT_THRESHOLDS) -> tuple[RaceOutcome, int]:
    """How a race ends that is looked at after every pair, and after how many."""
    rng, race = random.Random(seed), PairedRace.start(thresholds)
    while (outcome := judge_race(race).outcome) is RaceOutcome.KEEP_RACING:
        race = race.record(10**9, max(1, round(10**9 * math.exp(-gain(rng, race.pairs)))))
    return outcome, race.pairs


def cauchy(rng: random.Random, scale: float) -> float:
    return max(-10.0, min(scale * math.tan(math.pi * (rng.random() - 0.5)), 10.0))


NO_GAIN: dict[str, Gain] = {
    "normal": lambda rng, _: rng.gauss(0, 0.3),
    "heavy tails": lambda rng, _: cauchy(rng, 0.1),
    "two values": lambda rng, _: rng.choice((-0.1, 0.1)),
    "ever more": lambda rng, pair: rng.gauss(0, 0.01 * 1.05**pair),
    "in bursts": lambda rng, pair: rng.gauss(0, 1.0 if pair % 10 == 9 else 0.01),
    "mostly ties": lambda rng, _: rng.choice((-0.1, 0.0, 0.0, 0.0, 0.1)),
}


def best_bet(gain: Gain, seed: int, pairs: int) -> float:
    """The most that either of the two bets on a difference is ever worth."""
    rng, race, most = random.Random(seed), PairedRace.start(), 0.0
    for pair in range(pairs):
        race = race.record(10**9, max(1, round(10**9 * math.exp(-gain(rng, pair)))))
        most = max(most, race.faster.capital, race.slower.capital)
    return most


@pytest.mark.thorough
@pytest.mark.parametrize("name", NO_GAIN)
def test_races_without_a_gain_are_seldom_called(name: str) -> None:
    """However often they are looked at, no more than stated, and not because nothing is ever called."""
    races = [best_bet(NO_GAIN[name], seed, 80) for seed in range(200)]
    called = {error: sum(most >= 2 / error for most in races) / len(races) for error in (0.05, 0.1, 0.2, 0.4, 0.8)}
    assert all(share <= error for error, share in called.items()), called
    assert called[0.8] > 0.1


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("gain", "outcome", "share", "most_pairs"),
    [
        (lambda rng, _: 0.05 + rng.gauss(0, 0.02), RaceOutcome.FASTER, 1.0, 12),
        (lambda rng, _: 0.1 + rng.gauss(0, 0.1), RaceOutcome.FASTER, 0.99, 16),
        (lambda rng, _: 0.35 + rng.gauss(0, 0.4), RaceOutcome.FASTER, 0.99, 20),
        (lambda rng, _: 0.1 + cauchy(rng, 0.05), RaceOutcome.FASTER, 0.99, 24),
        (lambda rng, _: rng.gauss(0, 0.01), RaceOutcome.FUTILE, 0.95, 20),
        (lambda rng, _: rng.gauss(0, 0.3), RaceOutcome.FUTILE, 0.95, 200),
    ],
)
def test_what_there_is_to_see_is_seen(gain: Gain, outcome: RaceOutcome, share: float, most_pairs: int) -> None:
    """``most_pairs``: of the median race."""
    races = [ended(gain, seed) for seed in range(100)]
    assert sum(found is outcome for found, _ in races) >= 100 * share
    assert median(pairs for _, pairs in races) <= most_pairs


def test_a_steady_loss_ends_early() -> None:
    found, pairs = ended(lambda rng, _: -0.1, 0)
    assert found is not RaceOutcome.FASTER
    assert pairs <= 8


@pytest.mark.parametrize("times", [(1, 2**64 - 1), (2**64 - 1, 1)])
def test_the_most_unequal_times_are_judged_and_recorded(times: tuple[int, int]) -> None:
    race = PairedRace.start().record(*times)
    journal = DecisionJournal()
    gain_bps = decide(journal, judge_race, race).gain_bps
    assert gain_bps == round(-math.expm1(-race.gains[0]) * 10_000)
    (decision,) = from_lines(to_lines(journal.decisions, version_of))
    assert replay(decision, find_policy).outcome is ReplayOutcome.SAME


def test_times_of_more_than_64_bits_are_refused() -> None:
    with pytest.raises(InvalidField, match="gains"):
        PairedRace.start().record(1, 2**65)
