"""Decisions that are taken under a lock, and told when it has been released."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from vyre.policies.journal import Decision, DecisionSink


class HeldDecisions:
    """Holds what it is told until ``tell`` passes it on to ``sink``: that may be a user's telemetry, which may call
    whoever holds the lock.
    """

    __slots__ = ("_held", "_sink", "keeps")

    def __init__(self, sink: DecisionSink) -> None:
        self._sink = sink
        self.keeps: Final = sink.keeps
        self._held: deque[Decision] = deque()

    def note(self, decision: Decision, /) -> None:
        self._held.append(decision)

    def tell(self) -> None:
        """Call without the lock, from any thread."""
        while True:
            try:
                decision = self._held.popleft()
            except IndexError:
                return
            self._sink.note(decision)
