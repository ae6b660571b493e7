"""The journal: decisions of a session, kept in memory until they are written or replayed."""

from __future__ import annotations

import sys
from collections import deque
from typing import Final

from vyre.adapters.forks import process_lock
from vyre.domain.arguments import expect, whole
from vyre.domain.errors import InvalidInput
from vyre.policies.journal import Decision
from vyre.ports.interrupts import sealed

DEFAULT_LIMIT: Final = 65_536


class DecisionJournal:
    """The latest ``limit`` decisions, oldest first; every method may be called from any thread.

    Raises ``InvalidConfig`` for a limit that is not positive.
    """

    keeps: Final = True

    def __init__(self, limit: int = DEFAULT_LIMIT) -> None:
        limit = whole("limit", limit, 1, sys.maxsize, "keep at least one decision.")
        self._kept: deque[Decision] = deque(maxlen=limit)
        self._noted = 0
        self._lock = process_lock()

    def note(self, decision: Decision, /) -> None:
        """Appends a decision; implements ``DecisionSink.note``.  Raises ``InvalidInput`` for anything else."""
        expect("decision", decision, Decision, "a Decision", InvalidInput)
        with self._lock, sealed:
            self._kept.append(decision)
            self._noted += 1

    @property
    def decisions(self) -> tuple[Decision, ...]:
        """The kept decisions, oldest first."""
        with self._lock, sealed:
            return tuple(self._kept)

    @property
    def dropped(self) -> int:
        """Number of decisions that were dropped for later ones."""
        with self._lock, sealed:
            return self._noted - len(self._kept)

    def __len__(self) -> int:
        return len(self._kept)
