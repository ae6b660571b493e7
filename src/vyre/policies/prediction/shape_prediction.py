"""Guess the next program from the recent ones.

The history is a window of the last 16 fingerprints.  Rule: two equal ones at the end predict a third; otherwise the
smallest period c (2..n-1) of the *whole* window predicts the entry one period back; otherwise nothing.
O(n^2) <= 256 comparisons.

What the reference rule gets wrong: A, A, B repeated is predicted wrongly two times in three, one stray entry
blinds it, and it has no confidence.  ``app/shape_predictor`` asks other experts too, what followed the last 0 to
``max_order`` shapes before and "the same again", and believes the one whose guesses came true most often; how often is
the confidence that ``trace_jit`` asks for.  With ``max_order`` 0, the default, the rule above is its only expert.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Annotated, Final, Generic, TypeAlias, TypeVar

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


@verdict
class Prediction(Generic[K]):
    """``confidence_bps``: how often guesses like this one came true lately."""

    shape: K
    confidence_bps: int
    why: Reason = why_field()
