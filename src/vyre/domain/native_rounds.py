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
from vyre.domain.ir import nodes as ir
from vyre.domain.ir.accesses import accesses
from vyre.domain.ir.buffers import element_of
from vyre.domain.ir.operators import BinaryOp, Ordering
from vyre.domain.ir.program import Buffer, Program, kept_with_program
from vyre.domain.ir.rebuilding import rebuilt
from vyre.domain.ir.types import ScalarType
from vyre.domain.ir.walk import containers, unique_nodes
from vyre.domain.validation.grid_barriers import is_grid_barrier

_UNROLLED: Final = 16
"""The elements of a private buffer that are zeroed one by one, so that they may stay in registers."""
_GRID_BARRIER: Final = ir.Barrier(Ordering.GRID_SYNC)


@kept_with_program("native_rounds")
def with_native_rounds(program: Program) -> Program:
    """Returns a valid program with its grid loops as loops; without one the program itself.  Cached on it.

    The result has the buffer ``grid_control(program)``, whose content before the launch does not matter.
    """
    if grid_control(program) is None:
        return program
    return _Rounds(program).program()


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

    def _body(self, body: ir.Body, later: ir.Body) -> ir.Body:
        """Returns the body with its loops replaced; ``later`` are the statements that may follow it."""
        statements: list[ir.Stmt] = []
        for number, stmt in enumerate(body):
            if isinstance(stmt, ir.GridLoop):
                statements += self._loop(stmt, (*body[number + 1 :], *later))
            elif isinstance(stmt, ir.Block | ir.Region):
                statements.append(replace(stmt, body=self._body(stmt.body, (*body[number + 1 :], *later))))
            else:
                statements.append(stmt)
        return tuple(statements)

    def _loop(self, stmt: ir.GridLoop, later: ir.Body) -> list[ir.Stmt]:
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
        statements: list[ir.Stmt] = [
            ir.Let(self._limit, stmt.limit, loc=stmt.loc),
            ir.Let(stmt.name, _u32(0), loc=stmt.loc),
            ir.If(first_lane(), self._start(word, flag, hidden)),
            _GRID_BARRIER,
            ir.Loop(
                self._round,
                _u32(0),
                ir.Var(self._limit),
                _u32(1),
                (
                    *self._zeroed(stmt.body),
                    ir.Block(body),
                    ir.Assign(stmt.name, _plus(ir.Var(self._round), 1)),
                    *round_,
                ),
                loc=stmt.loc,
            ),
        ]
        if hidden:
            last = ir.Load(self._control.name, _plus(_mod3(_plus(ir.Var(stmt.name), 2)), word))
            ran = ir.Binary(BinaryOp.AND, first_lane(), _not_zero(ir.Var(stmt.name)))
            statements.append(ir.If(ran, (ir.Store(flag.name, _u32(0), last),)))
        if any(use.buffer == flag.name for after in ir.walk_statements(later) for use in accesses(after)):
            statements.append(_GRID_BARRIER)
        return statements

    def _synced(self, body: ir.Body) -> ir.Body:
        """Returns the body with a barrier before each loop with grid barriers in it, and at the end of its rounds."""
        statements: list[ir.Stmt] = []
        for stmt in body:
            if id(stmt) not in self._with_barriers:
                statements.append(stmt)
            elif isinstance(stmt, ir.Loop):
                statements += (_GRID_BARRIER, replace(stmt, body=(*self._synced(stmt.body), _GRID_BARRIER)))
            elif isinstance(stmt, ir.Block | ir.Region):
                statements.append(replace(stmt, body=self._synced(stmt.body)))
            else:
                statements.append(stmt)  # branches with grid barriers hold no such loops
        return tuple(statements)

    def _start(self, word: int, flag: Buffer, hidden: bool) -> ir.Body:
        """Returns the statements of the first lane before the first round."""
        if hidden:
            return (self._set(_u32(word), _u32(0)), self._set(_u32(word + 1), _u32(0)))
        return (ir.If(_not_zero(ir.Var(self._limit)), (ir.Store(flag.name, _u32(0), _u32(0)),)),)

    def _hidden_round(self, word: int, flag: Buffer) -> ir.Body:
        """Returns the end of a round that has stored to one of three hidden flags."""
        more = _not_zero(ir.Var(self._more))
        if not flag.count:
            more = ir.Binary(BinaryOp.AND, more, _not_zero(ir.BufferLength(flag.name)))
        return (
            _GRID_BARRIER,
            ir.Let(self._more, ir.Load(self._control.name, self._turn(word, 0))),
            ir.If(first_lane(), (self._set(self._turn(word, 2), _u32(0)),)),
            ir.If(more, (), (ir.Break(),)),
        )

    def _own_round(self, word: int, flag: Buffer) -> ir.Body:
        """Returns the end of a round that has stored to the program's flag, which the first lane copies and resets."""
        again = ir.Binary(
            BinaryOp.AND,
            _not_zero(ir.Var(self._value)),
            ir.Binary(BinaryOp.LT, _plus(ir.Var(self._round), 1), ir.Var(self._limit)),
        )
        return (
            _GRID_BARRIER,
            ir.If(
                first_lane(),
                (
                    ir.Let(self._value, ir.Load(flag.name, _u32(0))),
                    self._set(self._turn(word, 0), ir.Var(self._value)),
                    ir.If(again, (ir.Store(flag.name, _u32(0), _u32(0)),)),
                ),
            ),
            _GRID_BARRIER,
            ir.Let(self._more, ir.Load(self._control.name, self._turn(word, 0))),
            ir.If(_not_zero(ir.Var(self._more)), (), (ir.Break(),)),
        )

    def _turn(self, word: int, ahead: int) -> ir.Expr:
        """Returns the place of the hidden flag of the present round, or of one so many rounds ahead."""
        number: ir.Expr = ir.Var(self._round)
        return _plus(_mod3(_plus(number, ahead) if ahead else number), word)

    def _set(self, place: ir.Expr, value: ir.Expr) -> ir.Store:
        return ir.Store(self._control.name, place, value)

    def _zeroed(self, body: ir.Body) -> list[ir.Stmt]:
        """Returns the zeroing of the workgroup and private memory that a round uses."""
        used = {use.buffer for stmt in ir.walk_statements(body) for use in accesses(stmt)}
        statements: list[ir.Stmt] = []
        shared = False
        x, y, _ = self._program.workgroup_size
        lanes = prod(self._program.workgroup_size)
        local: ir.Expr = ir.LaunchId(ir.IdKind.LOCAL, 0)
        if lanes > x:
            rows = ir.Binary(BinaryOp.MUL, ir.LaunchId(ir.IdKind.LOCAL, 2), _u32(y))
            rows = ir.Binary(BinaryOp.ADD, rows, ir.LaunchId(ir.IdKind.LOCAL, 1))
            local = ir.Binary(BinaryOp.ADD, ir.Binary(BinaryOp.MUL, rows, _u32(x)), local)
        for buffer in self._program.buffers:
            if buffer.is_bound or buffer.name not in used:
                continue
            element = element_of(buffer)
            zero = ir.Literal(element.widened, 0)
            if buffer.is_private and buffer.count <= _UNROLLED:
                statements += (ir.Store(buffer.name, _u32(i), zero) for i in range(buffer.count))
                continue
            store = ir.Store(buffer.name, ir.Var(self._index), zero)
            first, step = (_u32(0), 1) if buffer.is_private else (local, lanes)
            statements.append(ir.Loop(self._index, first, _u32(buffer.count), _u32(step), (store,)))
            shared |= not buffer.is_private
        return [*statements, ir.Barrier()] if shared else statements


def _may_be_hidden(body: ir.Body, flag: Buffer) -> bool:
    """Returns whether hidden flags can stand for element 0 of the flag: the body touches no other element, and no
    atomic returns what an element that does not exist would give.
    """
    for stmt in ir.walk_statements(body):
        if isinstance(stmt, ir.Store) and stmt.buffer == flag.name and not _is_zero(stmt.index):
            return False
        for node in unique_nodes(ir.operands(stmt)):
            if isinstance(node, ir.Atomic) and node.buffer == flag.name and not (flag.count and _is_zero(node.index)):
                return False
    return True


def _redirected(body: ir.Body, flag: str, control: str, place: ir.Expr) -> ir.Body:
    """Returns the body with its stores to the flag and its atomics on it at another place; does not recurse."""

    def changed(item: Any) -> Any:
        if isinstance(item, ir.Store | ir.Atomic) and item.buffer == flag:
            return replace(item, buffer=control, index=place)
        return item

    return rebuilt(body, changed)


def _is_zero(index: ir.Expr) -> bool:
    return isinstance(index, ir.Literal) and index.bits == 0


def _not_zero(value: ir.Expr) -> ir.Expr:
    return ir.Binary(BinaryOp.NE, value, _u32(0))


def _mod3(value: ir.Expr) -> ir.Expr:
    return ir.Binary(BinaryOp.MOD, value, _u32(3))


def _plus(value: ir.Expr, number: int) -> ir.Expr:
    return ir.Binary(BinaryOp.ADD, value, _u32(number)) if number else value


def _u32(value: int) -> ir.Literal:
    return ir.Literal(ScalarType.U32, value)
