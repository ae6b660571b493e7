"""Bounds checks: what is proven, what must not be, and that no proven access of a random program is out of range."""

from __future__ import annotations

import gc
from dataclasses import replace
from functools import reduce
from random import Random
from typing import Final, NamedTuple

import pytest
from hypothesis import given

from support.kernels import GID, LID, add, kernel, less, lit, loop, op, store, var, when
from support.profiles import examples
from support.programs import Case, Order, cases, generate
from support.running import run
from support.validation.watched_accesses import Access, WatchedEngine
from vyre.domain.analysis.bounds_checks import BoundsFacts, bounds_facts
from vyre.domain.analysis.index_meanings import length_model
from vyre.domain.dispatch import DispatchConfig
from vyre.domain.ir.expr import (
    Atomic,
    BufferLength,
    Cast,
    Expr,
    Fma,
    IdKind,
    LaunchId,
    Literal,
    Load,
    Select,
    SpecConst,
    SubgroupLane,
    SubgroupSize,
    Unary,
)
from vyre.domain.ir.operators import AtomicOp, BinaryOp, UnaryOp
from vyre.domain.ir.program import Access as BufferAccess
from vyre.domain.ir.program import Buffer, Program
from vyre.domain.ir.stmt import Assign, Block, Body, Break, Continue, If, Let, Return, Stmt, Store, walk_statements
from vyre.domain.ir.types import f32, i32, u8, u32
from vyre.domain.ir.walk import unique_expressions
from vyre.domain.validation.validator import validate

B: Final = BinaryOp
OUT: Final = Buffer.make("out", 0, BufferAccess.READ_WRITE, u32)
INP: Final = Buffer.make("inp", 1, BufferAccess.READ_ONLY, u32)
LIKE: Final = Buffer.make("like", 2, BufferAccess.READ_WRITE, u32, is_output=True, like="inp")
FIXED: Final = Buffer.make("fixed", 3, BufferAccess.READ_ONLY, u32, 100)
BYTES: Final = Buffer.make("bytes", 4, BufferAccess.READ_ONLY, u8)
N: Final = Buffer.make("n", 5, BufferAccess.UNIFORM, u32, 1)
SHARED: Final = Buffer.make("shared", 0, BufferAccess.WORKGROUP, u32, 64)
TABLE: Final = Buffer.make("table", 6, BufferAccess.READ_ONLY, u32, 256)
SIGNED: Final = Buffer.make("signed", 7, BufferAccess.READ_ONLY, i32)
FLOATS: Final = Buffer.make("floats", 8, BufferAccess.READ_ONLY, f32)
BUFFERS: Final = (OUT, INP, LIKE, FIXED, BYTES, N, SHARED, TABLE, SIGNED, FLOATS)
LENGTH: Final = BufferLength("out")


def program(*body: Stmt, workgroup: tuple[int, int, int] = (64, 1, 1)) -> Program:
    made = kernel(*body, buffers=BUFFERS, workgroup=workgroup)
    assert validate(made).ok, validate(made).render()
    return made


class Row(NamedTuple):
    """A body whose accesses to ``fixed`` and ``table`` are proven exactly if ``proven``."""

    name: str
    proven: bool
    body: Body


def local(axis: int) -> LaunchId:
    return LaunchId(IdKind.LOCAL, axis)


def group(axis: int = 0) -> LaunchId:
    return LaunchId(IdKind.GROUP, axis)


def put(index: Expr, buffer: str = "out") -> Store:
    """The access that a row is about."""
    return Store(buffer, index, lit(7))


def read(index: Expr, buffer: str = "out") -> Let:
    return Let("it", Load(buffer, index))


def opposite(condition: Expr) -> Expr:
    return Unary(UnaryOp.LOGICAL_NOT, condition)


def both(*conditions: Expr) -> Expr:
    first, *rest = conditions
    for condition in rest:
        first = op(B.AND, first, condition)
    return first


def negative(expr: Expr) -> Expr:
    return Unary(UnaryOp.NEGATE, expr)


LOW_LANES: Final = less(LID, lit(9))
IN_RANGE: Final = less(GID, LENGTH)
TWICE: Final = op(B.MUL, GID, lit(2))
QUAD: Final = op(B.MUL, GID, lit(4))
INP_LENGTH: Final = BufferLength("inp")

UNKNOWN: Final[tuple[Expr, ...]] = tuple(Load("inp", lit(k)) for k in range(10))
ROUNDED: Final = op(B.BIT_AND, LENGTH, lit(0xFFFF_FFFC))
X_IN_LENGTH: Final = op(B.LE, var("x"), LENGTH)
X: Final[Body] = (Let("x", Load("inp", lit(0))),)
Y: Final[Body] = (Let("y", Load("inp", lit(1))),)
X_BELOW_64: Final = less(var("x"), lit(64))
Y_BELOW_64: Final = less(var("y"), lit(64))
TEN: Final = reduce(add, UNKNOWN)
TICKET: Final = Atomic(AtomicOp.ADD, "like", lit(0), None, lit(1))
NEXT_TICKET: Final = add(TICKET, lit(1))

ROWS: Final = (
    # conditions
    Row("nothing is known", False, (put(GID),)),
    Row("if i < n", True, (when(IN_RANGE, put(GID)),)),
    Row("if i < n, in a nested branch", True, (when(IN_RANGE, when(less(LID, lit(3)), put(GID))),)),
    Row("if n > i", True, (when(op(B.GT, LENGTH, GID), put(GID)),)),
    Row("i + 1 if n > i", False, (when(op(B.GT, LENGTH, GID), put(add(GID, lit(1)))),)),
    Row("if n >= i", False, (when(op(B.GE, LENGTH, GID), put(GID)),)),
    Row("if n >= i + 1 and i < 2^31", True, (
        when(both(less(GID, lit(1 << 31)), op(B.GE, LENGTH, add(GID, lit(1)))), put(GID)),
    )),
    Row("if i == n", False, (when(op(B.EQ, GID, LENGTH), put(GID)),)),
    Row("if n == i", False, (when(op(B.EQ, LENGTH, GID), put(GID)),)),
    Row("i - 2 if i != 0 and i < n", False, (
        when(both(op(B.NE, GID, lit(0)), IN_RANGE), put(op(B.SUB, GID, lit(2)))),
    )),
    Row("behind a branch that comes back for some", False, (
        when(op(B.GE, GID, LENGTH), when(LOW_LANES, Return())), put(GID),
    )),
    Row("changed in the other branch", False, (
        Let("i", GID), when(less(var("i"), LENGTH), when(LOW_LANES, otherwise=(Assign("i", lit(9)),)), put(var("i"))),
    )),
    Row("changed in another branch that does not come back", True, (
        Let("i", GID),
        when(less(var("i"), LENGTH), when(LOW_LANES, otherwise=(Assign("i", lit(9)), Return())), put(var("i"))),
    )),
    *(
        Row(f"a condition on {name} of i32 says nothing about the cast", False, (
            Let("x", Load("signed", LID)), Let("s", value),
            when(less(var("s"), lit(10, i32)), read(Cast(u32, var("s")), "fixed")),
        ))
        for name, value in (
            ("a choice", Select(LOW_LANES, var("x"), lit(3, i32))),
            ("a negative", Unary(UnaryOp.NEGATE, var("x"))),
            ("a sum", op(B.ADD, var("x"), lit(3, i32))),
            ("a constant", SpecConst("c", lit(5, i32))),
            ("a literal", lit(-3, i32)),
            ("a name", var("x")),
        )
    ),
    Row("if i <= n", False, (when(op(B.LE, GID, LENGTH), put(GID)),)),
    Row("if i <= n - 1: n may be 0", False, (when(op(B.LE, GID, op(B.SUB, LENGTH, lit(1))), put(GID)),)),
    Row("if i != n", False, (when(op(B.NE, GID, LENGTH), put(GID)),)),
    Row("in a conjunction", True, (when(both(less(LID, lit(9)), IN_RANGE, less(lit(0), GID)), put(GID)),)),
    Row("the same condition twice", True, (when(both(IN_RANGE, IN_RANGE), put(GID)),)),
    Row("a condition, and another one twice", True, (
        when(both(IN_RANGE, LOW_LANES, LOW_LANES), put(GID)),
    )),
    Row("a copy of a condition that changes", True, (
        Let("ok", IN_RANGE), Let("was", var("ok")), Assign("ok", less(LID, lit(9))), when(var("was"), put(GID)),
    )),
    Row("a condition on a name that changes", True, (
        Let("i", GID), Let("j", var("i")), Let("ok", less(var("i"), LENGTH)), Assign("i", lit(0)),
        when(var("ok"), put(var("j"))),
    )),
    Row("a named condition that changes", False, (
        Let("ok", IN_RANGE), when(less(LID, lit(3)), Assign("ok", less(LID, lit(9)))), when(var("ok"), put(GID)),
    )),
    Row("a condition on a multiply-add", False, (
        Let("x", Load("floats", LID)), when(less(Fma(var("x"), var("x"), var("x")), lit(1.0, f32)), put(GID)),
    )),
    Row("in a disjunction", False, (when(op(B.OR, IN_RANGE, less(LID, lit(9))), put(GID)),)),
    Row("the else branch", False, (when(IN_RANGE, otherwise=(put(GID),)),)),
    Row("else of a disjunction of opposites", True, (
        when(op(B.OR, less(LID, lit(9)), op(B.GE, GID, LENGTH)), otherwise=(put(GID),)),
    )),
    Row("not (i >= n)", True, (when(opposite(op(B.GE, GID, LENGTH)), put(GID)),)),
    Row("behind if i >= n: return", True, (when(op(B.GE, GID, LENGTH), Return()), put(GID))),
    Row("behind if n <= i: return", True, (when(op(B.LE, LENGTH, GID), Return()), put(GID))),
    Row("behind if i < n: return", False, (when(IN_RANGE, Return()), put(GID))),
    Row("behind an else that returns", True, (when(IN_RANGE, store(lit(1)), otherwise=(Return(),)), put(GID))),
    Row("behind a return in a block", True, (Block((when(op(B.GE, GID, LENGTH), Return()),)), put(GID))),
    Row("behind a return under another condition", False, (
        when(less(LID, lit(3)), when(op(B.GE, GID, LENGTH), Return())), put(GID),
    )),
    Row("before the return", False, (put(GID), when(op(B.GE, GID, LENGTH), Return()))),
    Row("in the condition itself", False, (
        when(both(IN_RANGE, less(Load("out", GID), lit(3))), store(lit(1), "like")),
    )),
    Row("behind the branch", False, (when(IN_RANGE, store(lit(1), "like")), put(GID))),
    Row("a named condition", True, (Let("ok", IN_RANGE), when(var("ok"), put(GID)))),
    Row("a named index", True, (Let("i", GID), when(less(var("i"), LENGTH), put(var("i"))))),
    Row("a name of the same expression", True, (Let("i", GID), when(less(var("i"), LENGTH), put(GID)))),
    Row("group * size + local is the global id", True, (
        when(less(add(op(B.MUL, group(), lit(64)), LID), LENGTH), put(GID)),
    )),
    Row("group * another number + local is not", False, (
        when(less(add(op(B.MUL, group(), lit(32)), LID), LENGTH), put(GID)),
    )),
    Row("a multiple of the local id that no multiple of the group belongs to", False, (
        store(lit(1), "like", add(op(B.MUL, group(), lit(64)), LID)), put(add(op(B.MUL, LID, lit(1 << 26)), GID)),
    )),
    Row("a loaded index, named", True, (
        Let("i", Load("inp", GID)), when(less(var("i"), LENGTH), put(var("i"))),
    )),
    Row("a loaded index, loaded again", False, (
        when(less(Load("inp", GID), LENGTH), put(Load("inp", GID))),
    )),
    Row("a condition on floats", False, (
        Let("x", Load("floats", LID)), when(less(var("x"), lit(1.0, f32)), put(GID)),
    )),
    Row("a condition on i32 says nothing about the cast", False, (
        Let("x", Load("signed", LID)), when(less(var("x"), lit(10, i32)), read(Cast(u32, var("x")), "fixed")),
    )),
    # assignments
    Row("an index that changes between check and use", False, (
        Let("i", GID), when(less(var("i"), LENGTH), Assign("i", add(var("i"), lit(1))), put(var("i"))),
    )),
    Row("an index that changes afterwards", True, (
        Let("i", GID), when(less(var("i"), LENGTH), put(var("i")), Assign("i", add(var("i"), lit(1)))),
    )),
    Row("a copy of an index that changes", True, (
        Let("i", GID), Let("j", var("i")), Assign("i", lit(0)), when(less(var("j"), LENGTH), put(var("j"))),
    )),
    Row("a copy does not follow the change", False, (
        Let("i", GID), Let("j", var("i")), Assign("i", lit(0)), when(less(var("i"), LENGTH), put(var("j"))),
    )),
    Row("changed in a branch", False, (
        Let("i", GID),
        when(less(var("i"), LENGTH), when(less(LID, lit(3)), Assign("i", lit(9))), put(var("i"))),
    )),
    Row("changed in a branch that does not come back", True, (
        Let("i", GID),
        when(less(var("i"), LENGTH), when(less(LID, lit(3)), Assign("i", lit(9)), Return()), put(var("i"))),
    )),
    Row("changed in a block", False, (
        Let("i", GID), when(less(var("i"), LENGTH), Block((Assign("i", lit(900)),)), put(var("i"))),
    )),
    Row("changed in a loop, used at its head", False, (
        Let("i", GID),
        when(less(var("i"), LENGTH), loop("k", lit(3), put(var("i")), Assign("i", add(var("i"), lit(1))))),
    )),
    Row("changed in a loop, used behind it", False, (
        Let("i", GID),
        when(less(var("i"), LENGTH), loop("k", lit(3), Assign("i", add(var("i"), lit(1)))), put(var("i"))),
    )),
    Row("checked in the loop that changes it", True, (
        Let("i", GID),
        loop("k", lit(3), when(less(var("i"), LENGTH), put(var("i"))), Assign("i", add(var("i"), lit(1)))),
    )),
    # objects that occur twice
    Row("a load less itself", True, (read(op(B.SUB, UNKNOWN[0], UNKNOWN[0]), "fixed"),)),
    Row("an atomic less itself: it runs twice", False, (read(op(B.SUB, TICKET, TICKET), "fixed"),)),
    Row("and named", False, (Let("d", op(B.SUB, TICKET, TICKET)), read(var("d"), "fixed"))),
    Row("what an atomic is in, less itself", False, (read(op(B.SUB, NEXT_TICKET, NEXT_TICKET), "fixed"),)),
    Row("a condition on an atomic that runs again", False, (
        *X, Let("ok", less(var("x"), op(B.SUB, add(TICKET, lit(100)), TICKET))),
        when(var("ok"), read(var("x"), "fixed")),
    )),
    # sums and multiples
    Row("i + 1 under i < n", False, (when(IN_RANGE, put(add(GID, lit(1)))),)),
    Row("i + 1 under i + 1 < n", True, (when(less(add(GID, lit(1)), LENGTH), put(add(GID, lit(1)))),)),
    Row("1 + i under i + 1 < n", True, (when(less(add(GID, lit(1)), LENGTH), put(add(lit(1), GID))),)),
    Row("i under i + 1 < n: i + 1 may wrap", False, (when(less(add(GID, lit(1)), LENGTH), put(GID)),)),
    Row("i under i + 1 < n and i < 2^31", True, (
        when(both(less(GID, lit(1 << 31)), less(add(GID, lit(1)), LENGTH)), put(GID)),
    )),
    Row("i - 1 under 0 < i < n", True, (when(both(IN_RANGE, less(lit(0), GID)), put(op(B.SUB, GID, lit(1)))),)),
    Row("i - 1 under i != 0 and i < n", True, (
        when(both(op(B.NE, GID, lit(0)), IN_RANGE), put(op(B.SUB, GID, lit(1)))),
    )),
    Row("i - 1 under i < n", False, (when(IN_RANGE, put(op(B.SUB, GID, lit(1)))),)),
    Row("4i under 4i + 3 < n", True, (when(less(add(QUAD, lit(3)), LENGTH), put(QUAD)),)),
    Row("4i + 2 under 4i + 3 < n", True, (when(less(add(QUAD, lit(3)), LENGTH), put(add(QUAD, lit(2)))),)),
    Row("4i + 3 under 4i < n", False, (when(less(QUAD, LENGTH), put(add(QUAD, lit(3)))),)),
    Row("4i + 3 under i < n / 4", True, (when(less(GID, op(B.DIV, LENGTH, lit(4))), put(add(QUAD, lit(3)))),)),
    Row("4i + 3 under i < n >> 2", True, (when(less(GID, op(B.SHR, LENGTH, lit(2))), put(add(QUAD, lit(3)))),)),
    Row("4i + 4 under i < n / 4", False, (when(less(GID, op(B.DIV, LENGTH, lit(4))), put(add(QUAD, lit(4)))),)),
    Row("4i + 3 under i < n / 3", False, (when(less(GID, op(B.DIV, LENGTH, lit(3))), put(add(QUAD, lit(3)))),)),
    Row("4i + 3 under i <= n / 4", False, (
        when(op(B.LE, GID, op(B.DIV, LENGTH, lit(4))), put(add(QUAD, lit(3)))),
    )),
    Row("(i << 2) | 3 under i < n / 4", True, (
        when(less(GID, op(B.DIV, LENGTH, lit(4))), put(op(B.BIT_OR, op(B.SHL, GID, lit(2)), lit(3)))),
    )),
    Row("2i under i < n", False, (when(IN_RANGE, put(TWICE)),)),
    Row("i / 2 under i < n", True, (when(IN_RANGE, put(op(B.DIV, GID, lit(2)))),)),
    Row("i / x under i < n: x may be 0", False, (when(IN_RANGE, put(op(B.DIV, GID, Load("n", lit(0))))),)),
    Row("i >> x under i < n", True, (when(IN_RANGE, put(op(B.SHR, GID, Load("n", lit(0))))),)),
    Row("i % x under i < n", True, (when(IN_RANGE, put(op(B.MOD, GID, Load("n", lit(0))))),)),
    Row("x % n: n may be 0", False, (put(op(B.MOD, GID, LENGTH)),)),
    Row("x % n under n > 0", True, (when(less(lit(0), LENGTH), put(op(B.MOD, GID, LENGTH))),)),
    Row("x % n under y < n", True, (when(less(LID, LENGTH), put(op(B.MOD, GID, LENGTH))),)),
    Row("min(x, n - 1): n may be 0", False, (put(op(B.MIN, GID, op(B.SUB, LENGTH, lit(1)))),)),
    Row("min(x, n - 1) under n > 0", True, (
        when(less(lit(0), LENGTH), put(op(B.MIN, GID, op(B.SUB, LENGTH, lit(1))))),
    )),
    Row("min(i, x) under i < n", True, (when(IN_RANGE, put(op(B.MIN, Load("n", lit(0)), GID))),)),
    Row("max(i, x) under i < n", False, (when(IN_RANGE, put(op(B.MAX, Load("n", lit(0)), GID))),)),
    Row("max(i, x) under both < n", True, (
        Let("x", Load("n", lit(0))),
        when(both(IN_RANGE, less(var("x"), LENGTH)), put(op(B.MAX, var("x"), GID))),
    )),
    Row("a select of two indices in range", True, (
        Let("x", Load("n", lit(0))),
        when(both(IN_RANGE, less(var("x"), LENGTH)), put(Select(less(LID, lit(3)), var("x"), GID))),
    )),
    Row("a select with one index out of range", False, (
        when(IN_RANGE, put(Select(less(LID, lit(3)), Load("n", lit(0)), GID))),
    )),
    Row("saturating i - x under i < n", True, (when(IN_RANGE, put(op(B.SATURATING_SUB, GID, Load("n", lit(0))))),)),
    Row("i & x under i < n", True, (when(IN_RANGE, put(op(B.BIT_AND, Load("n", lit(0)), GID))),)),
    Row("i < x <= n", True, (
        Let("x", Load("n", lit(0))), when(both(less(GID, var("x")), op(B.LE, var("x"), LENGTH)), put(GID)),
    )),
    Row("i < min(x, n)", True, (when(less(GID, op(B.MIN, Load("n", lit(0)), LENGTH)), put(GID)),)),
    Row("i < x, and min(x, y) <= n", False, (
        Let("x", Load("inp", lit(0))), Let("y", Load("inp", lit(1))),
        when(both(less(GID, var("x")), op(B.LE, op(B.MIN, var("x"), var("y")), LENGTH)), put(GID)),
    )),
    Row("i < x, i < y, and min(x, y) <= n", True, (
        Let("x", Load("inp", lit(0))), Let("y", Load("inp", lit(1))),
        when(both(less(GID, var("x")), less(GID, var("y")), op(B.LE, op(B.MIN, var("x"), var("y")), LENGTH)),
             put(GID)),
    )),
    Row("i < x, and max(x, y) <= n", True, (
        Let("x", Load("inp", lit(0))), Let("y", Load("inp", lit(1))),
        when(both(less(GID, var("x")), op(B.LE, op(B.MAX, var("x"), var("y")), LENGTH)), put(GID)),
    )),
    Row("i < x, and max(y, x) <= n", True, (
        Let("x", Load("inp", lit(0))), Let("y", Load("inp", lit(1))),
        when(both(less(GID, var("x")), op(B.LE, op(B.MAX, var("y"), var("x")), LENGTH)), put(GID)),
    )),
    Row("a sum of ten unknowns", True, (
        Let("sum", TEN), when(less(var("sum"), LENGTH), put(var("sum"))),
    )),
    Row("a sum of ten unknowns that nobody checked", False, (Let("sum", TEN), when(IN_RANGE, put(var("sum"))))),
    Row("saturating i + 1 under i + 1 < n", False, (
        when(less(add(GID, lit(1)), LENGTH), put(op(B.SATURATING_ADD, GID, lit(1)))),
    )),
    Row("i < max(x, n)", False, (when(less(GID, op(B.MAX, Load("n", lit(0)), LENGTH)), put(GID)),)),
    Row("i == j < n", True, (
        Let("j", Load("n", lit(0))), when(both(op(B.EQ, GID, var("j")), less(var("j"), LENGTH)), put(GID)),
    )),
    # other buffers
    Row("the length of another buffer", False, (when(less(GID, INP_LENGTH), put(GID)),)),
    Row("both lengths", True, (when(both(less(GID, INP_LENGTH), less(INP_LENGTH, LENGTH)), put(GID)),)),
    Row("the static length of another buffer", True, (when(less(GID, BufferLength("fixed")), read(GID, "table")),)),
    Row("a longer static length", False, (when(less(GID, BufferLength("table")), read(GID, "fixed")),)),
    # ranges against static counts
    Row("a literal", True, (read(lit(99), "fixed"),)),
    Row("a literal that is the count", False, (read(lit(100), "fixed"),)),
    Row("a local id", True, (read(LID, "fixed"),)),
    Row("a local id of workgroup memory", True, (put(LID, "shared"),)),
    Row("a local id + 1 of workgroup memory", False, (put(add(LID, lit(1)), "shared"),)),
    Row("a local id + 36 of 100", True, (read(add(LID, lit(36)), "fixed"),)),
    Row("a local id + 37 of 100", False, (read(add(LID, lit(37)), "fixed"),)),
    Row("63 - local id", True, (put(op(B.SUB, lit(63), LID), "shared"),)),
    Row("62 - local id wraps", False, (put(op(B.SUB, lit(62), LID), "shared"),)),
    Row("local id | 3", True, (put(op(B.BIT_OR, LID, lit(3)), "shared"),)),
    Row("i | 1 is not i + 1", False, (when(less(add(GID, lit(1)), LENGTH), put(op(B.BIT_OR, GID, lit(1)))),)),
    Row("i ^ 1 is not i + 1", False, (when(less(add(GID, lit(1)), LENGTH), put(op(B.BIT_XOR, GID, lit(1)))),)),
    Row("local id ^ 1", True, (put(op(B.BIT_XOR, LID, lit(1)), "shared"),)),
    Row("local id ^ 64", False, (put(op(B.BIT_XOR, LID, lit(64)), "shared"),)),
    Row("the subgroup's lane", True, (put(SubgroupLane(), "shared"),)),
    Row("a group id", False, (read(group(), "fixed"),)),
    Row("x & 63", True, (read(op(B.BIT_AND, GID, lit(63)), "fixed"),)),
    Row("x & 127 of 100", False, (read(op(B.BIT_AND, GID, lit(127)), "fixed"),)),
    Row("x % 100", True, (read(op(B.MOD, GID, lit(100)), "fixed"),)),
    Row("min(x, 100) % 100", True, (read(op(B.MOD, op(B.MIN, GID, lit(100)), lit(100)), "fixed"),)),
    Row("x % 101", False, (read(op(B.MOD, GID, lit(101)), "fixed"),)),
    Row("min(x, 99)", True, (read(op(B.MIN, lit(99), GID), "fixed"),)),
    Row("min(x, 100)", False, (read(op(B.MIN, lit(100), GID), "fixed"),)),
    Row("x >> 26", True, (read(op(B.SHR, GID, lit(26)), "fixed"),)),
    Row("x >> 58 shifts by 26", True, (read(op(B.SHR, GID, lit(58)), "fixed"),)),
    Row("x >> 25 of 100", False, (read(op(B.SHR, GID, lit(25)), "fixed"),)),
    Row("x / 2^26", True, (read(op(B.DIV, GID, lit(1 << 26)), "fixed"),)),
    Row("popcount", True, (read(Unary(UnaryOp.POPCOUNT, GID), "fixed"),)),
    Row("a byte", True, (read(Load("bytes", GID), "table"),)),
    Row("a word", False, (read(Load("inp", GID), "table"),)),
    Row("a byte of 100", False, (read(Load("bytes", GID), "fixed"),)),
    Row("a bool as a number", True, (read(Cast(u32, less(GID, lit(4))), "fixed"),)),
    Row("i < 100", True, (when(less(GID, lit(100)), read(GID, "fixed")),)),
    Row("i < 101", False, (when(less(GID, lit(101)), read(GID, "fixed")),)),
    Row("2i + 1 under i < 50", True, (when(less(GID, lit(50)), read(add(TWICE, lit(1)), "fixed")),)),
    Row("2i + 1 under i < 51", False, (when(less(GID, lit(51)), read(add(TWICE, lit(1)), "fixed")),)),
    Row("8y + x under x < 8 and y < 12", True, (
        Let("x", Load("inp", lit(0))), Let("y", Load("inp", lit(1))),
        when(both(less(var("x"), lit(8)), less(var("y"), lit(12))),
             read(add(op(B.MUL, var("y"), lit(8)), var("x")), "fixed")),
    )),
    Row("x * y under x < 8 and y < 12", True, (
        Let("x", Load("inp", lit(0))), Let("y", Load("inp", lit(1))),
        when(both(less(var("x"), lit(8)), less(var("y"), lit(12))), read(op(B.MUL, var("y"), var("x")), "fixed")),
    )),
    Row("a tree reduction", True, (
        loop("k", lit(6), Let("stride", op(B.SHR, lit(32), var("k"))),
             when(less(LID, var("stride")), put(add(LID, var("stride")), "shared"))),
    )),
    Row("a tree reduction that starts too far out", False, (
        loop("k", lit(6), Let("stride", op(B.SHR, lit(64), var("k"))),
             when(less(LID, var("stride")), put(add(LID, var("stride")), "shared"))),
    )),
    Row("a product that wraps", False, (put(op(B.MUL, GID, lit(1 << 31)), "shared"),)),
    Row("a product of literals that wraps to 0", True, (read(op(B.MUL, lit(1 << 31), lit(2)), "fixed"),)),
    # loops
    Row("for k in 0..n", True, (loop("k", LENGTH, put(var("k"))),)),
    Row("for k in i..n step s", True, (
        loop("k", LENGTH, put(var("k")), start=GID, step=Load("n", lit(0))),
    )),
    Row("for k in 0..1000 under k < n", True, (
        loop("k", lit(1000), when(less(var("k"), LENGTH), put(var("k")))),
    )),
    Row("for k in 0..100 step s", True, (loop("k", lit(100), read(var("k"), "fixed"), step=Load("n", lit(0))),)),
    Row("for k in 0..101 step s", False, (loop("k", lit(101), read(var("k"), "fixed"), step=Load("n", lit(0))),)),
    Row("for k in 0..100 step s + 2: k + 1", False, (
        loop("k", lit(100), read(add(var("k"), lit(1)), "fixed"), step=add(Load("n", lit(0)), lit(2))),
    )),
    Row("for k in 0..n & ~3 step 4s: k + 3", True, (
        loop("k", ROUNDED, put(add(var("k"), lit(3))), step=op(B.MUL, Load("n", lit(0)), lit(4))),
    )),
    Row("for k in 4 lane..n & ~3 step 4: k + 3", True, (
        loop("k", ROUNDED, put(add(var("k"), lit(3))), start=op(B.MUL, LID, lit(4)), step=lit(4)),
    )),
    Row("for k in lane..n & ~3 step 4: k + 3", False, (
        loop("k", ROUNDED, put(add(var("k"), lit(3))), start=LID, step=lit(4)),
    )),
    Row("behind a loop, where the other branch returns", True, (
        when(IN_RANGE, loop("k", lit(2), store(lit(1), "like")), otherwise=(Return(),)), put(GID),
    )),
    Row("for k in 0..n: k + 1", False, (loop("k", LENGTH, put(add(var("k"), lit(1)))),)),
    Row("for k in 0..n-1: k + 1; n may be 0", False, (
        loop("k", op(B.SUB, LENGTH, lit(1)), put(add(var("k"), lit(1)))),
    )),
    Row("for k in 0..n-1: k + 1, with n > 0", True, (
        when(less(lit(0), LENGTH), loop("k", op(B.SUB, LENGTH, lit(1)), put(add(var("k"), lit(1))))),
    )),
    Row("for k in 1..n: k - 1", True, (loop("k", LENGTH, put(op(B.SUB, var("k"), lit(1))), start=lit(1)),)),
    Row("for k in 0..n: k - 1", False, (loop("k", LENGTH, put(op(B.SUB, var("k"), lit(1)))),)),
    Row("for k in 0..100", True, (loop("k", lit(100), read(var("k"), "fixed")),)),
    Row("for k in 0..101", False, (loop("k", lit(101), read(var("k"), "fixed")),)),
    Row("for k in 0..100 step 4: k + 3", True, (
        loop("k", lit(100), read(add(var("k"), lit(3)), "fixed"), step=lit(4)),
    )),
    Row("for k in 0..101 step 4: k + 3", False, (
        loop("k", lit(101), read(add(var("k"), lit(3)), "fixed"), step=lit(4)),
    )),
    Row("for k in 0..n & ~3 step 4: k + 3", True, (
        loop("k", op(B.BIT_AND, LENGTH, lit(0xFFFF_FFFC)), put(add(var("k"), lit(3))), step=lit(4)),
    )),
    Row("for k in 0..n step 4: k + 3", False, (loop("k", LENGTH, put(add(var("k"), lit(3))), step=lit(4)),)),
    Row("a length that is named", True, (Let("n0", LENGTH), loop("k", var("n0"), put(var("k"))))),
    Row("a bound that changes in the loop", True, (
        Let("m", LENGTH), loop("k", var("m"), put(var("k")), Assign("m", lit(1000))),
    )),
    Row("while with a break", True, (
        Let("i", GID),
        loop("k", lit(0xFFFF_FFFF), when(op(B.GE, var("i"), LENGTH), Break()), put(var("i")),
             Assign("i", add(var("i"), lit(64)))),
    )),
    Row("while, after the change", False, (
        Let("i", GID),
        loop("k", lit(0xFFFF_FFFF), when(op(B.GE, var("i"), LENGTH), Break()), Assign("i", add(var("i"), lit(64))),
             put(var("i"))),
    )),
    Row("behind a continue", True, (
        loop("k", lit(9), when(op(B.GE, add(GID, var("k")), LENGTH), Continue()), put(add(GID, var("k")))),
    )),
    Row("behind the loop that has the break", False, (
        Let("i", GID),
        loop("k", lit(9), when(op(B.GE, var("i"), LENGTH), Break()), store(lit(1), "like")), put(var("i")),
    )),
    Row("the size of a subgroup", True, (read(SubgroupSize(), "fixed"),)),
    Row("the subgroup's lane + 32", True, (put(add(SubgroupLane(), lit(32)), "shared"),)),
    Row("the subgroup's lane + 33", False, (put(add(SubgroupLane(), lit(33)), "shared"),)),
    Row("the subgroup's lane - 1", False, (put(op(B.SUB, SubgroupLane(), lit(1)), "shared"),)),
    Row("min(x, i) under x < 64", True, (*X, when(X_BELOW_64, put(op(B.MIN, var("x"), GID), "shared")))),
    Row("x & i under x < 64", True, (*X, when(X_BELOW_64, put(op(B.BIT_AND, var("x"), GID), "shared")))),
    Row("max(x, y) under both < 64", True, (
        *X, *Y, when(both(X_BELOW_64, Y_BELOW_64), put(op(B.MAX, var("x"), var("y")), "shared")),
    )),
    Row("max(x, y) under x < 64", False, (*X, *Y, when(X_BELOW_64, put(op(B.MAX, var("x"), var("y")), "shared")))),
    Row("a select of x and y under both < 64", True, (
        *X, *Y, when(both(X_BELOW_64, Y_BELOW_64), put(Select(less(LID, lit(3)), var("x"), var("y")), "shared")),
    )),
    *(
        Row(f"x {operator.name} {by} under x < {limit}", limit == 128, (
            *X, when(less(var("x"), lit(limit)), put(op(operator, var("x"), lit(by)), "shared")),
        ))
        for operator, by in ((B.SHR, 1), (B.DIV, 2)) for limit in (128, 130)
    ),
    Row("x / y under x < 64 and y > 0", True, (
        *X, *Y, when(both(X_BELOW_64, less(lit(0), var("y"))), put(op(B.DIV, var("x"), var("y")), "shared")),
    )),
    *(
        Row(f"{what} + {offset} of 100", offset == 36, (*X, *Y, when(known, read(add(value, lit(offset)), "fixed"))))
        for what, known, value in (
            ("min(x, i) under x < 64:", X_BELOW_64, op(B.MIN, var("x"), GID)),
            ("x & i under x < 64:", X_BELOW_64, op(B.BIT_AND, var("x"), GID)),
            ("saturating x - i under x < 64:", X_BELOW_64, op(B.SATURATING_SUB, var("x"), GID)),
            ("x / groups under x < 64:", X_BELOW_64, op(B.DIV, var("x"), LaunchId(IdKind.NUM_GROUPS, 0))),
            ("max(x, y) under both < 64:", both(X_BELOW_64, Y_BELOW_64), op(B.MAX, var("x"), var("y"))),
            ("x or y, both < 64:", both(X_BELOW_64, Y_BELOW_64), Select(less(LID, lit(3)), var("x"), var("y"))),
            ("x % y under 0 < y < 65:", both(less(lit(0), var("y")), less(var("y"), lit(65))),
             op(B.MOD, var("x"), var("y"))),
        )
        for offset in (36, 37)
    ),
    Row("x % y + 99 of 100 under 0 < y < 2", True, (
        *X, *Y, when(both(less(lit(0), var("y")), less(var("y"), lit(2))),
                     read(add(op(B.MOD, var("x"), var("y")), lit(99)), "fixed")),
    )),
    Row("x - y under 9 < x < 64 and y < 10", True, (
        *X, *Y, when(both(X_BELOW_64, less(lit(9), var("x")), less(var("y"), lit(10))),
                     put(op(B.SUB, var("x"), var("y")), "shared")),
    )),
    Row("x - y under 8 < x < 64 and y < 11", False, (
        *X, *Y, when(both(X_BELOW_64, less(lit(8), var("x")), less(var("y"), lit(11))),
                     put(op(B.SUB, var("x"), var("y")), "shared")),
    )),
    *(
        Row(f"{factor}i + {rest} under i < n / {factor}", rest < factor, (
            when(less(GID, op(B.DIV, LENGTH, lit(factor))), put(add(op(B.MUL, GID, lit(factor)), lit(rest)))),
        ))
        for factor in (2, 3) for rest in (0, 1, 2, 3)
    ),
    *(
        Row(f"i + {offset} under i < x - 5, 5 <= x <= n", offset < 6, (
            *X, when(both(op(B.LE, lit(5), var("x")), less(GID, op(B.SUB, var("x"), lit(5))), X_IN_LENGTH),
                     put(add(GID, lit(offset)))),
        ))
        for offset in (0, 5, 6)
    ),
    Row("i under i < x - 5 and x <= n: x may be less than 5", False, (
        *X, when(both(less(GID, op(B.SUB, var("x"), lit(5))), X_IN_LENGTH), put(GID)),
    )),
    Row("i under i < x + 5 and x <= n", False, (
        *X, when(both(less(GID, add(var("x"), lit(5))), X_IN_LENGTH), put(GID)),
    )),
    Row("8i under i < n >> 2", False, (
        when(less(GID, op(B.SHR, LENGTH, lit(2))), put(op(B.MUL, GID, lit(8)))),
    )),
    Row("8i under i < n | 3", False, (
        when(less(GID, op(B.BIT_OR, LENGTH, lit(3))), put(op(B.MUL, GID, lit(8)))),
    )),
    Row("i under i < n * x", False, (when(less(GID, op(B.MUL, LENGTH, Load("n", lit(0)))), put(GID)),)),
    Row("63 + the negative of the local id", True, (put(add(lit(63), negative(LID)), "shared"),)),
    Row("64 + the complement of the local id", True, (
        put(add(lit(64), Unary(UnaryOp.BIT_NOT, LID)), "shared"),
    )),
    Row("the negative of a name that changes later", True, (
        Let("i", LID), Let("j", add(lit(63), negative(var("i")))), Assign("i", lit(900)), put(var("j"), "shared"),
    )),
    Row("a choice of names that change later", True, (
        Let("i", LID), Let("j", Select(less(GID, lit(3)), var("i"), op(B.SUB, lit(63), var("i")))),
        Assign("i", lit(900)), put(var("j"), "shared"),
    )),
    Row("a cast from u32", True, (put(Cast(u32, LID), "shared"),)),
    Row("a cast of a name that changes later", True, (
        Let("i", LID), Let("j", Cast(u32, var("i"))), Assign("i", lit(900)), put(var("j"), "shared"),
    )),
    Row("99 times a bool", True, (read(op(B.MUL, Cast(u32, less(GID, lit(4))), lit(99)), "fixed"),)),
    Row("a bool - 1", False, (read(op(B.SUB, Cast(u32, less(GID, lit(4))), lit(1)), "fixed"),)),
    Row("a constant chosen at compile time, checked", True, (
        when(less(SpecConst("c", lit(5)), LENGTH), put(SpecConst("c", lit(5)))),
    )),
    Row("another constant chosen at compile time", False, (
        when(less(SpecConst("c", lit(5)), LENGTH), put(SpecConst("d", lit(5)))),
    )),
    Row("a constant chosen at compile time", False, (read(SpecConst("c", lit(5)), "fixed"),)),
    Row("an index that an atomic returned", True, (
        Let("slot", Atomic(AtomicOp.ADD, "like", lit(0), None, lit(1))),
        when(less(var("slot"), LENGTH), put(var("slot"))),
    )),
)  # fmt: skip


def watched(made: Program) -> list[Access]:
    """The accesses that a row is about: the marked stores, and the loads that are called ``it``."""
    found: list[Access] = []
    for stmt in walk_statements(made.body):
        if isinstance(stmt, Store) and stmt.value == lit(7):
            found.append(stmt)
        elif isinstance(stmt, Let) and stmt.name == "it" and isinstance(stmt.value, Load):
            found.append(stmt.value)
        elif isinstance(stmt, If):
            found += [e for e in unique_expressions(kernel(stmt)) if isinstance(e, Load) and e.buffer == "out"]
    return found


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_rows(row: Row) -> None:
    made = program(*row.body)
    facts = bounds_facts(made)
    accesses = watched(made)
    assert accesses
    assert [facts.proven(access) for access in accesses] == [row.proven] * len(accesses)


def test_a_proof_gives_up_in_time() -> None:
    """Every unknown is below every later one, among which a proof about any of them gets lost."""
    names = [f"x{k:02}" for k in range(12)]
    unknowns = [Let(name, Load("inp", lit(k))) for k, name in enumerate(names)]

    def is_proven(inside: Stmt) -> bool:
        for name in names[:-1]:
            inside = when(both(*(op(B.LE, var(name), var(later)) for later in names if later > name)), inside)
        made = program(*unknowns, inside)
        (access,) = watched(made)
        return bounds_facts(made).proven(access)

    assert not is_proven(put(var("x00")))
    assert is_proven(when(less(var("x00"), LENGTH), put(var("x00"))))


def test_a_buffer_like_another_has_its_length_only_where_the_launch_says_so() -> None:
    made = program(when(less(GID, INP_LENGTH), put(GID, "like")))
    (access,) = watched(made)
    assert not bounds_facts(made).proven(access)
    assert bounds_facts(made, same_length=True).proven(access)


def test_a_counted_buffer_takes_over_no_length() -> None:
    sized = Buffer.make("sized", 9, BufferAccess.READ_WRITE, u32, 50, like="inp")
    buffers = {buffer.name: buffer for buffer in (sized, INP, LIKE)}
    assert [length_model(buffers, name) for name in ("sized", "like", "inp")] == ["sized", "inp", "inp"]


def test_the_bounds_of_a_loop_have_accesses_too() -> None:
    bounds = [Load("fixed", lit(k)) for k in range(3)]
    facts = bounds_facts(program(loop("k", bounds[0], store(lit(1), "like"), start=bounds[1], step=bounds[2])))
    assert all(facts.proven(load) for load in bounds)


def test_nothing_is_known_of_other_accesses() -> None:
    facts = bounds_facts(program(put(LID, "shared")))
    assert facts.proven(put(LID, "shared")) is False


def test_facts_keep_the_program_whose_nodes_they_know() -> None:
    made = program(put(LID, "shared"))
    assert any(held is made for held in gc.get_referents(bounds_facts(made)))


def test_an_exact_grid_of_no_bindings() -> None:
    made = kernel(put(LID, "shared"), buffers=(SHARED,))
    (access,) = watched(made)
    assert bounds_facts(made, exact_grid=True).proven(access)


def test_an_exact_grid_is_one_lane_for_each_element() -> None:
    def proven(buffer: Buffer, *others: Buffer) -> bool:
        made = kernel(put(GID, buffer.name), buffers=(buffer, *others))
        (access,) = watched(made)
        assert not bounds_facts(made).proven(access)
        return bounds_facts(made, exact_grid=True).proven(access)

    other = Buffer.make("other", 9, BufferAccess.READ_WRITE, u32)
    sized = Buffer.make("sized", 9, BufferAccess.READ_WRITE, u32, 50)
    bigger = Buffer.make("bigger", 10, BufferAccess.READ_WRITE, u32, 51)
    assert proven(OUT) and proven(OUT, INP) and proven(bigger, sized)
    assert not proven(OUT, other)  # the longer of the two decides
    assert not proven(OUT, SHARED, INP)  # so does any input, as the kernel may be a reduction
    assert not proven(sized, bigger)
    assert proven(LIKE, INP)


def test_the_size_of_the_workgroup_can_be_another() -> None:
    made = program(put(LID, "shared"))
    (access,) = watched(made)
    assert bounds_facts(made).proven(access)
    assert not bounds_facts(made, workgroup=(65, 1, 1)).proven(access)
    assert bounds_facts(made, workgroup=(8, 8, 1)).proven(access)


def test_a_node_that_occurs_twice_has_what_holds_at_both_places() -> None:
    access = put(GID)
    assert not bounds_facts(program(when(IN_RANGE, access), access)).proven(access)
    assert not bounds_facts(program(access, when(IN_RANGE, access))).proven(access)
    assert bounds_facts(program(when(IN_RANGE, access), when(IN_RANGE, access))).proven(access)
    shared = Load("inp", GID)
    made = program(when(less(GID, INP_LENGTH), Let("x", shared)), Let("y", shared))
    assert not bounds_facts(made).proven(shared)


def test_another_program_s_node_is_not_proven() -> None:
    assert not bounds_facts(program(put(lit(0), "shared"))).proven(put(lit(0), "shared"))


class _Guard:
    """Fails at a proven access that is out of range."""

    tracer = None
    proven = 0
    outside = 0

    def __init__(self, program: Program) -> None:
        self._facts: BoundsFacts = bounds_facts(program)

    def access(self, node: Access, index: int, count: int, /) -> None:
        if self._facts.proven(node):
            _Guard.proven += 1
            assert 0 <= index < count, f"{node!r} touches element {index} of {count}"
        elif not 0 <= index < count:
            _Guard.outside += 1


def _check(case: Case) -> None:
    run(WatchedEngine(_Guard), case)


def _larger(case: Case) -> Case:
    """The case with twice as many workgroups along x and y, far more lanes than data."""
    x, y, z = case.config.grid or (3, 1, 1)
    config = replace(case.config, grid=(2 * x + 1, 2 * y, z), extent=None, element_count_override=None)
    return replace(case, config=config)


@pytest.mark.thorough
@pytest.mark.parametrize("order", Order)
def test_no_proven_access_is_out_of_range_seeded(order: Order) -> None:
    _Guard.proven = _Guard.outside = 0
    for seed in range(25):
        _check(generate(seed, order=order))
        _check(_larger(generate(seed, order=order, work=8_000)))
    # The check means something: many accesses are proven, and many others are out of range.
    assert _Guard.proven > 1_000 and _Guard.outside > 1_000


@pytest.mark.thorough
@examples(40)
@given(case=cases())
def test_no_proven_access_is_out_of_range(case: Case) -> None:
    _check(case)
    _check(_larger(case))


class _Maze:
    """A random program of index arithmetic, comparisons, loops and assignments around accesses.

    Numbers are small, or close to where they wrap, so that conditions hold and fail.
    """

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)
        self._names: list[str] = ["n0", "n1"]
        self._mutable: list[str] = ["m0", "m1"]
        self._next = 0
        start = (
            Let("n0", Load("inp", LID)),
            Let("n1", Load("n", lit(0))),
            Let("m0", GID),
            Let("m1", lit(self._random.choice(_NUMBERS))),
        )
        self.program = program(*start, *self._body(3), workgroup=(8, 1, 1))

    def _value(self, depth: int) -> Expr:
        choose = self._random.choice
        if depth == 0 or self._random.random() < 0.25:
            leaf = choose(("id", "id", "number", "name", "name", "length", "parameter"))
            match leaf:
                case "id":
                    return choose((GID, LID, group(), SubgroupLane()))
                case "number":
                    return lit(choose(_NUMBERS))
                case "name":
                    return var(choose(self._names + self._mutable))
                case "length":
                    return BufferLength(choose(("out", "inp", "fixed", "shared")))
            return Load(choose(("inp", "bytes")), LID)
        if self._random.random() < 0.1:
            return Select(self._condition(1), self._value(depth - 1), self._value(depth - 1))
        left = self._value(depth - 1)
        right = lit(choose(_NUMBERS)) if self._random.random() < 0.5 else self._value(depth - 1)
        operator = choose(_INDEX_OPERATORS)
        if operator in (B.DIV, B.MOD) and right == lit(0):
            right = lit(3)
        return op(operator, left, right)

    def _condition(self, depth: int) -> Expr:
        if depth and self._random.random() < 0.4:
            if self._random.random() < 0.3:
                return opposite(self._condition(depth - 1))
            return op(self._random.choice((B.AND, B.AND, B.OR)), self._condition(depth - 1), self._condition(depth - 1))
        left, right = self._value(1), self._value(1)
        return op(self._random.choice((B.LT, B.LT, B.LE, B.GT, B.GE, B.EQ, B.NE)), left, right)

    def _access(self) -> Stmt:
        index: Expr = var(self._random.choice(self._names + self._mutable))
        if self._random.random() < 0.6:
            index = op(self._random.choice((B.ADD, B.SUB)), index, lit(self._random.choice((0, 1, 2, 3))))
        if self._random.random() < 0.3:
            index = self._value(2)
        # A literal index out of a static range is no valid program.
        buffers = ("out", "like") if isinstance(index, Literal) else ("out", "like", "shared")
        return put(index, self._random.choice(buffers))

    def _name(self) -> str:
        self._next += 1
        return f"v{self._next}"

    def _body(self, depth: int) -> Body:
        names, random = list(self._names), self._random
        body: list[Stmt] = []
        for _ in range(random.randint(2, 5)):
            match random.choice(("access", "access", "let", "assign", "if", "if", "leave", "loop", "block")):
                case "let":
                    name = self._name()
                    body.append(Let(name, self._value(2)))
                    self._names.append(name)
                case "assign":
                    body.append(Assign(random.choice(self._mutable), self._value(2)))
                case "if" if depth:
                    condition = self._condition(2)
                    otherwise = self._body(depth - 1) if random.random() < 0.4 else ()
                    body.append(If(condition, self._body(depth - 1), otherwise))
                case "leave":
                    body.append(when(self._condition(1), Return()))
                case "loop" if depth:
                    body.append(self._loop(depth - 1))
                case "block" if depth:
                    body.append(Block(self._body(depth - 1)))
                case _:
                    body.append(self._access())
        self._names = names
        return tuple(body)

    def _loop(self, depth: int) -> Stmt:
        random, name = self._random, self._name()
        start = random.choice((lit(0), lit(1), lit(2), LID, self._value(1)))
        step = random.choice((lit(1), lit(1), lit(2), lit(4), self._value(1)))
        stop = self._value(1)
        if step == lit(0):
            step = lit(3)
        self._names.append(name)
        way_out = when(self._condition(1), random.choice((Break(), Continue())))
        inner = self._body(depth)
        made = loop(name, op(B.MIN, stop, lit(random.choice((7, 30, 100)))), way_out, *inner, start=start, step=step)
        self._names.remove(name)
        return made


_NUMBERS: Final = (0, 1, 2, 3, 4, 5, 7, 8, 15, 16, 31, 63, 64, 99, 100, 1 << 31, 0xFFFF_FFFC, 0xFFFF_FFFE, 0xFFFF_FFFF)
_INDEX_OPERATORS: Final = (
    *(B.ADD, B.ADD, B.ADD, B.SUB, B.SUB, B.MUL, B.MUL, B.DIV, B.MOD, B.BIT_AND, B.BIT_OR, B.BIT_XOR),
    *(B.SHL, B.SHR, B.MIN, B.MIN, B.MAX, B.ABS_DIFF, B.SATURATING_ADD, B.SATURATING_SUB, B.SATURATING_MUL),
    *(B.ROTATE_LEFT, B.MUL_HIGH),
)


def _maze_case(seed: int) -> Case:
    random, made = Random(seed), _Maze(seed).program

    def words(count: int) -> bytes:
        return b"".join(random.choice(_NUMBERS).to_bytes(4, "little") for _ in range(count))

    counts = {"out": random.choice((0, 1, 4, 9, 40)), "inp": random.choice((0, 5, 8)), "signed": 1, "floats": 1}
    inputs = {name: words(count) for name, count in counts.items()}
    inputs |= {"fixed": words(100), "bytes": bytes(range(8)), "n": words(1), "table": words(256)}
    return Case(made, inputs, DispatchConfig(grid=(3, 1, 1), step_budget=400), Order.RACY)


@pytest.mark.thorough
def test_no_proven_access_in_a_maze_of_conditions_is_out_of_range() -> None:
    _Guard.proven = _Guard.outside = 0
    for seed in range(120):
        _check(_maze_case(seed))
    assert _Guard.proven > 1_000 and _Guard.outside > 1_000
