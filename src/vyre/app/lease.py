"""A backend in use by a session, from ``prepare`` to ``close``, with the resident memory it handed out."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import TYPE_CHECKING
from weakref import WeakSet

from vyre.domain.errors import InvalidResource
from vyre.ports.backend import Backend

if TYPE_CHECKING:
    from vyre.app.calibration.review import CostReview
    from vyre.app.resident import ResidentArray


def _unheard() -> None:
    """Nobody wants to know."""


class BackendLease:
    """Prepares the backend when made; ``close`` frees what is still resident, then closes the backend, once.

    ``launched`` is to be called after every run that launched.
    """

    __slots__ = ("_lock", "_residents", "_review", "backend", "closed", "has_residents", "launched")

    def __init__(self, backend: Backend) -> None:
        backend.lifecycle.prepare()
        self.backend: Backend = backend
        self.closed: bool = False
        self.has_residents: bool = False
        self.launched: Callable[[], None] = _unheard
        self._review: CostReview | None = None
        self._residents: WeakSet[ResidentArray] = WeakSet()
        self._lock = Lock()

    @property
    def is_reviewed(self) -> bool:
        return self._review is not None

    def review_with(self, review: CostReview) -> None:
        """Tell ``review`` of every run that launches; it ends with the lease."""
        self._review, self.launched = review, review.launched

    def check_open(self) -> None:
        if self.closed:
            raise InvalidResource("the session is closed", fix="open a new one with vyre.open().")

    def adopt(self, array: ResidentArray) -> None:
        with self._lock:
            self._residents.add(array)
            self.has_residents = True

    def owns(self, array: ResidentArray) -> bool:
        return array in self._residents

    def flush(self) -> None:
        self.backend.lifecycle.flush()

    def close(self) -> None:
        with self._lock:
            if self.closed:
                return
            self.closed = True
            arrays = list(self._residents)
        if self._review is not None:
            self._review.close()
        try:
            for array in arrays:
                array.close()
        finally:
            self.backend.lifecycle.close()
