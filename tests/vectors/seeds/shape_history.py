"""The predictor of shapes as vyre-driver has it: a history that is a value, and its rule."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from vyre.domain.record import U32, U32_MAX, IntRange, record
from vyre.policies.prediction.shape_prediction import WINDOW, next_by_period

Fingerprint: TypeAlias = tuple[U32, ...]


@record
class ShapeHistory:
    """The last ``window`` fingerprints, oldest first; recording returns a new history."""

    entries: tuple[Fingerprint, ...] = ()
    window: Annotated[int, IntRange(1, U32_MAX)] = WINDOW

    def record(self, fingerprint: Fingerprint) -> ShapeHistory:
        """Returns the history with one more entry; the oldest is dropped when the window is full."""
        return ShapeHistory((*self.entries, fingerprint)[-self.window :], self.window)

    def __len__(self) -> int:
        return len(self.entries)

    def __contains__(self, fingerprint: Fingerprint) -> bool:
        return fingerprint in self.entries

    @property
    def latest(self) -> Fingerprint | None:
        """The last fingerprint, or None if there is none."""
        return self.entries[-1] if self.entries else None

    def predict_next(self) -> Fingerprint | None:
        """Returns the fingerprint expected next, or None."""
        return next_by_period(self.entries)
