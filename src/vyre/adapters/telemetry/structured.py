"""Telemetry through structlog, whether or not the application configured it."""

from __future__ import annotations

import logging
from typing import Any

import structlog


class StructlogTelemetry:
    """``logger`` defaults to ``structlog.get_logger("vyre")``; counts are events of level debug."""

    __slots__ = ("_logger",)

    def __init__(self, logger: Any = None) -> None:
        self._logger = structlog.get_logger("vyre") if logger is None else logger

    def count(self, name: str, value: int = 1, /, **labels: str) -> None:
        """Implements ``Telemetry.count``."""
        self._logger.debug(name, count=value, **labels)

    def event(self, name: str, /, *, level: str = "info", **fields: object) -> None:
        """Implements ``Telemetry.event``."""
        self._logger.log(logging.getLevelNamesMapping()[level.upper()], name, **fields)
