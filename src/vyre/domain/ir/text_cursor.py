"""A cursor over tokens, with the parsers of names, integers and errors that all other parsers use."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeVar

from vyre.domain.errors import MalformedText
from vyre.domain.ir.limits import MAX_NAME_BYTES, U32_MAX, is_name_too_long
from vyre.domain.ir.text_format import unquoted
from vyre.domain.ir.text_lexer import END, NAME, NUMBER, STRING, Tokens
from vyre.domain.source_location import SourceLocation

_T = TypeVar("_T")
_MAX_STRING_CHARACTERS: Final = 2 + len("\\u{00005c}") * MAX_NAME_BYTES
"""The length of the longest string within the limits, with every character written as the longest escape."""


class Cursor:
    """A position in a token list; every ``take_...`` consumes a token or raises ``MalformedText``."""

    __slots__ = ("kinds", "position", "tokens")

    def __init__(self, tokens: Tokens) -> None:
        self.tokens: Tokens = tokens
        self.kinds: list[str] = tokens.kinds
        self.position: int = 0

    @property
    def kind(self) -> str:
        """Returns the kind of the current token."""
        return self.kinds[self.position]

    @property
    def text(self) -> str:
        """Returns the text of the current token."""
        return self.tokens.text(self.position)

    def loc(self, position: int | None = None) -> SourceLocation:
        """Returns the source location of the token at ``position``, or of the current one."""
        return self.tokens.loc(self.position if position is None else position)

    def error(self, problem: str, fix: str | None = None, position: int | None = None) -> MalformedText:
        """Returns the error for a problem at ``position``, or at the current token."""
        return MalformedText(problem, fix=fix, loc=self.loc(position))

    def expected(self, what: str, fix: str | None = None) -> MalformedText:
        """Returns the error for a token that is not ``what``."""
        token = "the end of the text" if self.kind == END else f"`{self.text[:40]}`"
        return self.error(f"expected {what}, found {token}", fix)

    def take(self, symbol: str) -> None:
        """Consumes this symbol."""
        if self.kinds[self.position] != symbol:
            raise self.expected(f"`{symbol}`")
        self.position += 1

    def accept(self, symbol: str) -> bool:
        """Consumes this symbol if it is the current token; returns whether it was."""
        if self.kinds[self.position] != symbol:
            return False
        self.position += 1
        return True

    def accept_word(self, word: str) -> bool:
        """Consumes this word, which is not reserved, if it is the current token; returns whether it was."""
        if self.kinds[self.position] != NAME or self.text != word:
            return False
        self.position += 1
        return True

    def take_word(self, word: str) -> None:
        """Consumes this word, which is not reserved."""
        if not self.accept_word(word):
            raise self.expected(f"`{word}`")

    def take_choice(self, table: Mapping[str, _T], what: str) -> _T:
        """Consumes a word and returns its entry in ``table``."""
        word = self.text
        if self.kind != NAME or word not in table:
            raise self.expected(what, f"use one of: {', '.join(table)}.")
        self.position += 1
        return table[word]

    def take_name(self, what: str) -> str:
        """Consumes an identifier or a quoted name and returns the name."""
        kind = self.kinds[self.position]
        if kind == NAME:
            name = self.text
            if is_name_too_long(name):
                raise self._too_long("a name")
            self.position += 1
            return name
        if kind == STRING:
            return self.take_string(what)
        raise self.expected(what, "names that are reserved words are written in quotes." if kind.isalpha() else None)

    def take_string(self, what: str) -> str:
        """Consumes a quoted string and returns its value."""
        if self.kind != STRING:
            raise self.expected(f"{what} in quotes")
        token = self.text
        if len(token) > _MAX_STRING_CHARACTERS:
            raise self._too_long("a string")
        try:
            value = unquoted(token)
        except ValueError as error:
            raise self.error(str(error), 'use \\" \\\\ \\n \\t or \\u{code point}.') from None
        if is_name_too_long(value):
            raise self._too_long("a string")
        self.position += 1
        return value

    def _too_long(self, what: str) -> MalformedText:
        return self.error(f"{what} has more than {MAX_NAME_BYTES} bytes", "shorten it.")

    def take_integer(self, what: str, high: int = U32_MAX) -> int:
        """Consumes a bare integer (no suffix) in 0..``high`` and returns it."""
        token = self.text
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
