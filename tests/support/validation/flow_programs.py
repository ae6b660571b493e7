"""Small random programs made of control flow, well typed, valid or not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from random import Random

from support.kernels import (
    BARRIER,
    BUFFERS,
    GRID_SYNC,
    LID,
    OWN,
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
    Arm,
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
    Switch,
)


class Extra(Enum):
    """What programs contain besides locals, stores, branches, loops and scopes."""

    BARRIERS = 0
    GRID_BARRIERS = 1
    ATOMICS = 2
    COPIES = 3
    RETURNS = 4
    CHOICES = 5
    """Switches and chains of ``else if``."""
    PRIVATE = 6
    """A private buffer."""


@dataclass
class _Writer:
    """Writes statements in which every name is visible and every type right."""

    random: Random
    extras: frozenset[Extra]
    serial: int = 0
    visible: list[str] = field(default_factory=list)
    mutable: list[str] = field(default_factory=list)
    loops: int = 0
    depth: int = 0

    def number(self, depth: int = 0) -> Expr:
        if depth < 2:
            match self.random.randrange(16):
                case 0 | 1:
                    return add(self.number(depth + 1), self.number(depth + 1))
                case 2:
                    return load("inp", self.number(depth + 1))
                case 3:
                    return load("out", lit(self.random.randrange(2)))
        if self.visible and self.random.random() < 0.5:
            return var(self.random.choice(self.visible))
        return self.random.choice((lit(0), lit(1), lit(self.random.randrange(4)), WGID, LID))

    def condition(self) -> Expr:
        compare = self.random.choice((less, equal))
        return compare(self.number(), lit(self.random.randrange(3)))

    def fresh(self) -> str:
        self.serial += 1
        return f"v{self.serial}"

    def body(self, size: int = 4) -> Body:
        known, changeable = len(self.visible), len(self.mutable)
        self.depth += 1
        made: list[Stmt] = []
        for _ in range(self.random.randint(0, size)):
            stmt = self.statement()
            if stmt is not None:
                made.append(stmt)
            if isinstance(stmt, Break | Continue | Return):
                break
        self.depth -= 1
        del self.visible[known:], self.mutable[changeable:]
        return tuple(made)

    def statement(self) -> Stmt | None:
        choices: list[Callable[[], Stmt | None]] = [self.let, self.assign, self.assign, self.store]
        for extra in sorted(self.extras, key=lambda extra: extra.value):
            choices += self.extra(extra)
        if self.depth < 4:
            choices += [self.branch, self.branch, self.loop, self.scope]
        if self.depth > 1:
            choices.append(self.leave)
        return self.random.choice(choices)()

    def extra(self, kind: Extra) -> list[Callable[[], Stmt | None]]:
        match kind:
            case Extra.BARRIERS:
                return [lambda: BARRIER]
            case Extra.GRID_BARRIERS:
                return [lambda: GRID_SYNC] if self.depth == 1 else []
            case Extra.ATOMICS:
                return [self.atomic]
            case Extra.COPIES:
                return [self.copy, self.wait]
            case Extra.RETURNS:
                return [self.end] if self.depth > 1 else []
            case Extra.CHOICES:
                return [self.switch, self.chain] if self.depth < 4 else []
            case Extra.PRIVATE:
                return [self.private_store, self.private_load, self.private_fill]

    def let(self) -> Stmt:
        value, name = self.number(), self.fresh()
        self.visible.append(name)
        self.mutable.append(name)
        return Let(name, value)

    def assign(self) -> Stmt | None:
        return Assign(self.random.choice(self.mutable), self.number()) if self.mutable else None

    def store(self) -> Stmt:
        return store(self.number(), index=lit(0))

    def atomic(self) -> Stmt:
        name = self.fresh()
        self.visible.append(name)
        return Let(name, Atomic(AtomicOp.ADD, self.random.choice(("out", "sh")), lit(0), None, lit(1)))

    def copy(self) -> Stmt:
        return AsyncLoad("inp", "sh", lit(0), lit(4), self.random.choice("tu"))

    def wait(self) -> Stmt:
        return AsyncWait(self.random.choice("tu"))

    def branch(self) -> Stmt:
        return when(self.condition(), *self.body(), otherwise=self.body(2))

    def switch(self) -> Stmt:
        labels = self.random.sample(range(5), self.random.randint(0, 4))
        arms: list[Arm] = []
        while labels:
            few = labels[: self.random.randint(1, 2)]
            del labels[: len(few)]
            arms.append(Arm(tuple(map(lit, few)), self.body(2)))
        return Switch(self.number(), tuple(arms), self.body(2))

    def chain(self) -> Stmt:
        tests = [(self.condition(), self.body(2)) for _ in range(self.random.randint(2, 4))]
        otherwise = self.body(2)
        for condition, body in reversed(tests):
            otherwise = (when(condition, *body, otherwise=otherwise),)
        return otherwise[0]

    def private_store(self) -> Stmt:
        return store(self.number(), "own", lit(self.random.randrange(2)))

    def private_load(self) -> Stmt:
        name = self.fresh()
        self.visible.append(name)
        index = lit(self.random.randrange(2)) if self.random.random() < 0.7 else op(BinaryOp.BIT_AND, LID, lit(3))
        return Let(name, load("own", index))

    def private_fill(self) -> Stmt:
        """A loop that stores all elements of the private buffer, or nearly so, with statements around the store."""
        name = self.fresh()
        index: Expr = var(name)
        start, stop = self.random.choice(((0, 8), (0, 8), (0, 3), (1, 8), (1, 9)))
        if self.random.random() < 0.3:
            index = op(BinaryOp.ADD, index, lit(self.random.choice((1, 0xFFFF_FFFF))))
        self.visible.append(name)
        self.loops += 1
        before, after = (self.body(1) if self.depth < 4 and self.random.random() < 0.2 else () for _ in range(2))
        self.loops -= 1
        self.visible.remove(name)
        put: Stmt = store(self.number(), "own", index)
        if self.random.random() < 0.15:
            put = when(self.condition(), put)
        step = lit(self.random.choice((1, 1, 1, 2)))
        return Loop(name, lit(start), lit(stop), step, (Block(before), put, Block(after)))

    def scope(self) -> Stmt:
        body = self.body()
        return Block(body) if self.random.random() < 0.5 else Region("g", body)

    def loop(self) -> Stmt:
        name, start = self.fresh(), lit(self.random.randrange(2))
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
        return Break() if self.random.random() < 0.5 else Continue()

    def end(self) -> Stmt | None:
        return Return() if self.random.random() < 0.4 else None


def flow_program(seed: int, *extras: Extra) -> Program:
    """The program of a seed, with four lanes a workgroup."""
    buffers = (*BUFFERS, OWN) if Extra.PRIVATE in extras else BUFFERS
    return kernel(*_Writer(Random(seed), frozenset(extras)).body(8), buffers=buffers, workgroup=(4, 1, 1))
