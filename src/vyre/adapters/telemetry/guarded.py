"""The telemetry of a session, which passes everything on to any number of receivers and keeps the last events, and
the sink of its decisions, which counts verdicts.
"""

from __future__ import annotations

import contextlib
import time
import warnings
from collections import Counter, deque
from collections.abc import Callable
from contextvars import ContextVar
from itertools import count
from typing import TYPE_CHECKING, Final, cast

from vyre.adapters.system import SystemClock
from vyre.adapters.telemetry.application import ApplicationTelemetry
from vyre.domain.errors import ErrorCode, Event, VyreError
from vyre.ports.support import Clock, NullTelemetry, Profiler, Telemetry

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from vyre.policies.journal import Decision, DecisionSink

    Ranges = Callable[[str], AbstractContextManager[object]]

KEPT_EVENTS: Final = 256
ATTACHED_EVENTS: Final = 16
"""The events that an error gets."""
CURRENT_DISPATCH: Final[ContextVar[int | None]] = ContextVar("vyre_dispatch", default=None)
"""The number, in its session, of the dispatch under way in this context, where dispatches are counted."""
_REFUSALS: Final = frozenset(
    (ErrorCode.INVALID_INPUT, ErrorCode.INVALID_CONFIG, ErrorCode.INVALID_FIELD, ErrorCode.INVALID_PROGRAM,
     ErrorCode.INVALID_RESOURCE, ErrorCode.UNSUPPORTED_FEATURE, ErrorCode.REFUSED_BY_GATE, ErrorCode.QUEUE_FULL)
)  # fmt: skip
"""The codes of errors that are raised before anything runs; the caller gets the exception, and may expect it."""
_SESSIONS: Final = count(1)
_PLAIN: Final = (str, int, float, bool, type(None))


class RecentEvents(NullTelemetry):
    """A telemetry that keeps the last ``capacity`` events in memory; every session has one, of 256 events."""

    __slots__ = ("_events", "now_s")
    only_keeps: Final = True
    """Whether nobody hears of what it is told, so that the application's logging is told too; ``vyre.open`` asks."""

    def __init__(self, capacity: int = KEPT_EVENTS, now_s: Callable[[], float] = time.time) -> None:
        from vyre.domain.arguments import whole
        from vyre.domain.record import U32_MAX

        self._events: deque[Event] = deque(maxlen=whole("capacity", capacity, 1, U32_MAX))
        self.now_s: Final = now_s

    def event(self, name: str, /, *, level: str = "info", **fields: object) -> None:
        """Keeps an event; what is no number and no text among its fields is kept as text."""
        plain = {key: value if type(value) in _PLAIN else str(value) for key, value in fields.items()}
        self._events.append(Event(name, level, plain, self.now_s()))

    def events(self) -> tuple[Event, ...]:
        """Returns the events that are kept, oldest first."""
        return tuple(self._events.copy())


class GuardedTelemetry:
    """Passes everything on to ``inner``; the first exception of each is a ``RuntimeWarning``, and it alone is told.

    Events have the number of the session as the field ``session``, and that of the dispatch as ``dispatch``, where
    dispatches are counted.  ``counts`` says whether anybody receives counts and durations, and ``watches`` whether
    anybody hears of every dispatch and decision.
    """

    def __init__(self, *inner: Telemetry, clock: Clock | None = None, ranges: Ranges | None = None) -> None:
        clock = SystemClock() if clock is None else clock
        self.now_ns: Final = clock.now_ns
        self.ranges: Final = ranges
        """Returns a function that opens a named range in the timeline of a profiler; None without a profiler."""
        self.session: Final = next(_SESSIONS)
        ring = next((each for each in inner if isinstance(each, RecentEvents)), None)
        self._ring: Final = RecentEvents(now_s=lambda: clock.time_ns() / 1e9) if ring is None else ring
        self.inner: Final = inner
        self.counts: Final = any(getattr(type(each), "count", None) is not NullTelemetry.count for each in inner)
        self.tells_decisions: Final = any(getattr(each, "tells_decisions", False) is True for each in inner)
        self.watches: Final = self.counts or self.tells_decisions
        self.failures: Final[Counter[tuple[str, str]]] = Counter()
        """How many runs failed, by backend and class of the error."""
        self._has_failed: set[int] = set()

    def count(self, name: str, value: int = 1, /, **labels: str) -> None:
        """Implements ``Telemetry.count``."""
        for place, each in enumerate(self.inner) if self.counts else ():
            try:
                each.count(name, value, **labels)
            except Exception as error:
                self._warn(place, "count", name, error)

    def observe(self, name: str, seconds: float, /, **labels: str) -> None:
        """Implements ``Telemetry.observe``."""
        for place, each in enumerate(self.inner) if self.counts else ():
            try:
                each.observe(name, seconds, **labels)
            except Exception as error:
                self._warn(place, "observe", name, error)

    def event(self, name: str, /, *, level: str = "info", **fields: object) -> None:
        """Implements ``Telemetry.event``."""
        fields["session"] = self.session
        if (dispatch := CURRENT_DISPATCH.get()) is not None:
            fields["dispatch"] = dispatch
        if self._ring not in self.inner:
            self._ring.event(name, level=level, **fields)
        for place, each in enumerate(self.inner):
            try:
                each.event(name, level=level, **fields)
            except Exception as error:
                self._warn(place, "event", name, error)

    def recent(self) -> tuple[Event, ...]:
        """Returns the last events, oldest first."""
        return self._ring.events()

    def failed(self, error: VyreError, backend: str, what: str) -> None:
        """Counts and tells that work failed, and gives the error the last events; does so once for an error."""
        if error.recent:
            return
        kind = type(error).__name__
        self.failures[backend, kind] += 1
        self.count("vyre.failures", backend=backend, error=kind)
        level = "info" if error.code in _REFUSALS else "error"
        self.event("vyre.failed", level=level, backend=backend, what=what, error=kind, message=error.message)
        self.attach(error)

    def attach(self, error: VyreError) -> None:
        """Gives an error the last events, which says that it was told."""
        error.recent = self.recent()[-ATTACHED_EVENTS:]

    def _warn(self, place: int, method: str, name: str, error: Exception) -> None:
        if place in self._has_failed:
            return
        self._has_failed.add(place)
        with contextlib.suppress(RuntimeWarning):  # where the application has made warnings errors
            warnings.warn(
                f"the telemetry's {method} of {name} raised {type(error).__name__}: {error}; what is told it may be "
                "lost from now on. Fix: let its methods catch what they raise.",
                RuntimeWarning,
                stacklevel=3,
            )


def guarded(telemetry: Telemetry, clock: Clock | None = None) -> GuardedTelemetry:
    """Returns the telemetry itself if it is that of a session already, else one that passes on to it."""
    return telemetry if isinstance(telemetry, GuardedTelemetry) else GuardedTelemetry(telemetry, clock=clock)


def session_telemetry(telemetry: object, clock: Clock, profiler: Profiler | None = None) -> GuardedTelemetry:
    """Returns the telemetry of a session out of one receiver, several in a list or tuple, or None for the application's
    logging, which also tells what receivers that only keep things do not.

    Raises ``InvalidConfig`` for what is no telemetry.
    """
    if telemetry is None:
        several: list[Telemetry] = []
    else:
        several = list(telemetry or [None]) if isinstance(telemetry, list | tuple) else [cast("Telemetry", telemetry)]
    for each in several:
        expect_methods("telemetry", each, "count", "event", "observe")
    if all(getattr(each, "only_keeps", False) is True for each in several):
        several.append(ApplicationTelemetry())
    ranges = None if profiler is None else profiler.range
    return GuardedTelemetry(*several, clock=clock, ranges=ranges)


def expect_methods(name: str, value: object, *methods: str) -> None:
    """Raises ``InvalidConfig`` unless ``value``, which ``vyre.open`` takes under this name, has these methods."""
    if not all(callable(getattr(value, method, None)) for method in methods):
        from vyre.domain.errors import InvalidConfig
        from vyre.domain.printable import shown

        raise InvalidConfig(
            f"{name}={shown(value)} has no {' and '.join(methods)}", fix="pass an object that has, or None."
        )


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
