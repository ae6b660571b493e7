"""Text for people, in which no character does anything to a terminal.

What is not printable is written as ``.vyre`` text writes it, ``\\u{1b}``: control characters, which move the cursor or
forge lines, characters that change the direction of reading, and lone surrogates, which no encoding has.
"""

from __future__ import annotations

from typing import Final


class Escapes(dict[int, str]):
    """A table for ``str.translate``, which takes no memory beside its result."""

    def __missing__(self, code: int) -> str:
        character = chr(code)
        return character if character.isprintable() else f"\\u{{{code:x}}}"


_ALL: Final = Escapes({ord("\n"): "\\n", ord("\t"): "\\t"})
_IN_BLOCKS: Final = Escapes({ord("\n"): "\n", ord("\t"): "\t"})


def one_line(text: str) -> str:
    """A name or a path: line breaks and tabs are escaped, too."""
    return text.translate(_ALL)


def printable(text: str) -> str:
    """Text of several lines."""
    return text.translate(_IN_BLOCKS)


def indented(text: str) -> str:
    """A message: the lines after its first one are indented, so that none of them looks like a message of its own."""
    return printable(text).replace("\n", "\n    ")
