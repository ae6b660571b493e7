"""A decision sink that counts verdicts, and the sink of a session."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from vyre.adapters.telemetry.guarded import guarded

if TYPE_CHECKING:
    from vyre.policies.journal import Decision, DecisionSink
    from vyre.ports.support import Telemetry


def decision_sink(telemetry: Telemetry, journal: DecisionSink | None) -> DecisionSink | None:
    """Returns the receiver of decisions for a telemetry and a journal.

    None if there is no journal and the telemetry discards counts: nothing is then prepared for nobody.
    """
    return None if journal is None and not guarded(telemetry).watches else CountedDecisions(telemetry, journal)


class CountedDecisions:
    """Counts each verdict by its policy, tells it where every dispatch is watched, and passes the decision on to
    ``journal``, if there is one.
    """

    __slots__ = ("_label", "_telemetry", "journal", "keeps")

    def __init__(self, telemetry: Telemetry, journal: DecisionSink | None = None) -> None:
        from vyre.policies.journal import verdict_label

        self._telemetry, self._label = guarded(telemetry), verdict_label
        self.journal: Final = journal
        self.keeps: Final = journal is not None and journal.keeps

    def note(self, decision: Decision, /) -> None:
        """Implements ``DecisionSink.note``."""
        verdict = self._label(decision.verdict)
        self._telemetry.count("vyre.decision", policy=decision.name, verdict=verdict)
        if self._telemetry.tells_decisions:
            self._telemetry.event("vyre.decision", level="debug", policy=decision.name, verdict=verdict)
        if self.journal is not None:
            self.journal.note(decision)
