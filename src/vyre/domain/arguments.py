"""Checks of what callers pass: an argument of a wrong kind is told by name, before anything is done with it."""

from __future__ import annotations

from typing import Final

from vyre.domain.errors import InvalidConfig, VyreError

_LONGEST: Final = 80
_LARGEST: Final = 10**40


def shown(value: object) -> str:
    """``value`` for an error message: shortened, and also where Python refuses to print it."""
    if isinstance(value, int) and abs(value) > _LARGEST:
        return f"an int of {value.bit_length()} bits"
    try:
        text = repr(value)
    except Exception as error:  # of the caller's own type; the message is about the argument
        text = f"<{type(value).__name__} whose repr raises {type(error).__name__}>"
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


def expect(
    name: str, value: object, kinds: type | tuple[type, ...], wanted: str, error: type[VyreError] = InvalidConfig
) -> None:
    """Raises ``error`` unless ``value`` is one of ``kinds``; a bool is an int only where ``bool`` is among them."""
    if not isinstance(value, kinds) or (type(value) is bool and kinds is int):
        raise error(f"{name}={shown(value)} is a {type(value).__name__}, not {wanted}", fix=f"pass {wanted}.")
