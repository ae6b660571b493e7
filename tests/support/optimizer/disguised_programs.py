"""Random programs written in a roundabout way, with the same results: what front ends leave for an optimizer.

Expressions are split into locals of their own, and integers are computed from others.  A value is copied from a local
that is assigned something else later, in a branch, in a loop or in a row.  Stores follow stores of other values to the
same element, which private memory may show in between.
"""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any, Final

from support.programs import Case
from vyre.domain.ir.expr import (
    CHILDREN,
    IMPURE,
    LEAVES,
    Binary,
    Expr,
    IdKind,
    LaunchId,
    Literal,
    Load,
    Select,
    Var,
    walk,
)
from vyre.domain.ir.operators import BinaryOp
from vyre.domain.ir.program import Program
from vyre.domain.ir.rebuilding import with_operands
from vyre.domain.ir.stmt import (
    OPERANDS,
    Arm,
    Assign,
    Body,
    Break,
    Continue,
    GridLoop,
    If,
    Let,
    Loop,
    Return,
    Stmt,
    Store,
    Switch,
    Trap,
    bodies,
    walk_statements,
)
from vyre.domain.ir.types import ScalarType
from vyre.domain.ir.unique_names import UniqueNames
from vyre.domain.numerics.witnesses import WITNESSES
from vyre.domain.optimize.purity import containing
from vyre.domain.optimize.static_types import StaticTypes
from vyre.domain.optimize.walking import with_unique_locals
from vyre.domain.validation.grid_barriers import splits_grid
from vyre.domain.validation.validator import validate

_U32: Final = ScalarType.U32
_ENDS: Final = (Return, Break, Continue, Trap)


def disguised(case: Case, seed: int) -> Case:
    """Returns a case whose program does the same in a roundabout way; the case itself if that breaks a rule."""
    program = _Disguise(with_unique_locals(case.program), random.Random(f"disguise {seed}")).program()
    return replace(case, program=program) if validate(program).ok else case


class _Disguise:
    def __init__(self, program: Program, chance: random.Random) -> None:
        self._source = program
        self._chance = chance
        self._types = StaticTypes(program)
        self._impure = containing(program, IMPURE)
        self._names = UniqueNames()
        statements = list(walk_statements(program.body))
        for buffer in program.buffers:
            self._names.reserve(buffer.name)
        for stmt in statements:
            if isinstance(stmt, Let | GridLoop | Loop):
                self._names.reserve(stmt.var if isinstance(stmt, Loop) else stmt.name)
        self._assigned = {stmt.name for stmt in statements if isinstance(stmt, Assign)}
        self._is_split = any(map(splits_grid, statements))
        self._late: list[Stmt] = []

    def program(self) -> Program:
        return replace(self._source, body=self._body(self._source.body))

    def _happens(self, percent: int) -> bool:
        return self._chance.randrange(100) < percent

    def _body(self, body: Body) -> Body:
        around, self._late = self._late, []
        out: list[Stmt] = []
        for stmt in body:
            out += self._statement(stmt)
            while self._late and self._happens(40) and not isinstance(stmt, _ENDS):
                out.append(self._late.pop(self._chance.randrange(len(self._late))))
        self._late = around
        return tuple(out)

    def _statement(self, stmt: Any) -> list[Stmt]:
        match stmt:
            case Let():
                found = self._let(stmt)
                self._types.declare(stmt.name, self._types.of(stmt.value))
                return found
            case Assign() | Store():
                return self._split(stmt)
            case If():
                then, otherwise = self._body(stmt.then), self._body(stmt.otherwise)
                return [replace(stmt, then=then, otherwise=otherwise)]
            case Switch():
                arms = tuple([Arm(arm.labels, self._body(arm.body)) for arm in stmt.arms])
                return [replace(stmt, arms=arms, default=self._body(stmt.default))]
            case Loop():
                self._types.declare(stmt.var, self._types.of(stmt.start))
            case GridLoop():
                self._types.declare(stmt.name, _U32)
        return [replace(stmt, body=self._body(stmt.body))] if bodies(stmt) else [stmt]

    # ---- values
    def _is_pure(self, stmt: Stmt) -> bool:
        return not any(id(expr) in self._impure for expr in OPERANDS[type(stmt)](stmt))

    def _split(self, stmt: Stmt) -> list[Stmt]:
        """Returns a statement behind locals for parts of its operands."""
        if not self._is_pure(stmt):
            return [stmt]
        out: list[Stmt] = self._stored_twice(stmt) if isinstance(stmt, Store) else []
        if out and isinstance(out[-1], Store):
            stmt = out.pop()
        operands = [self._lowered(expr, out) for expr in OPERANDS[type(stmt)](stmt)]
        return [*out, with_operands(stmt, operands)]

    def _lowered(self, expr: Expr, out: list[Stmt]) -> Expr:
        if type(expr) is Literal and expr.dtype.is_integer and self._happens(25):
            return self._computed(expr)
        if type(expr) in LEAVES or self._happens(40) or self._is_parameter(expr):
            return expr
        operands = [self._lowered(operand, out) for operand in CHILDREN[type(expr)](expr)]
        name = self._names.unique("part")
        out.append(Let(name, with_operands(expr, operands)))
        self._types.declare(name, self._types.of(expr))
        return Var(name)

    def _is_parameter(self, expr: Expr) -> bool:
        return isinstance(expr, Load) and self._source.buffers_by_name[expr.buffer].is_push

    def _computed(self, literal: Literal) -> Expr:
        """Returns an operator on two literals that gives an integer."""
        top = 1 << literal.dtype.bits
        other = self._chance.randrange(top)
        if self._happens(50):
            op, left = BinaryOp.ADD, (literal.bits - other) % top
        else:
            op, left = BinaryOp.BIT_XOR, literal.bits ^ other
        return Binary(op, Literal(literal.dtype, left), Literal(literal.dtype, other))

    def _let(self, stmt: Let) -> list[Stmt]:
        found = self._split(stmt)
        if self._is_split or stmt.name in self._assigned or not self._is_pure(stmt) or self._happens(60):
            return found
        last = found[-1]
        assert isinstance(last, Let)
        name, dtype = self._names.unique("first"), self._types.of(stmt.value)
        self._late.append(self._other(name, dtype))
        return [*found[:-1], Let(name, last.value), Let(stmt.name, Var(name))]

    def _other(self, name: str, dtype: ScalarType) -> Stmt:
        """Returns a statement that may assign something else to a local."""
        change = Assign(name, Literal(dtype, self._chance.choice(WITNESSES[dtype])))
        match self._chance.randrange(3):
            case 0:
                return change
            case 1:
                small = Binary(BinaryOp.LT, LaunchId(IdKind.LOCAL, 0), Literal(_U32, self._chance.randrange(3)))
                return If(small, (change,))
        rounds = Literal(_U32, self._chance.randrange(3))
        return Loop(self._names.unique("round"), Literal(_U32, 0), rounds, Literal(_U32, 1), (change,))

    # ---- memory
    def _stored_twice(self, stmt: Store) -> list[Stmt]:
        """Returns a store that follows another one to the same element; nothing if it does not."""
        buffer = self._source.buffers_by_name[stmt.buffer]
        loads = {node.buffer for root in (stmt.index, stmt.value) for node in walk(root) if isinstance(node, Load)}
        if self._happens(60) or stmt.buffer in loads:
            return []
        assert isinstance(buffer.element, ScalarType)
        dtype = buffer.element.widened
        if not (buffer.is_private and dtype.is_integer and self._happens(60)):
            return [Store(stmt.buffer, stmt.index, Literal(dtype, self._chance.choice(WITNESSES[dtype]))), stmt]
        seen, bits = self._names.unique("seen"), self._chance.randrange(1, 100)
        self._types.declare(seen, dtype)
        is_seen = Binary(BinaryOp.EQ, Var(seen), Literal(dtype, bits))
        value = Select(is_seen, stmt.value, Literal(dtype, 77))
        return [
            Store(stmt.buffer, stmt.index, Literal(dtype, bits)),
            Let(seen, Load(stmt.buffer, stmt.index)),
            replace(stmt, value=value),
        ]
