"""The plan of a program with grid loops, and the same loops as ordinary ones."""

from __future__ import annotations

from typing import Final

import pytest

from support.kernels import GID, GRID_SYNC, add, equal, kernel, less, lit, load, store, var, when
from vyre.domain.grid_sync import (
    WORDS_PER_LOOP,
    Rounds,
    Step,
    grid_control,
    has_grid_barriers,
    has_grid_loops,
    hidden_control,
    plan_grid_sync,
    plan_programs,
)
from vyre.domain.ir.expr import IdKind, LaunchId
from vyre.domain.ir.program import Access, Buffer, Program
from vyre.domain.ir.stmt import Block, Body, GridLoop, If, Let, Loop, Region, Stmt, Store, walk_statements
from vyre.domain.ir.types import u32
from vyre.domain.native_rounds import with_native_rounds
from vyre.domain.program_report import InvalidProgram
from vyre.domain.validation.validator import validate

OUT: Final = Buffer.make("out", 0, Access.READ_WRITE, u32)
FLAG: Final = Buffer.make("flag", 1, Access.READ_WRITE, u32, 1)
ONE: Final = lit(1)
SET: Final = Store("flag", lit(0), ONE)
GROUPS: Final = LaunchId(IdKind.NUM_GROUPS, 0)


def rounds(*body: Stmt, name: str = "rounds", limit: int = 9) -> GridLoop:
    return GridLoop(name, lit(limit), "flag", body)


def looping(*body: Stmt, buffers: tuple[Buffer, ...] = (OUT, FLAG)) -> Program:
    made = kernel(*body, buffers=buffers)
    validate(made).raise_if_invalid()
    return made


def shape(steps: tuple[Step, ...]) -> list[object]:
    """The bodies of a plan; a loop as a list of those of its own steps."""
    return [shape(step.body) if isinstance(step, Rounds) else step.body for step in steps]


def test_a_program_with_a_loop_has_its_parts_and_the_hidden_buffer() -> None:
    program = looping(store(lit(1)), rounds(SET), store(var("rounds")))
    control = grid_control(program)
    assert control is not None
    assert (control.binding, control.count, control.element) == (2, WORDS_PER_LOOP, u32)
    plan = plan_grid_sync(program)
    rounds_are = Let("rounds", load(control.name, lit(1)))
    assert shape(plan) == [(store(lit(1)),), [(SET,)], (rounds_are, store(var("rounds")))]
    for part in plan_programs(plan):
        assert part.buffers == (*program.buffers, control)
        assert hidden_control(part) is control
        assert validate(part).ok
        assert not has_grid_barriers(part)
    assert plan_grid_sync(program) is plan
    assert has_grid_loops(program) and has_grid_barriers(program)


def test_a_program_without_a_loop_has_no_hidden_buffer() -> None:
    program = kernel(store(lit(1)), GRID_SYNC, store(lit(2)))
    assert grid_control(program) is None and not has_grid_loops(program)
    assert with_native_rounds(program) is program
    assert [hidden_control(part) for part in plan_programs(plan_grid_sync(program))] == [None, None]


def test_every_loop_has_words_of_its_own() -> None:
    program = looping(rounds(SET, name="a"), rounds(SET, name="b"), store(add(var("a"), var("b"))))
    first, second, last = plan_grid_sync(program)
    assert isinstance(first, Rounds) and isinstance(second, Rounds) and isinstance(last, Program)
    assert (first.word, second.word) == (0, WORDS_PER_LOOP)
    control = grid_control(program)
    assert control is not None and control.count == 2 * WORDS_PER_LOOP
    lets = [stmt for stmt in last.body if isinstance(stmt, Let)]
    assert [let.value for let in lets] == [load(control.name, lit(1)), load(control.name, lit(WORDS_PER_LOOP + 1))]


def test_names_of_the_program_are_left_to_it() -> None:
    taken = Buffer.make("grid_control", 2, Access.READ_WRITE, u32)
    program = looping(Let("grid_limit", GID), rounds(store(var("grid_limit"))), buffers=(OUT, FLAG, taken))
    control = grid_control(program)
    assert control is not None and control.name not in program.buffers_by_name
    assert all(validate(part).ok for part in plan_programs(plan_grid_sync(program)))


def test_parts_that_only_declare_locals_are_left_out() -> None:
    program = looping(Let("i", GID), Block((Let("j", GID),)), rounds(GRID_SYNC, store(var("i")), GRID_SYNC))
    (loop,) = plan_grid_sync(program)
    assert isinstance(loop, Rounds)
    assert [part.body for part in plan_programs(loop.body)] == [(Let("i", GID), store(var("i")))]


def test_scopes_around_a_loop_are_around_its_parts() -> None:
    let = Let("i", GID)
    program = looping(Region("g", (let, rounds(store(var("i")), GRID_SYNC, store(lit(2))), store(lit(3))), "a.c"))

    def inside(*body: Stmt) -> Body:
        return (Region("g", body, "a.c"),)

    loop, behind = plan_grid_sync(program)
    assert isinstance(loop, Rounds) and isinstance(behind, Program)
    assert shape(loop.body) == [inside(let, store(var("i"))), inside(store(lit(2)))]
    assert behind.body == inside(store(lit(3)))
    assert loop.enter.body[0] == Region("g", loop.enter.body[0].body, "a.c")  # type: ignore[union-attr]


def test_branches_of_the_whole_grid_are_split() -> None:
    """Both branches share their parts; the condition is evaluated in each of them."""
    test = equal(GROUPS, ONE)
    then = (store(lit(1)), GRID_SYNC, store(lit(2)))
    otherwise = (store(lit(3)), GRID_SYNC, store(lit(4)), GRID_SYNC, store(lit(5)))
    (loop,) = plan_grid_sync(looping(rounds(If(test, then, otherwise))))
    assert isinstance(loop, Rounds)
    assert shape(loop.body) == [
        (If(test, (store(lit(1)),), (store(lit(3)),)),),
        (If(test, (store(lit(2)),), (store(lit(4)),)),),
        (If(test, (), (store(lit(5)),)),),
    ]


def test_a_chain_of_many_links_is_split_without_recursion() -> None:
    body: Body = ()
    for number in range(5_000):
        body = (If(equal(GROUPS, lit(number)), (store(lit(number)), GRID_SYNC, store(lit(number))), body),)
    (loop,) = plan_grid_sync(looping(rounds(*body)))
    assert isinstance(loop, Rounds) and len(loop.body) == 2
    for part in plan_programs(loop.body):
        assert sum(isinstance(stmt, Store) for stmt in walk_statements(part.body)) == 5_000


def test_an_invalid_program_is_refused() -> None:
    with pytest.raises(InvalidProgram, match="V222"):
        plan_grid_sync(kernel(rounds(store(load("flag", lit(0)))), buffers=(OUT, FLAG)))


# Native rounds.


def barriers(program: Program) -> int:
    return sum(stmt == GRID_SYNC for stmt in walk_statements(program.body))


def test_native_rounds_store_to_hidden_flags() -> None:
    program = looping(rounds(SET))
    native = with_native_rounds(program)
    assert not has_grid_loops(native)
    assert with_native_rounds(program) is native
    assert hidden_control(native) is grid_control(program)
    (loop,) = (stmt for stmt in walk_statements(native.body) if isinstance(stmt, Loop))
    written = {stmt.buffer for stmt in walk_statements(loop.body) if isinstance(stmt, Store)}
    assert written == {"grid_control"}
    assert barriers(native) == 2, "one before the first round, and one in each"


@pytest.mark.parametrize(
    ("flag", "body"),
    [
        (FLAG, (when(less(GID, lit(3)), Store("flag", GID, ONE)),)),
        (Buffer.make("flag", 1, Access.READ_WRITE, u32, 4), (Store("flag", lit(2), ONE),)),
    ],
)
def test_a_flag_of_which_other_elements_are_stored_is_used_itself(flag: Buffer, body: Body) -> None:
    native = with_native_rounds(looping(rounds(*body), buffers=(OUT, flag)))
    (loop,) = (stmt for stmt in walk_statements(native.body) if isinstance(stmt, Loop))
    assert {s.buffer for s in walk_statements(loop.body) if isinstance(s, Store)} == {"flag", "grid_control"}
    assert barriers(native) == 3, "one before the first round, and two in each"


@pytest.mark.parametrize("behind", [load("flag", lit(0)), lit(1)])
def test_a_barrier_follows_if_the_flag_is_read_behind(behind: Stmt) -> None:
    native = with_native_rounds(looping(rounds(SET), store(behind)))  # type: ignore[arg-type]
    assert barriers(native) == 2 + (behind != lit(1))


def test_loops_have_names_of_their_own() -> None:
    native = with_native_rounds(looping(rounds(SET, name="a"), rounds(SET, name="b")))
    declared = [stmt.name for stmt in walk_statements(native.body) if isinstance(stmt, Let)]
    assert len(declared) == len(set(declared))


# Loops with grid barriers.


def test_a_loop_with_barriers_is_rounds_of_its_own() -> None:
    inner = Loop("k", lit(2), GROUPS, lit(3), (store(var("k")), GRID_SYNC, store(GID)))
    program = looping(rounds(inner, SET))
    (outer,) = plan_grid_sync(program)
    assert isinstance(outer, Rounds)
    loop, behind = outer.body
    assert isinstance(loop, Rounds) and isinstance(behind, Program)
    assert (outer.word, loop.word) == (0, WORDS_PER_LOOP)
    control = grid_control(program)
    assert control is not None and control.count == 2 * WORDS_PER_LOOP
    first, second = loop.body
    assert isinstance(first, Program) and isinstance(second, Program)
    assert [type(stmt) for stmt in first.body] == [Let, Store]
    assert second.body == (store(GID),)
    assert behind.body == (SET,)
    assert all(validate(part).ok for part in plan_programs(plan_grid_sync(program)))


def test_native_loops_have_the_barriers_of_split_ones() -> None:
    inner = Loop("k", lit(2), GROUPS, lit(3), (store(var("k")), GRID_SYNC, store(GID)))
    assert barriers(with_native_rounds(looping(rounds(inner, SET)))) == 2 + 3
