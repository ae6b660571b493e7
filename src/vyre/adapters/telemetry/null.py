"""Telemetry that goes nowhere."""

from __future__ import annotations


class NullTelemetry:
    __slots__ = ()

    def count(self, name: str, value: int = 1, /, **labels: str) -> None:
        return None

    def event(self, name: str, /, *, level: str = "info", **fields: object) -> None:
        return None
