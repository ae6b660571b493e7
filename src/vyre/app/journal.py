"""The journal: decisions of a session, kept in memory until they are written or replayed."""

from __future__ import annotations

import sys
from collections import deque
from threading import Lock
from typing import Final

from vyre.domain.arguments import expect
from vyre.domain.errors import InvalidConfig, InvalidInput
from vyre.domain.shown import shown
from vyre.policies.journal import Decision

DEFAULT_LIMIT: Final = 65_536


class DecisionJournal:
    """The latest ``limit`` decisions, oldest first; every method may be called from any thread.

    Raises ``InvalidConfig`` for a limit that is not positive.
    """

    keeps: Final = True

    def __init__(self, limit: int = DEFAULT_LIMIT) -> None:
        if type(limit) is not int or not 1 <= limit <= sys.maxsize:
            raise InvalidConfig(f"a journal of {shown(limit)} decisions", fix="keep at least one.")
        self._kept: deque[Decision] = deque(maxlen=limit)
        self._noted = 0
        self._lock = Lock()

    def note(self, decision: Decision, /) -> None:
        """Appends a decision; implements ``DecisionSink.note``.  Raises ``InvalidInput`` for anything else."""
        expect("decision", decision, Decision, "a Decision", InvalidInput)
        with self._lock:
            self._kept.append(decision)
            self._noted += 1

    @property
    def decisions(self) -> tuple[Decision, ...]:
        """The kept decisions, oldest first."""
        with self._lock:
            return tuple(self._kept)

    @property
    def dropped(self) -> int:
        """Number of decisions that were dropped for later ones."""
        with self._lock:
            return self._noted - len(self._kept)

    def __len__(self) -> int:
        return len(self._kept)
