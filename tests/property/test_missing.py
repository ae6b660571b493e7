"""What is missing is empty exactly if a program runs: random programs, some of which need too much."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache

import pytest

import vyre
from support.llvm import NEEDS_LLVM
from vyre.domain.errors import InvalidConfig, UnsupportedFeature
from vyre.domain.ir.buffers import Access, Buffer
from vyre.domain.ir.stmt import IndirectDispatch
from vyre.domain.missing import missing_from
from vyre.domain.program_report import InvalidProgram
from vyre.ports.backend import Backend
from vyre.testing.execution import execute
from vyre.testing.random_programs.generator import Case, generate

PROGRAMS = 200
SHARE = 6  # one of so many programs is run as it is

Change = Callable[[Case, Backend], Case]


def _fits(case: Case, backend: Backend) -> Case:
    return case


def _indirect(case: Case, backend: Backend) -> Case:
    named = [b.name for b in case.program.buffers if b.element is vyre.u32 and not (b.is_workgroup or b.is_private)]
    more = (IndirectDispatch(named[0], 0),) if named else ()
    return replace(case, program=replace(case.program, body=(*case.program.body, *more)))


def _lanes(case: Case, backend: Backend) -> Case:
    most = backend.profile.max_invocations_per_workgroup
    assert most is not None
    return replace(case, program=replace(case.program, workgroup_size=(most + 1, 1, 1)))


def _axes(case: Case, backend: Backend) -> Case:
    assert backend.profile.max_workgroup_size is not None
    size = (1, 1, backend.profile.max_workgroup_size[2] + 1)
    return replace(case, config=replace(case.config, workgroup=size))


def _grid(case: Case, backend: Backend) -> Case:
    assert backend.profile.max_grid_size is not None
    grid = (1, 1, min(backend.profile.max_grid_size[2] + 1, 0xFFFF_FFFF))
    if grid[2] == backend.profile.max_grid_size[2]:
        return case
    return replace(case, config=replace(case.config, grid=grid, extent=None))


def _memory(case: Case, backend: Backend, more: int = 1) -> Case:
    most = backend.profile.max_shared_memory_bytes
    if most is None:
        return case
    taken = sum(-(-(b.static_nbytes or 0) // 16) * 16 for b in case.program.buffers if b.is_workgroup)
    large = Buffer.make("large", 0, Access.WORKGROUP, vyre.u8, most - taken + more)
    return replace(case, program=replace(case.program, buffers=(*case.program.buffers, large)))


def _all_memory(case: Case, backend: Backend) -> Case:
    return _memory(case, backend, 0)


CHANGES: tuple[Change, ...] = (_indirect, _lanes, _axes, _grid, _memory)


def _runs(case: Case, backend: Backend) -> bool:
    """Returns whether the backend itself runs a program, which the application has not judged before."""
    try:
        execute(backend, case.program, case.inputs, case.config)
    except (UnsupportedFeature, InvalidProgram, InvalidConfig):
        return False
    return True


@cache
def _cases() -> list[Case]:
    cases = [generate(seed, work=300) for seed in range(PROGRAMS)]
    return [replace(case, config=replace(case.config, step_budget=None)) for case in cases]


@pytest.mark.parametrize(
    "name", [pytest.param("cpu", marks=NEEDS_LLVM), "reference", "reference-scalar", "cuda-machine"]
)
def test_nothing_is_missing_exactly_if_the_program_runs(name: str) -> None:
    outcomes = set()
    with vyre.open(name, cache=False) as session:
        backend = session._lease.backend
        changes = [change for change in CHANGES if change(_cases()[0], backend) is not _cases()[0]]
        for seed, case in enumerate(_cases()):
            change = _all_memory if seed % 40 == 9 else changes[seed % len(changes)] if seed % SHARE else _fits
            changed = change(case, backend)
            found = missing_from(changed.program, backend.profile, backend.supported_ops, changed.config)
            assert (not found) == _runs(changed, backend), (seed, change.__name__, found)
            outcomes.add((change.__name__, not found))
            if seed % SHARE == 0:
                assert session.missing(changed.program, changed.inputs, changed.config) == found
    assert {("_fits", True), *((change.__name__, False) for change in changes)} <= outcomes
