"""Telemetry whose failures end nothing that they are told of."""

from __future__ import annotations

import contextlib
import warnings
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from vyre.ports.support import Telemetry


class GuardedTelemetry:
    """Passes everything on to ``inner``; its first exception becomes a ``RuntimeWarning``, and no other is told."""

    __slots__ = ("_has_failed", "inner")

    def __init__(self, inner: Telemetry) -> None:
        self.inner: Final = inner
        self._has_failed = False

    def count(self, name: str, value: int = 1, /, **labels: str) -> None:
        """Implements ``Telemetry.count``."""
        try:
            self.inner.count(name, value, **labels)
        except Exception as error:
            self._warn("count", name, error)

    def event(self, name: str, /, *, level: str = "info", **fields: object) -> None:
        """Implements ``Telemetry.event``."""
        try:
            self.inner.event(name, level=level, **fields)
        except Exception as error:
            self._warn("event", name, error)

    def _warn(self, method: str, name: str, error: Exception) -> None:
        if self._has_failed:
            return
        self._has_failed = True
        with contextlib.suppress(RuntimeWarning):  # where the application has made warnings errors
            warnings.warn(
                f"the telemetry's {method} of {name} raised {type(error).__name__}: {error}; what is told it may be "
                "lost from now on. Fix: let its methods catch what they raise.",
                RuntimeWarning,
                stacklevel=3,
            )
