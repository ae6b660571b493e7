"""Guess the next program from the recent ones.

The history is a window of the last 16 fingerprints.  Rule: two equal ones at the end predict a third; otherwise the
smallest period c (2..n-1) of the *whole* window predicts the entry one period back; otherwise nothing.
O(n^2) <= 256 comparisons.

What the reference rule gets wrong: A, A, B repeated is predicted wrongly two times in three, one stray entry
blinds it, and it has no confidence; a context model with a confidence stands beside it (a later file).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeAlias

Fingerprint: TypeAlias = tuple[int, ...]
WINDOW: Final = 16


@dataclass(frozen=True, slots=True)
class ShapeHistory:
    """The last ``window`` fingerprints, oldest first; recording returns a new history."""

    entries: tuple[Fingerprint, ...] = ()
    window: int = WINDOW

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
