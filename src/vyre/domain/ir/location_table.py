"""The table of source locations that the written forms of a program have on request; no digest covers it.

Nodes are numbered in preorder: the program, its buffers, its definitions with what is in them, and its statements with
what is in them.  A node that several others share counts wherever it stands.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from vyre.domain.ir.forms import PARTS
from vyre.domain.ir.node import Node
from vyre.domain.source_location import SourceLocation

if TYPE_CHECKING:
    from vyre.domain.ir.program import Program

_MOST_NUMBER: Final = 0xFFFF_FFFF


class LocationTable(NamedTuple):
    """Locations by node.

    ``strings``: names of files and texts of lines.  ``places``: for each location the number of its file, the line, the
    column or 0, one more than the number of its text or 0, and the numbers of its ``others``, which stand before it.
    ``nodes``: pairs of the number of a node, ascending, and that of its location.
    """

    strings: tuple[str, ...]
    places: tuple[tuple[int, ...], ...]
    nodes: tuple[tuple[int, ...], ...]


def table_of(program: Program) -> LocationTable | None:
    """Returns the table of a program; None if none of its nodes has a location."""
    strings: dict[str, int] = {}
    places: dict[tuple[int, ...], int] = {}

    def number(text: str) -> int:
        return strings.setdefault(text, len(strings))

    def place(loc: SourceLocation) -> int:
        others = [place(other) for other in loc.others]
        text = 0 if loc.text is None else 1 + number(loc.text)
        return places.setdefault((number(loc.file), loc.line, loc.column or 0, text, *others), len(places))

    located = enumerate(_preorder(program))
    nodes = tuple([(index, place(node.loc)) for index, node in located if node.loc is not None])
    return LocationTable(tuple(strings), tuple(places), nodes) if nodes else None


def with_table(program: Program, table: LocationTable) -> Program:
    """Returns a program without locations with those of a table.

    Raises ``ValueError`` for a table that ``table_of`` returns for no such program.
    """
    if any(len(row) < 4 for row in table.places) or any(len(row) != 2 for row in table.nodes):
        raise ValueError("a row of the table of locations is too short or too long")
    locations: list[SourceLocation] = []
    for file, line, column, text, *others in table.places:
        if (
            not all(other < len(locations) and not locations[other].others for other in others)
            or not text <= len(table.strings) > file
        ):
            raise ValueError("a location refers to what does not stand before it")
        shown = table.strings[text - 1] if text else None
        locations.append(
            SourceLocation(
                table.strings[file], line, column or None, shown, tuple(locations[other] for other in others)
            )
        )
    by_node = {index: locations[place] for index, place in table.nodes if place < len(locations)}
    numbers = iter(range(_MOST_NUMBER))

    def taken() -> SourceLocation | None:
        return by_node.get(next(numbers))

    loc = taken()
    buffers = tuple([replace(buffer, loc=taken()) for buffer in program.buffers])
    definitions = tuple([_relocated(definition, taken) for definition in program.definitions])
    located = replace(program, loc=loc, buffers=buffers, definitions=definitions, body=_relocated(program.body, taken))
    if table_of(located) != table:
        raise ValueError("the table of locations is not the one of the program")
    return located


def _preorder(program: Program) -> Iterator[Node]:
    yield program
    yield from program.buffers
    stack: list[Any] = [program.body, *reversed(program.definitions)]
    while stack:
        item = stack.pop()
        if isinstance(item, Node):
            yield item
        stack += [part for part in reversed(_parts(item)) if part is not None]


def _parts(item: Any) -> Sequence[Any]:
    return item if type(item) is tuple else PARTS[type(item)].of(item)


def _relocated(root: Any, taken: Any) -> Any:
    """Returns a tree in which each node has the location that ``taken`` returns, in preorder; does not recurse."""
    stack: list[tuple[Any, Sequence[Any], list[Any], SourceLocation | None]] = []

    def enter(item: Any) -> None:
        loc = taken() if isinstance(item, Node) else None
        stack.append((item, _parts(item), [], loc))

    enter(root)
    while True:
        item, old, new, loc = stack[-1]
        if len(new) < len(old):
            part = old[len(new)]
            if part is None:
                new.append(None)
            else:
                enter(part)
            continue
        stack.pop()
        node: Any = tuple(new) if type(item) is tuple else PARTS[type(item)].replaced(item, *new) if new else item
        if loc is not None:
            node = replace(node, loc=loc)
        if not stack:
            return node
        stack[-1][2].append(node)
