"""Random programs with grid loops give the oracle's bytes on every engine, native or split, whatever the schedule."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import cache

import pytest

from support.programs import Case
from support.running import Failure, Outcome, Outputs, oracle, run
from vyre.adapters.reference.vector.engine import VectorKernel
from vyre.domain.errors import StepBudgetExceeded
from vyre.domain.grid_sync import plan_grid_sync, plan_programs
from vyre.domain.ir.program import Program
from vyre.domain.validation.validator import validate
from vyre.ports.backend import Backend
from vyre.testing.execution import execute, find_scheduled
from vyre.testing.random_programs.grid_loops import SEEN, looped

SEEDS = range(70)


@cache
def made(seed: int) -> tuple[Case, Outcome] | None:
    case = looped(seed)
    return None if case is None else (case, oracle(case))


def all_made() -> Iterator[tuple[int, Case, Outcome]]:
    for seed in SEEDS:
        if (found := made(seed)) is not None:
            yield (seed, *found)


def test_the_programs_run_any_number_of_rounds() -> None:
    rounds: Counter[int] = Counter()
    for _, _, outcome in all_made():
        if isinstance(outcome, Outputs):
            rounds.update(data[0] for name, data in outcome.bytes.items() if name.startswith(SEEN))
    assert {0, 1, 2, 3, 5} <= set(rounds)
    assert sum(rounds.values()) > len(SEEDS)


@pytest.mark.parametrize("chunk", [None, 1, 3])
def test_the_vectorised_engine_agrees(chunk: int | None) -> None:
    for seed, case, wanted in all_made():
        assert run(VectorKernel, case, chunk) == wanted, seed


@pytest.mark.parametrize(
    ("name", "schedule"),
    [("cpu", None), ("cuda-machine", None), ("cuda-machine", "reverse"), ("cuda-machine", "shuffled")],
)
def test_backends_agree(name: str, schedule: str | None) -> None:
    registration = find_scheduled(name, schedule, 7 if schedule == "shuffled" else None).registration
    backend: Backend = registration.make()
    compared = 0
    try:
        for seed, case, wanted in all_made():
            if case.config.step_budget is not None and name != "cpu":
                continue  # only the references and the CPU count steps
            assert outcome_of(backend, case) == wanted, seed
            compared += 1
    finally:
        if backend.lifecycle is not None:
            backend.lifecycle.close()
    assert compared > len(SEEDS) // 2


def outcome_of(backend: Backend, case: Case) -> Outcome:
    try:
        return Outputs(execute(backend, case.program, case.inputs, case.config))
    except StepBudgetExceeded as error:
        return Failure(StepBudgetExceeded, (error.budget, error.global_id))


def test_forms_and_parts_are_valid() -> None:
    for seed, case, _ in all_made():
        program = case.program
        assert Program.from_text(program.to_text()) == program, seed
        assert Program.from_json(program.to_json()) == program, seed
        again = Program.from_wire(program.to_wire())
        assert again == program and again.digest == program.digest, seed
        for part in plan_programs(plan_grid_sync(program)):
            assert validate(part).ok, (seed, validate(part).render())
