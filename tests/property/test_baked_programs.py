"""A program with its scalar parameters fixed gives the bytes of the program, on every engine."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import vyre
from support.programs import Case, generate
from vyre.domain.errors import VyreError
from vyre.domain.ir.bake import baked

SEEDS = range(100)


@pytest.fixture(scope="module", params=["reference", "cuda-machine"])
def session(request: pytest.FixtureRequest) -> Iterator[vyre.Session]:
    with vyre.open(request.param, cache=False) as opened:
        yield opened


def outcome(session: vyre.Session, case: Case, program: vyre.Program) -> object:
    try:
        result = session.dispatch(program, case.arguments(), case.config)
    except VyreError as error:
        return type(error), str(error)
    return {name: array.tobytes() for name, array in result.items()}


def test_no_byte_changes(session: vyre.Session) -> None:
    compared = 0
    for case in (generate(seed, work=2_000, traps=True) for seed in SEEDS):
        scalars = [buffer.name for buffer in case.program.buffers if buffer.is_push]
        if scalars:
            program = baked(case.program, {name: bytes(case.inputs[name]) for name in scalars})
            found = outcome(session, case, program)
            assert found == outcome(session, case, case.program), case
            compared += isinstance(found, dict) and program.body != case.program.body
    assert compared > len(SEEDS) // 10
