"""Telemetry that keeps counters and events, for tests."""

from __future__ import annotations

from collections import Counter
from threading import Lock

from vyre.domain.errors import Event as Event


class RecordingTelemetry:
    """Telemetry in memory: ``events`` in order of arrival; ``counts`` summed by name and labels; ``observed`` lists
    durations in seconds by name and labels.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self.events: list[Event] = []
        self.observed: dict[tuple[str, tuple[tuple[str, str], ...]], list[float]] = {}
        self.counts: Counter[tuple[str, tuple[tuple[str, str], ...]]] = Counter()

    def count(self, name: str, value: int = 1, /, **labels: str) -> None:
        """Implements ``Telemetry.count``."""
        with self._lock:
            self.counts[name, tuple(sorted(labels.items()))] += value

    def event(self, name: str, /, *, level: str = "info", **fields: object) -> None:
        """Implements ``Telemetry.event``."""
        with self._lock:
            self.events.append(Event(name, level, fields))

    def observe(self, name: str, seconds: float, /, **labels: str) -> None:
        """Implements ``Telemetry.observe``."""
        with self._lock:
            self.observed.setdefault((name, tuple(sorted(labels.items()))), []).append(seconds)
