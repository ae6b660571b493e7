"""How far lanes agree on conditions, as the engines ask for it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from support.kernels import GID, LID, TRUE, WGID, add, equal, kernel, lane_sum, less, lit, load, loop, store, var, when
from vyre.domain.analysis.uniformity import Uniformity, uniformity
from vyre.domain.ir.expr import (
    Atomic,
    Binary,
    BufferLength,
    Cast,
    Expr,
    IdKind,
    LaunchId,
    Literal,
    Select,
    SpecConst,
    SubgroupBallot,
    SubgroupLane,
    SubgroupReduce,
    SubgroupShuffle,
    SubgroupSize,
)
from vyre.domain.ir.operators import AtomicOp, BinaryOp, SubgroupOp
from vyre.domain.ir.stmt import Assign, Break, Continue, If, Let, Loop, Return
from vyre.domain.ir.types import u32
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
    "subgroup sum": (lane_sum(LID), SUBGROUP),
    "subgroup scan": (SubgroupReduce(SubgroupOp.INCLUSIVE_ADD, WGID), LANE),
    "any lane": (Cast(u32, SubgroupReduce(SubgroupOp.ANY, less(LID, lit(2)))), SUBGROUP),
    "workgroup id + subgroup sum": (add(WGID, lane_sum(LID)), SUBGROUP),
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
    program = kernel(shared, when(less(LID, lit(3)), alone), loop("o", lane_sum(LID), inner))
    facts = uniformity(program)
    assert [facts.rounds(each) for each in (shared, alone, inner)] == [WORKGROUP, LANE, SUBGROUP]
    ended = uniformity(kernel(when(less(LID, lit(3)), Return()), late))
    assert (ended.iterations(late), ended.rounds(late)) == (GRID, LANE)


def _id(kind: IdKind, axis: int = 0) -> LaunchId:
    return LaunchId(kind, axis)


X, Y, GLOBAL_X = _id(IdKind.LOCAL), _id(IdKind.LOCAL, 1), _id(IdKind.GLOBAL)


def _divided(op: BinaryOp, left: Expr, right: int) -> Expr:
    return Binary(op, left, lit(right))


@pytest.mark.parametrize(
    ("value", "workgroup", "level"),
    [
        (_divided(BinaryOp.DIV, X, 32), (64, 1, 1), SUBGROUP),
        (_divided(BinaryOp.DIV, GLOBAL_X, 32), (64, 1, 1), SUBGROUP),
        (_divided(BinaryOp.SHR, GLOBAL_X, 5), (64, 1, 1), SUBGROUP),
        (_divided(BinaryOp.BIT_AND, X, 32), (64, 1, 1), SUBGROUP),
        (_divided(BinaryOp.DIV, X, 96), (96, 2, 1), SUBGROUP),
        (_divided(BinaryOp.DIV, X, 32), (48, 1, 1), SUBGROUP),  # the last subgroup has 16 lanes
        (_divided(BinaryOp.DIV, GLOBAL_X, 32), (48, 1, 1), LANE),
        (_divided(BinaryOp.DIV, X, 16), (64, 1, 1), LANE),
        (_divided(BinaryOp.SHR, X, 4), (64, 1, 1), LANE),
        (_divided(BinaryOp.BIT_AND, X, 33), (64, 1, 1), LANE),
        (_divided(BinaryOp.DIV, X, 32), (48, 2, 1), LANE),
        (Y, (32, 4, 1), SUBGROUP),
        (_id(IdKind.GLOBAL, 1), (32, 4, 1), SUBGROUP),
        (Y, (16, 4, 1), LANE),
        (_divided(BinaryOp.DIV, Y, 2), (16, 4, 1), SUBGROUP),
        (_divided(BinaryOp.DIV, _id(IdKind.LOCAL, 2), 2), (4, 4, 4), SUBGROUP),
        (_divided(BinaryOp.DIV, Y, 8), (4, 4, 4), LANE),
        (_divided(BinaryOp.DIV, Y, 2), (12, 4, 1), LANE),
        (_id(IdKind.GLOBAL, 1), (64, 1, 1), WORKGROUP),
        (Y, (64, 1, 1), GRID),
        (_divided(BinaryOp.DIV, Y, 32), (64, 1, 1), GRID),
        (_divided(BinaryOp.LT, _id(IdKind.GLOBAL, 1), 32), (64, 1, 1), WORKGROUP),
        (_divided(BinaryOp.LT, _id(IdKind.GROUP), 32), (64, 1, 1), WORKGROUP),
        (_divided(BinaryOp.DIV, _id(IdKind.GROUP, 1), 32), (16, 4, 1), WORKGROUP),
        (_divided(BinaryOp.GE, _id(IdKind.NUM_GROUPS), 32), (64, 1, 1), GRID),
    ],
)
def test_the_shape_of_a_workgroup_proves_that_ids_agree_in_a_subgroup(
    value: Expr, workgroup: tuple[int, int, int], level: Uniformity
) -> None:
    plain, named = when(equal(value, lit(0))), when(equal(var("n"), lit(0)))
    program = replace(kernel(plain, Let("n", value), named), workgroup_size=workgroup)
    facts = uniformity(program)
    assert (facts.condition(plain), facts.condition(named)) == (level, level)
    if workgroup[0] <= 64:  # all ids of each subgroup, counted
        assert level is LANE or _agree_in_subgroups(value, workgroup)


def _agree_in_subgroups(value: Expr, workgroup: tuple[int, int, int]) -> bool:
    """Returns whether a value is the same in each subgroup of the third workgroup along each axis."""
    x, y, z = workgroup
    found: dict[int, set[int]] = {}
    for linear in range(x * y * z):
        local = linear % x, linear // x % y, linear // (x * y)
        found.setdefault(linear // 32, set()).add(_value(value, local, workgroup))
    return all(len(values) == 1 for values in found.values())


def _value(value: Expr, local: tuple[int, int, int], workgroup: tuple[int, int, int]) -> int:
    if isinstance(value, LaunchId):
        if value.kind in (IdKind.GROUP, IdKind.NUM_GROUPS):
            return 2
        before = 2 * workgroup[value.axis] if value.kind is IdKind.GLOBAL else 0
        return before + local[value.axis]
    assert isinstance(value, Binary) and isinstance(value.right, Literal)
    left, right = _value(value.left, local, workgroup), value.right.bits
    results = {BinaryOp.DIV: left // right, BinaryOp.SHR: left >> right, BinaryOp.BIT_AND: left & right}
    return (results | {BinaryOp.LT: left < right, BinaryOp.GE: left >= right})[value.op]


@pytest.mark.parametrize("op", [BinaryOp.LT, BinaryOp.GE])
def test_a_comparison_with_a_multiple_of_a_subgroup_agrees_in_it(op: BinaryOp) -> None:
    for bound, level in ((32, SUBGROUP), (64, SUBGROUP), (40, LANE)):
        tested = when(_divided(op, X, bound))
        assert uniformity(replace(kernel(tested), workgroup_size=(64, 1, 1))).condition(tested) is level
    changed = when(_divided(op, var("n"), 32))
    program = replace(kernel(Let("n", X), Assign("n", lit(7)), changed), workgroup_size=(64, 1, 1))
    assert uniformity(program).condition(changed) is GRID
    drifting = when(_divided(op, var("n"), 32))
    body = (Let("n", X), Assign("n", add(X, lit(1))), drifting)
    assert uniformity(replace(kernel(*body), workgroup_size=(64, 1, 1))).condition(drifting) is LANE
