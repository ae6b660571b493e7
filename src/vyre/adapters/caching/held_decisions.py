"""Decisions that are made under a lock, and reported after its release."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from vyre.policies.journal import Decision, DecisionSink


class HeldDecisions:
    """A sink that buffers decisions until ``tell`` passes them on to ``sink``.

    ``sink`` may be a user's telemetry, which may call the object whose lock is held.
    """

    __slots__ = ("_buffered", "_sink", "keeps")

    def __init__(self, sink: DecisionSink) -> None:
        self._sink = sink
        self.keeps: Final = sink.keeps
        self._buffered: deque[Decision] = deque()

    def note(self, decision: Decision, /) -> None:
        """Buffers a decision; implements ``DecisionSink.note``."""
        self._buffered.append(decision)

    def tell(self) -> None:
        """Passes the buffered decisions on.  Call without the lock, from any thread."""
        while True:
            try:
                decision = self._buffered.popleft()
            except IndexError:
                return
            self._sink.note(decision)
