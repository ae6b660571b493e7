"""What is missing is empty exactly if a program runs: random programs, some of which need too much."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache

import pytest

import vyre
from support.llvm import NEEDS_LLVM
from support.restricted_backend import RESTRICTED
from support.seeded_backends import SEEDED
from vyre.adapters.discovery import load_catalog
from vyre.domain.errors import DeviceLimitExceeded, UnsupportedFeature
from vyre.domain.ir.buffers import Access, Buffer, inputs_of
from vyre.domain.ir.stmt import IndirectDispatch
from vyre.domain.missing import missing_from
from vyre.ports.backend import Backend, BackendCatalog
from vyre.testing.execution import execute
from vyre.testing.random_programs.generator import Case, generate

PROGRAMS = 200
MOST_BYTES = 1 << 26  # more takes a test too long
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
    return replace(case, config=replace(case.config, workgroup=size, grid=(1, 1, 1), extent=None))


def _grid(case: Case, backend: Backend) -> Case:
    assert backend.profile.max_grid_size is not None
    grid = (1, 1, min(backend.profile.max_grid_size[2] + 1, 0xFFFF_FFFF))
    if grid[2] == backend.profile.max_grid_size[2]:
        return case
    return replace(case, config=replace(case.config, grid=grid, workgroup=(1, 1, 1), extent=None))


def _memory(case: Case, backend: Backend, more: int = 1) -> Case:
    most = backend.profile.max_shared_memory_bytes
    if most is None:
        return case
    taken = sum(-(-(b.static_nbytes or 0) // 16) * 16 for b in case.program.buffers if b.is_workgroup)
    large = Buffer.make("large", 0, Access.WORKGROUP, vyre.u8, most - taken + more)
    return replace(case, program=replace(case.program, buffers=(*case.program.buffers, large)))


def _storage(case: Case, backend: Backend, more: int = 4) -> Case:
    """An array that a launch alone sizes, longer than a buffer may be."""
    most = backend.profile.max_storage_buffer_bytes
    if most is None or most > MOST_BYTES:
        return case
    bindings = [b.binding for b in case.program.buffers if not (b.is_workgroup or b.is_private)]
    long = Buffer.make("long", max(bindings, default=-1) + 1, Access.READ_ONLY, vyre.u32, 0)
    program = replace(case.program, buffers=(*case.program.buffers, long))
    config = case.config if case.config.grid or case.config.extent else replace(case.config, grid=(1, 1, 1))
    return replace(case, program=program, inputs={**case.inputs, "long": bytes(most + more)}, config=config)


def _all_storage(case: Case, backend: Backend) -> Case:
    return _storage(case, backend, 0)


def _all_memory(case: Case, backend: Backend) -> Case:
    return _memory(case, backend, 0)


CHANGES: tuple[Change, ...] = (_indirect, _lanes, _axes, _grid, _memory, _storage)


def _runs(case: Case, backend: Backend) -> bool:
    """Returns whether the backend itself runs a program, which the application has not judged before."""
    try:
        execute(backend, case.program, case.inputs, case.config)
    except (UnsupportedFeature, DeviceLimitExceeded):
        return False
    return True


@cache
def _cases() -> list[Case]:
    cases = [generate(seed, work=300) for seed in range(PROGRAMS)]
    return [replace(case, config=replace(case.config, step_budget=None)) for case in cases]


@pytest.mark.parametrize(
    "name", [pytest.param("cpu", marks=NEEDS_LLVM), "reference", "reference-scalar", "cuda-machine", SEEDED]
)
def test_nothing_is_missing_exactly_if_the_program_runs(name: str) -> None:
    outcomes = set()
    catalog = BackendCatalog((*load_catalog().registrations, RESTRICTED))
    with vyre.open(name, catalog=catalog, cache=False) as session:
        backend = session._lease.backend
        changes = [change for change in CHANGES if change(_cases()[0], backend) is not _cases()[0]]
        for seed, case in enumerate(_cases()):
            edge = {9: _all_memory, 19: _all_storage}.get(seed % 40)
            change = edge or (changes[seed // SHARE % len(changes)] if seed % SHARE else _fits)
            changed = change(case, backend)
            lengths = tuple(len(changed.inputs[b.name]) for b in inputs_of(changed.program.abi_buffers))
            found = missing_from(changed.program, backend.profile, backend.supported_ops, changed.config, lengths)
            assert (not found) == _runs(changed, backend), (seed, change.__name__, found)
            outcomes.add((change.__name__, not found))
            assert session.missing(changed.program, changed.inputs, changed.config) == found
    assert {("_fits", True), *((change.__name__, False) for change in changes)} <= outcomes
