"""Grid loops as ordinary loops, for devices on which all workgroups of a grid run at once.

    let rounds = grid_loop(limit, flag) { body }

becomes a loop with a grid barrier at the end of each round.  A round that reset the flag itself would need another
barrier, so that no lane reads it before or after that.  Therefore three hidden flags take turns: round k stores to flag
k mod 3, reads it behind the barrier, and clears flag (k + 2) mod 3, which no lane touches before the next barrier.
Element 0 of the program's own flag gets the last value behind the loop.  Where the body may touch other elements of the
flag, or its element 0 may not exist, the program's own flag is used, with a second barrier in each round.  Loops with
grid barriers get further ones where a plan splits them.

The result is no valid program, because its loops hold grid barriers; it is only written as code.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import Any, Final

from vyre.domain.grid_sync import WORDS_PER_LOOP, first_lane, fresh_names, grid_control, hide_control
from vyre.domain.ir.accesses import accesses
from vyre.domain.ir.expr import Atomic, Binary, BufferLength, Expr, IdKind, LaunchId, Literal, Load, Var
from vyre.domain.ir.operators import BinaryOp, Ordering
from vyre.domain.ir.program import Buffer, Program
from vyre.domain.ir.rebuilding import rebuilt
from vyre.domain.ir.stmt import (
    Assign,
    Barrier,
    Block,
    Body,
    Break,
    GridLoop,
    If,
    Let,
    Loop,
    Region,
    Stmt,
    Store,
    operands,
    walk_statements,
)
from vyre.domain.ir.types import ScalarType
from vyre.domain.ir.walk import containers, unique_nodes
from vyre.domain.validation.grid_barriers import is_grid_barrier

_CACHED: Final = "native_rounds"
_UNROLLED: Final = 16
"""The elements of a private buffer that are zeroed one by one, so that they may stay in registers."""
_GRID_BARRIER: Final = Barrier(Ordering.GRID_SYNC)


def with_native_rounds(program: Program) -> Program:
    """Returns a valid program with its grid loops as loops; without one the program itself.  Cached on it.

    The result has the buffer ``grid_control(program)``, whose content before the launch does not matter.
    """
    if grid_control(program) is None:
        return program
    found = program._cache.get(_CACHED)
    if not isinstance(found, Program):
        found = program._cache[_CACHED] = _Rounds(program).program()
    return found


class _Rounds:
    def __init__(self, program: Program) -> None:
        control = grid_control(program)
        assert control is not None
        self._program = program
        self._control = control
        self._with_barriers = containers(program.body, is_grid_barrier)
        self._loops = 0
        self._limit = self._round = self._more = self._value = self._index = ""

    def program(self) -> Program:
        program = self._program
        body = self._body(program.body, later=())
        return hide_control(replace(program, buffers=(*program.buffers, self._control), body=body), self._control)

    def _body(self, body: Body, later: Body) -> Body:
        """Returns the body with its loops replaced; ``later`` are the statements that may follow it."""
        made: list[Stmt] = []
        for number, stmt in enumerate(body):
            if isinstance(stmt, GridLoop):
                made += self._loop(stmt, (*body[number + 1 :], *later))
            elif isinstance(stmt, Block | Region):
                made.append(replace(stmt, body=self._body(stmt.body, (*body[number + 1 :], *later))))
            else:
                made.append(stmt)
        return tuple(made)

    def _loop(self, stmt: GridLoop, later: Body) -> list[Stmt]:
        word = WORDS_PER_LOOP * self._loops
        self._limit, self._round, self._more, self._value, self._index = fresh_names(
            self._program, *(f"grid_{name}_{self._loops}" for name in ("limit", "round", "more", "value", "index"))
        )
        self._loops += 1
        flag = self._program.buffers_by_name[stmt.flag]
        hidden = _may_be_hidden(stmt.body, flag)
        synced = self._synced(stmt.body)
        body = _redirected(synced, flag.name, self._control.name, self._turn(word, 0)) if hidden else synced
        round_ = self._hidden_round(word, flag) if hidden else self._own_round(word, flag)
        made: list[Stmt] = [
            Let(self._limit, stmt.limit, loc=stmt.loc),
            Let(stmt.name, _u32(0), loc=stmt.loc),
            If(first_lane(), self._start(word, flag, hidden)),
            _GRID_BARRIER,
            Loop(
                self._round,
                _u32(0),
                Var(self._limit),
                _u32(1),
                (*self._zeroed(stmt.body), Block(body), Assign(stmt.name, _plus(Var(self._round), 1)), *round_),
                loc=stmt.loc,
            ),
        ]
        if hidden:
            last = Load(self._control.name, _plus(_mod3(_plus(Var(stmt.name), 2)), word))
            ran = Binary(BinaryOp.AND, first_lane(), _not_zero(Var(stmt.name)))
            made.append(If(ran, (Store(flag.name, _u32(0), last),)))
        if any(use.buffer == flag.name for after in walk_statements(later) for use in accesses(after)):
            made.append(_GRID_BARRIER)
        return made

    def _synced(self, body: Body) -> Body:
        """Returns the body with a barrier before each loop with grid barriers in it, and at the end of its rounds."""
        made: list[Stmt] = []
        for stmt in body:
            if id(stmt) not in self._with_barriers:
                made.append(stmt)
            elif isinstance(stmt, Loop):
                made += (_GRID_BARRIER, replace(stmt, body=(*self._synced(stmt.body), _GRID_BARRIER)))
            elif isinstance(stmt, Block | Region):
                made.append(replace(stmt, body=self._synced(stmt.body)))
            else:
                made.append(stmt)  # branches with grid barriers hold no such loops
        return tuple(made)

    def _start(self, word: int, flag: Buffer, hidden: bool) -> Body:
        """Returns the statements of the first lane before the first round."""
        if hidden:
            return (self._set(_u32(word), _u32(0)), self._set(_u32(word + 1), _u32(0)))
        return (If(_not_zero(Var(self._limit)), (Store(flag.name, _u32(0), _u32(0)),)),)

    def _hidden_round(self, word: int, flag: Buffer) -> Body:
        """Returns the end of a round that has stored to one of three hidden flags."""
        more = _not_zero(Var(self._more))
        if not flag.count:
            more = Binary(BinaryOp.AND, more, _not_zero(BufferLength(flag.name)))
        return (
            _GRID_BARRIER,
            Let(self._more, Load(self._control.name, self._turn(word, 0))),
            If(first_lane(), (self._set(self._turn(word, 2), _u32(0)),)),
            If(more, (), (Break(),)),
        )

    def _own_round(self, word: int, flag: Buffer) -> Body:
        """Returns the end of a round that has stored to the program's flag, which the first lane copies and resets."""
        again = Binary(
            BinaryOp.AND,
            _not_zero(Var(self._value)),
            Binary(BinaryOp.LT, _plus(Var(self._round), 1), Var(self._limit)),
        )
        return (
            _GRID_BARRIER,
            If(
                first_lane(),
                (
                    Let(self._value, Load(flag.name, _u32(0))),
                    self._set(self._turn(word, 0), Var(self._value)),
                    If(again, (Store(flag.name, _u32(0), _u32(0)),)),
                ),
            ),
            _GRID_BARRIER,
            Let(self._more, Load(self._control.name, self._turn(word, 0))),
            If(_not_zero(Var(self._more)), (), (Break(),)),
        )

    def _turn(self, word: int, ahead: int) -> Expr:
        """Returns the place of the hidden flag of the present round, or of one so many rounds ahead."""
        number: Expr = Var(self._round)
        return _plus(_mod3(_plus(number, ahead) if ahead else number), word)

    def _set(self, place: Expr, value: Expr) -> Store:
        return Store(self._control.name, place, value)

    def _zeroed(self, body: Body) -> list[Stmt]:
        """Returns the zeroing of the workgroup and private memory that a round uses."""
        used = {use.buffer for stmt in walk_statements(body) for use in accesses(stmt)}
        found: list[Stmt] = []
        shared = False
        x, y, _ = self._program.workgroup_size
        lanes = prod(self._program.workgroup_size)
        local: Expr = LaunchId(IdKind.LOCAL, 0)
        if lanes > x:
            rows = Binary(BinaryOp.MUL, LaunchId(IdKind.LOCAL, 2), _u32(y))
            rows = Binary(BinaryOp.ADD, rows, LaunchId(IdKind.LOCAL, 1))
            local = Binary(BinaryOp.ADD, Binary(BinaryOp.MUL, rows, _u32(x)), local)
        for buffer in self._program.buffers:
            if buffer.is_bound or buffer.name not in used:
                continue
            element = buffer.element
            assert isinstance(element, ScalarType)
            zero = Literal(element.widened, 0)
            if buffer.is_private and buffer.count <= _UNROLLED:
                found += (Store(buffer.name, _u32(i), zero) for i in range(buffer.count))
                continue
            store = Store(buffer.name, Var(self._index), zero)
            first, step = (_u32(0), 1) if buffer.is_private else (local, lanes)
            found.append(Loop(self._index, first, _u32(buffer.count), _u32(step), (store,)))
            shared |= not buffer.is_private
        return [*found, Barrier()] if shared else found


def _may_be_hidden(body: Body, flag: Buffer) -> bool:
    """Returns whether hidden flags can stand for element 0 of the flag: the body touches no other element, and no
    atomic returns what an element that does not exist would give.
    """
    for stmt in walk_statements(body):
        if isinstance(stmt, Store) and stmt.buffer == flag.name and not _is_zero(stmt.index):
            return False
        for node in unique_nodes(operands(stmt)):
            if isinstance(node, Atomic) and node.buffer == flag.name and not (flag.count and _is_zero(node.index)):
                return False
    return True


def _redirected(body: Body, flag: str, control: str, place: Expr) -> Body:
    """Returns the body with its stores to the flag and its atomics on it at another place; does not recurse."""

    def changed(item: Any) -> Any:
        if isinstance(item, Store | Atomic) and item.buffer == flag:
            return replace(item, buffer=control, index=place)
        return item

    return rebuilt(body, changed)


def _is_zero(index: Expr) -> bool:
    return isinstance(index, Literal) and index.bits == 0


def _not_zero(value: Expr) -> Expr:
    return Binary(BinaryOp.NE, value, _u32(0))


def _mod3(value: Expr) -> Expr:
    return Binary(BinaryOp.MOD, value, _u32(3))


def _plus(value: Expr, number: int) -> Expr:
    return Binary(BinaryOp.ADD, value, _u32(number)) if number else value


def _u32(value: int) -> Literal:
    return Literal(ScalarType.U32, value)
