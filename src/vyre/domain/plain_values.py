"""Type checks of values that were read from JSON, made before they are used; a bool does not count as a number."""

from __future__ import annotations

from typing import Final

U32_MAX: Final = 0xFFFF_FFFF


def texts(*values: object) -> bool:
    """Returns whether every value is a ``str``."""
    return all(type(value) is str for value in values)


def flags(*values: object) -> bool:
    """Returns whether every value is a ``bool``."""
    return all(type(value) is bool for value in values)


def counts(*values: object, least: int = 0, most: int = U32_MAX) -> bool:
    """Returns whether every value is an ``int`` from ``least`` to ``most``."""
    return all(type(value) is int and least <= value <= most for value in values)
