"""Places in the user's source, as LLVM's locations of instructions."""

from __future__ import annotations

from typing import Final

from vyre.adapters.cpu.llvm.writer import Writer
from vyre.domain.source_location import SourceLocation

FIRST_METADATA: Final = 16
"""The number of the first node of metadata that describes places; smaller ones have other uses."""
_VERSION: Final = "!3"
_UNIT: Final = "!4"
_FILE: Final = "!5"
_TYPE: Final = "!6"
_STRIDE: Final = 4096
"""Kernels of one module take every ``_STRIDE``-th number, so that their nodes do not meet."""


class Places:
    """The places of the statements of one kernel."""

    def __init__(self, w: Writer, entry: str, first: int) -> None:
        self._w: Final = w
        self._entry: Final = entry
        self._next = first
        self._nodes: Final[dict[tuple[str, int, int], str]] = {}
        self._scopes: Final[dict[str, str]] = {}
        self._function: Final = self._number()
        self._last: SourceLocation | None = None

    def at(self, loc: SourceLocation | None) -> None:
        """Lets the following instructions belong to a place; None lets them belong to none."""
        if loc is None:
            loc = self._last
        if loc is None:
            return
        self._last = loc
        self._w.location = f", !dbg {self._node(loc)}"

    def finish(self) -> str:
        """Adds the descriptions that all places need; returns the suffix of the function's definition."""
        declare = self._w.declare
        declare(f"!llvm.module.flags = !{{{_VERSION}}}")
        declare(f"!llvm.dbg.cu = !{{{_UNIT}}}")
        declare(f'{_VERSION} = !{{i32 2, !"Debug Info Version", i32 3}}')
        declare(
            f"{_UNIT} = distinct !DICompileUnit(language: DW_LANG_C99, file: {_FILE}, "
            "emissionKind: DebugDirectivesOnly)"
        )
        declare(f'{_FILE} = !DIFile(filename: "program", directory: "")')
        declare(f"{_TYPE} = !DISubroutineType(types: !{{}})")
        declare(
            f'{self._function} = distinct !DISubprogram(name: "{self._entry}", file: {_FILE}, line: 1, '
            f"type: {_TYPE}, unit: {_UNIT}, spFlags: DISPFlagDefinition)"
        )
        return f" !dbg {self._function}"

    def _number(self) -> str:
        number = self._next
        self._next += _STRIDE
        return f"!{number}"

    def _node(self, loc: SourceLocation) -> str:
        scope = self._scopes.get(loc.file)
        if scope is None:
            file, scope = self._number(), self._number()
            self._scopes[loc.file] = scope
            self._w.declare(f'{file} = !DIFile(filename: "{_quoted(loc.file)}", directory: "")')
            self._w.declare(f"{scope} = !DILexicalBlockFile(scope: {self._function}, file: {file}, discriminator: 0)")
        return self._location(loc.line, loc.column or 0, scope)

    def _location(self, line: int, column: int, scope: str) -> str:
        key = (scope, line, column)
        node = self._nodes.get(key)
        if node is None:
            node = self._nodes[key] = self._number()
            self._w.declare(f"{node} = !DILocation(line: {line}, column: {min(column, 65535)}, scope: {scope})")
        return node


def _quoted(text: str) -> str:
    """Returns a text as LLVM writes it between quotation marks."""
    plain = [chr(b) if 32 <= b < 127 and b not in b'"\\' else f"\\{b:02X}" for b in text.encode()]
    return "".join(plain)
