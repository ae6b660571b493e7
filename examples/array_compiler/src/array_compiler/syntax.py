"""The text of a program to statements and terms, each with its line and column.

in x: f32[4, 8]                 # an array that is passed in
state u: i32[8]                 # an array that stays on the device from step to step, at first zeros
let y = where(x > 0.5, x * 2.0, 0.0)
out r = sum(y, 1)               # an array that is returned
next u = u + 1                  # what the state is after the step
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, NoReturn

from array_compiler.problems import ParseError
from vyre.ir import SourceLocation

_TOKEN: Final = re.compile(
    r"\s*(?:(?P<number>\d+(?:\.\d*)?(?:[eE][+-]?\d+)?u?)|(?P<name>[A-Za-z]\w*)"
    r"|(?P<symbol><<|>>|<=|>=|==|!=|[-+*/%&|^<>=()\[\],:@~]))"
)
_LEVELS: Final = [
    each.split() for each in ("|", "^", "&", "== != < <= > >=", "<< >>", "+ -", "* / % @")
]  # later binds tighter
_DEEPEST: Final = 60


@dataclass(frozen=True, slots=True)
class Term:
    """``kind`` is ``number``, ``name``, or ``call``: a function, or an operator by its symbol, of arguments."""

    kind: str
    text: str
    place: SourceLocation
    arguments: tuple[Term, ...] = ()


@dataclass(frozen=True, slots=True)
class Statement:
    """``in`` or ``state``, with an element type and a shape; or ``let``, ``out`` or ``next``, with a value."""

    kind: str
    name: str
    place: SourceLocation
    dtype: str = ""
    shape: tuple[int, ...] = ()
    value: Term | None = None


def parse(text: str, file: str) -> list[Statement]:
    """The statements of a program; raises ``ParseError`` at the first token that does not fit."""
    lines = ((number, line.split("#")[0].rstrip()) for number, line in enumerate(text.splitlines(), 1))
    return [_Line(file, number, line).statement() for number, line in lines if line]


class _Line:
    """The tokens of one line, read from left to right."""

    def __init__(self, file: str, number: int, line: str) -> None:
        self._file, self._number, self._text = file, number, line
        self._tokens: list[tuple[str, str, int]] = []
        self._next = self._depth = position = 0
        while position < len(line):
            match = _TOKEN.match(line, position)
            if match is None:
                position += len(line[position:]) - len(line[position:].lstrip())
                raise ParseError(f"`{line[position]}` is no part of the language", self._place(position))
            kind = match.lastgroup or ""
            self._tokens.append((kind, match[kind], match.start(kind)))
            position = match.end()
        if len(self._tokens) > 300:
            raise ParseError("the line has more than 300 parts: name some by `let`", self._place())

    def statement(self) -> Statement:
        place = self._place()
        kind = self._take("name", "a statement begins with in, state, let, out or next")
        if kind not in ("in", "state", "let", "out", "next"):
            raise ParseError(f"`{kind}` begins no statement: use in, state, let, out or next", place)
        place = self._place()
        name = self._take("name", f"`{kind}` needs a name")
        if kind in ("in", "state"):
            self._expect(":")
            dtype = self._take("name", "after the colon stands an element type, such as f32")
            statement = Statement(kind, name, place, dtype, self._shape())
        else:
            self._expect("=")
            statement = Statement(kind, name, place, value=self._term())
        if self._peek():
            self._fail(f"`{self._peek()}` stands behind the end of the statement")
        return statement

    def _shape(self) -> tuple[int, ...]:
        sizes: list[int] = []
        while self._peek() and self._peek() == ("," if sizes else "["):
            self._next += 1
            place, size = self._place(), self._take("number", "a size is a whole number")
            if not size.isdecimal() or int(size) == 0:
                raise ParseError(f"`{size}` is no size: sizes are whole numbers from 1", place)
            sizes.append(int(size))
        if sizes:
            self._expect("]")
        return tuple(sizes)

    def _term(self, level: int = 0) -> Term:
        if level == len(_LEVELS):
            return self._operand()
        left = self._term(level + 1)
        while (symbol := self._peek()) in _LEVELS[level]:
            place = self._place()
            self._next += 1
            left = Term("call", symbol, place, (left, self._term(level + 1)))
        return left

    def _operand(self) -> Term:
        place, text = self._place(), self._peek()
        kind = self._tokens[self._next][0] if text else ""
        if kind == "symbol" and text not in ("-", "~", "("):
            self._fail(f"`{text}` is no operand")
        if not text or self._depth == _DEEPEST:
            self._fail("an operand is missing" if not text else f"more than {_DEEPEST} levels of parentheses")
        self._next += 1
        self._depth += 1
        if text in ("-", "~"):
            inner = self._operand()
            is_number = text == "-" and inner.kind == "number" and not inner.text.startswith("-")
            term = Term("number", "-" + inner.text, place) if is_number else Term("call", text, place, (inner,))
        elif text == "(":
            term = self._term()
            self._expect(")")
        elif kind == "name" and self._peek() == "(":
            arguments: list[Term] = []
            while self._peek() == ("," if arguments else "("):
                self._next += 1
                arguments.append(self._term())
            self._expect(")")
            term = Term("call", text, place, tuple(arguments))
        else:
            term = Term(kind, text, place)
        self._depth -= 1
        return term

    def _peek(self) -> str:
        return self._tokens[self._next][1] if self._next < len(self._tokens) else ""

    def _take(self, kind: str, otherwise: str) -> str:
        if not self._peek() or self._tokens[self._next][0] != kind:
            self._fail(otherwise)
        self._next += 1
        return self._tokens[self._next - 1][1]

    def _expect(self, symbol: str) -> None:
        if self._peek() != symbol:
            self._fail(f"`{symbol}` is missing" + (f" before `{self._peek()}`" if self._peek() else ""))
        self._next += 1

    def _place(self, position: int | None = None) -> SourceLocation:
        """The place of a character, or of the next token."""
        if position is None:
            position = self._tokens[self._next][2] if self._peek() else len(self._text)
        return SourceLocation(self._file, self._number, position + 1, self._text)

    def _fail(self, message: str) -> NoReturn:
        raise ParseError(message, self._place())
