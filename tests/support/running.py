"""Runs random cases on an engine, and says what came out in a form that engines can be compared by."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from support.programs import Case
from vyre.adapters.reference.engine import Engine
from vyre.adapters.reference.executor import ReferencePipeline
from vyre.adapters.reference.scalar_oracle import ScalarKernel
from vyre.domain.dispatch import OutputArena
from vyre.domain.errors import BackendError, DataRaceError, StepBudgetExceeded, TrapError
from vyre.domain.geometry import LaunchLimits


@dataclass(frozen=True, slots=True)
class Outputs:
    """Returned bytes by buffer name."""

    bytes: dict[str, bytes]


@dataclass(frozen=True, slots=True)
class Failure:
    """A typed error and what it says about the lane at fault."""

    kind: type[BackendError]
    facts: tuple[object, ...]


Outcome: TypeAlias = Outputs | Failure


def run(engine: Engine, case: Case, chunk: int | None = None) -> Outcome:
    """The outcome of a case with that many workgroups at once; other exceptions pass through."""
    config = replace(case.config, chunk_workgroups=chunk)
    pipeline = ReferencePipeline(LaunchLimits("reference"), engine, case.program, config)
    buffers = case.program.abi_buffers
    inputs = [memoryview(case.inputs[b.name]) for b in buffers if b.takes_input]
    arena = OutputArena()
    try:
        pipeline.dispatch(inputs, arena)
    except TrapError as error:
        return Failure(TrapError, (error.tag, error.address, error.global_id))
    except StepBudgetExceeded as error:
        return Failure(StepBudgetExceeded, (error.budget, error.global_id))
    return Outputs(dict(zip((b.name for b in buffers if b.is_returned), arena.to_bytes(), strict=True)))


ORACLE: Final = ScalarKernel


def oracle(case: Case) -> Outcome:
    """What the canonical schedule gives."""
    return run(ORACLE, case)


def has_data_race(case: Case) -> bool:
    """Whether the race check of the reference reports one for these inputs."""
    try:
        oracle(replace(case, config=replace(case.config, race_check=True)))
    except DataRaceError:
        return True
    return False
