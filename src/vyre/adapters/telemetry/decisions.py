"""A decision sink that counts verdicts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from vyre.policies.journal import Decision, DecisionSink, verdict_label

if TYPE_CHECKING:
    from vyre.ports.support import Telemetry


class CountedDecisions:
    """Counts each verdict by its policy, and passes the decision on to ``journal``, if there is one."""

    __slots__ = ("_telemetry", "journal", "keeps")

    def __init__(self, telemetry: Telemetry, journal: DecisionSink | None = None) -> None:
        self._telemetry = telemetry
        self.journal: Final = journal
        self.keeps: Final = journal is not None and journal.keeps

    def note(self, decision: Decision, /) -> None:
        """Implements ``DecisionSink.note``."""
        self._telemetry.count("vyre.decision", policy=decision.name, verdict=verdict_label(decision.verdict))
        if self.journal is not None:
            self.journal.note(decision)
