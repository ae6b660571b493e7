r"""Text for messages: the values of callers, and text without characters that could control a terminal.

Characters that are not printable are escaped in the form of ``.vyre`` text, ``\u{1b}``: control characters, which
move the cursor or forge lines, characters that change the direction of reading, and lone surrogates, which no
encoding has.
"""

from __future__ import annotations

from typing import Final


class Escapes(dict[int, str]):
    """A table for ``str.translate`` that computes escapes on demand and uses no memory besides its result."""

    def __missing__(self, code: int) -> str:
        character = chr(code)
        return character if character.isprintable() else f"\\u{{{code:x}}}"


_ALL: Final = Escapes({ord("\n"): "\\n", ord("\t"): "\\t"})
_IN_BLOCKS: Final = Escapes({ord("\n"): "\n", ord("\t"): "\t"})


def one_line(text: str) -> str:
    """Returns a name or a path with all control characters escaped, including line breaks and tabs."""
    return text.translate(_ALL)


def printable(text: str) -> str:
    """Returns a text with its control characters escaped, except line breaks and tabs."""
    return text.translate(_IN_BLOCKS)


def indented(text: str) -> str:
    """Returns a message whose lines after the first are indented, so that none of them looks like another message."""
    return printable(text).replace("\n", "\n    ")


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
