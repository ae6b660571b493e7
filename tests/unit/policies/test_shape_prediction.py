"""What the experts of a shape predictor guess, and who is believed; ``test_policy_learning`` has the definition."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import replace
from typing import TypeVar

import pytest

from vyre.app.shape_predictor import ShapePredictor
from vyre.policies.prediction.shape_prediction import LEARNING, PINNED, Prediction, PredictionThresholds

K = TypeVar("K", bound=Hashable)


def after(shapes: Iterable[K], thresholds: PredictionThresholds = LEARNING) -> ShapePredictor[K]:
    predictor: ShapePredictor[K] = ShapePredictor(thresholds)
    for shape in shapes:
        predictor.record(shape)
    return predictor


def hits(predictor: ShapePredictor[K], shapes: Iterable[K]) -> int:
    found = 0
    for shape in shapes:
        guess = predictor.predict()
        found += guess is not None and guess.shape == shape
        predictor.record(shape)
    return found


def test_nothing_seen_is_nothing_guessed() -> None:
    for thresholds in (PINNED, LEARNING):
        assert ShapePredictor[str](thresholds).predict() is None
    assert after("a", PINNED).predict() is None


@pytest.mark.parametrize("period", [[0], [0, 1, 2], [0, 0, 1], [0, 0, 0, 1, 2, 2], list(range(20))])
def test_cycles_are_learned(period: list[int]) -> None:
    predictor = after(period * 10)
    assert hits(predictor, period * 10) == 10 * len(period)
    found = predictor.predict()
    assert found is not None
    assert found.shape == period[0]
    assert found.confidence_bps > 9_000


def test_the_reference_rule_alone_keeps_no_context() -> None:
    predictor = after("aab" * 20, PINNED)
    assert len(predictor) == 0
    assert hits(predictor, "aab" * 20) == 40


def test_a_long_context_knows_what_a_short_one_does_not() -> None:
    seen = [shape for last in (1, 2, 1, 1, 2) for shape in (0, 0, 0, 0, 0, 0, 0, last)]
    found = {order: hits(after(seen * 9, replace(LEARNING, max_order=order)), seen) for order in (1, 7, 16)}
    assert found[1] < found[7] < found[16]


def test_confidence_is_how_often_such_guesses_came_true() -> None:
    """The reference rule guesses three times: "a" after "aa", rightly; again, rightly; and again, wrongly."""
    alone = replace(PINNED, track_fade_bps=10_000, prior_guesses=0)
    assert after("aaaab", alone).predict() is None
    assert after("aaaabb", alone).predict() == Prediction("b", 6_666)
    assert after("aaaabb", replace(alone, prior_guesses=1)).predict() == Prediction("b", 6_250)
    assert after("aaaabb", replace(alone, track_fade_bps=0)).predict() == Prediction("b", 0)
    assert after("aaaabb", replace(alone, track_fade_bps=5_000)).predict() == Prediction("b", 4_285)


LAST_TWO = PredictionThresholds(max_order=1, fade_bps=10_000, track_fade_bps=10_000, prior_guesses=1)


@pytest.mark.parametrize(
    ("shapes", "thresholds", "shape", "confidence_bps"),
    [
        # "a" and "b" were seen as often, "a" first; half of its share is supposed.
        ("ab", LAST_TWO, "a", 2_500),
        # Of four, "a" was three: half of 7 500 bps, and one guess like it that came true.
        ("acaa", LAST_TWO, "a", (10_000 + 3_750) // 2),
        # One follower may be kept: the first, and later the heaviest, not the least by name.
        ("a", replace(LAST_TWO, max_followers=1), "a", 5_000),
        ("ba", replace(LAST_TWO, max_followers=1, fade_bps=8_000, prior_guesses=0), "a", 0),
        # Its share is 1 / 1.1427, just as much as makes it like the guess of "b", which was certain and wrong.
        ("ba", replace(LAST_TWO, fade_bps=1_427), "a", 8_751 // 2 // 2),
        # Three guesses came true, the first of which counts for a ninth.
        ("aaaa", replace(LAST_TWO, track_fade_bps=3_333, prior_guesses=0), "a", 10_000),
    ],
)
def test_a_guess_worked_by_hand(shapes: str, thresholds: PredictionThresholds, shape: str, confidence_bps: int) -> None:
    found = after(shapes, thresholds).predict()
    assert found == Prediction(shape, confidence_bps)
    assert type(found.confidence_bps) is int, "so that all machines agree"


def test_a_confidence_that_does_not_fade_is_exact() -> None:
    """However many wrong guesses there were; each counts for nothing, but for a guess made."""
    predictor, made, right = ShapePredictor[str](replace(PINNED, track_fade_bps=10_000, prior_guesses=0)), 0, 0
    for shape in "aab" * 300:
        if found := predictor.predict():
            assert found.confidence_bps == right * 10_000 // max(made, 1)
            made, right = made + 1, right + (found.shape == shape)
        predictor.record(shape)
    assert made > 800


def test_the_reference_rule_is_named() -> None:
    found = after("aa", PINNED).predict()
    assert found is not None
    assert str(found.why) == "by the period of the window; 5000 bps of 0.0 guesses like it came true"


def test_the_context_seen_longest_ago_leaves_first() -> None:
    two = PredictionThresholds(max_order=1, capacity=2)
    assert len(after(range(50), two)) == 2
    assert len(after(range(50), replace(two, capacity=200))) == 50  # the empty one, and all shapes but the last
    for capacity, kept in ((4, False), (5, True)):  # of 9, 0, 1, 2, 3 and the empty one
        why = after([9, 0, 1, 2, 3, 0], PredictionThresholds(max_order=1, capacity=capacity)).predict()
        assert why is not None
        assert ("the last 1 shape" in str(why.why)) is kept


@pytest.mark.parametrize(
    ("most", "orders"),
    [
        (1, (0, 1)),
        (3, (0, 1, 2, 3)),
        (8, tuple(range(9))),
        (11, tuple(range(9))),
        (12, (*range(9), 12)),
        (22, (*range(9), 12, 16, 20)),
    ],
)
def test_long_contexts_are_of_every_fourth_length(most: int, orders: tuple[int, ...]) -> None:
    """Of shapes that never come again, each context of a length is another one, but the empty one."""
    shapes = 30
    predictor = after(range(shapes), PredictionThresholds(max_order=most))
    assert len(predictor) == 1 + sum(shapes - order for order in orders if order)
