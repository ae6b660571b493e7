"""An independent interpreter of single lanes, for what validation must not miss.

It runs one lane at a time and records what the lane does in order: barriers with the iteration they happen in,
accesses, asynchronous copies, stores with their values.  Memory that the program writes
has no content: a load from it gives a number that depends on the lane and on the grid barriers passed.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

from vyre.domain.ir.expr import Atomic, Binary, BufferLength, Expr, IdKind, LaunchId, Literal, Load, Var
from vyre.domain.ir.node import Node
from vyre.domain.ir.operators import BinaryOp, Ordering
from vyre.domain.ir.program import Access, Program
from vyre.domain.ir.stmt import (
    Assign,
    AsyncLoad,
    AsyncStore,
    AsyncWait,
    Barrier,
    Block,
    Body,
    Break,
    Continue,
    If,
    Let,
    Loop,
    Region,
    Return,
    Stmt,
    Store,
    Switch,
)

Event: TypeAlias = tuple[Any, ...]
_OPERATIONS: Final = {
    BinaryOp.ADD: lambda a, b: (a + b) & 0xFFFF_FFFF,
    BinaryOp.BIT_AND: lambda a, b: a & b,
    BinaryOp.LT: lambda a, b: a < b,
    BinaryOp.EQ: lambda a, b: a == b,
}


class _Leave(Exception):
    """Control leaves a loop body, or the lane ends."""

    def __init__(self, by: type[Node]) -> None:
        self.by = by


def trace(program: Program, group: int, lane: int, segment: int = 0) -> list[Event]:
    """What one lane does; ``segment``: grid barriers passed before."""
    return _Lane(program, group, lane, segment).events


class _Lane:
    def __init__(self, program: Program, group: int, lane: int, segment: int) -> None:
        self._group, self._lane, self.segment = group, lane, segment
        self._lanes = program.workgroup_size[0]
        self._written = {b.name for b in program.buffers if b.access is not Access.READ_ONLY}
        self._locals: dict[str, int] = {}
        self._iteration: list[int] = []
        self.events: list[Event] = []
        try:
            self._body(program.body)
        except _Leave as left:
            assert left.by is Return

    def _value(self, expr: Expr) -> int:
        match expr:
            case Literal(_, bits):
                return bits
            case Var(name):
                return self._locals[name]
            case LaunchId(IdKind.LOCAL, _):
                return self._lane
            case LaunchId(IdKind.GROUP, _):
                return self._group
            case LaunchId(IdKind.GLOBAL, _):
                return self._group * self._lanes + self._lane
            case Binary(operator, left, right):
                first, second = self._value(left), self._value(right)
                return int(_OPERATIONS[operator](first, second))
            case BufferLength():
                return 3
            case Load(buffer, index):
                at = self._value(index)
                self._note("plain", buffer)
                self._note("load", buffer, at)
                if buffer in self._written:
                    return (self._lane * 7 + self.segment * 3 + at) & 3
                return at * 5 & 3
            case Atomic(_, buffer, index, _, value):
                self._value(index), self._value(value)
                self._note("atomic", buffer)
                return self._lane
        raise AssertionError(f"{expr!r} is not modelled")

    def _note(self, *event: Any) -> None:
        self.events.append(event)

    def _body(self, body: Body) -> None:
        outer = set(self._locals)
        try:
            for stmt in body:
                self._statement(stmt)
        finally:
            self._locals = {name: value for name, value in self._locals.items() if name in outer}

    def _statement(self, stmt: Stmt) -> None:
        match stmt:
            case Let(name, value) | Assign(name, value):
                self._locals[name] = self._value(value)
            case Store(buffer, index, value):
                at, stored = self._value(index), self._value(value)
                self._note("plain", buffer)
                self._note("store", buffer, at, stored)
            case If(condition, then, otherwise):
                self._body(then if self._value(condition) else otherwise)
            case Switch(selector, arms, default):
                chosen = self._value(selector)
                self._body(next((arm.body for arm in arms if chosen in (x.bits for x in arm.labels)), default))
            case Loop():
                self._loop(stmt)
            case Break() | Continue() | Return():
                raise _Leave(type(stmt))
            case Block(body) | Region(body=body):
                self._body(body)
            case Barrier(Ordering.GRID_SYNC):
                self.segment += 1
                self._note("grid barrier")
            case Barrier():
                self._note("barrier", id(stmt), tuple(self._iteration))
            case AsyncLoad(tag=tag) | AsyncStore(tag=tag):
                self._note("start", tag)
            case AsyncWait(tag):
                self._note("wait", tag)
            case _:
                raise AssertionError(f"{stmt!r} is not modelled")

    def _loop(self, stmt: Loop) -> None:
        start, stop, step = (self._value(bound) for bound in (stmt.start, stmt.stop, stmt.step))
        self._iteration.append(0)
        for counter in range(start, stop, step) if step else ():
            self._locals[stmt.var] = counter
            try:
                self._body(stmt.body)
            except _Leave as left:
                if left.by is Return:
                    raise
                if left.by is Break:
                    break
            finally:
                del self._locals[stmt.var]
            self._iteration[-1] += 1
        self._iteration.pop()
