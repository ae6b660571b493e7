"""A cursor over tokens with the parsers of names, integers and errors that everything else needs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from vyre.domain.errors import MalformedText
from vyre.domain.ir.limits import MAX_NAME_BYTES, U32_MAX
from vyre.domain.ir.node import SourceLocation
from vyre.domain.ir.text_format import unquoted
from vyre.domain.ir.text_lexer import END, NAME, NUMBER, STRING, Tokens

_T = TypeVar("_T")


class Cursor:
    """Position in a token list; every ``take_...`` consumes a token or raises ``MalformedText``."""

    __slots__ = ("columns", "filename", "kinds", "lines", "position", "texts")

    def __init__(self, tokens: Tokens, filename: str) -> None:
        self.kinds: list[str] = tokens.kinds
        self.texts: list[str] = tokens.texts
        self.lines: list[int] = tokens.lines
        self.columns: list[int] = tokens.columns
        self.filename: str = filename
        self.position: int = 0

    @property
    def kind(self) -> str:
        return self.kinds[self.position]

    def loc(self, position: int | None = None) -> SourceLocation:
        at = self.position if position is None else position
        return SourceLocation(self.filename, self.lines[at], self.columns[at])

    def error(self, problem: str, fix: str | None = None, position: int | None = None) -> MalformedText:
        return MalformedText(problem, fix=fix, loc=self.loc(position))

    def expected(self, what: str, fix: str | None = None) -> MalformedText:
        """The error for a token that is not ``what``."""
        found = "the end of the text" if self.kind == END else f"`{self.texts[self.position][:40]}`"
        return self.error(f"expected {what}, found {found}", fix)

    def take(self, symbol: str) -> None:
        if self.kinds[self.position] != symbol:
            raise self.expected(f"`{symbol}`")
        self.position += 1

    def accept(self, symbol: str) -> bool:
        if self.kinds[self.position] != symbol:
            return False
        self.position += 1
        return True

    def accept_word(self, word: str) -> bool:
        """Consumes a word that is not reserved, if it stands here."""
        if self.kinds[self.position] != NAME or self.texts[self.position] != word:
            return False
        self.position += 1
        return True

    def take_word(self, word: str) -> None:
        if not self.accept_word(word):
            raise self.expected(f"`{word}`")

    def take_choice(self, table: Mapping[str, _T], what: str) -> _T:
        """The entry of ``table`` that the word here names."""
        word = self.texts[self.position]
        if self.kind != NAME or word not in table:
            raise self.expected(what, f"use one of: {', '.join(table)}.")
        self.position += 1
        return table[word]

    def take_name(self, what: str) -> str:
        """An identifier or a quoted name."""
        kind = self.kinds[self.position]
        if kind == NAME:
            self.position += 1
            return self.texts[self.position - 1]
        if kind == STRING:
            return self.take_string(what)
        raise self.expected(what, "names that are reserved words are written in quotes." if kind.isalpha() else None)

    def take_string(self, what: str) -> str:
        if self.kind != STRING:
            raise self.expected(f"{what} in quotes")
        try:
            value = unquoted(self.texts[self.position])
        except ValueError as error:
            raise self.error(str(error), 'use \\" \\\\ \\n \\t or \\u{code point}.') from None
        if len(value) > MAX_NAME_BYTES:
            raise self.error(f"a string has {len(value)} characters; the limit is {MAX_NAME_BYTES}")
        self.position += 1
        return value

    def take_integer(self, what: str, high: int = U32_MAX) -> int:
        """A bare integer (no suffix) in 0..``high``."""
        token = self.texts[self.position]
        if self.kind != NUMBER or not (token.isdigit() or token[:2].lower() == "0x"):
            raise self.expected(what, "write an integer without a suffix.")
        try:
            value = int(token, 0) if token[:2].lower() == "0x" else int(token)
        except ValueError:
            raise self.expected(what, "write an integer without a suffix.") from None
        if value > high:
            raise self.error(f"{what} is {token[:40]}", f"use an integer in 0..{high}.")
        self.position += 1
        return value
