"""Guess the next program from the recent ones.

The history is a window of the last 16 fingerprints.  Rule: two equal ones at the end predict a third; otherwise the
smallest period c (2..n-1) of the *whole* window predicts the entry one period back; otherwise nothing.
O(n^2) <= 256 comparisons.

What the reference rule gets wrong: A, A, B repeated is predicted wrongly two times in three, one stray entry
blinds it, and it has no confidence.  ``ContextModel`` beside it predicts from the longest context seen before, with the
confidence that ``trace_jit`` asks for.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Annotated, Final, NamedTuple, TypeAlias

from vyre.domain.errors import InvalidField
from vyre.policies.record import U32, U32_MAX, IntRange, record

Fingerprint: TypeAlias = tuple[U32, ...]
WINDOW: Final = 16


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
        h = self.entries
        n = len(h)
        if n >= 2 and h[-1] == h[-2]:
            return h[-1]
        for period in range(2, n):
            if h[period:] == h[: n - period]:
                return h[n - period]
        return None


class Prediction(NamedTuple):
    """``confidence_bps``: share of the context's weight that was followed by this fingerprint."""

    fingerprint: Fingerprint
    confidence_bps: int


class ContextModel:
    """What followed each recent context of up to ``max_order`` fingerprints, older sightings counting less.

    Recording and predicting are O(max_order + successors of a context).  At most ``capacity`` contexts are kept; the
    least recently seen leave first.  Unlike ``ShapeHistory`` it changes in place: it is state, not a value.
    """

    def __init__(self, max_order: int = 8, decay: float = 0.8, capacity: int = 2048) -> None:
        for field, value, good, expected in (
            ("max_order", max_order, max_order >= 1, "at least 1"),
            ("decay", decay, 0.0 <= decay <= 1.0, "in 0..1"),
            ("capacity", capacity, capacity >= 1, "at least 1"),
        ):
            if not good:
                raise InvalidField(record="ContextModel", field=field, value=value, expected=f"a number {expected}")
        self._max_order, self._decay, self._capacity = max_order, decay, capacity
        self._recent: tuple[Fingerprint, ...] = ()
        self._followers: OrderedDict[tuple[Fingerprint, ...], dict[Fingerprint, float]] = OrderedDict()

    def record(self, fingerprint: Fingerprint) -> None:
        """Learn that ``fingerprint`` came next."""
        for start in range(len(self._recent)):
            context = self._recent[start:]
            weights = self._followers.pop(context, {})
            for seen in weights:
                weights[seen] *= self._decay
            weights[fingerprint] = weights.get(fingerprint, 0.0) + 1.0
            self._followers[context] = weights
        while len(self._followers) > self._capacity:
            self._followers.popitem(last=False)
        self._recent = (*self._recent, fingerprint)[-self._max_order :]

    def predict(self) -> Prediction | None:
        """The likeliest successor of the longest known context, ties to the first seen; None if none is known."""
        for start in range(len(self._recent)):
            weights = self._followers.get(self._recent[start:])
            if weights:
                best = max(weights, key=weights.__getitem__)
                return Prediction(best, int(weights[best] * 10_000 / sum(weights.values())))
        return None
