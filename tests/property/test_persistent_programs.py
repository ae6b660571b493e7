"""Random programs as jobs of persistent engines give the oracle's bytes and errors, alone and in batches."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any, Final

import numpy as np
import pytest

from support.cpu_backends import CountedTools, backend_of
from support.cpu_fuzzing import case_of
from support.fuzzing import differences
from support.limits import LIMIT_S
from support.profiles import SOAK
from support.programs import Case, Order
from support.running import Failure, Outcome, Outputs, oracle
from vyre.adapters.cpu.native.compilation import llvm_version
from vyre.domain.dispatch import OutputArena
from vyre.domain.errors import StepBudgetExceeded, TrapError
from vyre.ports.backend import Backend
from vyre.ports.persistent import PersistentEngine

pytestmark = pytest.mark.skipif(llvm_version() is None, reason="llvmlite is not installed")

PROGRAMS: Final = 2_000 if SOAK else 40
PARTS: Final = 4
JOBS: Final = 7


def with_other_inputs(case: Case, chance: Random) -> Case:
    """Returns the case with the same lengths of inputs, and other bytes in one of them."""
    inputs = dict(case.inputs)
    for name in chance.sample(sorted(inputs), min(1, len(inputs))):
        data = bytearray(inputs[name])
        if not any(b.name == name and b.is_push for b in case.program.buffers):
            chance.shuffle(data)
        inputs[name] = bytes(data)
    return Case(case.program, inputs, case.config, case.order)


def arguments(case: Case) -> list[memoryview]:
    return [memoryview(case.inputs[b.name]) for b in case.program.abi_buffers if b.takes_input]


def outcome(case: Case, engine: PersistentEngine, ticket: int, outputs: Any) -> Outcome:
    try:
        engine.wait(ticket, outputs, timeout=LIMIT_S)
    except TrapError as error:
        return Failure(TrapError, (error.tag, error.address, error.global_id))
    except StepBudgetExceeded as error:
        return Failure(StepBudgetExceeded, (error.budget, error.global_id))
    names = [b.name for b in case.program.abi_buffers if b.is_returned]
    return Outputs(dict(zip(names, outputs.to_bytes(), strict=True)))


class Rows:
    """The outputs of one job of a batch."""

    def __init__(self, columns: Sequence[Any], row: int) -> None:
        self._columns, self._row = columns, row

    def to_bytes(self) -> list[bytes]:
        return [column[self._row].tobytes() for column in self._columns]


def check(backend: Backend, seed: int) -> tuple[int, int]:
    """Returns the numbers of jobs and of errors among them."""
    case, chance = case_of(seed), Random(f"jobs of {seed}")
    if case.order is Order.RACY:
        return 0, 0
    cases = [case, *(with_other_inputs(case, chance) for _ in range(JOBS - 1))]
    expected = [oracle(each) for each in cases]
    assert backend.persistent is not None
    lengths = tuple(view.nbytes for view in arguments(case))
    engine = backend.persistent.open(case.program, case.config, lengths, 8)
    try:
        tickets = [engine.submit(arguments(each)) for each in cases]
        order = list(range(JOBS))
        chance.shuffle(order)
        for index in order:
            ticket = tickets[index]
            assert ticket is not None
            found = outcome(case, engine, ticket, OutputArena())
            assert found == expected[index], (seed, *differences(expected[index], found))
        columns = [memoryview(b"".join(parts)) for parts in zip(*map(arguments, cases), strict=True)]
        outputs = [np.empty((JOBS, nbytes), np.uint8) for nbytes in engine.output_nbytes]
        into = [array.data.cast("B") if array.size else memoryview(bytearray()) for array in outputs]
        first = engine.submit_many(columns, JOBS, into)
        assert first is not None
        failed = engine.wait_many(first, JOBS, timeout=LIMIT_S).failed
        assert list(failed) == [first + n for n, each in enumerate(expected) if isinstance(each, Failure)]
        for row in range(JOBS):
            try:
                engine.wait(first + row, None)
            except (TrapError, StepBudgetExceeded):
                assert isinstance(expected[row], Failure)
                continue
            names = [b.name for b in case.program.abi_buffers if b.is_returned]
            found = Outputs(dict(zip(names, Rows(outputs, row).to_bytes(), strict=True)))
            assert found == expected[row], (seed, row, *differences(expected[row], found))
        return 2 * JOBS, 2 * len(failed)
    finally:
        engine.close()


@pytest.mark.parametrize("part", range(PARTS))
def test_random_programs_give_the_bytes_of_the_oracle(part: int) -> None:
    share = PROGRAMS // PARTS
    jobs = errors = 0
    with backend_of(CountedTools().tools, threads=2, recompile=False) as backend:
        for seed in range(10_000 + part * share, 10_000 + (part + 1) * share):
            more = check(backend, seed)
            jobs, errors = jobs + more[0], errors + more[1]
    assert jobs >= 10 * share
    assert errors > 0 or share < 50
