"""Durations as text for people."""

from __future__ import annotations

from typing import Final

_UNITS: Final = ((1e9, "s"), (1e6, "ms"), (1e3, "us"), (1.0, "ns"))


def duration(ns: float) -> str:
    """Formats nanoseconds with three digits: ``12.3 us``."""
    factor, unit = next((each for each in _UNITS if ns >= each[0]), _UNITS[-1])
    return f"{ns / factor:.3g} {unit}" if ns < 1e3 * factor else f"{ns / factor:.0f} {unit}"
