"""Rules about what a program does not have cost it nothing, and leave no facts behind."""

from __future__ import annotations

import pytest

from vyre import ProgramBuilder, u32
from vyre.domain.analysis import uniformity
from vyre.domain.ir.program import Program
from vyre.domain.ir.stmt import Stmt
from vyre.domain.validation import hazards
from vyre.domain.validation.validator import check_rules


def program(*, barrier: bool = False, atomic: bool = False) -> Program:
    with ProgramBuilder("p", workgroup=64) as p:
        y, z = p.inout("y", u32), p.inout("z", u32)
        with p.if_(p.global_id() < y.length):
            y[p.global_id()] = 1
        if barrier:
            p.barrier()
        if atomic:
            z.atomic_add(0, 1)
    return p.build(check=False)


@pytest.mark.parametrize("barrier", [False, True])
def test_only_operations_that_lanes_reach_together_need_uniform_flow(
    monkeypatch: pytest.MonkeyPatch, barrier: bool
) -> None:
    walks: list[Program] = []
    analysis = uniformity._Analysis

    def counted(program: Program) -> object:
        walks.append(program)
        return analysis(program)

    monkeypatch.setattr(uniformity, "_Analysis", counted)
    assert check_rules(program(barrier=barrier)).ok
    assert len(walks) == barrier


@pytest.mark.parametrize("atomic", [False, True])
def test_only_atomics_can_meet_plain_accesses(monkeypatch: pytest.MonkeyPatch, atomic: bool) -> None:
    asked: list[object] = []
    kinds = hazards._kinds

    def counted(stmt: Stmt) -> dict[str, int]:
        asked.append(stmt)
        return kinds(stmt)

    monkeypatch.setattr(hazards, "_kinds", counted)
    assert check_rules(program(atomic=atomic)).ok
    assert bool(asked) == atomic


def test_what_one_line_records_shares_one_location() -> None:
    with ProgramBuilder("p", workgroup=64) as p:
        y = p.inout("y", u32)
        y[p.global_id()] = y[p.global_id()] * 3
        y[0] = 1
    first, second = p.build().body
    assert first.loc is not None and second.loc is not None
    assert first.loc.line + 1 == second.loc.line and first.loc.file == __file__
    assert getattr(first, "value").loc is getattr(first, "index").loc is first.loc  # noqa: B009
