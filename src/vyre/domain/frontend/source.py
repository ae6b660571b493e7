"""The source of a function: its syntax tree, its lines, and errors that underline them."""

from __future__ import annotations

import ast
import linecache
from collections.abc import Iterator
from textwrap import dedent
from types import CodeType, FunctionType
from typing import Final, NoReturn

from vyre.domain.errors import KernelSourceError
from vyre.domain.ir.node import SourceLocation

_TAB: Final = 8
_MOST_UNDERLINED: Final = 120


class Source:
    """The text of one function definition.

    ``file`` and ``first`` say where it begins; ``lines`` are its lines, the decorators included, without the
    indentation that all of them share.
    """

    __slots__ = ("_places", "file", "first", "lines", "name", "tree")

    def __init__(self, name: str, file: str, first: int, lines: tuple[str, ...], tree: ast.FunctionDef) -> None:
        self.name: Final = name
        self.file: Final = file
        self.first: Final = first
        self.lines: Final = lines
        self.tree: Final = tree
        self._places: dict[int, SourceLocation] = {}

    def place(self, node: ast.AST) -> SourceLocation:
        """Returns file and line of a node."""
        line = self.first + getattr(node, "lineno", 1) - 1
        found = self._places.get(line)
        if found is None:
            found = self._places[line] = SourceLocation(self.file, line)
        return found

    def fail(self, node: ast.AST, message: str, fix: str) -> NoReturn:
        """Raises ``KernelSourceError`` at a node, with its line underlined."""
        raise KernelSourceError(message, fix=fix, loc=self.place(node), excerpt=self.excerpt(node))

    def excerpt(self, node: ast.AST) -> str:
        """Returns the line of a node as it is written, with the node underlined."""
        number = getattr(node, "lineno", None)
        if number is None or number > len(self.lines):
            return ""
        text = self.lines[number - 1]
        start = _characters(text, getattr(node, "col_offset", 0))
        end = len(text)
        if getattr(node, "end_lineno", None) == number:
            end = _characters(text, getattr(node, "end_col_offset", None) or 0)
        length = max(1, min(end, len(text.rstrip())) - start)
        blank = "".join("\t" if character == "\t" else " " for character in text[:start])
        return f"    {text.rstrip()[:_MOST_UNDERLINED]}\n    {blank}{'^' * min(length, _MOST_UNDERLINED)}"


def _characters(text: str, offset: int) -> int:
    """Returns the number of characters in the first ``offset`` bytes of a line."""
    return len(text.encode()[:offset].decode(errors="replace"))


def source_of(function: FunctionType) -> Source:
    """Returns the source of a function that ``def`` has made.

    Raises ``KernelSourceError`` where Python keeps no source, and for lambdas.
    """
    code = function.__code__
    here = SourceLocation(code.co_filename, code.co_firstlineno)
    if code.co_name == "<lambda>":
        raise KernelSourceError("a lambda cannot become a kernel", fix="write it as a `def`.", loc=here)
    lines = _lines_of(code, function.__globals__)
    if lines is None:
        raise KernelSourceError(
            f"Python keeps no source of `{code.co_name}`, from which its kernel is made",
            fix="write the function in a file, in a notebook, or in the interactive interpreter of CPython 3.13 or "
            "later; `python -c`, exec() and older interpreters keep no source.",
            loc=here,
        )
    text = "".join(lines)
    shorter = dedent(text) if lines[0][:1] in (" ", "\t") else text
    tree = _parsed(shorter)
    if tree is None:
        raise KernelSourceError(
            f"the source of `{code.co_name}` has changed since the function was made",
            fix="run the program, or the cell, again.",
            loc=here,
        )
    return Source(code.co_name, code.co_filename, code.co_firstlineno, tuple(shorter.splitlines()), tree)


def _parsed(text: str) -> ast.FunctionDef | None:
    try:
        body = ast.parse(text).body
    except SyntaxError:
        return None
    return body[0] if len(body) == 1 and isinstance(body[0], ast.FunctionDef) else None


def _lines_of(code: CodeType, names: dict[str, object]) -> list[str] | None:
    """Returns the lines of a function definition, or None where there are none."""
    known = linecache.getlines(code.co_filename, names)
    first = code.co_firstlineno - 1
    last = max(_last_line(code), first + 1)
    if not known or last > len(known):
        return None
    found = known[first:last]
    # The code ends with its last instruction; brackets, strings and comments may go on after that line.
    while last < len(known) and _parsed(dedent("".join(found))) is None:
        found.append(known[last])
        last += 1
        if len(found) > 4096:
            return None
    return found


def _last_line(code: CodeType) -> int:
    return max(_numbers(code), default=code.co_firstlineno)


def _numbers(code: CodeType) -> Iterator[int]:
    yield from (line for _, _, line in code.co_lines() if line is not None)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _numbers(constant)
