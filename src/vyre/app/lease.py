"""A backend in use by a session, from ``prepare`` to ``close``, with the resident memory it handed out."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import TYPE_CHECKING, Final
from weakref import WeakSet

from vyre.domain.errors import InvalidResource
from vyre.ports.backend import Backend

if TYPE_CHECKING:
    from vyre.app.resident import ResidentArray


FIRST_REVIEW: Final = 9
"""Runs that tell something about a cost before anything is made of it."""


class BackendLease:
    """Prepares the backend when made; ``close`` frees what is still resident, then closes the backend, once.

    ``review``: is called when a number of runs told what their launches took, and each time they have doubled.
    """

    __slots__ = ("_due", "_lock", "_residents", "_told", "backend", "closed", "has_residents", "review")

    def __init__(self, backend: Backend) -> None:
        backend.lifecycle.prepare()
        self.backend = backend
        self.closed = False
        self.has_residents = False
        self.review: Callable[[], None] | None = None
        self._told, self._due = 0, FIRST_REVIEW
        self._residents: WeakSet[ResidentArray] = WeakSet()
        self._lock = Lock()

    def check_open(self) -> None:
        if self.closed:
            raise InvalidResource("the session is closed", fix="open a new one with vyre.open().")

    def adopt(self, array: ResidentArray) -> None:
        with self._lock:
            self._residents.add(array)
            self.has_residents = True

    def owns(self, array: ResidentArray) -> bool:
        return array in self._residents

    def saw_launches(self) -> None:
        """A run told what its launches took."""
        self._told += 1
        if self._told >= self._due:
            self._due *= 2
            if self.review is not None:
                self.review()

    def flush(self) -> None:
        self.backend.lifecycle.flush()

    def close(self) -> None:
        with self._lock:
            if self.closed:
                return
            self.closed = True
            arrays = list(self._residents)
        try:
            for array in arrays:
                array.close()
        finally:
            self.backend.lifecycle.close()
