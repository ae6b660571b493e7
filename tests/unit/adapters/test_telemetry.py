"""Events reach what the application set up, and nothing is imported on their account."""

from __future__ import annotations

import io
import logging
import subprocess
import sys
import warnings
from collections.abc import Iterator
from functools import partial

import numpy as np
import pytest
import structlog
from structlog.testing import capture_logs

import vyre
from support.limits import LIMIT_S
from support.small_programs import square_program
from vyre.adapters.telemetry.application import ApplicationTelemetry
from vyre.adapters.telemetry.guarded import CountedDecisions, GuardedTelemetry, decision_sink
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


@pytest.mark.parametrize("make", [ApplicationTelemetry, NullTelemetry, RecordingTelemetry])
def test_every_adapter_takes_every_level(make: type[Telemetry], unconfigured: None) -> None:
    with capture_logs():
        telemetry = make()
        for level in ("debug", "info", "warning", "error"):
            telemetry.event("vyre.test", level=level, number=1)
        telemetry.count("vyre.test", 2, backend="b")


class Broken:
    """Telemetry of an application, with a mistake in it."""

    def count(self, name: str, value: int = 1, /, **labels: str) -> None:
        raise TypeError("counted wrong")

    def event(self, name: str, /, *, level: str = "info", **fields: object) -> None:
        raise ValueError("told wrong")

    def observe(self, name: str, seconds: float, /, **labels: str) -> None:
        raise KeyError("timed wrong")


def test_telemetry_that_raises_is_warned_of_once_and_ends_no_dispatch() -> None:
    x = np.arange(8, dtype=np.uint32)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        with vyre.open("reference", cache=False, telemetry=Broken()) as session:
            for program in (square_program(), square_program("again"), square_program("once more")):
                assert session.dispatch(program, [x])["y"].tolist() == (x * x).tolist()
    (warning,) = told
    assert warning.category is RuntimeWarning
    assert "raised" in str(warning.message) and "Fix: " in str(warning.message)


def test_telemetry_that_raises_ends_nothing_where_warnings_are_errors() -> None:
    telemetry = GuardedTelemetry(Broken())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        telemetry.event("vyre.test")
        telemetry.count("vyre.test")


def test_the_standard_logger_is_used_and_silent_by_default(
    unconfigured: None, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    with caplog.at_level(logging.INFO, logger="vyre"):
        ApplicationTelemetry().event("vyre.thing", level="warning", n=3)
    assert [(r.levelname, r.getMessage()) for r in caplog.records] == [("WARNING", "vyre.thing n=3")]
    assert any(isinstance(h, logging.NullHandler) for h in logging.getLogger("vyre").handlers)
    assert capsys.readouterr() == ("", "")


def test_that_the_reference_runs_is_one_line_on_standard_error(
    unconfigured: None, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    tell = partial(ApplicationTelemetry().event, "vyre.backend.reference_selected", level="warning")
    tell(backend="reference", reason="no\ndevice")
    assert capsys.readouterr() == ("", "vyre runs on `reference`: no\\ndevice\n")
    with monkeypatch.context() as without:
        without.setattr(sys, "stderr", None)
        tell(backend="reference", reason="nobody reads it")
    closed = io.StringIO()
    closed.close()
    with monkeypatch.context() as broken:
        broken.setattr(sys, "stderr", closed)
        tell(backend="reference", reason="it cannot be written")
    structlog.configure(
        processors=[lambda logger, method, entry: str(entry)], logger_factory=structlog.ReturnLoggerFactory()
    )
    tell(backend="reference", reason="structlog tells it")
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
