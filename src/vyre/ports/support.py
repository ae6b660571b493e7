"""Small ports: the environment and telemetry."""

from __future__ import annotations

from typing import Final, Protocol


class Environment(Protocol):
    def get(self, name: str, /) -> str | None:
        """The value of an environment variable, or None."""
        ...


class Telemetry(Protocol):
    """Where events and counts go.  Implementations never raise and are thread-safe."""

    def count(self, name: str, value: int = 1, /, **labels: str) -> None: ...
    def event(self, name: str, /, *, level: str = "info", **fields: object) -> None: ...


class NullTelemetry:
    """Telemetry that goes nowhere."""

    __slots__ = ()

    def count(self, name: str, value: int = 1, /, **labels: str) -> None:
        return None

    def event(self, name: str, /, *, level: str = "info", **fields: object) -> None:
        return None


SILENT: Final = NullTelemetry()
