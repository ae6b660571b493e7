"""Barriers change no result that they do not have to change: grid barriers split a program into launches."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

from hypothesis import assume, given
from hypothesis import strategies as st

from support.profiles import examples
from support.programs import Case, Order, cases
from support.running import oracle
from vyre.domain.grid_sync import plan_grid_sync, plan_programs
from vyre.domain.ir.operators import Ordering
from vyre.domain.ir.program import Program
from vyre.domain.ir.stmt import Barrier
from vyre.domain.validation.validator import validate
from vyre.testing.program_edits import replaced, sites, spliced

GRID_SYNC = Barrier(Ordering.GRID_SYNC)
seeds = st.integers(0, 1 << 32)


def with_one_workgroup(case: Case) -> Case:
    return replace(case, config=replace(case.config, grid=(1, 1, 1), extent=None))


def without_grid_barriers(program: Program) -> Program:
    for path, value in list(sites(program)):
        if value == GRID_SYNC:
            program = replaced(program, path, Barrier(Ordering.SEQ_CST))
    return program


@examples(60)
@given(case=st.sampled_from(Order).flatmap(lambda order: cases(order=order, work=4000)))
def test_in_one_workgroup_a_grid_barrier_is_a_barrier(case: Case) -> None:
    assume(len(plan_grid_sync(case.program)) > 1)
    split = with_one_workgroup(case)
    unsplit = replace(split, program=without_grid_barriers(case.program))
    assert validate(unsplit.program).ok
    assert len(plan_grid_sync(unsplit.program)) == 1
    assert oracle(split) == oracle(unsplit)


@examples(75)
@given(case=cases(work=4000), seed=seeds)
def test_more_barriers_change_no_order_independent_result(case: Case, seed: int) -> None:
    source = random.Random(seed)
    program = case.program
    for _ in range(source.randrange(1, 4)):
        at = source.randrange(len(program.body) + 1)
        ordering = source.choice((Ordering.GRID_SYNC, Ordering.GRID_SYNC, Ordering.SEQ_CST))
        changed = _inserted(program, at, Barrier(ordering))
        program = changed if validate(changed).ok else program
    assume(program is not case.program)
    assert oracle(replace(case, program=program)) == oracle(case)


def _inserted(program: Program, at: int, stmt: Any) -> Program:
    if at == len(program.body):
        return replace(program, body=(*program.body, stmt))
    return spliced(program, ("body", at), (stmt, program.body[at]))


@examples(30)
@given(case=st.sampled_from(Order).flatmap(lambda order: cases(order=order, work=4000)))
def test_segments_are_valid_programs_over_the_same_buffers(case: Case) -> None:
    for segment in plan_programs(plan_grid_sync(case.program)):
        assert segment.buffers == case.program.buffers
        assert segment.workgroup_size == case.program.workgroup_size
        assert not any(value == GRID_SYNC for _, value in sites(segment))
        assert validate(segment).ok, validate(segment).render()
