"""How far lanes agree on conditions, as the engines ask for it."""

from __future__ import annotations

import pytest

from support.kernels import GID, LID, TRUE, WGID, add, equal, kernel, less, lit, load, loop, store, var, when
from vyre.domain.analysis.uniformity import Uniformity, uniformity
from vyre.domain.ir.expr import (
    Atomic,
    BufferLength,
    Expr,
    IdKind,
    LaunchId,
    Select,
    SpecConst,
    SubgroupAdd,
    SubgroupBallot,
    SubgroupLane,
    SubgroupShuffle,
    SubgroupSize,
)
from vyre.domain.ir.operators import AtomicOp
from vyre.domain.ir.stmt import Assign, Break, Continue, If, Let, Loop, Return
from vyre.domain.validation.validator import validate

GRID, WORKGROUP, SUBGROUP, LANE = Uniformity

LEVELS: dict[str, tuple[Expr, Uniformity]] = {
    "literal": (lit(1), GRID),
    "specialization constant": (SpecConst("n", lit(1)), GRID),
    "length": (BufferLength("out"), GRID),
    "grid size": (LaunchId(IdKind.NUM_GROUPS, 0), GRID),
    "subgroup size": (SubgroupSize(), GRID),
    "workgroup id": (WGID, WORKGROUP),
    "local id": (LID, LANE),
    "global id": (GID, LANE),
    "subgroup lane": (SubgroupLane(), LANE),
    "constant memory at one index": (load("inp", lit(0)), GRID),
    "constant memory by workgroup": (load("inp", WGID), WORKGROUP),
    "constant memory by lane": (load("inp", LID), LANE),
    "written memory": (load("out", lit(0)), LANE),
    "workgroup memory": (load("sh", lit(0)), LANE),
    "atomic": (Atomic(AtomicOp.ADD, "sh", lit(0), None, lit(1)), LANE),
    "shuffle": (SubgroupShuffle(WGID, lit(0)), LANE),
    "ballot": (SubgroupBallot(less(LID, lit(2))), SUBGROUP),
    "subgroup sum": (SubgroupAdd(LID), SUBGROUP),
    "workgroup id + subgroup sum": (add(WGID, SubgroupAdd(LID)), SUBGROUP),
    "select of uniform values by a lane": (Select(less(LID, lit(1)), lit(1), lit(2)), LANE),
    "select of uniform values by a workgroup": (Select(less(WGID, lit(1)), lit(1), lit(2)), WORKGROUP),
}


@pytest.mark.parametrize(("value", "level"), LEVELS.values(), ids=LEVELS.keys())
def test_level_of_a_condition_and_of_bounds(value: Expr, level: Uniformity) -> None:
    direct, named, counted = when(equal(value, lit(0))), when(equal(var("x"), lit(0))), loop("k", var("x"))
    program = kernel(direct, Let("x", value), named, counted)
    assert validate(program).ok
    facts = uniformity(program)
    assert facts.condition(direct) is level
    assert facts.condition(named) is level
    assert facts.condition(counted) is level
    assert facts.iterations(counted) is level


def _facts_of(target: If | Loop, *body: If | Loop | Let | Assign) -> Uniformity:
    return uniformity(kernel(*body)).condition(target)


def test_a_value_chosen_by_lanes_differs_between_lanes() -> None:
    after = when(equal(var("n"), lit(5)))
    choose = when(less(LID, lit(2)), Assign("n", lit(5)))
    assert _facts_of(after, Let("n", lit(0)), choose, after) is LANE


def test_the_last_assignment_counts() -> None:
    after = when(equal(var("n"), lit(5)))
    assert _facts_of(after, Let("n", LID), Assign("n", WGID), after) is WORKGROUP


def test_what_a_loop_assigns_later_reaches_its_start() -> None:
    test = when(equal(var("n"), lit(1)))
    assert _facts_of(test, Let("n", lit(0)), loop("k", lit(2), test, Assign("n", LID))) is LANE


def test_what_lanes_that_stay_longer_assign_differs_after_the_loop() -> None:
    after = when(equal(var("n"), lit(1)))
    waiting = loop("k", lit(9), when(less(LID, var("k")), Break()), Assign("n", var("k")))
    assert _facts_of(after, Let("n", lit(0)), waiting, after) is LANE


def test_a_local_declared_under_a_lane_condition_is_uniform_there() -> None:
    inside = when(equal(var("n"), lit(3)))
    guarded = when(less(LID, lit(2)), Let("n", lit(0)), loop("k", lit(4), Assign("n", var("k"))), inside)
    assert uniformity(kernel(guarded)).condition(inside) is GRID


@pytest.mark.parametrize("leave", [Break(), Continue()])
@pytest.mark.parametrize(
    ("condition", "level"), [(less(LID, lit(1)), LANE), (less(WGID, lit(1)), WORKGROUP), (TRUE, GRID)]
)
def test_a_break_or_continue_decides_about_iterations_but_not_about_bounds(
    leave: Break | Continue, condition: Expr, level: Uniformity
) -> None:
    inner = loop("j", lit(3), when(condition, leave))
    outer = loop("k", lit(3), inner)
    facts = uniformity(kernel(outer))
    assert facts.iterations(inner) is level
    assert facts.condition(inner) is GRID
    assert facts.iterations(outer) is GRID


def test_lanes_that_have_ended_do_not_count() -> None:
    after = when(equal(var("n"), lit(1)))
    program = kernel(Let("n", lit(0)), when(less(LID, lit(1)), Assign("n", lit(1)), Return()), after, store(LID))
    assert uniformity(program).condition(after) is GRID


def test_a_statement_object_in_two_places_gets_what_holds_at_both() -> None:
    shared = when(equal(var("n"), lit(1)))
    program = kernel(Let("n", WGID), shared, Assign("n", LID), shared)
    assert uniformity(program).condition(shared) is LANE


def test_facts_are_cached_with_the_validation() -> None:
    program = kernel(when(TRUE))
    validate(program)
    assert uniformity(program) is uniformity(program)


def test_who_comes_to_the_end_of_a_round() -> None:
    alone, shared, late = loop("k", lit(9)), loop("l", WGID), loop("m", lit(9))
    inner = loop("n", lit(9))
    program = kernel(shared, when(less(LID, lit(3)), alone), loop("o", SubgroupAdd(LID), inner))
    facts = uniformity(program)
    assert [facts.rounds(each) for each in (shared, alone, inner)] == [WORKGROUP, LANE, SUBGROUP]
    ended = uniformity(kernel(when(less(LID, lit(3)), Return()), late))
    assert (ended.iterations(late), ended.rounds(late)) == (GRID, LANE)
