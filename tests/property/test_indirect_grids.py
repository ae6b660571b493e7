"""Random programs that find their grids in memory return what they return with those grids."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np
import pytest

import vyre
from support.llvm import NEEDS_LLVM
from vyre import Indirect, Session
from vyre.domain.dispatch import DispatchConfig
from vyre.domain.grid_sync import has_grid_barriers
from vyre.testing.random_programs.generator import Case, generate

SEEDS: Final = range(70)
BACKENDS: Final = ["reference", "reference-scalar", pytest.param("cpu", marks=NEEDS_LLVM), "cuda-machine"]


class Expected(NamedTuple):
    """A case, a grid that is smaller than its own along one axis, and the outputs on that grid."""

    case: Case
    counts: tuple[int, ...]
    outputs: dict[str, bytes]


def dispatched(session: Session, case: Case, grid: tuple[int, ...] | Indirect) -> dict[str, bytes]:
    config = DispatchConfig(output_counts=case.config.output_counts, spec=case.config.spec)
    result = session.dispatch(case.program, case.arguments(), config, grid=grid)
    return {name: array.tobytes() for name, array in result.items()}


@pytest.fixture(scope="module")
def expected() -> list[Expected]:
    found = []
    with vyre.open("reference", cache=False) as reference:
        for seed in SEEDS:
            case = generate(seed, work=2_000)
            grid = case.config.grid
            if grid is None or max(grid) == 1 or has_grid_barriers(case.program):
                continue
            axis = grid.index(max(grid))
            counts = tuple(size - (at == axis) for at, size in enumerate(grid))
            found.append(Expected(case, counts, dispatched(reference, case, counts)))
    assert len(found) >= 10
    return found


@pytest.fixture(scope="module", params=BACKENDS)
def session(request: pytest.FixtureRequest) -> Iterator[Session]:
    with vyre.open(request.param, cache=False) as made:
        yield made


def test_what_memory_says_is_what_runs(session: Session, expected: list[Expected]) -> None:
    with session.resident(np.zeros(3, np.uint32)) as counts:
        for case, wanted, outputs in expected:
            assert case.config.grid is not None
            counts.upload(np.array(wanted, np.uint32))
            assert dispatched(session, case, Indirect(counts, case.config.grid)) == outputs, case
