"""The source of a function: its syntax tree, its lines, and errors that underline them."""

from __future__ import annotations

import ast
import linecache
from dataclasses import replace
from inspect import CO_ASYNC_GENERATOR, CO_COROUTINE
from types import CodeType, FunctionType
from typing import Final, NoReturn
from unicodedata import combining, east_asian_width

from vyre.domain.errors import KernelSourceError
from vyre.domain.ir.node import SourceLocation

_MOST_SHOWN: Final = 120
"""The most characters of a line that an error shows."""
_BEFORE: Final = 40
"""How many characters of a longer line stand before what is underlined."""
_UNNAMED: Final = "<string>"
"""The file of code that exec() runs and, from CPython 3.13 on, of the text of `python -c`, whose lines are kept."""
_MOST_LINES: Final = 4096
"""A function has at most this many lines."""


class Source:
    """The text of one function definition.

    ``file`` and ``first`` say where it begins; ``lines`` are its lines, the decorators included.  ``indentation`` is
    that of its first line, which errors leave out.
    """

    __slots__ = ("_places", "file", "first", "indentation", "lines", "name", "tree")

    def __init__(self, name: str, file: str, first: int, lines: tuple[str, ...], tree: ast.FunctionDef) -> None:
        self.name: Final = name
        self.file: Final = file
        self.first: Final = first
        self.lines: Final = lines
        self.indentation: Final = lines[0][: len(lines[0]) - len(lines[0].lstrip())]
        self.tree: Final = tree
        self._places: dict[int, SourceLocation] = {}

    def place(self, node: ast.AST) -> SourceLocation:
        """Returns file and line of a node."""
        number = getattr(node, "lineno", 1)
        found = self._places.get(number)
        if found is None:
            found = self._places[number] = SourceLocation(self.file, self.first + number - 1)
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
        first = len(self.indentation) if text.startswith(self.indentation) else 0
        return _underlined(text.rstrip(), min(first, start), start, end)


class Places:
    """The syntax at the locations of a program, each of which is an object of its own."""

    __slots__ = ("_found",)

    def __init__(self) -> None:
        self._found: dict[int, tuple[SourceLocation, Source, ast.AST]] = {}

    def copied(self, place: SourceLocation, source: Source, node: ast.AST) -> SourceLocation:
        """Returns a location of its own for a node, which is remembered."""
        made = replace(place)
        self._found[id(made)] = made, source, node
        return made

    def excerpt(self, place: SourceLocation | None) -> str:
        """Returns the line of a location with the node underlined; nothing for an unknown one."""
        found = self._found.get(id(place))
        return "" if found is None else found[1].excerpt(found[2])


def _underlined(text: str, first: int, start: int, end: int) -> str:
    """Returns the part of a line from ``first`` on, with the characters from ``start`` to ``end`` underlined."""
    mark = ""
    if len(text) - first > _MOST_SHOWN and start - first > _BEFORE:
        first, mark = start - _BEFORE, "..."
    last = first + _MOST_SHOWN
    shown = text[first:last] + ("..." if len(text) > last else "")
    before = "".join("\t" if character == "\t" else " " * _width(character) for character in text[first:start])
    length = sum(map(_width, text[start : min(end, last)]))
    return f"    {mark}{shown}\n    {' ' * len(mark)}{before}{'^' * max(1, length)}"


def _width(character: str) -> int:
    """Returns the number of columns that a character takes in a terminal."""
    if combining(character):
        return 0
    return 2 if east_asian_width(character) in ("W", "F") else 1


def _characters(text: str, offset: int) -> int:
    """Returns the number of characters in the first ``offset`` bytes of a line."""
    return len(text.encode()[:offset].decode(errors="replace"))


def source_of(function: FunctionType) -> Source:
    """Returns the source of a function that ``def`` has made.

    Raises ``KernelSourceError`` where Python keeps no source, and for lambdas and coroutines.
    """
    code = function.__code__
    here = SourceLocation(code.co_filename, code.co_firstlineno)
    if code.co_name == "<lambda>":
        raise KernelSourceError("a lambda cannot become a kernel", fix="write it as a `def`.", loc=here)
    if code.co_flags & (CO_COROUTINE | CO_ASYNC_GENERATOR):
        raise KernelSourceError(
            f"the coroutine `{code.co_name}` cannot become a kernel", fix="write `def` without `async`.", loc=here
        )
    linecache.checkcache(code.co_filename)
    known = linecache.getlines(code.co_filename, function.__globals__)
    lines, tree = _definition(code, known) if known else ([], None)
    if not known or (tree is None and code.co_filename == _UNNAMED):
        raise KernelSourceError(
            f"Python keeps no source of `{code.co_name}`, from which its kernel is made",
            fix="write the function in a file, in a notebook, or in the interactive interpreter of CPython 3.13 or "
            "later; exec(), standard input, and `python -c` and the interpreter of older versions keep no source.",
            loc=here,
        )
    if tree is None:
        raise KernelSourceError(
            f"the source of `{code.co_name}` has changed since the function was made",
            fix="run the program, or the cell, again.",
            loc=here,
        )
    return Source(code.co_name, code.co_filename, code.co_firstlineno, tuple(lines), tree)


def _definition(code: CodeType, known: list[str]) -> tuple[list[str], ast.FunctionDef | None]:
    """Returns the lines of a function definition and its tree; None where the lines hold another one."""
    first = code.co_firstlineno - 1
    last = max(_last_line(code), first + 1)
    if last > len(known):
        return [], None
    depth, tree = _depth(known[first]), None
    while last < len(known) and last - first < _MOST_LINES:
        # The code ends with its last instruction.  Whatever is indented more than the definition belongs to it.
        if known[last].strip() and _depth(known[last]) <= depth:
            tree = _parsed(known[first:last])
            if tree is not None:
                break
        last += 1
    found = known[first:last]
    if tree is None:
        tree = _parsed(found)
    is_same = tree is not None and tree.name == code.co_name and _parameters(tree) == _parameters_of(code)
    return [line.rstrip("\r\n") for line in found], tree if is_same else None


def _depth(line: str) -> int:
    """Returns the column at which the text of a line begins."""
    expanded = line.expandtabs()
    return len(expanded) - len(expanded.lstrip())


def _parsed(lines: list[str]) -> ast.FunctionDef | None:
    """Returns the tree of a function definition, or None; line numbers count from its first line, which is 1."""
    text = "".join(lines)
    indented = lines[0][:1] in (" ", "\t")
    try:
        body: list[ast.stmt] = ast.parse(f"if 1:\n{text}" if indented else text).body
    except (SyntaxError, ValueError):
        return None
    if indented and len(body) == 1 and isinstance(body[0], ast.If):
        body = body[0].body
        for one in body:
            ast.increment_lineno(one, -1)
    return body[0] if len(body) == 1 and isinstance(body[0], ast.FunctionDef) else None


def _parameters(tree: ast.FunctionDef) -> tuple[str, ...]:
    arguments = tree.args
    return tuple(one.arg for one in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs))


def _parameters_of(code: CodeType) -> tuple[str, ...]:
    return code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]


def _last_line(code: CodeType) -> int:
    """Returns the last line that has an instruction, also in functions that are defined in this one."""
    own = [line for _, _, line in code.co_lines() if line is not None]
    inner = [_last_line(constant) for constant in code.co_consts if isinstance(constant, CodeType)]
    return max([code.co_firstlineno, *own, *inner])
