"""Zeroing of private memory: what may go without, and that no random program loads there what it did not store."""

from __future__ import annotations

from typing import Final, NamedTuple

import pytest

from support.kernels import GID, GRID_SYNC, LID, add, kernel, less, lit, load, loop, op, store, var, when
from support.validation.flow_programs import Extra, flow_program
from support.validation.lane_traces import trace
from vyre.domain.analysis.bounds_checks import bounds_facts
from vyre.domain.analysis.zeroing import needs_private_zeroing
from vyre.domain.ir.expr import Cast, Expr
from vyre.domain.ir.operators import BinaryOp
from vyre.domain.ir.program import Access, Buffer, Program
from vyre.domain.ir.stmt import Arm, Assign, Block, Body, Break, Continue, If, Let, Region, Return, Stmt, Switch
from vyre.domain.ir.text import print_program
from vyre.domain.ir.types import i32, i64, u8, u32
from vyre.domain.validation.validator import check_rules, validate

B: Final = BinaryOp
OUT: Final = Buffer.make("out", 0, Access.READ_WRITE, u32)
A: Final = Buffer.make("a", 0, Access.PRIVATE, u32, 16)
C: Final = Buffer.make("c", 0, Access.PRIVATE, u8, 64)
CONDITION: Final = less(load("out", GID), lit(7))


class Row(NamedTuple):
    name: str
    needs: set[str]
    body: Body


def put(index: Expr | int, buffer: str = "a") -> Stmt:
    return store(GID, buffer, lit(index) if isinstance(index, int) else index)


def use(index: Expr | int, buffer: str = "a") -> Stmt:
    return store(load(buffer, lit(index) if isinstance(index, int) else index), "out", GID)


def fill(*body: Stmt, stop: int = 16, start: int = 0, step: int = 1, name: str = "k") -> Stmt:
    return loop(name, lit(stop), *(body or (put(var(name)),)), start=lit(start), step=lit(step))


def down(*body: Stmt, start: int = 15, stop: int = -1, step: int = -1) -> Stmt:
    return loop("k", lit(stop, i32), *body, start=lit(start, i32), step=lit(step, i32))


def switch(*bodies: Body) -> Switch:
    """The last body is the default."""
    *arms, default = bodies
    return Switch(load("out", GID), tuple(Arm((lit(n),), body) for n, body in enumerate(arms)), default)


def chain(*bodies: Body) -> Stmt:
    *links, otherwise = bodies
    for body in reversed(links):
        otherwise = (If(CONDITION, body, otherwise),)
    return otherwise[0]


SOME: Final = op(B.BIT_AND, GID, lit(3))
"""An index in 0..3."""
SQUARE: Final = add(op(B.MUL, var("y"), lit(8)), var("x"))
ALL: Final = (fill(), use(GID))

ROWS: Final = (
    Row("never touched", set(), ()),
    Row("never loaded", set(), (put(3),)),
    Row("only loaded", {"a"}, (use(3),)),
    Row("stored and loaded", set(), (put(3), use(3))),
    Row("loaded and stored", {"a"}, (use(3), put(3))),
    Row("another element", {"a"}, (put(3), use(4))),
    Row("the stored value loads it", {"a"}, (store(load("a", lit(3)), "a", lit(3)),)),
    Row("the stored index loads it", {"a"}, (put(load("a", lit(3))),)),
    Row("two buffers", {"c"}, (put(3), use(3), use(3, "c"))),
    Row("the same element of another buffer", {"a"}, (put(3, "c"), use(3))),
    Row("by a name", set(), (Let("i", lit(3)), put(var("i")), use(3))),
    Row("by an i32", set(), (put(lit(3, i32)), use(lit(3, i64)))),
    Row("by a name that changed", {"a"}, (
        Let("i", lit(3)), when(CONDITION, Assign("i", lit(4))), put(var("i")), use(3),
    )),
    Row("an unknown element", {"a"}, (put(SOME), use(SOME))),
    Row("one of those that are stored", set(), (*(put(n) for n in range(4)), use(SOME))),
    Row("one of those of which one is not stored", {"a"}, (*(put(n) for n in (0, 1, 3)), use(SOME))),
    Row("out of range", set(), (use(16), use(lit(-1, i32)), use(add(SOME, lit(16))))),
    Row("by way of a signed number", {"a"}, (put(0), use(Cast(i32, GID)))),
    # flow
    Row("stored in a block", set(), (Block((put(3),)), Region("g", (use(3),)))),
    Row("stored under a condition", {"a"}, (when(CONDITION, put(3)), use(3))),
    Row("stored and loaded under a condition", set(), (when(CONDITION, put(3), use(3)),)),
    Row("loaded by the condition", {"a"}, (when(less(load("a", lit(3)), lit(1)), put(3)),)),
    Row("stored on both sides", set(), (when(CONDITION, put(3), otherwise=(put(3),)), use(3))),
    Row("the other side returns", set(), (when(CONDITION, put(3), otherwise=(Return(),)), use(3))),
    Row("this side returns", {"a"}, (when(CONDITION, put(3), Return()), use(3))),
    Row("in all links", set(), (chain((put(3),), (put(3),), (put(3),)), use(3))),
    Row("in all links but the last", {"a"}, (chain((put(3),), (put(3),), ()), use(3))),
    Row("in all links but one that returns", set(), (chain((put(3),), (Return(),), (put(3),)), use(3))),
    Row("loaded by the condition of a second link", {"a"}, (
        If(CONDITION, (put(3),), (If(less(load("a", lit(3)), lit(1)), (put(3),)),)),
    )),
    Row("in every arm", set(), (switch((put(3),), (put(3),), (put(3),)), use(3))),
    Row("in every arm but the default", {"a"}, (switch((put(3),), (put(3),), ()), use(3))),
    Row("loaded in another arm", {"a"}, (switch((put(3),), (use(3),)),)),
    Row("loaded by the selector", {"a"}, (Switch(load("a", lit(3)), (), (put(3),)),)),
    Row("stored before the switch", set(), (put(3), switch((use(3),), (use(3),)))),
    # loops
    Row("a loop over all elements", set(), ALL),
    Row("a loop over fewer", {"a"}, (fill(stop=15), use(GID))),
    Row("a loop over more", {"a"}, (fill(stop=17), use(GID))),
    Row("a loop from the second one", {"a"}, (fill(start=1), use(GID))),
    Row("and the first one before", set(), (put(0), fill(start=1), use(GID))),
    Row("every other element", {"a"}, (fill(step=2), use(GID))),
    Row("the others, too", set(), (fill(step=2), fill(start=1, step=2), use(GID))),
    Row("two elements a round", set(), (fill(put(var("k")), put(add(var("k"), lit(1))), step=2), use(GID))),
    Row("backwards by the index", set(), (fill(put(op(B.SUB, lit(15), var("k")))), use(GID))),
    Row("a loop that counts down is not looked at", {"a"}, (down(put(var("k"))), use(GID))),
    Row("which runs, though", set(), (down(put(0)), use(0))),
    Row("a loop that does not run", {"a"}, (down(put(0), start=-3), use(0))),
    Row("a loop over an i32", set(), (
        loop("k", lit(16, i32), put(var("k")), start=lit(0, i32), step=lit(1, i32)), use(GID),
    )),
    Row("a loop that may not run", {"a"}, (loop("k", load("out", GID), put(3)), use(3))),
    Row("a loop that runs", set(), (fill(put(3), stop=2), use(3))),
    Row("loaded in the round that stored", set(), (loop("k", load("out", GID), put(3), use(3)),)),
    Row("loaded in the round after the one that stored", {"a"}, (fill(use(3), put(3)),)),
    Row("stored under a condition of the loop", {"a"}, (fill(when(CONDITION, put(var("k")))), use(GID))),
    Row("after a continue", {"a"}, (fill(when(CONDITION, Continue()), put(var("k"))), use(GID))),
    Row("before a continue", set(), (fill(put(var("k")), when(CONDITION, Continue())), use(GID))),
    Row("before a break", {"a"}, (fill(put(var("k")), when(CONDITION, Break())), use(GID))),
    Row("one element before a break", set(), (fill(put(3), when(CONDITION, Break())), use(3))),
    Row("one element after a break", {"a"}, (fill(when(CONDITION, Break()), put(3)), use(3))),
    Row("before a return", set(), (fill(put(var("k")), when(CONDITION, Return())), use(GID))),
    Row("every round is broken off", {"a"}, (fill(put(var("k")), Break()), use(GID))),
    Row("after a loop that nothing leaves", set(), (fill(Return()), use(3))),
    Row("rows and columns", set(), (
        fill(fill(put(SQUARE, "c"), stop=8, name="x"), stop=8, name="y"), use(GID, "c"),
    )),
    Row("rows and fewer columns", {"c"}, (
        fill(fill(put(SQUARE, "c"), stop=7, name="x"), stop=8, name="y"), use(GID, "c"),
    )),
    Row("one row", {"c"}, (fill(fill(put(SQUARE, "c"), stop=8, name="x"), use(GID, "c"), stop=8, name="y"),)),
    Row("rows and columns with a break inside", {"c"}, (
        fill(fill(put(SQUARE, "c"), when(CONDITION, Break()), stop=8, name="x"), stop=8, name="y"), use(GID, "c"),
    )),
    Row("rows and columns after a continue outside", {"c"}, (
        fill(when(CONDITION, Continue()), fill(put(SQUARE, "c"), stop=8, name="x"), stop=8, name="y"), use(GID, "c"),
    )),
    Row("rows and columns after a break outside", {"c"}, (
        fill(when(CONDITION, Break()), fill(put(SQUARE, "c"), stop=8, name="x"), stop=8, name="y"), use(GID, "c"),
    )),
    Row("rows that are left out under a condition", {"c"}, (
        fill(when(CONDITION, fill(put(SQUARE, "c"), stop=8, name="x")), stop=8, name="y"), use(GID, "c"),
    )),
    Row("a stack", {"a"}, (
        Let("top", lit(0)), put(var("top")), Assign("top", add(var("top"), lit(1))),
        loop("k", load("out", GID), Assign("top", op(B.SUB, var("top"), lit(1))), use(var("top"))),
    )),
    Row("in the second of two parts", set(), (GRID_SYNC, put(3), use(3))),
)  # fmt: skip


def program(row: Row) -> Program:
    made = kernel(*row.body, buffers=(OUT, A, C))
    assert not check_rules(made).errors, validate(made).render()
    return made


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_rows(row: Row) -> None:
    made = program(row)
    assert needs_private_zeroing(made, bounds_facts(made)) == row.needs


def test_without_private_memory_there_is_nothing_to_zero() -> None:
    made = kernel(store(LID, "sh"), store(load("sh")))
    assert needs_private_zeroing(made, bounds_facts(made)) == frozenset()


def test_the_largest_private_memory_is_followed() -> None:
    sizes = (30_000, 35_536)
    buffers = [Buffer.make(f"p{n}", 0, Access.PRIVATE, u8, count) for n, count in enumerate(sizes)]
    fills = [fill(put(var(f"k{n}"), f"p{n}"), stop=count, name=f"k{n}") for n, count in enumerate(sizes)]
    made = kernel(*fills, use(GID, "p0"), use(GID, "p1"), buffers=(OUT, *buffers))
    assert validate(made).ok
    assert needs_private_zeroing(made, bounds_facts(made)) == frozenset()
    made = kernel(fills[0], use(GID, "p0"), use(0, "p1"), buffers=(OUT, *buffers))
    assert needs_private_zeroing(made, bounds_facts(made)) == {"p1"}


def test_no_lane_of_a_random_program_loads_what_it_did_not_store() -> None:
    """Told by an independent interpreter; in many programs no zeros are needed, in many others they are observed."""
    spared = observed = 0
    for seed in range(600):
        made = flow_program(seed, Extra.PRIVATE, *((Extra.CHOICES,) if seed % 2 else ()), Extra.RETURNS)
        if check_rules(made).errors:
            continue
        needed = needs_private_zeroing(made, bounds_facts(made))
        loads = 0
        fresh = False
        for group in range(2):
            for lane in range(4):
                stored: set[int] = set()
                for kind, *rest in trace(made, group, lane):
                    if kind == "store" and rest[0] == "own":
                        stored.add(rest[1])
                    elif kind == "load" and rest[0] == "own":
                        loads += 1
                        fresh |= rest[1] not in stored
        assert not fresh or "own" in needed, print_program(made)
        observed += fresh
        spared += loads > 0 and not needed
    assert spared > 10 and observed > 40, (spared, observed)
