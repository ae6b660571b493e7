"""Small ports: environment variables, the clock, telemetry and a profiler."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from contextlib import AbstractContextManager


class Environment(Protocol):
    """Read access to environment variables."""

    def get(self, name: str, /) -> str | None:
        """Returns the value of an environment variable, or None if it is not set."""


class Clock(Protocol):
    """The time, in nanoseconds.  Implementations never raise and are thread-safe."""

    def now_ns(self) -> int:
        """Returns a time that never goes back, for durations."""

    def time_ns(self) -> int:
        """Returns the time since the epoch."""


class Profiler(Protocol):
    """Opens named ranges in a profiler's timeline."""

    def range(self, name: str, /) -> AbstractContextManager[object]:
        """Returns a context manager that marks a range of this name."""


class Telemetry(Protocol):
    """A receiver of events, counts and durations.  Implementations never raise and are thread-safe."""

    def count(self, name: str, value: int = 1, /, **labels: str) -> None:
        """Adds ``value`` to the counter with this name and these labels."""

    def event(self, name: str, /, *, level: str = "info", **fields: object) -> None:
        """Records an event with its severity and fields."""

    def observe(self, name: str, seconds: float, /, **labels: str) -> None:
        """Adds a duration to those with this name and these labels."""


class NullTelemetry:
    """Telemetry that discards everything."""

    __slots__ = ()

    def count(self, name: str, value: int = 1, /, **labels: str) -> None:
        """Does nothing."""
        return

    def event(self, name: str, /, *, level: str = "info", **fields: object) -> None:
        """Does nothing."""
        return

    def observe(self, name: str, seconds: float, /, **labels: str) -> None:
        """Does nothing."""
        return


SILENT: Final = NullTelemetry()
