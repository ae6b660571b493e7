"""Callers' values in error messages."""

from __future__ import annotations

from typing import Final

_LONGEST: Final = 80
_LARGEST: Final = 10**40


def shown(value: object) -> str:
    """Returns the ``repr`` of ``value``, shortened to 80 characters for an error message; never raises."""
    if isinstance(value, int) and abs(value) > _LARGEST:
        return f"an int of {value.bit_length()} bits"
    try:
        text = repr(value)
    except Exception as error:  # of the caller's own type; the message is about the argument
        text = f"<{type(value).__name__} whose repr raises {type(error).__name__}>"
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."
