"""The effects of one lane as expressions: what a program without loops, atomics and barriers stores, and when.

A run of the lane on names instead of values.  What the lane reads from outside, such as ids, lengths and elements of
buffers, becomes a variable; two reads are the same variable if they surely give the same value.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from vyre.domain.ir import nodes as ir
from vyre.domain.ir.buffers import element_of
from vyre.domain.ir.node import Node
from vyre.domain.ir.operators import BinaryOp, UnaryOp
from vyre.domain.ir.program import Program
from vyre.domain.ir.rebuilding import rebuilt
from vyre.domain.ir.types import ScalarType
from vyre.domain.optimize.static_types import StaticTypes
from vyre.domain.optimize.walking import with_unique_locals

TRUE: Final = ir.Literal(ScalarType.BOOL, 1)


class Untraceable(Exception):
    """The program has something that is no effect of one lane by itself; the argument says what."""


class Read(NamedTuple):
    """An element that the lane reads, at the index ``place``.

    ``version`` counts the stores to the buffer before, ``name`` is the variable that stands for the element.
    """

    buffer: str
    version: int
    place: ir.Expr
    name: str


class Effect(NamedTuple):
    """A store, or a trap: ``target`` is the buffer or the tag, ``place`` the index or the address.

    It happens if ``guard`` holds.  ``value`` is what is stored, None for a trap.
    """

    target: str
    guard: ir.Expr
    place: ir.Expr
    value: ir.Expr | None


class LaneEffects(NamedTuple):
    """The effects of a lane, in order, and its typed variables.  ``reads`` are those that stand for elements."""

    effects: tuple[Effect, ...]
    variables: dict[str, ScalarType]
    reads: tuple[Read, ...]


SameIndex = Callable[[ir.Expr, ir.Expr], bool]
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
    ids = [ir.LaunchId(kind, axis) for kind in ir.IdKind for axis in range(3)]
    lengths = [ir.BufferLength(buffer.name) for buffer in program.abi_buffers]
    return {_outside(node): ScalarType.U32 for node in (*ids, *lengths)}


def facts_of_lane(program: Program) -> ir.Expr:
    """Returns what is true of ``ids_and_lengths`` in any lane: bounds, how ids belong together, and fixed lengths."""
    facts: ir.Expr = TRUE
    for axis, size in enumerate(program.workgroup_size):
        local, group, whole = (_id(kind, axis) for kind in (ir.IdKind.LOCAL, ir.IdKind.GROUP, ir.IdKind.GLOBAL))
        first = ir.Binary(BinaryOp.MUL, group, _u32(size))
        facts = _both(facts, ir.Binary(BinaryOp.LT, local, _u32(size)))
        facts = _both(facts, ir.Binary(BinaryOp.EQ, whole, ir.Binary(BinaryOp.ADD, first, local)))
    for buffer in program.abi_buffers:
        if buffer.count:
            facts = _both(
                facts, ir.Binary(BinaryOp.EQ, ir.Var(_outside(ir.BufferLength(buffer.name))), _u32(buffer.count))
            )
    return facts


def _id(kind: ir.IdKind, axis: int) -> ir.Var:
    return ir.Var(_outside(ir.LaunchId(kind, axis)))


def _outside(node: Node) -> str:
    """Returns the name of the variable that stands for an id, a length or a constant."""
    return repr(node)


def _u32(value: int) -> ir.Literal:
    return ir.Literal(ScalarType.U32, value)


class _Run:
    def __init__(self, program: Program, same: SameIndex, known: LaneEffects | None) -> None:
        self.program = program
        self.effects: list[Effect] = []
        self.variables: dict[str, ScalarType] = {} if known is None else dict(known.variables)
        self.reads: list[Read] = [] if known is None else list(known.reads)
        self._same = same
        self._types = StaticTypes(program)
        self._values: dict[str, ir.Expr] = {}
        self._versions: dict[str, int] = {}
        self._alive: ir.Expr = TRUE

    # ---------------------------------------------------------------- statements
    def body(self, body: ir.Body, guard: ir.Expr) -> None:
        for stmt in body:
            self._statement(stmt, guard)

    def _statement(self, stmt: ir.Stmt, guard: ir.Expr) -> None:
        match stmt:
            case ir.Let(name=name, value=value):
                self._types.declare(name, self._types.of(value))
                self._values[name] = self._expression(value)
            case ir.Assign(name=name, value=value):
                self._values[name] = self._expression(value)
            case ir.Store(buffer=buffer, index=index, value=value):
                if not self.program.buffer(buffer).is_bound:
                    raise Untraceable("workgroup or private memory")
                place, stored = self._expression(index), self._expression(value)
                self.effects.append(Effect(buffer, _both(guard, self._alive), place, stored))
                self._versions[buffer] = self._versions.get(buffer, 0) + 1
            case ir.If():
                self._chain(stmt, guard)
            case ir.Block(body=body) | ir.Region(body=body):
                self.body(body, guard)
            case ir.Return():
                self._alive = _both(self._alive, _not(guard))
            case ir.Trap(address=address, tag=tag):
                place = self._expression(address)
                self.effects.append(Effect(f"trap {tag}", _both(guard, self._alive), place, None))
                self._alive = _both(self._alive, _not(guard))
            case _:
                raise Untraceable(f"a statement of kind {type(stmt).__name__}")

    def _chain(self, first: ir.If, guard: ir.Expr) -> None:
        links, last = ir.if_chain(first)
        left = guard
        for link in links:
            condition = self._expression(link.condition)
            self._branch(link.then, _both(left, condition))
            left = _both(left, _not(condition))
        self._branch(last, left)

    def _branch(self, body: ir.Body, guard: ir.Expr) -> None:
        """Runs a branch; what it assigns is taken only where its guard holds."""
        before = dict(self._values)
        self.body(body, guard)
        for name, old in before.items():
            new = self._values[name]
            if new is not old:
                self._values[name] = ir.Select(guard, new, old)

    # ---------------------------------------------------------------- expressions
    def _expression(self, expr: ir.Expr) -> ir.Expr:
        types = self._types

        def changed(node: Any) -> Any:
            if type(node) is ir.Var:
                return self._values[node.name]
            if type(node) is ir.Load:
                return self._read(node)
            if type(node) in _OUTSIDE:
                return self._variable(_outside(node), types.of(node))
            if type(node) in _EFFECTS:
                raise Untraceable(f"an expression of kind {type(node).__name__}")
            return node

        return rebuilt(expr, changed)

    def _read(self, load: ir.Load) -> ir.Expr:
        if not self.program.buffer(load.buffer).is_bound:
            raise Untraceable("workgroup or private memory")
        version = self._versions.get(load.buffer, 0)
        for read in self.reads:
            if read[:2] == (load.buffer, version) and (read.place == load.index or self._same(read.place, load.index)):
                return ir.Var(read.name)
        name = f"{load.buffer}[{len(self.reads)}]"
        self.reads.append(Read(load.buffer, version, load.index, name))
        return self._variable(name, element_of(self.program.buffer(load.buffer)).widened)

    def _variable(self, name: str, dtype: ScalarType) -> ir.Var:
        self.variables[name] = dtype
        return ir.Var(name)


_OUTSIDE: Final = frozenset({ir.BufferLength, ir.LaunchId, ir.SpecConst})


_EFFECTS: Final = ir.OF_SUBGROUP | {ir.Atomic}


def _both(a: ir.Expr, b: ir.Expr) -> ir.Expr:
    if a == TRUE:
        return b
    return a if b == TRUE else ir.Binary(BinaryOp.AND, a, b)


def _not(a: ir.Expr) -> ir.Expr:
    return ir.Unary(UnaryOp.LOGICAL_NOT, a)
