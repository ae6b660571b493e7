"""A Hypothesis strategy of small well-typed programs made of control flow, valid or not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from hypothesis import strategies as st

from support.kernels import (
    BARRIER,
    GID,
    GRID_SYNC,
    LID,
    WGID,
    add,
    equal,
    kernel,
    less,
    lit,
    load,
    op,
    store,
    var,
    when,
)
from vyre.domain.ir.expr import Atomic, Expr
from vyre.domain.ir.operators import AtomicOp, BinaryOp
from vyre.domain.ir.program import Program
from vyre.domain.ir.stmt import (
    Assign,
    AsyncLoad,
    AsyncWait,
    Block,
    Body,
    Break,
    Continue,
    Let,
    Loop,
    Region,
    Return,
    Stmt,
)


@dataclass
class _Writer:
    """Writes statements in which every name is visible and every type right."""

    draw: st.DrawFn
    grid_barriers: bool
    serial: int = 0
    visible: list[str] = field(default_factory=list)
    mutable: list[str] = field(default_factory=list)
    loops: int = 0
    depth: int = 0

    def pick(self, *choices: Callable[[], Stmt | None]) -> Stmt | None:
        return self.draw(st.sampled_from(choices))()

    def number(self, depth: int = 0) -> Expr:
        leaves: list[Expr] = [lit(self.draw(st.integers(0, 3))), LID, WGID, GID, *map(var, self.visible)]
        if depth < 2:
            match self.draw(st.integers(0, 7)):
                case 0:
                    return add(self.number(depth + 1), self.number(depth + 1))
                case 1:
                    return load("inp", self.number(depth + 1))
                case 2:
                    return load("out", lit(self.draw(st.integers(0, 1))))
        return self.draw(st.sampled_from(leaves))

    def condition(self) -> Expr:
        compare = self.draw(st.sampled_from((less, equal)))
        return compare(self.number(), self.number())

    def fresh(self) -> str:
        self.serial += 1
        return f"v{self.serial}"

    def body(self, size: int = 4) -> Body:
        known, changeable = len(self.visible), len(self.mutable)
        self.depth += 1
        made: list[Stmt] = []
        for _ in range(self.draw(st.integers(0, size))):
            stmt = self.statement()
            if stmt is not None:
                made.append(stmt)
            if isinstance(stmt, Break | Continue | Return):
                break
        self.depth -= 1
        del self.visible[known:], self.mutable[changeable:]
        return tuple(made)

    def statement(self) -> Stmt | None:
        choices = [
            self.let,
            self.let,
            self.assign,
            self.assign,
            self.barrier,
            self.store,
            self.atomic,
            self.copy,
            self.wait,
        ]
        if self.depth < 4:
            choices += [self.branch, self.branch, self.loop, self.scope]
        if self.depth > 1:
            choices += [self.leave, self.end]
        return self.pick(*choices)

    def let(self) -> Stmt:
        value, name = self.number(), self.fresh()
        self.visible.append(name)
        self.mutable.append(name)
        return Let(name, value)

    def assign(self) -> Stmt | None:
        return Assign(self.draw(st.sampled_from(self.mutable)), self.number()) if self.mutable else None

    def barrier(self) -> Stmt:
        return GRID_SYNC if self.grid_barriers and self.depth == 1 else BARRIER

    def store(self) -> Stmt:
        return store(self.number(), index=lit(0))

    def atomic(self) -> Stmt:
        name = self.fresh()
        self.visible.append(name)
        return Let(name, Atomic(AtomicOp.ADD, self.draw(st.sampled_from(("out", "sh"))), lit(0), None, lit(1)))

    def copy(self) -> Stmt:
        return AsyncLoad("inp", "sh", lit(0), lit(4), self.draw(st.sampled_from("tu")))

    def wait(self) -> Stmt:
        return AsyncWait(self.draw(st.sampled_from("tu")))

    def branch(self) -> Stmt:
        return when(self.condition(), *self.body(), otherwise=self.body(2))

    def scope(self) -> Stmt:
        body = self.body()
        return Block(body) if self.draw(st.booleans()) else Region("g", body)

    def loop(self) -> Stmt:
        name, start = self.fresh(), lit(self.draw(st.integers(0, 1)))
        stop = op(BinaryOp.BIT_AND, self.number(), lit(3))
        self.visible.append(name)
        self.loops += 1
        body = self.body()
        self.loops -= 1
        self.visible.remove(name)
        return Loop(name, start, stop, lit(1), body)

    def leave(self) -> Stmt | None:
        if not self.loops:
            return None
        return Break() if self.draw(st.booleans()) else Continue()

    def end(self) -> Stmt | None:
        return Return() if self.draw(st.integers(0, 2)) == 0 else None


@st.composite
def flow_programs(draw: st.DrawFn, *, grid_barriers: bool = False) -> Program:
    """Programs of four lanes a workgroup; with ``grid_barriers``, top-level barriers are grid barriers."""
    return kernel(*_Writer(draw, grid_barriers).body(8), workgroup=(4, 1, 1))
