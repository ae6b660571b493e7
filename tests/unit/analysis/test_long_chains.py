"""Chains of ten thousand ``else if`` and switches of as many arms go through every analysis, and are understood."""

from __future__ import annotations

from typing import Final

import pytest

from support.kernels import BARRIER, BUFFERS, GRID_SYNC, LID, OWN, UNIFORM, WGID, equal, kernel, lit, load, store, var
from vyre.domain.analysis.bounds_checks import bounds_facts
from vyre.domain.analysis.lane_facts import lane_facts
from vyre.domain.analysis.uniformity import Uniformity, uniformity
from vyre.domain.analysis.wide_access import wide_facts
from vyre.domain.analysis.zeroing import needs_private_zeroing, needs_zeroing
from vyre.domain.grid_sync import plan_grid_sync
from vyre.domain.ir.bake import baked
from vyre.domain.ir.buffers import MemoryKind
from vyre.domain.ir.expr import Atomic, Load, SpecConst
from vyre.domain.ir.operators import AtomicOp
from vyre.domain.ir.program import Access, Buffer, Program
from vyre.domain.ir.stmt import Arm, AsyncLoad, AsyncWait, Body, If, Let, Stmt, Store, Switch, walk_statements
from vyre.domain.ir.types import bool_, u32
from vyre.domain.op_ids import required_ops
from vyre.domain.specialization import spec_constants
from vyre.domain.validation.validator import validate

LINKS: Final = 10_000
PARAMETER: Final = Buffer("n", 7, Access.UNIFORM, u32, 1, kind=MemoryKind.PUSH)
CHOICES: Final = ("chain", "switch")


def choice(kind: str, *bodies: Body, otherwise: Body = ()) -> Stmt:
    """A statement that chooses by the workgroup among these bodies."""
    if kind == "switch":
        return Switch(WGID, tuple(Arm((lit(n),), body) for n, body in enumerate(bodies)), otherwise)
    for n, body in reversed(list(enumerate(bodies))):
        # Comparisons would use up the effort that the index analysis spends on a program.
        condition = SpecConst(f"is{n}", lit(False, bool_)) if n else equal(WGID, lit(9))
        otherwise = (If(condition, body, otherwise),)
    return otherwise[0]


def many(kind: str, last: Body = (), *, filling: Body = (), otherwise: Body = ()) -> Stmt:
    return choice(kind, *[filling] * (LINKS - 1), last, otherwise=otherwise)


def program(*body: Stmt) -> Program:
    return kernel(*body, buffers=(*BUFFERS, OWN, PARAMETER))


def codes(made: Program) -> set[str]:
    return {found.code for found in validate(made).errors}


@pytest.mark.parametrize("kind", CHOICES)
def test_the_checks_reach_the_last_body(kind: str) -> None:
    wait, copy = AsyncWait("t"), AsyncLoad("inp", "sh", lit(0), lit(4), "t")
    atomic = Let("o", Atomic(AtomicOp.ADD, "out", lit(0), None, lit(1)))
    assert codes(program(many(kind, (BARRIER,)))) == set()
    assert codes(program(many(kind, (GRID_SYNC,)))) == {"V207"}
    assert codes(program(many(kind, (Let("x", var("missing")),)))) == {"V107"}
    assert codes(program(copy, many(kind, (), filling=(wait,), otherwise=(wait,)))) == {"V122"}
    assert codes(program(copy, many(kind, (wait,), filling=(wait,), otherwise=(wait,)))) == set()
    assert codes(program(many(kind, (atomic,)), Let("y", load("out")))) == {"V123"}
    assert codes(program(store(lit(1), "own"), GRID_SYNC, many(kind, (store(lit(2), "own"),)))) == {"V209"}


@pytest.mark.parametrize("kind", CHOICES)
def test_findings_inside_come_in_program_order(kind: str) -> None:
    bodies: list[Body] = [() for _ in range(LINKS)]
    for n, name in ((0, "a"), (5, "b"), (LINKS - 1, "c")):
        bodies[n] = (store(var(name)),)
    made = program(choice(kind, *bodies, otherwise=(store(var("d")),)), store(var("e")))
    assert [found.message[len("no local `")] for found in validate(made).errors] == list("abcde")


def test_the_condition_of_a_link_comes_before_its_body_and_behind_the_one_before() -> None:
    last = If(equal(var("b"), lit(1)), (store(var("c")),), (store(var("d")),))
    made = program(If(UNIFORM, (store(var("a")),), (last,)))
    assert [found.message[len("no local `")] for found in validate(made).errors] == list("abcd")


@pytest.mark.parametrize("kind", CHOICES)
def test_the_analyses_understand_the_last_body(kind: str) -> None:
    read, tile, own = Load("own", lit(7)), Load("sh", LID), Load("own", lit(2))
    inner = If(equal(LID, lit(1)), (store(lit(2)),))
    body = (store(lit(1), "sh"), BARRIER, store(tile), store(lit(1), "own", lit(2)), store(own), store(read), inner)
    made = program(many(kind, body))
    assert validate(made).ok
    outer = made.body[0]
    assert isinstance(outer, If | Switch)
    levels = uniformity(made)
    assert (levels.condition(outer), levels.condition(inner)) == (Uniformity.WORKGROUP, Uniformity.LANE)
    links = [stmt for stmt in walk_statements(made.body) if isinstance(stmt, If) and stmt is not inner]
    assert len(links) == (LINKS if kind == "chain" else 0)
    assert {levels.condition(link) for link in links} <= {Uniformity.GRID, Uniformity.WORKGROUP}
    facts = bounds_facts(made)
    assert facts.proven(read)
    assert wide_facts(made, facts, aligned16=True, noalias=True).of(read) is None
    assert needs_zeroing(made, facts) == set()
    assert needs_private_zeroing(made, facts) == {"own"}
    assert lane_facts(made).barriers
    assert len(spec_constants(made)) == (LINKS - 1 if kind == "chain" else 0)
    assert "vyre.node.switch" in required_ops(made) or kind == "chain"


@pytest.mark.parametrize("kind", CHOICES)
def test_it_is_split_and_baked(kind: str) -> None:
    n = Load("n", lit(0))
    last = store(n)
    made = program(Let("x", n), GRID_SYNC, many(kind, (last, store(var("x")))))
    first, second = plan_grid_sync(made)
    assert first.body == (Let("x", n),)
    assert second.body[0] == Let("x", n) and second.body[1] is made.body[2]
    fixed = baked(made, {"n": (41).to_bytes(4, "little")})
    values = [stmt.value for stmt in walk_statements(fixed.body) if isinstance(stmt, Store)]
    assert values == [lit(41), var("x")]
    assert len(list(walk_statements(fixed.body))) == len(list(walk_statements(made.body)))
