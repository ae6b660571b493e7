"""Callers' values in error messages."""

from __future__ import annotations

from typing import Final

_LONGEST: Final = 80
_LARGEST: Final = 10**40


def kind_of(value: object) -> str:
    """Returns the name of the type of ``value`` with its article: ``an int``, ``a str``."""
    name = type(value).__name__
    return f"{'an' if name[:1] in 'aeioAEIO' or name == 'ndarray' else 'a'} {name}"


def shown(value: object) -> str:
    """Returns the ``repr`` of ``value``, shortened to 80 characters for an error message; never raises."""
    if isinstance(value, int) and abs(value) > _LARGEST:
        return f"an int of {value.bit_length()} bits"
    try:
        text = repr(value)
    except Exception as error:  # of the caller's own type; the message is about the argument
        text = f"<{type(value).__name__} whose repr raises {type(error).__name__}>"
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."
