"""Random programs as jobs of persistent engines give the oracle's bytes and errors, alone and in batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from random import Random
from typing import Any, Final

import numpy as np
import pytest

from support.cpu.backends import CountedTools, backend_of
from support.cpu.fuzzing import case_of
from support.fuzzing.programs import differences
from support.limits import LIMIT_S
from support.llvm import NEEDS_LLVM
from support.profiles import SOAK
from support.programs import Case, Order
from support.running import Failure, Outcome, Outputs, oracle
from vyre.adapters.cuda.ids import MACHINE as CUDA_MACHINE
from vyre.adapters.cuda.machine.driver import MachineDriver
from vyre.adapters.cuda.machine.options import MachineOptions, RunOptions, Schedule
from vyre.adapters.cuda.ptx import mailbox
from vyre.adapters.cuda.ptx.facts import Facts
from vyre.adapters.cuda.runtime.backend import make_backend
from vyre.adapters.cuda.runtime.device import CudaOptions
from vyre.domain.analysis.uniformity import Uniformity
from vyre.domain.dispatch import DispatchConfig, OutputArena
from vyre.domain.errors import DeviceLost, DispatchTimeout, StepBudgetExceeded, TrapError
from vyre.domain.grid_sync import has_grid_barriers
from vyre.ports.backend import Backend
from vyre.testing.backend_contract.bench import parsed
from vyre.testing.backend_contract.persistent import EngineJobs

PROGRAMS: Final = 2_000 if SOAK else 40
ON_MACHINE: Final = 500 if SOAK else 16
PARTS: Final = 4
JOBS: Final = 7
SCHEDULES: Final[tuple[Schedule, ...]] = ("lockstep", "reverse", "shuffled")


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


def outcome(case: Case, engine: EngineJobs, ticket: int, outputs: Any) -> Outcome:
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
    if case.order is Order.RACY or (backend.id == CUDA_MACHINE and not runs_there(case)):
        return 0, 0
    cases = [case, *(with_other_inputs(case, chance) for _ in range(JOBS - 1))]
    expected = [oracle(each) for each in cases]
    assert backend.persistent is not None
    lengths = tuple(view.nbytes for view in arguments(case))
    engine = EngineJobs(backend.persistent.open(case.program, case.config, lengths, 8))
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


@NEEDS_LLVM
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


@contextmanager
def machine(seed: int) -> Iterator[Backend]:
    """Opens an emulated device whose schedules depend on the seed."""
    kernels = RunOptions(schedule=SCHEDULES[seed % 3], seed=seed, check_races=seed % 2 == 0)
    driver = MachineDriver(MachineOptions(seed=seed, kernels=kernels))
    made = make_backend(driver, CUDA_MACHINE, CudaOptions(exports=False))
    try:
        yield made
    finally:
        assert made.lifecycle is not None
        made.lifecycle.close()
    assert not driver.kernel_faults and not driver.violations


@pytest.mark.parametrize("rounds", [1, 1024])
@pytest.mark.parametrize("part", range(PARTS))
def test_random_programs_give_the_same_bytes_on_a_device(
    part: int, rounds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kernels look whether a job has to stop after so many rounds of a loop: that changes no byte."""
    monkeypatch.setattr(mailbox, "LONELY_ROUNDS", rounds)
    monkeypatch.setattr(mailbox, "JOINT_ROUNDS", rounds)
    share, jobs = ON_MACHINE // PARTS, 0
    for seed in range(10_000 + part * share, 10_000 + (part + 1) * share):
        with machine(seed) as backend:
            jobs += check(backend, seed)[0]
    assert jobs >= 2 * JOBS


def test_jobs_that_are_late_end_without_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lanes that look in every round stop together where the program gathers them afterwards."""
    monkeypatch.setattr(mailbox, "LONELY_ROUNDS", 1)
    monkeypatch.setattr(mailbox, "JOINT_ROUNDS", 1)
    late = right = 0
    for seed in range(20_000, 20_000 + 2 * ON_MACHINE):
        found = stopped_early(seed)
        late, right = late + found.count(True), right + found.count(False)
    assert late > ON_MACHINE // 8 and right > ON_MACHINE // 8


def runs_there(case: Case) -> bool:
    """Returns whether an engine of the device takes a program and its config."""
    return case.config.step_budget is None and not has_grid_barriers(case.program)


def stopped_early(seed: int) -> list[bool]:
    """Runs jobs with little time; returns which of them were late.  Others have the bytes of the oracle."""
    case = case_of(seed)
    if case.order is Order.RACY or not runs_there(case):
        return []
    expected, given, late = oracle(case), arguments(case), list[bool]()
    config = replace(case.config, timeout_s=Random(seed).choice((1e-9, 1e-6, 3e-6, 1e-5)))
    with machine(seed) as backend:
        assert backend.persistent is not None
        lengths = tuple(view.nbytes for view in given)
        engine = EngineJobs(backend.persistent.open(case.program, config, lengths, 4))
        for ticket in [engine.submit(given) for _ in range(3)]:
            assert ticket is not None
            try:
                assert outcome(case, engine, ticket, OutputArena()) == expected
                late.append(False)
            except DispatchTimeout:
                late.append(True)
        engine.close()
    return late


def test_lanes_that_stop_alone_are_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: lanes that look at different rounds, and stop alone, are missed by those that gather."""
    monkeypatch.setattr(mailbox, "LONELY_ROUNDS", 7)
    monkeypatch.setattr(mailbox, "JOINT_ROUNDS", 4)
    program = parsed("""
        workgroup_size 32, 1, 1
        buffer x @0 read_write u32[32]
        body {
          for round in 0u..4000u {
            for k in 0u..x[gid.x] % 5u { x[gid.x] = x[gid.x] + k }
            x[gid.x] = x[gid.x] + subgroup_add(x[gid.x])
          }
        }
        """)
    given = [memoryview(np.arange(32, dtype=np.uint32).tobytes())]

    def run() -> None:
        with machine(1) as backend:
            assert backend.persistent is not None
            engine = EngineJobs(backend.persistent.open(program, DispatchConfig(timeout_s=5e-6), (128,), 4))
            ticket = engine.submit(given)
            assert ticket is not None
            with pytest.raises(DispatchTimeout):
                engine.wait(ticket, None, timeout=LIMIT_S)
            engine.close()

    run()
    monkeypatch.setattr(Facts, "keeps_together", lambda self, loop: Uniformity.LANE)
    with pytest.raises(DeviceLost, match="mask"):
        run()
