"""The source of a function: its syntax tree, its lines, and errors that underline them."""

from __future__ import annotations
import __future__

import ast
import warnings
from collections.abc import Callable
from dataclasses import replace
from inspect import CO_ASYNC_GENERATOR, CO_COROUTINE
from itertools import pairwise
from types import CodeType, FunctionType
from typing import Final, NamedTuple, NoReturn, TypeVar
from unicodedata import combining, east_asian_width

from vyre.domain.errors import KernelSourceError
from vyre.domain.excerpts import kept_lines
from vyre.domain.float_mode import in_default_mode
from vyre.domain.source_location import UNSHOWN, SourceLocation

R = TypeVar("R")
_MOST_SHOWN: Final = 120
"""The most characters of a line that an error shows."""
_BEFORE: Final = 40
"""How many characters of a longer line stand before what is underlined."""
_UNNAMED: Final = "<string>"
"""The file of code that exec() runs and, from CPython 3.13 on, of the text of `python -c`, whose lines are kept."""
_FUTURES: Final = __future__.annotations.compiler_flag | __future__.barry_as_FLUFL.compiler_flag
"""The flags of code that say which statements ``from __future__`` it was compiled with; the others change nothing."""


class Source:
    """The text of one function definition.

    ``code`` is what Python runs, and says where the text begins; ``lines`` are its lines, the decorators included.
    ``indentation`` is that of its first line, which errors leave out.
    """

    __slots__ = ("_places", "code", "indentation", "lines", "tree")

    def __init__(self, code: CodeType, lines: tuple[str, ...], tree: ast.FunctionDef) -> None:
        self.code: Final = code
        self.lines: Final = lines
        self.indentation: Final = lines[0][: len(lines[0]) - len(lines[0].lstrip())]
        self.tree: Final = tree
        self._places: dict[int, SourceLocation] = {}

    def place(self, node: ast.AST) -> SourceLocation:
        """Returns file and line of a node."""
        number = getattr(node, "lineno", self.code.co_firstlineno)
        place = self._places.get(number)
        if place is None:
            place = self._places[number] = SourceLocation(self.code.co_filename, number, None, UNSHOWN)
        return place

    def fail(self, node: ast.AST, message: str, fix: str) -> NoReturn:
        """Raises ``KernelSourceError`` at a node, with its line underlined."""
        raise KernelSourceError(message, fix=fix, loc=self.place(node), excerpt=self.excerpt(node)) from None

    def excerpt(self, node: ast.AST) -> str:
        """Returns the line of a node as it is written, with the node underlined."""
        number = getattr(node, "lineno", 0)
        index = number - self.code.co_firstlineno
        if not 0 <= index < len(self.lines):
            return ""
        text = self.lines[index]
        start = _characters(text, getattr(node, "col_offset", 0))
        end = len(text)
        if getattr(node, "end_lineno", None) == number:
            end = _characters(text, getattr(node, "end_col_offset", None) or 0)
        first = len(self.indentation) if text.startswith(self.indentation) else 0
        return _underlined(text.rstrip(), min(first, start), start, end)


class Places:
    """The syntax at the locations of a program, each of which is an object of its own."""

    __slots__ = ("_nodes",)

    def __init__(self) -> None:
        self._nodes: dict[int, tuple[SourceLocation, Source, ast.AST]] = {}

    def copied(self, place: SourceLocation, source: Source, node: ast.AST) -> SourceLocation:
        """Returns a location of its own for a node, which is remembered."""
        copy = replace(place)
        self._nodes[id(copy)] = copy, source, node
        return copy

    def excerpt(self, place: SourceLocation | None) -> str:
        """Returns the line of a location with the node underlined; nothing for an unknown one."""
        underlined_node = self._nodes.get(id(place))
        return "" if underlined_node is None else underlined_node[1].excerpt(underlined_node[2])


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


@in_default_mode
def source_of(function: FunctionType) -> Source:
    """Returns the source of a function that ``def`` has made.

    Raises ``KernelSourceError`` where Python keeps no source, and for lambdas and coroutines.
    """
    code = function.__code__
    here = SourceLocation(code.co_filename, code.co_firstlineno, None, UNSHOWN)
    if code.co_name == "<lambda>":
        names = ", ".join(code.co_varnames[: code.co_argcount])
        fix = f"write it as `def name({names}): ...` below the decorator; a kernel says the types, x: In[f32]."
        raise KernelSourceError("a lambda cannot become a kernel", fix=fix, loc=here)
    if code.co_flags & (CO_COROUTINE | CO_ASYNC_GENERATOR):
        raise KernelSourceError(
            f"the coroutine `{code.co_name}` cannot become a kernel", fix="write `def` without `async`.", loc=here
        )
    lines = kept_lines(code.co_filename, function.__globals__)
    try:
        tree = _definition(code, lines) if lines else None
    except (RecursionError, MemoryError):
        raise nested_too_deep(code) from None
    if not lines or (tree is None and code.co_filename == _UNNAMED):
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
    return Source(code, _lines_of(tree, code.co_firstlineno, lines), tree)


@in_default_mode
def carried_source(function: FunctionType, lines: tuple[str, ...]) -> Source:
    """Returns the source of a function, whose lines were read by another process than this one."""
    code = function.__code__
    is_indented = lines[0][:1] in (" ", "\t")
    above = "\n" * (code.co_firstlineno - 2) + "if 1:\n" if is_indented else "\n" * (code.co_firstlineno - 1)
    tree = ast.parse(above + "\n".join(lines)).body[0]
    definition = tree.body[0] if isinstance(tree, ast.If) else tree
    assert isinstance(definition, ast.FunctionDef)  # its lines are those of a source
    _mangle(definition, code)
    return Source(code, lines, definition)


def nested_too_deep(code: CodeType) -> KernelSourceError:
    """Returns the error for a function whose syntax is nested deeper than the walk over it can follow."""
    return KernelSourceError(
        f"expressions or branches of `{code.co_name}` are nested too deep, as V033 says of expressions",
        fix="give parts of them names, on lines of their own; call it from less deep in a recursion.",
        loc=SourceLocation(code.co_filename, code.co_firstlineno, None, UNSHOWN),
    )


class _Module(NamedTuple):
    """The result of parsing a file: the definitions of its functions and their code, by name and first line."""

    lines: list[str]
    flags: int
    statements: list[ast.stmt]
    trees: dict[tuple[str, int], ast.FunctionDef]
    codes: dict[tuple[str, int], CodeType]


_MODULES: Final[dict[str, _Module]] = {}
"""The files that were read last, by their names."""
_MOST_MODULES: Final = 16


def _definition(code: CodeType, lines: list[str]) -> ast.FunctionDef | None:
    """Returns the tree of a function definition; None where Python makes other code of these lines.

    The code of a function depends on what is compiled with it, since a call of what is imported differs from others:
    the whole file, or in notebooks one statement of it.  A function with an assertion, which kernels refuse, may have
    been rewritten by the runner of its tests.
    """
    file, flags = code.co_filename, code.co_flags & _FUTURES
    module = _MODULES.get(file)
    if module is None or module.flags != flags or module.lines != lines:
        try:
            statements = _silently(lambda: ast.parse("".join(lines))).body
            codes = _codes(statements, file, flags)
        except (SyntaxError, ValueError):
            return None
        if len(_MODULES) >= _MOST_MODULES:
            _MODULES.pop(next(iter(_MODULES), ""), None)
        module = _MODULES[file] = _Module(lines.copy(), flags, statements, _trees(statements), codes)
    place = code.co_name, code.co_firstlineno
    tree = module.trees.get(place)
    if tree is None:
        return None
    if not _is_same(module.codes.get(place), code):
        around = [one for one in module.statements if one.lineno <= tree.lineno <= (one.end_lineno or 0)]
        is_same = _is_same(_codes(around, file, flags).get(place), code)
        if not is_same and not any(isinstance(node, ast.Assert) for node in ast.walk(tree)):
            return None
    _mangle(tree, code)
    return tree


def _silently(compiled: Callable[[], R]) -> R:
    """Returns what Python makes of a text, without the warnings that it gave when it compiled the file itself."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return compiled()


def _trees(statements: list[ast.stmt]) -> dict[tuple[str, int], ast.FunctionDef]:
    trees: dict[tuple[str, int], ast.FunctionDef] = {}
    waiting: list[ast.AST] = [*statements]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.FunctionDef):
            first = min([node.lineno, *[decorator.lineno for decorator in node.decorator_list]])
            trees[node.name, first] = node
        for part in ("body", "orelse", "handlers", "finalbody", "cases"):
            waiting += getattr(node, part, ())
    return trees


def _codes(statements: list[ast.stmt], file: str, flags: int) -> dict[tuple[str, int], CodeType]:
    codes: dict[tuple[str, int], CodeType] = {}
    flags |= ast.PyCF_ALLOW_TOP_LEVEL_AWAIT  # of notebooks
    module = ast.Module(statements, [])
    waiting = [_silently(lambda: compile(module, file, "exec", flags, dont_inherit=True))]
    while waiting:
        code = waiting.pop()
        codes[code.co_name, code.co_firstlineno] = code
        waiting += [constant for constant in code.co_consts if isinstance(constant, CodeType)]
    return codes


def _is_same(anew: CodeType | None, code: CodeType) -> bool:
    """Returns whether code is what was made anew, also in the columns of its text, which annotations change."""
    if anew is None or _bare(anew) != _bare(code):
        return False
    places = zip(anew.co_positions(), code.co_positions(), strict=False)
    return all(one == other or None in (*one, *other) for one, other in places)


def _lines_of(tree: ast.FunctionDef, first: int, known: list[str]) -> tuple[str, ...]:
    """Returns the lines of a definition, with the comments at its end: what is indented more than its first line."""
    last, depth = tree.end_lineno or first, _depth(known[first - 1])
    while last < len(known) and (not known[last].strip() or _depth(known[last]) > depth):
        last += 1
    return tuple([line.rstrip("\r\n") for line in known[first - 1 : last]])


def _bare(code: CodeType) -> CodeType:
    """Returns code without its place, also in functions that are defined in it."""
    constants = tuple([_bare(one) if isinstance(one, CodeType) else one for one in code.co_consts])
    return code.replace(co_filename="", co_firstlineno=1, co_linetable=b"", co_qualname="", co_consts=constants)


def _mangle(tree: ast.FunctionDef, code: CodeType) -> None:
    """Gives the private names of a class, such as ``__x``, the names that they have in Python: ``_Class__x``."""
    around = pairwise(code.co_qualname.split("."))
    classes = [name for name, inner in around if inner != "<locals>" and name.isidentifier()]
    owner = classes[-1].lstrip("_") if classes else ""
    for node in ast.walk(tree) if owner else ():
        for field in ("id", "attr", "arg"):
            name = getattr(node, field, None)
            if isinstance(name, str) and name.startswith("__") and not name.endswith("__"):
                setattr(node, field, f"_{owner}{name}")


def _depth(line: str) -> int:
    """Returns the column at which the text of a line begins."""
    expanded = line.expandtabs()
    return len(expanded) - len(expanded.lstrip())
