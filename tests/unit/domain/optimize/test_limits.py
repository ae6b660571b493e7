"""Every pass on programs at the limits of the language: depth, chains, size, and sharing of operands."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

from support.optimizer.pass_texts import program_of
from vyre.domain.ir.expr import Binary, Expr, IdKind, LaunchId, Literal, Load
from vyre.domain.ir.limits import MAX_EXPRESSION_DEPTH, MAX_STATEMENT_DEPTH
from vyre.domain.ir.operators import BinaryOp
from vyre.domain.ir.program import Access, Buffer, Program
from vyre.domain.ir.stmt import If, Let, Loop, Stmt, Store
from vyre.domain.ir.types import ScalarType
from vyre.domain.optimize.pass_list import PASSES
from vyre.domain.validation.validator import check_rules

U32 = ScalarType.U32
ID = LaunchId(IdKind.GLOBAL, 0)
BUFFERS = (Buffer.make("y", 0, Access.READ_WRITE, U32, 8),)


def deep(depth: int = MAX_EXPRESSION_DEPTH) -> Expr:
    expr: Expr = ID
    for k in range(depth):
        expr = Binary(BinaryOp.ADD, expr, Literal(U32, k))
    return expr


def nested() -> Program:
    """Alternating branches and loops, as deep as legal, with an expression of the legal depth at every level."""
    body: tuple[Stmt, ...] = (Store("y", Literal(U32, 0), deep()),)
    for level in range(MAX_STATEMENT_DEPTH):
        condition = Binary(BinaryOp.LT, deep(MAX_EXPRESSION_DEPTH - 1), Literal(U32, level))
        inner: Stmt = If(condition, body)
        if level % 2:
            inner = Loop(f"i{level}", Literal(U32, 0), deep(), Literal(U32, 1), body)
        body = (Let(f"a{level}", deep()), inner)
    return Program(BUFFERS, (1, 1, 1), body)


def chained() -> Program:
    links = " else ".join(f"if gid.x * 3u + 1u == {k}u {{\nout[gid.x] = {k}u\n}}" for k in range(1_000))
    return program_of(f"let a = gid.x + 0u\n{links}")


def shared() -> Program:
    """An expression of 2^16 nodes of which each is the operand of two others."""
    expr: Expr = Load("y", ID)
    for _ in range(15):
        expr = Binary(BinaryOp.ADD, expr, expr)
    return Program(BUFFERS, (1, 1, 1), (Let("a", expr), Store("y", Literal(U32, 0), expr)))


def long() -> Program:
    lines = [f"let a{k} = gid.x + {k}u\nout[a{k} & 15u] = a{k} + 1u" for k in range(1_000)]
    return program_of("\n".join(lines))


@pytest.mark.parametrize("build", [nested, chained, shared, long])
@pytest.mark.parametrize("name", PASSES)
def test_a_pass_keeps_a_program_legal(name: str, build: Callable[[], Program]) -> None:
    program = build()
    check_rules(program).raise_if_invalid()
    check_rules(PASSES[name].run(program, Counter())).raise_if_invalid()
