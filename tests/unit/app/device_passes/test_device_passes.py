"""Passes of the optimizer that run as kernels give the programs and the counts of those of the host."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

import pytest

import vyre
from support.pass_corpus import difference, random_programs, written_programs
from vyre.app.device_passes.passes import passes_on
from vyre.domain.ir.program import Program
from vyre.domain.optimize.flat_program import flatten, unflatten
from vyre.domain.optimize.pass_list import PASSES
from vyre.domain.optimize.passes import Pass

NAMES = ("dead_code",)
Sessions: TypeAlias = Callable[[str], vyre.Session]


@pytest.fixture(scope="module")
def sessions() -> Iterator[Sessions]:
    found: dict[str, vyre.Session] = {}

    def session(backend: str) -> vyre.Session:
        if backend not in found:
            found[backend] = vyre.open(backend)
        return found[backend]

    yield session
    for each in found.values():
        each.close()


def check(ours: Pass, programs: Sequence[Program]) -> None:
    host = PASSES[ours.name]
    assert ours.version == host.version
    for program in programs:
        assert difference(program, host, ours) == ""
    assert sum(host.run(program, Counter()) is not program for program in programs) >= len(programs) // 20


@pytest.mark.parametrize("name", NAMES)
def test_a_pass_on_written_programs(sessions: Sessions, name: str) -> None:
    assert len(written_programs()) > 100
    check(passes_on(sessions("cpu"))[name], written_programs())


@pytest.mark.parametrize("walks", [1, 3, 200])
@pytest.mark.parametrize("name", NAMES)
def test_a_pass_on_random_programs(sessions: Sessions, name: str, walks: int) -> None:
    check(passes_on(sessions("cpu"), walks)[name], random_programs(150, 300))


@pytest.mark.parametrize("name", NAMES)
def test_a_pass_on_the_reference(sessions: Sessions, name: str) -> None:
    check(passes_on(sessions("reference"))[name], random_programs(150, 300)[::30])


@pytest.mark.parametrize("name", NAMES)
def test_a_pass_on_the_emulated_device(sessions: Sessions, name: str) -> None:
    check(passes_on(sessions("cuda-machine"), 7)[name], random_programs(150, 300)[150::60])


def test_columns_keep_a_program() -> None:
    for program in (*written_programs(), *random_programs(150, 300)):
        flat = flatten(program)
        assert unflatten(flat) == program
        assert len(flat.exprs) == len({id(expr) for expr in flat.exprs})
