"""Events reach what the application set up, and nothing is imported on their account."""

from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import Iterator

import pytest
import structlog
from structlog.testing import capture_logs

from support.limits import LIMIT_S
from vyre.adapters.telemetry.application import ApplicationTelemetry
from vyre.adapters.telemetry.decisions import CountedDecisions, decision_sink
from vyre.adapters.telemetry.structured import StructlogTelemetry
from vyre.app.journal import DecisionJournal
from vyre.policies.caching.cost_eviction import Candidate, EvictionInputs, least_worth
from vyre.policies.journal import decide
from vyre.ports.support import NullTelemetry, Telemetry
from vyre.testing.recording_telemetry import Event, RecordingTelemetry


@pytest.fixture
def unconfigured() -> Iterator[None]:
    structlog.reset_defaults()
    yield
    structlog.reset_defaults()


@pytest.mark.parametrize("make", [ApplicationTelemetry, NullTelemetry, RecordingTelemetry, StructlogTelemetry])
def test_every_adapter_takes_every_level(make: type[Telemetry], unconfigured: None) -> None:
    with capture_logs():
        telemetry = make()
        for level in ("debug", "info", "warning", "error"):
            telemetry.event("vyre.test", level=level, number=1)
        telemetry.count("vyre.test", 2, backend="b")


def test_the_standard_logger_is_used_and_silent_by_default(
    unconfigured: None, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    with caplog.at_level(logging.INFO, logger="vyre"):
        ApplicationTelemetry().event("vyre.thing", level="warning", n=3)
    assert [(r.levelname, r.getMessage()) for r in caplog.records] == [("WARNING", "vyre.thing n=3")]
    assert any(isinstance(h, logging.NullHandler) for h in logging.getLogger("vyre").handlers)
    assert capsys.readouterr() == ("", "")


def test_structlog_wins_when_it_is_configured(unconfigured: None, caplog: pytest.LogCaptureFixture) -> None:
    entries: list[dict[str, object]] = []

    def collect(logger: object, method: str, entry: structlog.types.EventDict) -> structlog.types.EventDict:
        entries.append(dict(entry))
        raise structlog.DropEvent

    structlog.configure(processors=[collect])
    ApplicationTelemetry().event("vyre.thing", level="error", n=3)
    assert entries == [{"event": "vyre.thing", "n": 3}]
    assert caplog.records == []


def test_nothing_is_imported_for_nobody() -> None:
    code = (
        "import sys\n"
        "from vyre.adapters.telemetry.application import ApplicationTelemetry\n"
        "before = set(sys.modules)\n"
        "ApplicationTelemetry().event('x', level='warning')\n"
        "assert set(sys.modules) == before\n"
        "assert not {'logging', 'structlog'} & before\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=LIMIT_S)


def test_structlog_adapter_logs_counts_at_debug() -> None:
    with capture_logs() as entries:
        StructlogTelemetry().count("vyre.c", 3, backend="b")
        StructlogTelemetry().event("vyre.e", level="warning", n=1)
    assert entries == [
        {"event": "vyre.c", "count": 3, "backend": "b", "log_level": "debug"},
        {"event": "vyre.e", "n": 1, "log_level": "warning"},
    ]


@pytest.mark.parametrize("journal", [None, DecisionJournal()], ids=["alone", "with a journal"])
def test_decisions_are_counted_and_kept_by_the_journal(journal: DecisionJournal | None) -> None:
    telemetry = RecordingTelemetry()
    sink = CountedDecisions(telemetry, journal)
    assert sink.keeps is (journal is not None)
    assert decide(sink, least_worth, EvictionInputs((Candidate("a", 0, 1, 1, 1, 1, 0),), 1)).place == 0
    labels = (("policy", "least_worth"), ("verdict", "LeastWorth"))
    assert telemetry.counts == {("vyre.decision", labels): 1}
    assert journal is None or len(journal) == 1


class Counting(NullTelemetry):
    """Counts what its base discards."""

    def count(self, name: str, value: int = 1, /, **labels: str) -> None:
        """Does nothing, which nobody can know."""


@pytest.mark.parametrize(
    ("telemetry", "journal", "is_there"),
    [
        (NullTelemetry(), None, False),
        (ApplicationTelemetry(), None, False),
        (ApplicationTelemetry(), DecisionJournal(), True),
        (Counting(), None, True),
        (RecordingTelemetry(), None, True),
        (StructlogTelemetry(), None, True),
    ],
)
def test_decisions_that_nobody_receives_are_not_passed_on(
    telemetry: Telemetry, journal: DecisionJournal | None, is_there: bool
) -> None:
    found = decision_sink(telemetry, journal)
    assert (found is not None) is is_there
    assert found is None or found.keeps is (journal is not None)


def test_recording_sums_counts_by_label() -> None:
    telemetry = RecordingTelemetry()
    telemetry.count("c", 2, backend="a")
    telemetry.count("c", backend="a")
    telemetry.count("c", backend="b")
    telemetry.event("e", n=1)
    assert telemetry.counts == {("c", (("backend", "a"),)): 3, ("c", (("backend", "b"),)): 1}
    assert telemetry.events == [Event("e", "info", {"n": 1})]
