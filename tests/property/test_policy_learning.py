"""Policies that learn against their definitions, written down without any state, and what holds whatever happens."""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from itertools import product
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vectors.seeds.shape_history import ShapeHistory
from vectors.seeds.speculate import SpeculationPath, SpeculationReport, SpeculatorSettings, SpeculatorState
from vyre.app.shape_predictor import ShapePredictor
from vyre.policies.prediction.shape_prediction import (
    LEARNING,
    PINNED,
    PredictionThresholds,
    next_by_period,
)
from vyre.policies.tuning.paired_race import Bet, PairedRace

SHAPES = st.lists(st.integers(0, 3), max_size=24)
THRESHOLDS = st.builds(
    PredictionThresholds,
    max_order=st.integers(0, 4),
    max_followers=st.integers(1, 4),
    fade_bps=st.sampled_from([0, 5_000, 8_000, 10_000]),
    track_fade_bps=st.sampled_from([0, 5_000, 9_800, 10_000]),
    prior_guesses=st.integers(0, 3),
)

# shape_prediction

UNIT = 2**20
Guess = tuple[int, int, tuple[object, int]]


def faded(events: list[bool], bps: int) -> int:
    """The weight of the events that happened, where each later one, happened or not, lets it fade."""
    return reduce(lambda weight, happened: weight * bps // 10_000 + UNIT * happened, events, 0)


def followers(followed: list[int], t: PredictionThresholds) -> dict[int, int]:
    """Their weights, where the lightest leaves as soon as there are too many; if it comes again, it starts anew."""
    since: dict[int, int] = {}
    for now, shape in enumerate(followed):
        since.setdefault(shape, now)
        weights = {
            one: faded([f == one for f in followed[start : now + 1]], t.fade_bps) for one, start in since.items()
        }
        if len(weights) > t.max_followers:
            del since[min(weights, key=weights.__getitem__)]
    return {one: weights[one] for one in since}


def guesses(seen: list[int], t: PredictionThresholds) -> list[Guess]:
    """Shape, share and track of every expert, from the longest context on."""
    found: list[Guess] = []
    orders = range(min(t.max_order, len(seen)), -1, -1) if t.max_order and seen else []
    for order in orders:
        context = seen[len(seen) - order :]
        followed = [seen[at] for at in range(order, len(seen)) if seen[at - order : at] == context]
        if weights := followers(followed, t):
            shape = max(weights, key=weights.__getitem__)
            share = weights[shape] * 10_000 // sum(weights.values())
            found.append((shape, share, (order, share * 8 // 10_001)))
    expected = next_by_period(seen[-16:])
    if expected is not None:
        found.append((expected, 10_000, ("period", 7)))
    if t.max_order and seen:
        found.append((seen[-1], 0, ("again", 0)))
    return found


def definition(seen: list[int], t: PredictionThresholds) -> tuple[int, int] | None:
    checked: dict[object, list[bool]] = {}
    for now in range(len(seen)):
        for shape, _, track in guesses(seen[:now], t):
            checked.setdefault(track, []).append(shape == seen[now])
    rated = []
    for shape, share, track in guesses(seen, t):
        events = checked.get(track, [])
        right, made = (faded(x, t.track_fade_bps) for x in (events, [True] * len(events)))
        prior = t.prior_guesses * UNIT
        rated.append((shape, (right * 10_000 + prior * (share // 2)) // max(made + prior, 1)))
    return max(rated, key=lambda one: one[1]) if rated else None


@given(SHAPES, THRESHOLDS)
def test_a_predictor_follows_its_definition(shapes: list[int], thresholds: PredictionThresholds) -> None:
    predictor: ShapePredictor[int] = ShapePredictor(thresholds)
    for now, shape in enumerate(shapes):
        found = predictor.predict()
        assert (found and (found.shape, found.confidence_bps)) == definition(shapes[:now], thresholds)
        predictor.record(shape)


@given(st.lists(st.integers(0, 3), max_size=60))
def test_by_default_a_predictor_is_the_reference_rule(shapes: list[int]) -> None:
    history, predictor = ShapeHistory(), ShapePredictor[tuple[int, ...]]()
    for shape in shapes:
        history = history.record((shape,))
        predictor.record((shape,))
        found = predictor.predict()
        assert (found and found.shape) == history.predict_next()
        assert len(predictor) == 0


@given(st.lists(st.integers(0, 30), max_size=60), st.integers(1, 9), st.integers(1, 3))
def test_what_a_predictor_keeps_is_bounded(shapes: list[int], capacity: int, max_followers: int) -> None:
    thresholds = replace(LEARNING, capacity=capacity, max_followers=max_followers)
    predictor, unbounded = ShapePredictor[int](thresholds), ShapePredictor[int](LEARNING)
    for shape in shapes:
        predictor.record(shape)
        unbounded.record(shape)
        assert len(predictor) == min(len(unbounded), capacity)
        found = predictor.predict()
        assert found is not None
        assert found.shape in shapes
        assert 0 <= found.confidence_bps <= 10_000


@given(st.integers(1, 15), st.integers(0, 3))
def test_cycles_are_predicted_by_either_parameter_point(period: int, laps: int) -> None:
    for thresholds in (PINNED, LEARNING):
        predictor: ShapePredictor[int] = ShapePredictor(thresholds)
        for step in range(8 * period + laps):
            predictor.record(step % period)
        found = predictor.predict()
        assert found is not None
        assert found.shape == (8 * period + laps) % period


# paired_race

DISTANCES = st.lists(st.floats(0, 100) | st.sampled_from([0.0, 1.0]), min_size=1, max_size=7)


def mean_capital(start: Bet, centre: float, distances: list[float]) -> float:
    """Over all that may happen if each gain lies as likely above the centre as below it, at a distance from it."""
    capitals = []
    for signs in product((-1, 1), repeat=len(distances)):
        bet = start
        for pair, (sign, distance) in enumerate(zip(signs, distances, strict=True)):
            bet = bet.settle(centre + sign * distance, bet.distance / max(pair, 1))
        capitals.append(bet.capital)
    return fmean(capitals)


@given(DISTANCES, st.floats(0, 5), st.booleans())
def test_a_fair_bet_wins_nothing(distances: list[float], line: float, above: bool) -> None:
    assert mean_capital(Bet(line, above), line, distances) == pytest.approx(1.0)


@given(DISTANCES, st.floats(0, 5), st.floats(0, 100), st.booleans())
def test_a_bet_on_the_wrong_side_loses(distances: list[float], line: float, beyond: float, above: bool) -> None:
    assert mean_capital(Bet(line, above), line + (-beyond if above else beyond), distances) <= 1.0 + 1e-9


TIMES = st.lists(st.tuples(st.integers(1, 2**40), st.integers(1, 2**40)), max_size=30)


@given(TIMES)
def test_a_race_and_its_reverse_mirror_each_other(times: list[tuple[int, int]]) -> None:
    one = other = PairedRace.start()
    for baseline, challenger in times:
        one, other = one.record(baseline, challenger), other.record(challenger, baseline)
    assert one.faster.capital == pytest.approx(other.slower.capital)
    assert one.gains == pytest.approx([-gain for gain in other.gains])


# speculate

RATES = st.lists(st.integers(0, 1000) | st.sampled_from([0, 1000]), min_size=1, max_size=200)
SETTINGS = st.builds(SpeculatorSettings, st.integers(1, 100), st.integers(1, 9), st.just(True))


def run(state: SpeculatorState, rates: list[int]) -> list[tuple[bool, SpeculatorState]]:
    """Which dispatches were fused, with commit rates in thousandths, and the state after each; only they report."""
    history = []
    for rate in rates:
        fused = state.should_speculate
        path, report = SpeculationPath.TWO_STAGE, None
        if fused:
            path, report = SpeculationPath.FUSED, SpeculationReport(rate, 1000 - rate)
        state = state.after(path, report)
        history.append((fused, state))
    return history


@given(SETTINGS, RATES)
def test_what_a_speculator_loses_is_bounded(settings: SpeculatorSettings, rates: list[int]) -> None:
    history = run(SpeculatorState.start(settings), rates)
    threshold = settings.threshold_ppm
    lost = sum(threshold - 1000 * rate for (fused, _), rate in zip(history, rates, strict=True) if fused)
    left_on = sum(state.enabled for _, state in history)
    probes = len(rates) / (settings.probe_interval + 1)
    assert lost <= threshold * (4 + probes) + threshold / 4 * left_on


@given(SETTINGS, RATES)
def test_probes_are_rare(settings: SpeculatorSettings, rates: list[int]) -> None:
    waited, on = 0, True
    for fused, state in run(SpeculatorState.start(settings), rates):
        assert fused is (on or waited == settings.probe_interval)
        waited, on = 0 if fused else waited + 1, state.enabled


@given(SETTINGS, RATES)
def test_a_speculator_comes_back_when_the_workload_changes(settings: SpeculatorSettings, rates: list[int]) -> None:
    """50 probes take the average from 0 to all but 3 ppm of the full rate."""
    _, state = run(SpeculatorState.start(settings), rates)[-1]
    probes = 50 * (settings.probe_interval + 1)
    assert run(state, [1000] * probes)[-1][1].enabled
