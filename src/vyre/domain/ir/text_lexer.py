"""A lexer that splits ``.vyre`` text into tokens with one regular expression, in memory that no token can inflate."""

from __future__ import annotations

import re
from array import array
from bisect import bisect_right
from typing import Final

from vyre.domain.errors import MalformedText
from vyre.domain.ir.limits import MAX_TEXT_CHARACTERS
from vyre.domain.ir.text_format import RESERVED_WORDS
from vyre.domain.source_location import SourceLocation

MAX_NUMBER_CHARACTERS: Final = 256

NAME: Final = "name"
NUMBER: Final = "number"
STRING: Final = "string"
END: Final = "end"

# Repeats of anything except single characters are possessive: the engine would otherwise keep a backtracking state
# for each step, some 200 bytes a character, although no shorter match is ever wanted.  The token is optional, so that
# blanks at the end of the text match once and are not tried again from each of them.
_TOKEN: Final = re.compile(
    r"""(?:[ \t\r\n]++|;[^\n]*+)*+(?:
      (?P<name>[A-Za-z_][A-Za-z0-9_]*+)
    | (?P<symbol>:=|==|!=|<=|>=|<<|>>|\.\.|[-+*/%&|^<>()\[\]{}=,.:@])
    | (?P<number>(?:0[xX][0-9a-fA-F]+|[0-9]+(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?)(?:u64|i64|f64|u|i|f)?(?![A-Za-z0-9_]))
    | (?P<string>"(?:[^"\\\n]++|\\[^\n])*+")
    | (?P<unknown>.)
    )?""",
    re.VERBOSE,
)
_SYMBOL: Final = "symbol"
_UNKNOWN: Final = "unknown"
_NEWLINE: Final = re.compile("\n")
_KIND_OF_WORD: Final = {word: word for word in RESERVED_WORDS}


class Tokens:
    """The tokens of a text, in 16 bytes each; the last one is ``END``.

    ``kinds`` holds the text itself for symbols and reserved words.  Texts and locations of tokens are computed on
    demand.  The text's first character is at ``line`` and ``column`` of the file, both counted from 1.  Raises
    ``MalformedText`` at a character that starts no token.
    """

    __slots__ = (
        *("_column", "_ends", "_line", "_line_end", "_line_number", "_line_start", "_line_starts", "_starts", "_text"),
        *("filename", "kinds"),
    )

    def __init__(self, text: str, filename: str, line: int, column: int) -> None:
        self.kinds: list[str] = []
        self.filename = filename
        self._text = text
        self._line, self._column = line, column
        self._starts, self._ends = array("I"), array("I")
        self._line_starts = array("I", [0])
        self._line_starts.extend(newline.end() for newline in _NEWLINE.finditer(text))
        # Start and end in the text, and the number from 0, of the line that was looked up last.
        self._line_start = self._line_end = self._line_number = 0
        self._split()

    def _split(self) -> None:
        add_kind, add_start, add_end = self.kinds.append, self._starts.append, self._ends.append
        kind_of_word = _KIND_OF_WORD.get
        for match in _TOKEN.finditer(self._text):
            kind = match.lastgroup
            if kind is None:
                continue
            word = match[kind]
            end = match.end()
            if kind == _SYMBOL:
                kind = word
            elif kind == NAME:
                kind = kind_of_word(word, NAME)
            elif kind == _UNKNOWN or (kind == NUMBER and len(word) > MAX_NUMBER_CHARACTERS):
                add_start(end - len(word))
                raise _unknown(word, self.loc(-1))
            add_kind(kind)
            add_start(end - len(word))
            add_end(end)
        add_kind(END)
        add_start(len(self._text))
        add_end(len(self._text))

    def __len__(self) -> int:
        return len(self.kinds)

    def text(self, position: int) -> str:
        """Returns the text of a token; that of ``END`` is empty."""
        return self._text[self._starts[position] : self._ends[position]]

    def loc(self, position: int) -> SourceLocation:
        """Returns the source location at which a token starts."""
        offset = self._starts[position]
        if not self._line_start <= offset < self._line_end:
            starts = self._line_starts
            following = bisect_right(starts, offset)
            self._line_number = following - 1
            self._line_start = starts[following - 1]
            self._line_end = starts[following] if following < len(starts) else len(self._text) + 1
        number = self._line_number
        column = offset - self._line_start + (1 if number else self._column)
        return SourceLocation(self.filename, self._line + number, column)


def tokenize(text: str, filename: str, line: int = 1, column: int = 1) -> Tokens:
    """Returns the tokens of a text that starts at ``line`` and ``column`` of a file.

    Raises ``MalformedText`` for a character that starts no token, and for a text beyond ``MAX_TEXT_CHARACTERS``.
    """
    if len(text) > MAX_TEXT_CHARACTERS:
        raise MalformedText(
            f"the text has {len(text)} characters; the limit is {MAX_TEXT_CHARACTERS}",
            loc=SourceLocation(filename, line, column),
        )
    return Tokens(text, filename, line, column)


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
