"""A predictor of shape sequences by experts: applies ``vyre.policies.shape_prediction`` to the shapes seen so far."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Final, Generic, NamedTuple, TypeVar

from vyre.policies.prediction.shape_prediction import PINNED, WINDOW, Prediction, PredictionThresholds, next_by_period
from vyre.policies.record import Reason

K = TypeVar("K", bound=Hashable)

_UNIT: Final = 1 << 20
"""The weight of one sighting, or of one checked guess: weights are integers, so that all machines agree."""
_DENSE: Final = 8
_STRIDE: Final = 4
"""Contexts have every length up to ``_DENSE``, and then multiples of ``_STRIDE``."""
_LEVELS: Final = 8
"""Number of buckets for guesses of one expert, by the share of their context's weight."""


class _Guess(NamedTuple, Generic[K]):
    """A guess.  ``share_bps``: its share of its context's weight.  ``track``: index of guesses like it, by expert and
    share.
    """

    shape: K
    share_bps: int
    track: int


class ShapePredictor(Generic[K]):
    """Counts of what followed each recent context of shapes, and of how often each kind of guess was right.

    Shapes are any hashable keys; the same calls give the same answers.  Both calls are O(max_order * (max_order +
    max_followers) + window^2); memory is bounded by the thresholds: the least recently seen contexts are evicted first,
    and within a context the lightest follower.
    """

    def __init__(self, thresholds: PredictionThresholds = PINNED) -> None:
        self._thresholds = thresholds
        self._recent: tuple[K, ...] = ()
        most = thresholds.max_order
        self._orders: Final = (*range(most - most % _STRIDE, _DENSE, -_STRIDE), *range(min(most, _DENSE), -1, -1))
        self._contexts: list[tuple[K, ...]] = [()] if thresholds.max_order else []
        self._followers: OrderedDict[tuple[K, ...], dict[K, int]] = OrderedDict()
        self._guesses: list[_Guess[K]] = []
        self._period, self._same = thresholds.max_order + 1, thresholds.max_order + 2
        self._right, self._tries = ([0] * (_LEVELS * (self._same + 1)) for _ in range(2))

    def __len__(self) -> int:
        """Contexts kept."""
        return len(self._followers)

    def record(self, shape: K) -> None:
        """Learns that ``shape`` came next: updates the guesses that named it, and the contexts that it followed."""
        t, right, tries = self._thresholds, self._right, self._tries
        for guessed, _, track in self._guesses:
            right[track] = right[track] * t.track_fade_bps // 10_000 + (_UNIT if guessed == shape else 0)
            tries[track] = tries[track] * t.track_fade_bps // 10_000 + _UNIT
        for context in self._contexts:
            self._sighted(context, shape)
        while len(self._followers) > t.capacity:
            self._followers.popitem(last=False)
        self._recent = (*self._recent, shape)[-max(WINDOW, t.max_order) :]
        if t.max_order:
            seen = len(self._recent)
            self._contexts = [self._recent[seen - order :] for order in self._orders if order <= seen]
        self._guesses = self._ask()

    def predict(self) -> Prediction[K] | None:
        """Returns the most likely guess, of equal ones that from the longest context; None if no expert has a guess."""
        if not self._guesses:
            return None
        rates = list(map(self._rate, self._guesses))
        likeliest = max(rates)
        best = self._guesses[rates.index(likeliest)]
        tries = self._tries[best.track] / _UNIT
        why = Reason("by {}; {} bps of {:.1f} guesses like it came true", (self._name(best), likeliest, tries))
        return Prediction(best.shape, likeliest, why)

    # ---- details
    def _sighted(self, context: tuple[K, ...], shape: K) -> None:
        t = self._thresholds
        weights = self._followers.setdefault(context, {})
        self._followers.move_to_end(context)
        for seen in weights:
            weights[seen] = weights[seen] * t.fade_bps // 10_000
        weights[shape] = weights.get(shape, 0) + _UNIT
        if len(weights) > t.max_followers:
            del weights[min(weights, key=weights.__getitem__)]

    def _ask(self) -> list[_Guess[K]]:
        """Returns the guess of every expert that has one, longer contexts first."""
        guesses: list[_Guess[K]] = []
        for context in self._contexts:
            if weights := self._followers.get(context):
                shape = max(weights, key=weights.__getitem__)
                share = weights[shape] * 10_000 // sum(weights.values())
                guesses.append(_guess(shape, share, len(context)))
        expected = next_by_period(self._recent[-WINDOW:])
        if expected is not None:
            guesses.append(_guess(expected, 10_000, self._period))
        if self._thresholds.max_order:
            guesses.append(_guess(self._recent[-1], 0, self._same))
        return guesses

    def _rate(self, guess: _Guess[K]) -> int:
        """Returns how often guesses like this one came true, in bps; the prior is half its share."""
        prior = self._thresholds.prior_guesses * _UNIT
        right, tries = self._right[guess.track], self._tries[guess.track]
        return (right * 10_000 + prior * (guess.share_bps // 2)) // max(tries + prior, 1)

    def _name(self, guess: _Guess[K]) -> str:
        expert = guess.track // _LEVELS
        named = {self._period: "the period of the window", self._same: "repetition"}
        return named.get(expert, f"what followed the last {expert} shape(s)")


def _guess(shape: K, share_bps: int, expert: int) -> _Guess[K]:
    return _Guess(shape, share_bps, _LEVELS * expert + share_bps * _LEVELS // 10_001)
