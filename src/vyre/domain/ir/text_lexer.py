"""Splits ``.vyre`` text into tokens, line by line, with one regular expression."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from vyre.domain.errors import MalformedText
from vyre.domain.ir.node import SourceLocation
from vyre.domain.ir.text_format import RESERVED_WORDS

MAX_TEXT_CHARACTERS: Final = 64 << 20
MAX_NUMBER_CHARACTERS: Final = 256

NAME: Final = "name"
NUMBER: Final = "number"
STRING: Final = "string"
END: Final = "end"

_TOKEN: Final = re.compile(
    r"""[ \t\r]*(?:
      (?P<name>[A-Za-z_][A-Za-z0-9_]*)
    | (?P<number>(?:0[xX][0-9a-fA-F]+|[0-9]+(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?)(?:u64|i64|f64|u|i|f)?(?![A-Za-z0-9_]))
    | (?P<symbol>:=|==|!=|<=|>=|<<|>>|\.\.|[-+*/%&|^<>()\[\]{}=,.@])
    | (?P<string>"(?:[^"\\]|\\.)*")
    | (?P<comment>;.*)
    | (?P<unknown>.)
    )""",
    re.VERBOSE,
)


class Tokens(NamedTuple):
    """Tokens as parallel lists; the last one is ``END``.

    ``kinds`` holds the text itself for symbols and reserved words.
    """

    kinds: list[str]
    texts: list[str]
    lines: list[int]
    columns: list[int]


def tokenize(text: str, filename: str) -> Tokens:
    """The tokens of a text; raises ``MalformedText`` at a character that starts none."""
    if len(text) > MAX_TEXT_CHARACTERS:
        raise MalformedText(
            f"the text has {len(text)} characters; the limit is {MAX_TEXT_CHARACTERS}",
            loc=SourceLocation(filename, 1, 1),
        )
    kinds: list[str] = []
    texts: list[str] = []
    lines: list[int] = []
    columns: list[int] = []
    number = 0
    for number, line in enumerate(text.split("\n"), 1):
        for match in _TOKEN.finditer(line.rstrip(" \t\r")):
            kind = match.lastgroup
            if kind == "comment" or kind is None:
                continue
            word = match[kind]
            if kind == "symbol" or (kind == NAME and word in RESERVED_WORDS):
                kind = word
            elif kind == "unknown" or (kind == NUMBER and len(word) > MAX_NUMBER_CHARACTERS):
                raise _unknown(word, SourceLocation(filename, number, match.start(match.lastindex or 0) + 1))
            kinds.append(kind)
            texts.append(word)
            lines.append(number)
            columns.append(match.end() - len(word) + 1)
    kinds.append(END)
    texts.append("")
    lines.append(number)
    columns.append(len(line) + 1)
    return Tokens(kinds, texts, lines, columns)


def _unknown(word: str, loc: SourceLocation) -> MalformedText:
    if word == '"':
        return MalformedText(
            "a string does not end on its line", loc=loc, fix='close it with ", and write \\n for a line break.'
        )
    if word[0].isdigit():
        return MalformedText(
            "a number is malformed", loc=loc, fix="write 5u, -3i, 7u64, -7i64, 1.5f, 1.5f64 or hexadecimal 0xffu."
        )
    return MalformedText(f"unexpected character {word!r}", loc=loc, fix="quote names that are no identifiers.")
