"""Random programs as queries give the bytes of their launches one by one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np
import pytest

import vyre
from support.profiles import SOAK
from support.programs import Order
from support.query_programs import Queries, apart, queries, together
from vyre.domain.ir.program import Program
from vyre.domain.ir.types import ScalarType
from vyre.domain.queries import BatchedQueries

SEEDS: Final = 2_000 if SOAK else 40
PARTS: Final = 4
COUNT: Final = 5


@pytest.fixture(scope="module", params=["reference", "cpu", "cuda-machine"])
def session(request: pytest.FixtureRequest) -> Iterator[vyre.Session]:
    if request.param == "cpu":
        pytest.importorskip("llvmlite")
    with vyre.open(request.param) as opened:
        yield opened


@pytest.mark.parametrize("order", Order)
def test_the_canonical_schedule_gives_each_query_the_bytes_of_its_own_launch(order: Order) -> None:
    batched = 0
    for seed in range(SEEDS):
        given = queries(seed, 3, order=order, work=4_000)
        found = given.joined()
        if isinstance(found, BatchedQueries):
            batched += 1
            assert Program.from_text(found.program.to_text()).digest == found.program.digest
            assert together(given, found) == apart(given), f"seed {seed}"
    assert batched > SEEDS // 2


@pytest.mark.parametrize("part", range(PARTS))
def test_a_session_gives_each_query_the_bytes_of_its_own_dispatch(session: vyre.Session, part: int) -> None:
    ran = set[tuple[bool, bool]]()
    for seed in range(part, SEEDS * 2, PARTS * (2 if session.backend == "cuda-machine" else 1)):
        given = queries(10_000 + seed, COUNT)
        case = given.cases[0]
        arguments = [each.arguments() for each in given.cases]
        shared = {name: arguments[0][name] for name in given.shared}
        columns = columns_of(given, arguments)
        pushed = {buffer.name for buffer in case.program.abi_buffers if buffer.is_push}
        if not columns or not any(case.inputs[name] for name in given.shared - pushed):
            continue
        for divided in (False, True):
            with session.queries(case.program, shared, case.config) as kept:
                group = kept.plan(columns).groups[0]
                one = (group.frontier_bytes + group.output_bytes) // COUNT
            budget = group.resident_bytes - (COUNT - 2) * one if divided else None
            with session.queries(case.program, shared, case.config, budget=budget) as kept:
                kept(columns)
                results = kept(columns)
            ran.add((results.plan.is_batched, len(results.plan.groups) > 1))
            for number, passed in enumerate(arguments):
                for name, array in session.dispatch(case.program, passed, case.config).items():
                    assert array.tobytes() == results[name][number].tobytes(), (seed, number, name, divided)
    assert {(True, False), (True, True)} <= ran


def columns_of(given: Queries, arguments: list[dict[str, Any]]) -> Mapping[str, Any]:
    """What differs from query to query, as arrays with a row for each."""
    found: dict[str, Any] = {}
    for buffer in given.cases[0].program.abi_buffers:
        if not buffer.takes_input or buffer.name in given.shared:
            continue
        values = [each[buffer.name] for each in arguments]
        if buffer.is_push:
            found[buffer.name] = np.array(values)
        else:
            assert isinstance(buffer.element, ScalarType)
            found[buffer.name] = np.frombuffer(b"".join(values), buffer.element.numpy_name).reshape(len(values), -1)
    return found
