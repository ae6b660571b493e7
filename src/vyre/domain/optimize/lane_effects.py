"""The effects of one lane as expressions: what a program without loops, atomics and barriers stores, and when.

A run of the lane on names instead of values.  What the lane reads from outside, such as ids, lengths and elements of
buffers, becomes a variable; two reads are the same variable if they surely give the same value.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from vyre.domain.ir.expr import (
    OF_SUBGROUP,
    Atomic,
    Binary,
    BufferLength,
    Expr,
    IdKind,
    LaunchId,
    Literal,
    Load,
    Select,
    SpecConst,
    Unary,
    Var,
)
from vyre.domain.ir.node import Node
from vyre.domain.ir.operators import BinaryOp, UnaryOp
from vyre.domain.ir.program import Program
from vyre.domain.ir.rebuilding import rebuilt
from vyre.domain.ir.stmt import Assign, Block, Body, If, Let, Region, Return, Stmt, Store, Trap, if_chain
from vyre.domain.ir.types import ScalarType
from vyre.domain.optimize.static_types import StaticTypes
from vyre.domain.optimize.unique_locals import with_unique_locals

TRUE: Final = Literal(ScalarType.BOOL, 1)


class Untraceable(Exception):
    """The program has something that is no effect of one lane by itself; the argument says what."""


class Read(NamedTuple):
    """An element that the lane reads, at the index ``place``.

    ``version`` counts the stores to the buffer before, ``name`` is the variable that stands for the element.
    """

    buffer: str
    version: int
    place: Expr
    name: str


class Effect(NamedTuple):
    """A store, or a trap: ``target`` is the buffer or the tag, ``place`` the index or the address.

    It happens if ``guard`` holds.  ``value`` is what is stored, None for a trap.
    """

    target: str
    guard: Expr
    place: Expr
    value: Expr | None


class LaneEffects(NamedTuple):
    """What a lane does, in order, and its variables with their types.  ``reads`` are those that stand for elements."""

    effects: tuple[Effect, ...]
    variables: dict[str, ScalarType]
    reads: tuple[Read, ...]


SameIndex = Callable[[Expr, Expr], bool]
"""Says whether two indices are surely equal."""


def lane_effects(program: Program, same: SameIndex, known: LaneEffects | None = None) -> LaneEffects:
    """Returns the effects of a lane of a valid program.

    ``same`` compares the indices of reads; ``known`` holds those of another program of the same interface, so that the
    reads of both get the same variables.  Raises ``Untraceable`` with the construct that has no such effects.
    """
    run = _Run(with_unique_locals(program), same, known)
    run.body(run.program.body, TRUE)
    return LaneEffects(tuple(run.effects), run.variables, tuple(run.reads))


def ids_and_lengths(program: Program) -> dict[str, ScalarType]:
    """Returns the variables that stand for the ids of a lane and for the lengths of buffers, with their types."""
    ids = [LaunchId(kind, axis) for kind in IdKind for axis in range(3)]
    lengths = [BufferLength(buffer.name) for buffer in program.abi_buffers]
    return {_outside(node): ScalarType.U32 for node in (*ids, *lengths)}


def facts_of_lane(program: Program) -> Expr:
    """Returns what is true of ``ids_and_lengths`` in any lane: bounds, how ids belong together, and fixed lengths."""
    found: Expr = TRUE
    for axis, size in enumerate(program.workgroup_size):
        local, group, whole = (_id(kind, axis) for kind in (IdKind.LOCAL, IdKind.GROUP, IdKind.GLOBAL))
        first = Binary(BinaryOp.MUL, group, _u32(size))
        found = _both(found, Binary(BinaryOp.LT, local, _u32(size)))
        found = _both(found, Binary(BinaryOp.EQ, whole, Binary(BinaryOp.ADD, first, local)))
    for buffer in program.abi_buffers:
        if buffer.count:
            found = _both(found, Binary(BinaryOp.EQ, Var(_outside(BufferLength(buffer.name))), _u32(buffer.count)))
    return found


def _id(kind: IdKind, axis: int) -> Var:
    return Var(_outside(LaunchId(kind, axis)))


def _outside(node: Node) -> str:
    """Returns the name of the variable that stands for an id, a length or a constant."""
    return repr(node)


def _u32(value: int) -> Literal:
    return Literal(ScalarType.U32, value)


class _Run:
    def __init__(self, program: Program, same: SameIndex, known: LaneEffects | None) -> None:
        self.program = program
        self.effects: list[Effect] = []
        self.variables: dict[str, ScalarType] = {} if known is None else dict(known.variables)
        self.reads: list[Read] = [] if known is None else list(known.reads)
        self._same = same
        self._types = StaticTypes(program)
        self._values: dict[str, Expr] = {}
        self._versions: dict[str, int] = {}
        self._alive: Expr = TRUE

    # ---------------------------------------------------------------- statements
    def body(self, body: Body, guard: Expr) -> None:
        for stmt in body:
            self._statement(stmt, guard)

    def _statement(self, stmt: Stmt, guard: Expr) -> None:
        match stmt:
            case Let(name=name, value=value):
                self._types.declare(name, self._types.of(value))
                self._values[name] = self._expression(value)
            case Assign(name=name, value=value):
                self._values[name] = self._expression(value)
            case Store(buffer=buffer, index=index, value=value):
                if not self.program.buffer(buffer).is_bound:
                    raise Untraceable("workgroup or private memory")
                place, stored = self._expression(index), self._expression(value)
                self.effects.append(Effect(buffer, _both(guard, self._alive), place, stored))
                self._versions[buffer] = self._versions.get(buffer, 0) + 1
            case If():
                self._chain(stmt, guard)
            case Block(body=body) | Region(body=body):
                self.body(body, guard)
            case Return():
                self._alive = _both(self._alive, _not(guard))
            case Trap(address=address, tag=tag):
                place = self._expression(address)
                self.effects.append(Effect(f"trap {tag}", _both(guard, self._alive), place, None))
                self._alive = _both(self._alive, _not(guard))
            case _:
                raise Untraceable(f"a statement of kind {type(stmt).__name__}")

    def _chain(self, first: If, guard: Expr) -> None:
        links, last = if_chain(first)
        left = guard
        for link in links:
            condition = self._expression(link.condition)
            self._branch(link.then, _both(left, condition))
            left = _both(left, _not(condition))
        self._branch(last, left)

    def _branch(self, body: Body, guard: Expr) -> None:
        """Runs a branch; what it assigns is taken only where its guard holds."""
        before = dict(self._values)
        self.body(body, guard)
        for name, old in before.items():
            new = self._values[name]
            if new is not old:
                self._values[name] = Select(guard, new, old)

    # ---------------------------------------------------------------- expressions
    def _expression(self, expr: Expr) -> Expr:
        types = self._types

        def changed(node: Any) -> Any:
            if type(node) is Var:
                return self._values[node.name]
            if type(node) is Load:
                return self._read(node)
            if type(node) in _OUTSIDE:
                return self._variable(_outside(node), types.of(node))
            if type(node) in _EFFECTS:
                raise Untraceable(f"an expression of kind {type(node).__name__}")
            return node

        return rebuilt(expr, changed)

    def _read(self, load: Load) -> Expr:
        if not self.program.buffer(load.buffer).is_bound:
            raise Untraceable("workgroup or private memory")
        version = self._versions.get(load.buffer, 0)
        for read in self.reads:
            if read[:2] == (load.buffer, version) and (read.place == load.index or self._same(read.place, load.index)):
                return Var(read.name)
        name = f"{load.buffer}[{len(self.reads)}]"
        self.reads.append(Read(load.buffer, version, load.index, name))
        element = self.program.buffer(load.buffer).element
        assert isinstance(element, ScalarType)
        return self._variable(name, element.widened)

    def _variable(self, name: str, dtype: ScalarType) -> Var:
        self.variables[name] = dtype
        return Var(name)


_OUTSIDE: Final = frozenset({BufferLength, LaunchId, SpecConst})


_EFFECTS: Final = OF_SUBGROUP | {Atomic}


def _both(a: Expr, b: Expr) -> Expr:
    if a == TRUE:
        return b
    return a if b == TRUE else Binary(BinaryOp.AND, a, b)


def _not(a: Expr) -> Expr:
    return Unary(UnaryOp.LOGICAL_NOT, a)
