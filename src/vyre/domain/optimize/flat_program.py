"""``FlatProgram``: the body of a program as columns of numbers, which kernels can read, and back.

*Nodes* are expression objects, each once, operands before the expressions that use them.  *Rows* are statements in
program order.  A statement with bodies begins with a row of its own, its *opener*; each further body begins with a
*marker* (``ELIF``, ``ELSE``, ``ARM``, ``DEFAULT``), and an ``END`` closes the last.  Row 0 opens the program, and its
``END`` is the last row.  What no pass computes with (names, tags, places in the source) stays in lists of objects.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias, cast

from vyre.domain.cached import cached_property
from vyre.domain.ir import nodes as ir
from vyre.domain.ir.node import Node
from vyre.domain.ir.program import Program
from vyre.domain.ir.rebuilding import with_body, with_operands
from vyre.domain.ir.walk import operands_first

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Column: TypeAlias = npt.NDArray[np.uint32]

NONE: Final = 0xFFFF_FFFF
"""The number that stands where a row or node has none."""


class Row(IntEnum):
    """The kind of a row."""

    PROGRAM = 0
    LET = 1
    ASSIGN = 2
    STORE = 3
    IF = 4
    ELIF = 5
    ELSE = 6
    SWITCH = 7
    ARM = 8
    DEFAULT = 9
    LOOP = 10
    GRID_LOOP = 11
    BLOCK = 12
    REGION = 13
    END = 14
    BREAK = 15
    CONTINUE = 16
    RETURN = 17
    TRAP = 18
    OTHER = 19
    """A barrier, an asynchronous copy, its wait, or an indirect dispatch."""


NODE_KINDS: Final[dict[type[Node], int]] = {kind: number for number, kind in enumerate(ir.EXPR_TYPES)}
"""The numbers of the classes of expressions."""
LITERAL: Final = NODE_KINDS[ir.Literal]
_TAGGED: Final[dict[type[Node], str]] = {
    **dict.fromkeys((ir.Binary, ir.Unary, ir.Atomic), "op"),
    **dict.fromkeys((ir.Literal, ir.Cast, ir.Bitcast, ir.Narrow, ir.Pack, ir.Unpack, ir.WrapCast), "dtype"),
    ir.LaunchId: "kind",
}
"""The fields that have the tags of nodes."""
MARKERS: Final = frozenset({Row.ELIF, Row.ELSE, Row.ARM, Row.DEFAULT, Row.END})
"""The kinds of rows that close a body."""
_OPENERS: Final = frozenset({Row.PROGRAM, Row.IF, Row.SWITCH, Row.LOOP, Row.GRID_LOOP, Row.BLOCK, Row.REGION})
_ROW_OF: Final[dict[type[Node], Row]] = {
    ir.Let: Row.LET,
    ir.Assign: Row.ASSIGN,
    ir.Store: Row.STORE,
    ir.Break: Row.BREAK,
    ir.Continue: Row.CONTINUE,
    ir.Return: Row.RETURN,
    ir.Trap: Row.TRAP,
    ir.Loop: Row.LOOP,
    ir.GridLoop: Row.GRID_LOOP,
    ir.Block: Row.BLOCK,
    ir.Region: Row.REGION,
    **dict.fromkeys((ir.Barrier, ir.AsyncLoad, ir.AsyncStore, ir.AsyncWait, ir.IndirectDispatch), Row.OTHER),
}


class Lists(NamedTuple):
    """Lists of numbers in one column: list k is ``items[start[k]:start[k + 1]]``."""

    start: Column
    items: Column


class Links(NamedTuple):
    """The links between rows, one number for each row.

    ``owner``: the row that opens the body in which the statement stands; of a marker and an ``END`` that of their
    opener, and ``NONE`` for the program.  ``opener``: the first row of the statement.  ``link``: the next row of the
    same statement that is in none of its bodies; ``NONE`` for an ``END`` and for a statement without bodies.  ``end``:
    the last row of the statement.
    """

    owner: Column
    opener: Column
    link: Column
    end: Column


@dataclass(frozen=True, eq=False)
class FlatProgram:
    """The nodes and rows of a program, which has the buffers and all else that is no statement.

    Of a node: ``node_kind``, its class as a number of ``NODE_KINDS``; ``node_tag``, the tag of its operator, else that
    of the type that it names, else 0; its ``operands`` (``NONE`` for the absent one of an atomic); ``node_bits``, the
    bits of a literal; ``node_name``, the number of the local or the buffer that it names.  Of a row: ``row_kind``;
    ``row_local``, the local that it declares or assigns; ``row_buffer`` and ``row_source``, the buffers that it writes
    and reads itself; ``roots``, the nodes that it evaluates.  ``locals`` numbers the locals by name; the number of a
    buffer is its place in the program.  ``exprs`` and ``objects``, the expressions of the nodes and the statements and
    arms of the rows (None for a row that has neither), give what is in no column.
    """

    program: Program
    node_kind: Column
    node_tag: Column
    node_name: Column
    node_bits: npt.NDArray[np.uint64]
    operands: Lists
    exprs: Sequence[ir.Expr]
    row_kind: Column
    row_local: Column
    row_buffer: Column
    row_source: Column
    roots: Lists
    objects: Sequence[Any]
    locals: Mapping[str, int]

    @property
    def rows(self) -> int:
        """The number of rows."""
        return len(self.row_kind)

    @cached_property
    def links(self) -> Links:
        """The links between the rows, which follow from their kinds."""
        return _links(self.row_kind)


def flatten(program: Program) -> FlatProgram:
    """Returns the body of a program as columns; recursive over bodies only.  O(nodes)."""
    import numpy as np

    rows = _Rows()
    rows.add(Row.PROGRAM, None)
    _flatten_body(program.body, rows)
    rows.add(Row.END, None)
    names = _Names(program)
    nodes = _Nodes(names)
    roots = [[nodes.number(root) for root in listed] for listed in rows.roots]
    return FlatProgram(
        program,
        np.array(nodes.kind, np.uint32),
        np.array(nodes.tag, np.uint32),
        np.array(nodes.name, np.uint32),
        np.array(nodes.bits, np.uint64),
        lists_of(nodes.operands),
        nodes.exprs,
        np.array(rows.kind, np.uint32),
        *_columns(map(names.of_row, rows.objects)),
        lists_of(roots),
        rows.objects,
        names.locals,
    )


def _columns(rows: Iterable[tuple[int, int, int]]) -> tuple[Column, Column, Column]:
    import numpy as np

    first, second, third = np.array(list(rows), np.uint32).T
    return first, second, third


def lists_of(parts: Sequence[Sequence[int]]) -> Lists:
    """Returns lists of numbers as columns."""
    import numpy as np

    start = np.zeros(len(parts) + 1, np.uint32)
    np.cumsum([len(part) for part in parts], out=start[1:])
    return Lists(start, np.array([number for part in parts for number in part], np.uint32))


def selected(flat: FlatProgram, keep: npt.NDArray[np.bool_], row_kind: Column) -> FlatProgram:
    """Returns the rows that are to be kept, with other kinds.  All nodes stay."""
    import numpy as np

    start, items = flat.roots
    counts = np.diff(start)
    new_start = np.zeros(int(keep.sum()) + 1, np.uint32)
    np.cumsum(counts[keep], out=new_start[1:])
    objects = [flat.objects[row] for row in np.flatnonzero(keep).tolist()]
    return replace(
        flat,
        row_kind=row_kind[keep],
        row_local=flat.row_local[keep],
        row_buffer=flat.row_buffer[keep],
        row_source=flat.row_source[keep],
        roots=Lists(new_start, items[np.repeat(keep, counts)]),
        objects=objects,
    )


class _Rows:
    """The rows made so far."""

    def __init__(self) -> None:
        self.kind: list[Row] = []
        self.objects: list[Any] = []
        self.roots: list[tuple[ir.Expr, ...]] = []

    def add(self, kind: Row, thing: Node | None, roots: tuple[ir.Expr, ...] = ()) -> None:
        self.kind.append(kind)
        self.objects.append(thing)
        self.roots.append(roots)


def _flatten_body(body: ir.Body, rows: _Rows) -> None:
    for stmt in body:
        if isinstance(stmt, ir.If):
            links, last = ir.if_chain(stmt)
            for link in links:
                rows.add(Row.IF if link is stmt else Row.ELIF, link, (link.condition,))
                _flatten_body(link.then, rows)
            if last:
                rows.add(Row.ELSE, None)
                _flatten_body(last, rows)
        elif isinstance(stmt, ir.Switch):
            rows.add(Row.SWITCH, stmt, (stmt.selector,))
            for arm in stmt.arms:
                rows.add(Row.ARM, arm)
                _flatten_body(arm.body, rows)
            rows.add(Row.DEFAULT, None)
            _flatten_body(stmt.default, rows)
        else:
            rows.add(_ROW_OF[type(stmt)], stmt, ir.OPERANDS[type(stmt)](stmt))
            if not isinstance(stmt, ir.Loop | ir.GridLoop | ir.Block | ir.Region):
                continue
            _flatten_body(stmt.body, rows)
        rows.add(Row.END, None)


class _Names:
    """The numbers of the locals that were named so far, and of the buffers."""

    def __init__(self, program: Program) -> None:
        self.locals: dict[str, int] = {}
        self._buffers = {buffer.name: place for place, buffer in enumerate(program.buffers)}

    def of_row(self, stmt: Any) -> tuple[int, int, int]:
        """Returns the local, the buffer and the source of a row."""
        kind = type(stmt)
        if kind is ir.Let or kind is ir.Assign:
            return self._local(stmt.name), NONE, NONE
        if kind is ir.Store:
            return NONE, self._buffers[stmt.buffer], NONE
        if kind is ir.Loop:
            return self._local(stmt.var), NONE, NONE
        if kind is ir.GridLoop:
            flag = self._buffers[stmt.flag]
            return self._local(stmt.name), flag, flag
        if kind is ir.AsyncLoad or kind is ir.AsyncStore:
            return NONE, self._buffers[stmt.destination], self._buffers[stmt.source]
        return NONE, NONE, NONE

    def of_node(self, expr: ir.Expr) -> int:
        """Returns the local or the buffer of an expression."""
        if type(expr) is ir.Var:
            return self._local(expr.name)
        if type(expr) is ir.Load or type(expr) is ir.BufferLength or type(expr) is ir.Atomic:
            return self._buffers[expr.buffer]
        return NONE

    def _local(self, name: str) -> int:
        return self.locals.setdefault(name, len(self.locals))


class _Nodes:
    """The expressions numbered so far, by identity."""

    def __init__(self, names: _Names) -> None:
        self._names = names
        self.name: list[int] = []
        self.kind: list[int] = []
        self.tag: list[int] = []
        self.bits: list[int] = []
        self.operands: list[list[int]] = []
        self.exprs: list[ir.Expr] = []
        self._numbers: dict[int, int] = {}

    def number(self, root: ir.Expr) -> int:
        """Returns the number of an expression, after those of its operands."""
        numbers = self._numbers
        for node in operands_first(root, numbers):
            kind = type(node)
            below: list[int] = []
            if kind not in ir.LEAVES:
                below = [NONE if operand is None else numbers[id(operand)] for operand in ir.CHILDREN[kind](node)]
            numbers[id(node)] = len(self.exprs)
            self.kind.append(NODE_KINDS[kind])
            field = _TAGGED.get(kind)
            self.tag.append(0 if field is None else getattr(node, field).value)
            self.bits.append(node.bits if type(node) is ir.Literal else 0)
            self.name.append(self._names.of_node(node))
            self.operands.append(below)
            self.exprs.append(node)
        return numbers[id(root)]


def _links(row_kind: Column) -> Links:
    import numpy as np

    rows = len(row_kind)
    owner, link = [NONE] * rows, [NONE] * rows
    opener, end = list(range(rows)), list(range(rows))
    owners: list[int] = []
    for row, kind in enumerate(row_kind.tolist()):
        if kind in MARKERS:
            before = owners.pop()
            first = opener[row] = opener[before]
            link[before] = row
            if kind == Row.END:
                end[first] = row
        if owners:
            owner[row] = owners[-1]
        if kind in _OPENERS or (kind in MARKERS and kind != Row.END):
            owners.append(row)
    return Links(*[np.array(column, np.uint32) for column in (owner, opener, link, end)])


# ---------------------------------------------------------------- back
def unflatten(flat: FlatProgram, roots: Sequence[list[ir.Expr]] | None = None) -> Program:
    """Returns the program of columns, whose expressions and statements are the objects of the rows where they fit.

    ``roots``: the expressions that each row evaluates; None: those of its nodes.
    """
    if roots is None:
        roots = _roots(flat)
    bodies: list[list[ir.Stmt]] = [[]]
    """The statements so far of each open body."""
    opened: list[list[tuple[int, ir.Body]]] = []
    """Per open statement, the rows that began its bodies, and those that are complete."""
    for row, kind in enumerate(flat.row_kind.tolist()):
        if kind in MARKERS:
            parts = opened[-1]
            parts[-1] = (parts[-1][0], tuple(bodies.pop()))
            if kind == Row.END:
                opened.pop()
                if opened:
                    bodies[-1].append(_closed(flat, parts, roots))
                continue
            parts.append((row, ()))
            bodies.append([])
        elif kind in _OPENERS:
            opened.append([(row, ())])
            bodies.append([])
        else:
            bodies[-1].append(_plain(kind, flat.objects[row], roots[row]))
    return replace(flat.program, body=parts[0][1])


def _roots(flat: FlatProgram) -> list[list[ir.Expr]]:
    start, items = flat.roots.start.tolist(), flat.roots.items.tolist()
    return [[flat.exprs[node] for node in items[start[row] : start[row + 1]]] for row in range(flat.rows)]


def with_first_operands(expr: ir.Expr, operands: Sequence[ir.Expr | None]) -> ir.Expr:
    """Returns an expression with other operands, of which there may be more than it has; the very expression if they
    are its own.
    """
    return with_operands(expr, operands[: len(ir.CHILDREN[type(expr)](expr))])


def _plain(kind: int, stmt: ir.Stmt, roots: list[ir.Expr]) -> ir.Stmt:
    if kind == Row.LET and isinstance(stmt, ir.Assign):
        return ir.Let(stmt.name, roots[0], loc=stmt.loc)
    return with_operands(stmt, roots)


def _closed(flat: FlatProgram, parts: list[tuple[int, ir.Body]], roots: Sequence[list[ir.Expr]]) -> ir.Stmt:
    """Returns a statement of its bodies, each with the row that began it."""
    row, body = parts[0]
    kind, stmt = flat.row_kind[row], flat.objects[row]
    if kind == Row.IF:
        otherwise: ir.Body = ()
        for row, body in reversed(parts):
            if flat.row_kind[row] == Row.ELSE:
                otherwise = body
                continue
            otherwise = (ir.If(roots[row][0], body, otherwise, loc=flat.objects[row].loc),)
        return otherwise[0]
    if kind == Row.SWITCH:
        written: list[tuple[ir.Arm, ir.Body]] = [(flat.objects[row], body) for row, body in parts[1:-1]]
        arms = tuple([ir.Arm(arm.labels, body, loc=arm.loc) for arm, body in written])
        return ir.Switch(roots[row][0], arms, parts[-1][1], loc=stmt.loc)
    return cast("ir.Stmt", with_body(with_operands(stmt, roots[row]), body))
