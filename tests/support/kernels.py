"""Short names for building programs from nodes in tests, and copies of them with source locations."""

from __future__ import annotations

from dataclasses import fields
from itertools import count
from typing import Final

from vyre.domain.ir.expr import Binary, Expr, IdKind, LaunchId, Literal, Load, SubgroupReduce, Var
from vyre.domain.ir.node import Node
from vyre.domain.ir.operators import BinaryOp, Ordering, SubgroupOp
from vyre.domain.ir.program import Access, Buffer, Dim3, Program
from vyre.domain.ir.stmt import Barrier, Body, If, Loop, Stmt, Store
from vyre.domain.ir.types import ScalarType, f32, u32
from vyre.domain.source_location import SourceLocation

LID: Final = LaunchId(IdKind.LOCAL, 0)
GID: Final = LaunchId(IdKind.GLOBAL, 0)
WGID: Final = LaunchId(IdKind.GROUP, 0)
TRUE: Final = Literal(ScalarType.BOOL, 1)
BARRIER: Final = Barrier()
GRID_SYNC: Final = Barrier(Ordering.GRID_SYNC)

INP: Final = Buffer.make("inp", 0, Access.READ_ONLY, u32)
OUT: Final = Buffer.make("out", 1, Access.READ_WRITE, u32)
FLT: Final = Buffer.make("flt", 2, Access.READ_WRITE, f32)
SH: Final = Buffer.make("sh", 0, Access.WORKGROUP, u32, 64)
OWN: Final = Buffer.make("own", 0, Access.PRIVATE, u32, 8)
"""A private buffer, which is not among ``BUFFERS``."""
BUFFERS: Final = (INP, OUT, FLT, SH)


def lit(value: int | float | bool, dtype: ScalarType = u32) -> Literal:
    return Literal.of(dtype, value)


def op(operator: BinaryOp, left: Expr, right: Expr) -> Binary:
    return Binary(operator, left, right)


def add(left: Expr, right: Expr) -> Binary:
    return Binary(BinaryOp.ADD, left, right)


def lane_sum(value: Expr) -> SubgroupReduce:
    """Returns the sum of a value over the lanes of a subgroup."""
    return SubgroupReduce(SubgroupOp.ADD, value)


def less(left: Expr, right: Expr) -> Binary:
    return Binary(BinaryOp.LT, left, right)


def equal(left: Expr, right: Expr) -> Binary:
    return Binary(BinaryOp.EQ, left, right)


def load(buffer: str, index: Expr = LID) -> Load:
    return Load(buffer, index)


def store(value: Expr, buffer: str = "out", index: Expr = LID) -> Store:
    return Store(buffer, index, value)


def when(condition: Expr, *body: Stmt, otherwise: Body = ()) -> If:
    return If(condition, body, otherwise)


def loop(var: str, stop: Expr, *body: Stmt, start: Expr | None = None, step: Expr | None = None) -> Loop:
    return Loop(var, start or lit(0), stop, step or lit(1), body)


def var(name: str) -> Var:
    return Var(name)


def kernel(*body: Stmt, buffers: tuple[Buffer, ...] = BUFFERS, workgroup: Dim3 = (64, 1, 1)) -> Program:
    return Program(buffers, workgroup, body)


DIVERGENT: Final = less(LID, lit(2))
UNIFORM: Final = less(WGID, lit(2))


def located(program: Program) -> Program:
    """The program with a line of its own in ``loc`` of every node; shared nodes stay shared."""
    lines = count(1)
    copies: dict[int, Node] = {}

    def copy(value: object) -> object:
        if isinstance(value, Node):
            return place(value)
        return tuple(map(copy, value)) if isinstance(value, tuple) else value

    def place(node: Node) -> Node:
        if id(node) not in copies:
            loc = SourceLocation("kernel.vyre", next(lines))
            parts = {f.name: copy(getattr(node, f.name)) for f in fields(node) if f.init and f.name != "loc"}
            copies[id(node)] = type(node)(**parts, loc=loc)
        return copies[id(node)]

    made = place(program)
    assert isinstance(made, Program)
    return made
