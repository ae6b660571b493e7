"""``Lowering``: one walk over the syntax of a kernel, which makes the statements of its program.

A variable that starts as a bare number takes its type from its uses.  The first walk guesses the types that such
variables have where nothing gives them another one.  Where a use contradicts a guess, a second walk finds the types,
and a third one, which knows them, makes the program.  All apply the same rules in the same order, so that the n-th
unknown type is the same in each.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, NoReturn, TypeAlias

from vyre.domain.frontend.captures import Capture, Captured
from vyre.domain.frontend.cells import Cell
from vyre.domain.frontend.names import Kind, NamePlan, Names
from vyre.domain.frontend.operands import PLACEHOLDER, Array, Operand, Scalar
from vyre.domain.frontend.source import Places, Source
from vyre.domain.ir.buffers import Access, Buffer
from vyre.domain.ir.definitions_in_use import DefinitionsInUse
from vyre.domain.ir.expr import Expr, Literal, Load, Var
from vyre.domain.ir.node import Node
from vyre.domain.ir.stmt import Body, Let, Stmt
from vyre.domain.ir.types import ScalarType
from vyre.domain.ir.unique_names import UniqueNames
from vyre.domain.source_location import SourceLocation

MAX_INLINED: Final = 32
"""How deeply calls of functions may be nested."""
MAX_UNROLLED: Final = 4096
"""The most rounds of one unrolled loop."""

Types: TypeAlias = Mapping[int, ScalarType]
"""The types that an earlier walk found, by the number of the unknown type."""


@dataclass(slots=True)
class Variable:
    """A local that changes.  ``dtype`` is None, and ``cell`` stands for it, until its type is known.

    ``is_narrow`` is that of ``Scalar``.
    """

    name: str
    dtype: ScalarType | None
    cell: Cell | None = None
    is_narrow: bool = False


class Hole:
    """The place of declarations that are made when the types of their variables are known.

    ``stmt`` is the first one, ``more`` are further ones.
    """

    __slots__ = ("more", "stmt")

    def __init__(self) -> None:
        self.stmt: Stmt | None = None
        self.more: list[Stmt] = []


@dataclass(slots=True)
class LoopState:
    """An open loop.

    ``unrolled``: it has no counterpart in the program.  ``whole_grid``: it is a grid loop.  ``at_breaks``: the names
    that have a value at each ``break``.
    """

    unrolled: bool
    at_breaks: list[set[str]] = field(default_factory=list)
    whole_grid: bool = False


class Effects(NamedTuple):
    """Facts that the check of an operand keeps of a node: whether it has an atomic, or takes values of all lanes."""

    node: Node
    has_atomic: bool
    exchanges: bool


@dataclass(slots=True)
class Returns:
    """Where the results of an inlined function go.

    ``start`` is the place for declarations where the function begins.  ``is_last``: its only ``return`` is its last
    statement, and gives ``result``.  Else ``variables`` hold the items of the result, and ``flag``, where one is
    needed, tells whether the function has returned.  ``gives_nothing``: there was a ``return`` without a value.
    """

    start: Hole
    is_last: bool
    result: Operand | None = None
    is_tuple: bool = False
    variables: list[Variable] | None = None
    flag: Variable | None = None
    gives_nothing: bool = False


@dataclass(slots=True)
class Frame:
    """The function whose body is being walked: the kernel, or a function that is inlined."""

    source: Source
    names: Names
    captured: Captured
    env: dict[str, Operand | Variable] = field(default_factory=dict)
    assigned: set[str] = field(default_factory=set)
    holes: dict[str, Hole] = field(default_factory=dict)
    loops: list[LoopState] = field(default_factory=list)
    returns: Returns | None = None

    @property
    def is_in_loop(self) -> bool:
        """Returns whether a loop of the program is open, out of which a ``break`` leads."""
        return any(not loop.unrolled for loop in self.loops)

    def forget(self, name: str) -> None:
        """Ends the life of a variable whose body is closed."""
        self.env.pop(name, None)
        self.holes.pop(name, None)
        self.assigned.discard(name)


class Rules(NamedTuple):
    """The function that lowers each kind of syntax."""

    expressions: Mapping[type[ast.expr], Callable[[Lowering, Any], Operand]]
    statements: Mapping[type[ast.stmt], Callable[[Lowering, Any], bool]]


class Misguessed(Exception):
    """A guessed type would be another one if it were found by its uses, although the guess contradicts none of them."""


class Lowering:
    """The state of a walk.

    ``types``: those that an earlier walk found; None: they are guessed.  ``annotation`` returns what an annotation in
    the kernel means.  ``places``: where the nodes of all locations are kept, None for nowhere.
    """

    def __init__(
        self,
        frame: Frame,
        types: Types | None,
        annotation: Callable[[ast.expr], object],
        rules: Rules,
        places: Places | None,
    ) -> None:
        self.frame: Frame = frame
        self.rules: Final = rules
        self.annotation: Final = annotation
        self.frames: list[Frame] = [frame]
        self.buffers: list[Buffer] = []
        self.bodies: list[list[Stmt | Hole]] = [[]]
        self.cells: list[Cell] = []
        self.captures: dict[tuple[int, str], Capture] = {}
        self.sizes: dict[str, tuple[str, int]] = {}
        self.naming: dict[int, str] = {}
        self.definitions: Final = DefinitionsInUse()
        self.greatest: dict[str, int] = {}
        """The greatest value of each loop variable whose values are known and never negative."""
        self.loads: list[tuple[ast.AST, Load]] = []
        self.optional_loads: list[tuple[ast.AST, Load]] = []
        self.racing: frozenset[int] = frozenset()
        """The loads of memory that other lanes see; those in operands that Python might not evaluate; the syntax of
        those of them for which a branch is made, by identity.
        """
        self.effects: dict[int, Effects] = {}
        """By the identity of the node."""
        self._types = types
        self._places = places
        self._names = UniqueNames()
        self._scopes: list[list[tuple[Frame, str]]] = [[]]

    # ------------------------------------------------------------ errors and places
    def loc(self, node: ast.AST) -> SourceLocation:
        """Returns file and line of a node."""
        place = self.frame.source.place(node)
        return place if self._places is None else self._places.copied(place, self.frame.source, node)

    def fail(self, node: ast.AST, message: str, fix: str) -> NoReturn:
        """Raises ``KernelSourceError`` at a node."""
        self.frame.source.fail(node, message, fix)

    # ------------------------------------------------------------ statements
    @property
    def body(self) -> list[Stmt | Hole]:
        """Returns the statements of the open body."""
        return self.bodies[-1]

    def emit(self, stmt: Stmt) -> None:
        """Appends a statement to the open body."""
        self.body.append(stmt)

    @contextmanager
    def open(self) -> Iterator[list[Stmt | Hole]]:
        """Opens a body, which is closed at the end of the block; the variables that it declares end there."""
        statements = self.begin()
        try:
            yield statements
        finally:
            self.end()

    def begin(self) -> list[Stmt | Hole]:
        """Opens a body, which ``end`` closes."""
        self.bodies.append([])
        self._scopes.append([])
        return self.body

    def end(self) -> None:
        """Closes the open body, and ends its variables."""
        self.bodies.pop()
        for frame, name in self._scopes.pop():
            frame.forget(name)

    # ------------------------------------------------------------ locals
    def unique(self, hint: str) -> str:
        """Returns ``hint``, or ``hint_1``, ``hint_2`` ... if it is taken."""
        return self._names.unique(hint)

    def let(self, value: Scalar, hint: str, node: ast.AST) -> Scalar:
        """Evaluates a value at this point; returns the local that holds it."""
        name = self.unique(hint)
        self.emit(Let(name, value.expr, loc=self.loc(node)))
        return Scalar(Var(name, loc=self.loc(node)), value.dtype, value.cell, is_narrow=value.is_narrow)

    def unknown(self, **facts: bool) -> Cell | ScalarType:
        """Returns a new unknown type, or the one that an earlier walk found for it, or a guess."""
        number = len(self.cells)
        cell = Cell(**facts)
        self.cells.append(cell)
        return cell.result if self._types is None else self._types.get(number, cell)

    def unknown_of(self, *numbers: int | float) -> Cell | ScalarType:
        """Returns what ``unknown`` does, for a type that holds bare numbers."""
        return self.unknown(fractional=any(isinstance(one, float) for one in numbers), negative=min(numbers) < 0)

    def number_variable(self, hint: str, number: int | float) -> Variable:
        """Returns a new variable that starts as a bare number; its type follows from its uses."""
        name, known = self.unique(hint), self.unknown_of(number)
        return Variable(name, known) if isinstance(known, ScalarType) else Variable(name, None, known)

    def refuse_guess(self) -> None:
        """Ends a walk that guesses types and has guessed one."""
        if self._types is None and self.cells:
            raise Misguessed

    def settled(self, operand: Operand) -> Operand:
        """Returns a scalar with its type, if that has become known since it was made."""
        if isinstance(operand, Scalar) and operand.dtype is None and operand.cell is not None:
            dtype = operand.cell.root.dtype
            if dtype is not None:
                return Scalar(operand.expr, dtype, None, operand.changes)
        return operand

    def read(self, variable: Variable, node: ast.AST) -> Scalar:
        """Returns the present value of a variable."""
        expr = Var(variable.name, loc=self.loc(node))
        return Scalar(expr, variable.dtype, variable.cell, changes=True, is_narrow=variable.is_narrow)

    def declares(self, name: str) -> None:
        """Says that the open body declares a variable of the open function."""
        self._scopes[-1].append((self.frame, name))

    def hole(self) -> Hole:
        """Reserves the place of a declaration in the open body."""
        hole = Hole()
        self.body.append(hole)
        return hole

    def fill(self, hole: Hole, variable: Variable, node: ast.AST) -> None:
        """Declares a variable, with the value zero, at a reserved place."""
        hole.stmt = Let(variable.name, Literal(variable.dtype or ScalarType.U32, 0), loc=self.loc(node))

    # ------------------------------------------------------------ arrays
    def reserve(self, name: str) -> None:
        """Reserves the name of a parameter."""
        self._names.reserve(name)

    def binding(self) -> int:
        """Returns the binding number of the next parameter."""
        return sum([buffer.is_bound for buffer in self.buffers])

    def declare(
        self, hint: str, element: ScalarType, access: Access, count: int, sizes: tuple[Expr, ...], node: ast.AST
    ) -> Array:
        """Declares memory of a workgroup or of a lane."""
        name = self.unique(hint)
        self.buffers.append(Buffer.make(name, 0, access, element, count, loc=self.loc(node)))
        return Array(name, element, access, sizes, count)

    def plan(self, name: str) -> NamePlan:
        """Returns how a local name of the open function is kept."""
        return self.frame.names.plans.get(name, _FIXED)

    def finish(self) -> Body:
        """Returns the statements of the whole walk."""
        (only,) = self.bodies
        return closed(only)


_FIXED: Final = NamePlan(Kind.FIXED)


def closed(statements: list[Stmt | Hole]) -> Body:
    """Returns the statements of a body; declarations that no name has needed are left out."""
    final: list[Stmt] = []
    for stmt in statements:
        if not isinstance(stmt, Hole):
            final.append(stmt)
            continue
        if stmt.stmt is not None:
            final.append(stmt.stmt)
        final.extend(stmt.more)
    return tuple(final)


def flexible(cell: Cell) -> Scalar:
    """Returns a scalar of an unknown type."""
    return Scalar(PLACEHOLDER, None, cell)
