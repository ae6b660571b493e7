"""The launches that a program with grid barriers stands for."""

from __future__ import annotations

import pytest

from support.kernels import BARRIER, GRID_SYNC, LID, add, kernel, less, lit, load, located, store, var, when
from vyre.domain.grid_sync import plan_grid_sync, plan_programs
from vyre.domain.ir.program import Program
from vyre.domain.ir.stmt import Assign, Block, Body, Let, Region
from vyre.domain.program_report import InvalidProgram
from vyre.domain.validation.validator import validate


def _bodies(program: Program) -> list[Body]:
    segments = list(plan_programs(plan_grid_sync(program)))
    assert all(validate(segment).ok for segment in segments)
    return [segment.body for segment in segments]


def test_a_program_without_grid_barriers_is_its_own_plan() -> None:
    program = kernel(store(LID), BARRIER, store(lit(1)))
    assert plan_grid_sync(program) == (program,)
    assert plan_grid_sync(program)[0] is program


@pytest.mark.parametrize("barriers", [1, 3])
def test_one_launch_more_than_barriers(barriers: int) -> None:
    program = kernel(*(part for i in range(barriers) for part in (store(lit(i)), GRID_SYNC)), store(lit(9)))
    assert _bodies(program) == [*((store(lit(i)),) for i in range(barriers)), (store(lit(9)),)]


def test_barriers_at_the_ends_leave_empty_launches() -> None:
    assert _bodies(kernel(GRID_SYNC, store(LID), GRID_SYNC)) == [(), (store(LID),), ()]


def test_a_barrier_in_blocks_and_regions_cuts_them_all() -> None:
    inner = Region("inner", (store(lit(0)), GRID_SYNC, store(lit(1))), "scan.c")
    program = kernel(store(lit(2)), Block((inner, store(lit(3)))), store(lit(4)))
    assert _bodies(program) == [
        (store(lit(2)), Block((Region("inner", (store(lit(0)),), "scan.c"),))),
        (Block((Region("inner", (store(lit(1)),), "scan.c"), store(lit(3)))), store(lit(4))),
    ]


def test_scopes_that_become_empty_vanish_and_others_stay() -> None:
    program = kernel(Block(()), Block((GRID_SYNC, store(LID))))
    assert _bodies(program) == [(Block(()),), (Block((store(LID),)),)]


def test_locals_are_computed_again_where_they_are_needed_dependencies_first() -> None:
    lets = Let("i", LID), Let("j", add(var("i"), lit(1))), Let("unused", lit(0))
    program = kernel(*lets, GRID_SYNC, store(var("j")), GRID_SYNC, when(less(var("i"), lit(3)), store(lit(5))))
    assert _bodies(program) == [
        lets,
        (lets[0], lets[1], store(var("j"))),
        (lets[0], when(less(var("i"), lit(3)), store(lit(5)))),
    ]


def test_names_mean_what_they_mean_in_their_scope() -> None:
    first = Block((Let("x", lit(1)), GRID_SYNC, store(var("x"))))
    second = Block((Let("x", lit(2)), Assign("x", lit(3)), store(var("x"))))
    third = Block((Let("x", lit(4)), GRID_SYNC, store(var("x"))))
    assert _bodies(kernel(first, second, third)) == [
        (Block((Let("x", lit(1)),)),),
        (Block((Let("x", lit(1)), store(var("x")))), second, Block((Let("x", lit(4)),))),
        (Block((Let("x", lit(4)), store(var("x")))),),
    ]


def test_an_inner_scope_takes_a_local_of_an_outer_one() -> None:
    program = kernel(Let("i", LID), Block((GRID_SYNC, store(var("i")))))
    assert _bodies(program)[1] == (Let("i", LID), Block((store(var("i")),)))


def test_loads_of_what_the_program_never_writes_are_repeated() -> None:
    program = kernel(Let("n", load("inp")), GRID_SYNC, store(var("n")))
    assert _bodies(program)[1] == (Let("n", load("inp")), store(var("n")))


def test_launches_keep_everything_but_the_body() -> None:
    program = Program(kernel().buffers, (8, 2, 1), (store(LID), GRID_SYNC, store(LID)), "scan", non_composable=True)
    for segment in plan_programs(plan_grid_sync(located(program))):
        assert segment.buffers == program.buffers
        assert segment.workgroup_size == program.workgroup_size
        assert (segment.name, segment.non_composable) == ("scan", True)
        assert segment.loc is not None
        assert plan_grid_sync(segment) == (segment,)


def test_the_plan_is_cached() -> None:
    program = kernel(store(LID), GRID_SYNC)
    assert plan_grid_sync(program) is plan_grid_sync(program)


def test_an_invalid_program_has_no_plan() -> None:
    with pytest.raises(InvalidProgram, match="V207") as raised:
        plan_grid_sync(kernel(when(less(LID, lit(2)), GRID_SYNC)))
    assert raised.value.report is not None
