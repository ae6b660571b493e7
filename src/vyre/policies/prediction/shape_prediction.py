"""Which program comes next, judged by the recent ones?

The history is a window of the last 16 fingerprints.  Rule: if the last two are equal, a third one is predicted;
otherwise the smallest period c (2..n-1) of the *whole* window predicts the entry one period back; otherwise nothing is
predicted.  O(n^2) <= 256 comparisons.

vyre-driver has this rule, which predicts the sequence A, A, B repeated wrongly two times in three, finds no period
after one stray entry, and has no confidence.  ``app/shape_predictor`` also has experts that predict what followed the
last 0 to ``max_order`` shapes before, or the same shape again, and uses the one whose guesses came true most often;
that share is the confidence for ``trace_jit``.  With ``max_order`` 0, the default, the rule above is its only expert.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Annotated, Final, Generic, TypeVar

from vyre.policies.record import U32_MAX, Count, IntRange, Reason, record, verdict, why_field

K = TypeVar("K", bound=Hashable)
WINDOW: Final = 16
"""Number of fingerprints in the history."""


def next_by_period(recent: Sequence[K]) -> K | None:
    """Returns what the rule above predicts after ``recent``, oldest first; None if it predicts nothing."""
    n = len(recent)
    if n >= 2 and recent[-1] == recent[-2]:
        return recent[-1]
    for period in range(2, n):
        if recent[period:] == recent[: n - period]:
            return recent[n - period]
    return None


@record
class PredictionThresholds:
    """Settings of the predictor.

    - ``max_order``: number of shapes in the longest context; 0 is vyre-driver's rule alone.  Beyond 8 shapes, only
      every fourth length is a context.
    - ``capacity``: number of contexts kept.
    - ``max_followers``: number of shapes kept for each context.
    - ``fade_bps``: factor by which a sighting in a context counts less when another is made.
    - ``track_fade_bps``: factor by which a checked guess counts less when another is made.
    - ``prior_guesses``: number of guesses as much as which the assumed rate of an expert without guesses weighs.
    """

    max_order: Annotated[int, IntRange(0, 64)] = 0
    capacity: Annotated[int, IntRange(1, U32_MAX)] = 4096
    max_followers: Annotated[int, IntRange(1, 1024)] = 8
    fade_bps: Annotated[int, IntRange(0, 10_000)] = 8_000
    track_fade_bps: Annotated[int, IntRange(0, 10_000)] = 9_800
    prior_guesses: Count = 1


PINNED: Final = PredictionThresholds()
"""vyre-driver's rule alone."""
LEARNING: Final = PredictionThresholds(max_order=20)
"""The setting with further experts."""


@verdict
class Prediction(Generic[K]):
    """A predicted shape; ``confidence_bps`` is how often guesses like this one came true lately."""

    shape: K
    confidence_bps: int
    why: Reason = why_field()
