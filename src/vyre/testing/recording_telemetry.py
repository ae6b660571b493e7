"""Telemetry that keeps counters and events, for tests."""

from __future__ import annotations

from collections import Counter
from threading import Lock
from typing import NamedTuple


class Event(NamedTuple):
    """One event with its fields."""

    name: str
    level: str
    fields: dict[str, object]


class RecordingTelemetry:
    """Telemetry in memory: ``events`` in order of arrival; ``counts`` summed by name and labels."""

    def __init__(self) -> None:
        self._lock = Lock()
        self.events: list[Event] = []
        self.counts: Counter[tuple[str, tuple[tuple[str, str], ...]]] = Counter()

    def count(self, name: str, value: int = 1, /, **labels: str) -> None:
        """Implements ``Telemetry.count``."""
        with self._lock:
            self.counts[name, tuple(sorted(labels.items()))] += value

    def event(self, name: str, /, *, level: str = "info", **fields: object) -> None:
        """Implements ``Telemetry.event``."""
        with self._lock:
            self.events.append(Event(name, level, fields))
