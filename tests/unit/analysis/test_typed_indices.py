"""Indices, loops and conditions of every integer type: what is proven, and that it holds in random programs."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Final, NamedTuple

import pytest

from support.kernels import GID, LID, add, kernel, less, lit, loop, op, var, when
from support.profiles import SOAK
from support.programs import Case, Order
from support.running import run
from support.validation.watched_accesses import Access, WatchedEngine
from vyre.domain.analysis.bounds_checks import BoundsFacts, bounds_facts
from vyre.domain.analysis.index_flow import index_flow, survey
from vyre.domain.analysis.wide_access import wide_facts
from vyre.domain.dispatch import DispatchConfig
from vyre.domain.ir.expr import (
    Binary,
    Bitcast,
    BufferLength,
    Cast,
    Expr,
    Literal,
    Load,
    Narrow,
    Pack,
    Select,
    Unary,
    Unpack,
    WrapCast,
)
from vyre.domain.ir.operators import BinaryOp, UnaryOp
from vyre.domain.ir.program import Access as BufferAccess
from vyre.domain.ir.program import Buffer, Program
from vyre.domain.ir.stmt import Arm, Assign, Body, If, Let, Loop, Return, Stmt, Store, Switch
from vyre.domain.ir.types import ScalarType, f16, f32, i8, i16, i32, i64, u8, u16, u32, u64
from vyre.domain.validation.validator import validate

B: Final = BinaryOp
OUT: Final = Buffer.make("out", 0, BufferAccess.READ_WRITE, u32)
WORDS: Final = Buffer.make("words", 1, BufferAccess.READ_ONLY, u32)
INTS: Final = Buffer.make("ints", 2, BufferAccess.READ_ONLY, i32)
LONGS: Final = Buffer.make("longs", 3, BufferAccess.READ_ONLY, i64)
TINY: Final = Buffer.make("tiny", 4, BufferAccess.READ_ONLY, i8)
TABLE: Final = Buffer.make("table", 5, BufferAccess.READ_WRITE, u32, 100)
BUFFERS: Final = (OUT, WORDS, INTS, LONGS, TINY, TABLE)
INTEGERS: Final = (u32, i32, u64, i64)


def program(*body: Stmt) -> Program:
    made = kernel(*body, buffers=BUFFERS, workgroup=(8, 1, 1))
    assert validate(made).ok, validate(made).render()
    return made


def put(index: Expr, buffer: str = "table") -> Store:
    return Store(buffer, index, lit(7))


def cast(dtype: ScalarType, operand: Expr) -> Cast:
    return Cast(dtype, operand)


def number(value: int, dtype: ScalarType = i32) -> Literal:
    return lit(value, dtype)


def counting(start: Expr, stop: Expr, step: int, *body: Stmt, dtype: ScalarType = i32) -> Loop:
    return loop("k", stop, *body, start=start, step=number(step, dtype))


class Row(NamedTuple):
    """A body whose stores of 7 are proven exactly if ``proven``."""

    name: str
    proven: bool
    body: Body


INT: Final = Load("ints", LID)
LONG: Final = Load("longs", LID)
NUM: Final = var("i")
SIGNED: Final = Let("i", INT)
NOT_NEGATIVE: Final = op(B.GE, NUM, number(0))
BELOW_100: Final = less(NUM, number(100))
LENGTH: Final = BufferLength("out")
LONG_GID: Final = cast(i64, GID)


def _of(value: Expr, index: Callable[[Expr], Expr] = lambda v: v) -> tuple[Stmt, ...]:
    return Let("v", value), put(index(var("v")))


ROWS: Final = (
    # i32
    Row("an i32 literal", True, (put(number(99)),)),
    Row("a local id", True, (put(cast(i32, LID)),)),
    Row("a local id less 1", False, (put(op(B.SUB, cast(i32, LID), number(1))),)),
    Row("back to u32", True, (put(cast(u32, add(cast(i32, LID), number(5)))),)),
    Row("reinterpreted", True, (put(Bitcast(u32, add(Bitcast(i32, LID), number(5)))),)),
    Row("between two signed bounds", True, (SIGNED, when(op(B.AND, NOT_NEGATIVE, BELOW_100), put(NUM)))),
    Row("the upper bound first", True, (SIGNED, when(op(B.AND, BELOW_100, NOT_NEGATIVE), put(NUM)))),
    Row("below a signed bound only", False, (SIGNED, when(BELOW_100, put(NUM)))),
    Row("not negative only", False, (SIGNED, when(NOT_NEGATIVE, put(NUM)))),
    Row("between bounds in nested branches", True, (SIGNED, when(NOT_NEGATIVE, when(BELOW_100, put(NUM))))),
    Row("the bound first in nested branches", False, (SIGNED, when(BELOW_100, when(NOT_NEGATIVE, put(NUM))))),
    Row("behind returns", True, (
        SIGNED, when(less(NUM, number(0)), Return()), when(op(B.GE, NUM, number(100)), Return()), put(NUM),
    )),
    Row("above -1", True, (SIGNED, when(op(B.AND, op(B.GT, NUM, number(-1)), BELOW_100), put(NUM)))),
    Row("above -2", False, (SIGNED, when(op(B.AND, op(B.GT, NUM, number(-2)), BELOW_100), put(NUM)))),
    Row("by way of another number", True, (
        SIGNED, Let("j", Load("ints", GID)),
        when(op(B.AND, op(B.AND, less(NUM, var("j")), less(var("j"), number(100))), NOT_NEGATIVE), put(NUM)),
    )),
    Row("a length that may be negative as an i32", False, (
        SIGNED, when(op(B.AND, NOT_NEGATIVE, less(NUM, cast(i32, LENGTH))), put(NUM)),
    )),
    Row("below a length as an i32", True, (
        SIGNED, when(op(B.AND, NOT_NEGATIVE, less(NUM, cast(i32, LENGTH))), put(NUM, "out")),
    )),
    Row("a u32 below a length, taken for an i32", False, (
        when(less(GID, LENGTH), put(cast(i32, GID), "out")),
    )),
    Row("a u32 below 2^31 and a length, taken for an i32", True, (
        when(op(B.AND, less(GID, lit(1 << 31)), less(GID, LENGTH)), put(cast(i32, GID), "out")),
    )),
    Row("equal to a literal", True, (SIGNED, when(op(B.EQ, NUM, number(5)), put(NUM)))),
    Row("i8 elements are signed", False, _of(Load("tiny", LID))),
    Row("and become small by a mask", True, _of(op(B.BIT_AND, Load("tiny", LID), number(63)))),
    Row("a signed remainder", False, _of(op(B.MOD, INT, number(100)))),
    Row("a signed remainder of a positive number", True, _of(op(B.MOD, cast(i32, LID), number(3)))),
    Row("a signed quotient", False, _of(op(B.DIV, INT, number(1 << 26)))),
    Row("a signed quotient by what may be 0", False, _of(op(B.DIV, cast(i32, LID), cast(i32, op(B.MOD, GID, lit(3)))))),
    Row("an arithmetic shift", False, _of(op(B.SHR, INT, lit(26)))),
    Row("a signed minimum", False, _of(op(B.MIN, INT, number(9)))),
    Row("a signed minimum and maximum", False, _of(op(B.MAX, op(B.MIN, INT, number(9)), number(0)))),
    Row("a signed saturating difference", False, _of(op(B.SATURATING_SUB, cast(i32, LID), number(9)))),
    Row("constants by signed rules", False, _of(op(B.MIN, number(-5), number(9)))),
    Row("constants by signed rules in range", True, _of(op(B.MAX, number(-5), number(9)))),
    Row("a constant divided by 0 is 0", True, _of(op(B.DIV, number(5), number(0)))),
    # narrow values
    Row("narrow to u8", False, _of(Narrow(u8, GID))),
    Row("narrow of a small number", True, _of(Narrow(u8, LID))),
    Row("narrow of a small number to i8", True, _of(Narrow(i8, cast(i32, LID)))),
    Row("narrow to i8", False, _of(Narrow(i8, INT))),
    Row("packed i8", True, _of(op(B.SHR, Pack(i8, INT), lit(2)))),
    Row("packed f16", True, _of(op(B.SHR, Pack(f16, lit(1.0, f32)), lit(10)))),
    Row("unpacked u8", True, _of(op(B.SHR, Unpack(u8, GID), lit(2)))),
    Row("unpacked i8", False, _of(op(B.SHR, Unpack(i8, GID), lit(2)))),
    Row("a wrapping cast", False, _of(WrapCast(u32, lit(3.0, f32)))),
    # 64 bits
    Row("a u64 literal", True, (put(number(99, u64)),)),
    Row("a local id as an i64", True, (put(cast(i64, LID)),)),
    Row("with arithmetic", True, (put(add(op(B.MUL, cast(u64, LID), number(3, u64)), number(7, u64))),)),
    Row("less a larger number", False, (put(op(B.SUB, cast(i64, LID), number(1, i64))),)),
    Row("a difference that wraps as u32 and not as i64", False, (
        Let("x", Load("words", LID)), Let("y", Load("words", GID)),
        when(less(op(B.SUB, var("x"), var("y")), lit(100)),
             put(op(B.SUB, cast(i64, var("x")), cast(i64, var("y"))))),
    )),
    Row("a sum that wraps as u32 and not as u64", False, (
        Let("x", Load("words", LID)), Let("y", Load("words", GID)),
        when(less(add(var("x"), var("y")), lit(100)), put(add(cast(u64, var("x")), cast(u64, var("y"))))),
    )),
    Row("less a smaller number", True, (put(op(B.SUB, add(cast(i64, LID), number(3, i64)), number(2, i64))),)),
    Row("a sum that may pass 2^32", False, (put(cast(u32, add(LONG_GID, number(1, i64)))),)),
    Row("a product that may pass 2^32 is no u32 product", False, (
        when(less(op(B.MUL, LONG_GID, number(1 << 32, i64)), number(100, i64)),
             put(op(B.MUL, LONG_GID, number(1 << 32, i64)))),
    )),
    Row("a product of u32 wraps", True, (
        when(less(op(B.MUL, GID, lit(1 << 20)), lit(100)), put(op(B.MUL, GID, lit(1 << 20)))),
    )),
    Row("below a length", True, (when(less(LONG_GID, cast(i64, LENGTH)), put(LONG_GID, "out")),)),
    Row("below a length as u32", True, (when(less(GID, LENGTH), put(LONG_GID, "out")),)),
    Row("an i32 that may be negative", False, (
        when(less(cast(i64, INT), number(100, i64)), put(cast(i64, INT))),
    )),
    Row("a loaded number below a bound", False, (Let("j", LONG), when(less(var("j"), number(9, i64)), put(var("j"))))),
    Row("a loaded number and a mask", True, _of(op(B.BIT_AND, LONG, number(63, i64)))),
    Row("a loaded number and a negative mask", False, _of(op(B.BIT_AND, LONG, number(-64, i64)))),
    Row("the low half of it", False, _of(cast(u32, LONG))),
    Row("a quotient by what may be 0", False, _of(op(B.DIV, cast(u64, LID), cast(u64, op(B.MOD, GID, lit(3)))))),
    Row("a quotient", True, _of(op(B.DIV, cast(u64, LID), number(2, u64)))),
    Row("a shift by 33 of u64", True, _of(op(B.SHR, cast(u64, GID), lit(33)))),
    Row("a shift by 33 of u32", False, _of(op(B.SHR, GID, lit(33)))),
    Row("a shift to the left", True, _of(op(B.SHL, cast(u64, LID), lit(3)))),
    Row("a shift to the left beyond 32 bits", False, _of(op(B.SHL, cast(u64, LID), lit(33)))),
    Row("counted bits", True, _of(Unary(UnaryOp.POPCOUNT, LONG))),
    Row("counted bits less 1", False, _of(op(B.SUB, Unary(UnaryOp.POPCOUNT, LONG), number(1, i64)))),
    Row("a choice", True, _of(Select(less(LID, lit(3)), cast(i64, LID), number(99, i64)))),
    Row("a choice with a loaded number", False, _of(Select(less(LID, lit(3)), cast(i64, LID), LONG))),
    Row("assigned", False, (Let("j", number(1, i64)), when(less(LID, lit(2)), Assign("j", LONG)), put(var("j")))),
    Row("renamed", True, (Let("j", cast(i64, LID)), Let("l", var("j")), put(var("l")))),
    # loops
    Row("up over i32", True, (counting(number(0), number(100), 1, put(var("k"))),)),
    Row("up from a negative number", False, (counting(number(-1), number(100), 1, put(var("k"))),)),
    Row("up to a length as an i32", True, (counting(number(0), cast(i32, LENGTH), 1, put(var("k"), "out")),)),
    Row("up to a loaded number", False, (counting(number(0), INT, 1, put(var("k"))),)),
    Row("a dynamic step", False, (loop("k", number(100), put(var("k")), start=number(0), step=INT),)),
    Row("down over i32", True, (counting(number(99), number(-1), -1, put(var("k"))),)),
    Row("down from too high", False, (counting(number(100), number(-1), -1, put(var("k"))),)),
    Row("down too far", False, (counting(number(99), number(-2), -1, put(var("k"))),)),
    Row("down to a number", True, (
        counting(number(99), number(3), -2, put(op(B.SUB, var("k"), number(4)))),
    )),
    Row("down beyond it", False, (counting(number(99), number(3), -2, put(op(B.SUB, var("k"), number(5)))),)),
    Row("down from a length", True, (
        counting(op(B.SUB, cast(i32, LENGTH), number(1)), number(-1), -1, put(var("k"), "out")),
    )),
    Row("down to a loaded number", False, (counting(number(99), INT, -1, put(var("k"))),)),
    Row("down over i64", True, (counting(number(99, i64), number(-1, i64), -1, put(var("k")), dtype=i64),)),
    Row("down over i64 from a length", True, (
        counting(op(B.MIN, cast(i64, LENGTH), number(99, i64)), number(0, i64), -1,
                 put(op(B.SUB, var("k"), number(1, i64))), dtype=i64),
    )),
    Row("down over i64 too far", False, (
        counting(number(99, i64), number(-2, i64), -1, put(var("k")), dtype=i64),
    )),
    Row("up over u64", True, (counting(number(0, u64), cast(u64, LENGTH), 3, put(var("k"), "out"), dtype=u64),)),
    Row("up over u64 to a loaded number", False, (
        counting(number(0, u64), cast(u64, LONG), 1, put(var("k")), dtype=u64),
    )),
    Row("up over i64", True, (counting(number(4, i64), number(100, i64), 1, put(var("k")), dtype=i64),)),
    Row("up over i64 from a loaded number", False, (counting(LONG, number(100, i64), 1, put(var("k")), dtype=i64),)),
)  # fmt: skip


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_rows(row: Row) -> None:
    made = program(*row.body)
    facts = bounds_facts(made)
    accesses = [stmt for stmt in _stores(made.body) if stmt.value == lit(7)]
    assert accesses
    assert [facts.proven(access) for access in accesses] == [row.proven] * len(accesses)


def _stores(body: Body) -> list[Store]:
    found: list[Store] = []
    for stmt in body:
        match stmt:
            case Store():
                found.append(stmt)
            case If(_, then, otherwise):
                found += _stores(then) + _stores(otherwise)
            case Loop(body=inner):
                found += _stores(inner)
    return found


@pytest.mark.parametrize(
    ("index", "absent"),
    [
        (number(-1), True),
        (number(100), True),
        (number(99), False),
        (number(-1, i64), True),
        (number(1 << 32, u64), True),
        (number(99, u64), False),
        (op(B.SUB, number(3), number(5)), True),
        (add(cast(i64, LID), number(100, i64)), True),
        (add(cast(i64, LID), number(99, i64)), False),
        (INT, False),
        (LONG, False),
    ],
)
def test_what_is_certainly_out_of_range(index: Expr, absent: bool) -> None:
    read = Load("table", index)
    assert survey(program(put(read))).absent[id(read)] is absent


def test_a_negative_index_is_out_of_range_of_a_buffer_of_any_length() -> None:
    read = Load("words", number(-2))
    assert survey(program(put(read))).absent[id(read)]


def test_a_loop_that_counts_down_has_no_bounds_and_the_variable_its_type() -> None:
    down, up = counting(number(5), number(0), -1), counting(number(0), number(5), 2)
    flow = index_flow(program(down, up))
    assert flow.loops[id(down)] is None
    bounds = flow.loops[id(up)]
    assert bounds is not None and (bounds.counter.low, bounds.counter.high) == (0, 4)


def test_adjacent_elements_by_signed_and_wide_indices_form_groups() -> None:
    def width(base: Expr, dtype: ScalarType) -> int | None:
        stores = [put(add(base, number(n, dtype))) for n in range(4)]
        made = program(*stores)
        group = wide_facts(made, bounds_facts(made), aligned16=True, noalias=True).of(stores[0])
        return None if group is None else group.group.width

    assert width(op(B.MUL, cast(i32, LID), number(4)), i32) == 4
    assert width(op(B.MUL, cast(u64, LID), number(4, u64)), u64) == 4
    assert width(op(B.MUL, INT, number(4)), i32) is None
    assert width(op(B.MUL, LONG, number(4, i64)), i64) is None


def test_a_store_at_an_unknown_wide_index_ends_a_group() -> None:
    stores = [put(cast(u64, lit(n))) for n in range(4)]
    made = program(*stores[:2], put(LONG), *stores[2:])
    facts = wide_facts(made, bounds_facts(made), aligned16=True, noalias=True)
    group = facts.of(stores[0])
    assert group is None or group.group.width == 2
    assert all(facts.of(stmt) is not facts.of(stores[0]) for stmt in stores[2:])


def test_a_long_chain_of_renamed_locals_is_followed() -> None:
    for dtype in (u32, i64):
        names: list[Stmt] = [Let("v0", cast(dtype, LID))]
        names += [Let(f"v{n + 1}", var(f"v{n}")) for n in range(3000)]
        last = put(var("v3000"))
        assert bounds_facts(program(*names, last)).proven(last)


# ---------------------------------------------------------------- random programs
class _Guard:
    """Fails at a proven access that is out of range."""

    tracer = None
    proven = 0
    outside = 0

    def __init__(self, made: Program) -> None:
        self._facts: BoundsFacts = bounds_facts(made)
        self._absent = survey(made).absent

    def access(self, node: Access, index: int, count: int, /) -> None:
        inside = 0 <= index < count
        assert not (inside and self._absent.get(id(node), False)), f"{node!r} touches element {index} of {count}"
        if self._facts.proven(node):
            _Guard.proven += 1
            assert inside, f"{node!r} touches element {index} of {count}"
        elif not inside:
            _Guard.outside += 1


_EDGES: Final = (0, 1, 2, 3, 4, 7, 8, 31, 32, 33, 63, 99, 100, -1, -2, -3, -8, -100)
_WIDE_EDGES: Final = (1 << 31, (1 << 31) - 1, -(1 << 31), (1 << 32) - 1, 1 << 32, (1 << 32) + 3, -(1 << 32), 1 << 62)
_OPERATORS: Final = (
    *(B.ADD, B.ADD, B.ADD, B.SUB, B.SUB, B.MUL, B.DIV, B.MOD, B.BIT_AND, B.BIT_OR, B.BIT_XOR, B.SHL, B.SHR, B.MIN),
    *(B.MAX, B.ABS_DIFF, B.SATURATING_ADD, B.SATURATING_SUB, B.SATURATING_MUL, B.MUL_HIGH, B.ROTATE_LEFT),
)
_COMPARISONS: Final = (B.LT, B.LT, B.LE, B.GT, B.GE, B.EQ, B.NE)


class _Maze:
    """A random program of typed index arithmetic, comparisons, loops in both directions, switches and assignments."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)
        self._names: dict[ScalarType, list[str]] = {u32: ["a"], i32: ["b"], u64: ["c"], i64: ["d"]}
        self._mutable: dict[ScalarType, list[str]] = {u32: ["e"], i32: ["f"], u64: ["g"], i64: ["h"]}
        self._next = 0
        first: dict[str, Expr] = {
            "a": Load("words", LID),
            "b": Load("ints", LID),
            "c": cast(u64, Load("words", LID)),
            "d": Load("longs", LID),
            "e": GID,
            "f": cast(i32, LID),
            "g": cast(u64, GID),
            "h": cast(i64, LID),
        }
        self.program = program(*(Let(name, value) for name, value in first.items()), *self._body(3))

    def _number(self, dtype: ScalarType) -> Literal:
        choices = _EDGES if self._random.random() < 0.8 else _WIDE_EDGES
        bits = self._random.choice(choices) & ((1 << dtype.bits) - 1)
        return Literal(dtype, bits)

    def _value(self, dtype: ScalarType, depth: int) -> Expr:
        random = self._random
        if depth == 0 or random.random() < 0.2:
            names = self._names[dtype] + self._mutable[dtype]
            leaves: list[Expr] = [self._number(dtype), var(random.choice(names)), var(random.choice(names))]
            if dtype is u32:
                leaves += [GID, LID, BufferLength(random.choice(("out", "words", "table")))]
            elif dtype is i32:
                leaves += [Load("ints", LID), Load("tiny", LID)]
            elif dtype is i64:
                leaves.append(Load("longs", LID))
            return random.choice(leaves)
        kind = random.random()
        if kind < 0.3:
            source = random.choice(INTEGERS)
            return cast(dtype, self._value(source, depth - 1))
        if kind < 0.36:
            twins: dict[ScalarType, ScalarType] = {u32: i32, i32: u32, u64: i64, i64: u64}
            twin = twins[dtype]
            return Bitcast(dtype, self._value(twin, depth - 1))
        if kind < 0.42:
            return Select(self._condition(0), self._value(dtype, depth - 1), self._value(dtype, depth - 1))
        if kind < 0.46:
            unary = random.choice((UnaryOp.NEGATE, UnaryOp.BIT_NOT, UnaryOp.POPCOUNT, UnaryOp.CLZ, UnaryOp.ABS))
            return Unary(unary, self._value(dtype, depth - 1))
        if kind < 0.54 and dtype in (u32, i32):
            narrow = random.choice((u8, u16) if dtype is u32 else (i8, i16))
            if dtype is u32 and random.random() < 0.4:
                signed = random.choice((i8, i16))
                return Pack(signed, self._value(i32, depth - 1))
            operand = self._value(dtype, depth - 1)
            return Narrow(narrow, operand) if random.random() < 0.5 else Unpack(narrow, cast(u32, operand))
        operator = random.choice(_OPERATORS)
        left = self._value(dtype, depth - 1)
        if operator in (B.SHL, B.SHR, B.ROTATE_LEFT):
            return Binary(operator, left, lit(random.choice((0, 1, 2, 5, 31, 32, 33, 63))))
        right = self._number(dtype) if random.random() < 0.5 else self._value(dtype, depth - 1)
        return Binary(operator, left, right)

    def _condition(self, depth: int) -> Expr:
        random = self._random
        if depth and random.random() < 0.5:
            if random.random() < 0.2:
                return Unary(UnaryOp.LOGICAL_NOT, self._condition(depth - 1))
            joint = random.choice((B.AND, B.AND, B.OR))
            return op(joint, self._condition(depth - 1), self._condition(depth - 1))
        dtype = random.choice(INTEGERS)
        left = var(random.choice(self._names[dtype] + self._mutable[dtype])) if random.random() < 0.6 else None
        compared = left or self._value(dtype, 1)
        return op(random.choice(_COMPARISONS), compared, self._value(dtype, random.choice((0, 0, 1))))

    def _access(self) -> Stmt:
        dtype = self._random.choice(INTEGERS)
        index: Expr = var(self._random.choice(self._names[dtype] + self._mutable[dtype]))
        if self._random.random() < 0.5:
            index = op(self._random.choice((B.ADD, B.SUB)), index, self._small(dtype))
        elif self._random.random() < 0.5:
            index = self._value(dtype, 2)
        return put(index if not isinstance(index, Literal) else lit(0), self._random.choice(("out", "table")))

    def _small(self, dtype: ScalarType) -> Literal:
        return number(self._random.choice((0, 1, 2, 3)), dtype)

    def _name(self) -> str:
        self._next += 1
        return f"v{self._next}"

    def _body(self, depth: int) -> Body:
        random = self._random
        known = {dtype: list(names) for dtype, names in self._names.items()}
        body: list[Stmt] = []
        for _ in range(random.randint(2, 5)):
            match random.choice(("access", "access", "let", "assign", "if", "if", "chain", "leave", "loop", "switch")):
                case "let":
                    name, dtype = self._name(), random.choice(INTEGERS)
                    body.append(Let(name, self._value(dtype, 2)))
                    self._names[dtype].append(name)
                case "assign":
                    dtype = random.choice(INTEGERS)
                    body.append(Assign(random.choice(self._mutable[dtype]), self._value(dtype, 2)))
                case "if" if depth:
                    otherwise = self._body(depth - 1) if random.random() < 0.4 else ()
                    body.append(If(self._condition(2), self._body(depth - 1), otherwise))
                case "chain" if depth:
                    second = If(self._condition(1), self._body(depth - 1), self._body(0))
                    body.append(If(self._condition(1), (*self._body(0), *self._end()), (second,)))
                case "switch" if depth:
                    dtype = random.choice(INTEGERS)
                    arms = tuple(Arm((number(n, dtype),), (*self._body(0), *self._end())) for n in range(3))
                    body.append(Switch(self._value(dtype, 1), arms, self._body(depth - 1)))
                case "leave":
                    body.append(when(self._condition(1), Return()))
                case "loop" if depth:
                    body.append(self._loop(depth - 1))
                case _:
                    body.append(self._access())
        self._names = known
        return tuple(body)

    def _end(self) -> tuple[Stmt, ...]:
        return (Return(),) if self._random.random() < 0.3 else ()

    def _loop(self, depth: int) -> Stmt:
        random, name, dtype = self._random, self._name(), self._random.choice(INTEGERS)
        step: Expr = number(random.choice((1, 1, 2, 4)), dtype)
        start: Expr = random.choice((number(0, dtype), number(2, dtype), self._value(dtype, 1)))
        stop: Expr = op(B.MIN, self._value(dtype, 1), number(random.choice((7, 30, 100)), dtype))
        if dtype.is_signed and random.random() < 0.5:
            step = number(random.choice((-1, -1, -2)), dtype)
            start, stop = op(B.MIN, start, number(random.choice((7, 30, 100)), dtype)), self._number(dtype)
        elif random.random() < 0.1:
            step = self._value(dtype, 1)
            if isinstance(step, Literal) and step.bits == 0:
                step = number(1, dtype)
        self._names[dtype].append(name)
        made = Loop(name, start, stop, step, self._body(depth))
        self._names[dtype].remove(name)
        return made


def _case(seed: int) -> Case:
    random, made = Random(seed), _Maze(seed).program

    def numbers(count: int, size: int) -> bytes:
        edges = (*_EDGES, *_WIDE_EDGES)
        return b"".join((random.choice(edges) & ((1 << 8 * size) - 1)).to_bytes(size, "little") for _ in range(count))

    inputs = {"out": numbers(random.choice((0, 1, 9, 40)), 4), "words": numbers(8, 4), "ints": numbers(8, 4)}
    inputs |= {"longs": numbers(8, 8), "tiny": numbers(8, 1), "table": numbers(100, 4)}
    return Case(made, inputs, DispatchConfig(grid=(2, 1, 1), step_budget=150), Order.RACY)


def _check(seeds: range) -> None:
    _Guard.proven = _Guard.outside = 0
    for seed in seeds:
        run(WatchedEngine(_Guard), _case(seed))
    assert _Guard.proven > 4 * len(seeds) and _Guard.outside > 4 * len(seeds)


def test_no_proven_access_of_a_random_program_is_out_of_range() -> None:
    _check(range(60))


@pytest.mark.skipif(not SOAK, reason="a long run: set VYRE_SOAK=1 (make soak)")
def test_no_proven_access_of_many_random_programs_is_out_of_range() -> None:
    _check(range(60, 5_000))
