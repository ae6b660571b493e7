"""Guess the next program from the recent ones.

The history is a window of the last 16 fingerprints.  Rule: two equal ones at the end predict a third; otherwise the
smallest period c (2..n-1) of the *whole* window predicts the entry one period back; otherwise nothing.
O(n^2) <= 256 comparisons.

What the reference rule gets wrong: A, A, B repeated is predicted wrongly two times in three, one stray entry
blinds it, and it has no confidence.  ``ShapePredictor`` asks other experts too, what followed the last 0 to
``max_order`` shapes before and "the same again", and believes the one whose guesses came true most often; how often is
the confidence that ``trace_jit`` asks for.  With ``max_order`` 0, the default, the rule above is its only expert.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Sequence
from typing import Annotated, Final, Generic, NamedTuple, TypeAlias, TypeVar

from vyre.policies.record import U32, U32_MAX, Count, IntRange, Reason, record, verdict, why_field

K = TypeVar("K", bound=Hashable)
Fingerprint: TypeAlias = tuple[U32, ...]
WINDOW: Final = 16


def next_by_period(recent: Sequence[K]) -> K | None:
    """What the rule above expects after ``recent``, oldest first; None if it expects nothing."""
    n = len(recent)
    if n >= 2 and recent[-1] == recent[-2]:
        return recent[-1]
    for period in range(2, n):
        if recent[period:] == recent[: n - period]:
            return recent[n - period]
    return None


@record
class ShapeHistory:
    """The last ``window`` fingerprints, oldest first; recording returns a new history."""

    entries: tuple[Fingerprint, ...] = ()
    window: Annotated[int, IntRange(1, U32_MAX)] = WINDOW

    def record(self, fingerprint: Fingerprint) -> ShapeHistory:
        """The history with one more entry; the oldest is dropped when the window is full."""
        return ShapeHistory((*self.entries, fingerprint)[-self.window :], self.window)

    def __len__(self) -> int:
        return len(self.entries)

    def __contains__(self, fingerprint: Fingerprint) -> bool:
        return fingerprint in self.entries

    @property
    def latest(self) -> Fingerprint | None:
        return self.entries[-1] if self.entries else None

    def predict_next(self) -> Fingerprint | None:
        """The fingerprint expected next, or None."""
        return next_by_period(self.entries)


@record
class PredictionThresholds:
    """``max_order``: shapes in the longest context (0 = the reference rule alone); beyond 8 shapes, contexts have every
    fourth length only.  ``capacity``: contexts kept, and ``max_followers``: shapes kept for each.  ``fade_bps`` and
    ``track_fade_bps``: what a sighting in a context, and a guess that was checked, still count when another is made.
    ``prior_guesses``: how many guesses the supposed rate of an expert that has made none weighs as much as.
    """

    max_order: Annotated[int, IntRange(0, 64)] = 0
    capacity: Annotated[int, IntRange(1, U32_MAX)] = 4096
    max_followers: Annotated[int, IntRange(1, 1024)] = 8
    fade_bps: Annotated[int, IntRange(0, 10_000)] = 8_000
    track_fade_bps: Annotated[int, IntRange(0, 10_000)] = 9_800
    prior_guesses: Count = 1


PINNED: Final = PredictionThresholds()
LEARNING: Final = PredictionThresholds(max_order=20)

_UNIT: Final = 1 << 20
"""The weight of one sighting, or of one checked guess: weights are whole numbers, so that all machines agree."""
_DENSE: Final = 8
_STRIDE: Final = 4
"""Contexts have every length up to the one, and then multiples of the other."""
_LEVELS: Final = 8
"""Guesses of one expert are told apart by the share of their context's weight, in so many steps."""


@verdict
class Prediction(Generic[K]):
    """``confidence_bps``: how often guesses like this one came true lately."""

    shape: K
    confidence_bps: int
    why: Reason = why_field()


class _Guess(NamedTuple, Generic[K]):
    """``share_bps``: of the weight in its context.  ``track``: of guesses like it, by expert and share."""

    shape: K
    share_bps: int
    track: int


class ShapePredictor(Generic[K]):
    """What followed each recent context of shapes, and how often each way to guess was right.

    Shapes are any hashable keys.  It is state, not a value: ``record`` changes it in place, and the same calls give the
    same answers.  Both calls are O(max_order * (max_order + max_followers) + window^2); memory is bounded by the
    thresholds, where contexts seen longest ago leave first, then the lightest follower of a context.
    """

    def __init__(self, thresholds: PredictionThresholds = PINNED) -> None:
        self._thresholds = thresholds
        self._recent: tuple[K, ...] = ()
        most = thresholds.max_order
        self._orders: Final = (
            *range(most - most % _STRIDE, _DENSE, -_STRIDE),
            *range(min(most, _DENSE), -1, -1),
        )
        self._contexts: list[tuple[K, ...]] = [()] if thresholds.max_order else []
        self._followers: OrderedDict[tuple[K, ...], dict[K, int]] = OrderedDict()
        self._guesses: list[_Guess[K]] = []
        self._period, self._same = thresholds.max_order + 1, thresholds.max_order + 2
        self._right, self._made = ([0] * (_LEVELS * (self._same + 1)) for _ in range(2))

    def __len__(self) -> int:
        """Contexts kept."""
        return len(self._followers)

    def record(self, shape: K) -> None:
        """Learn that ``shape`` came next: who guessed it, and what it followed."""
        t, right, made = self._thresholds, self._right, self._made
        for guessed, _, track in self._guesses:
            right[track] = right[track] * t.track_fade_bps // 10_000 + (_UNIT if guessed == shape else 0)
            made[track] = made[track] * t.track_fade_bps // 10_000 + _UNIT
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
        """The guess most likely to come true, of equal ones that from the longest context; None if nobody guesses."""
        if not self._guesses:
            return None
        rates = list(map(self._rate, self._guesses))
        likeliest = max(rates)
        best = self._guesses[rates.index(likeliest)]
        made = self._made[best.track] / _UNIT
        why = Reason("by {}; {} bps of {:.1f} guesses like it came true", (self._name(best), likeliest, made))
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
        """The guess of every expert that has one, from longer contexts first."""
        found: list[_Guess[K]] = []
        for context in self._contexts:
            if weights := self._followers.get(context):
                shape = max(weights, key=weights.__getitem__)
                share = weights[shape] * 10_000 // sum(weights.values())
                found.append(_guess(shape, share, len(context)))
        expected = next_by_period(self._recent[-WINDOW:])
        if expected is not None:
            found.append(_guess(expected, 10_000, self._period))
        if self._thresholds.max_order:
            found.append(_guess(self._recent[-1], 0, self._same))
        return found

    def _rate(self, guess: _Guess[K]) -> int:
        """How often guesses like this one came true, in bps; half its share is supposed beforehand."""
        prior = self._thresholds.prior_guesses * _UNIT
        right, made = self._right[guess.track], self._made[guess.track]
        return (right * 10_000 + prior * (guess.share_bps // 2)) // max(made + prior, 1)

    def _name(self, guess: _Guess[K]) -> str:
        expert = guess.track // _LEVELS
        named = {self._period: "the period of the window", self._same: "repetition"}
        return named.get(expert, f"what followed the last {expert} shape(s)")


def _guess(shape: K, share_bps: int, expert: int) -> _Guess[K]:
    return _Guess(shape, share_bps, _LEVELS * expert + share_bps * _LEVELS // 10_001)
