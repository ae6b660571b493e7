"""What the experts of a shape predictor guess, and who is believed; ``test_policy_learning`` has the definition."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import replace
from typing import TypeVar

import pytest

from vyre.policies.shape_prediction import (
    LEARNING,
    PINNED,
    Prediction,
    PredictionThresholds,
    ShapeHistory,
    ShapePredictor,
)

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


def test_histories_keep_their_window() -> None:
    history = ShapeHistory(window=2)
    for item in (1, 2, 3):
        history = history.record((item,))
    assert history == ShapeHistory(((2,), (3,)), 2)


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


def test_the_context_seen_longest_ago_leaves_first() -> None:
    two = PredictionThresholds(max_order=1, capacity=2)
    assert len(after(range(50), two)) == 2
    assert len(after(range(50), replace(two, capacity=200))) == 50  # the empty one, and all shapes but the last
    for capacity, kept in ((4, False), (5, True)):  # of 9, 0, 1, 2, 3 and the empty one
        why = after([9, 0, 1, 2, 3, 0], PredictionThresholds(max_order=1, capacity=capacity)).predict()
        assert why is not None
        assert ("the last 1 shape" in str(why.why)) is kept
