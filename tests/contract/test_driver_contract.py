"""Every driver behind the seam keeps its contract.

A run on a GPU writes into ``tests/data/driver_cases.json`` when each case last held there.
"""

from __future__ import annotations

import json
import traceback
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import pytest

from support.driver_cases import CASES, Case, Subject
from vyre.adapters.cuda.machine.driver import MachineDriver

VERIFIED: Final = Path(__file__).parents[1] / "data" / "driver_cases.json"
NEVER: Final = "never"
ON_GPU: Final = [case for case in CASES if not case.invents_handles]


def _ids(cases: list[Case] | tuple[Case, ...]) -> list[object]:
    return [pytest.param(case, id=case.id) for case in cases]


# ---------------------------------------------------------------- on the machine
@pytest.mark.parametrize("case", _ids(CASES))
@pytest.mark.parametrize("seed", [0, 1])
def test_machine(case: Case, seed: int) -> None:
    from vyre.adapters.cuda.machine.machine_options import MachineOptions

    driver = MachineDriver(MachineOptions(seed=seed))
    with Subject(driver) as subject:
        case.run(subject)
    assert not driver.violations
    assert not any(driver.live().values()), "the case left something behind"


# ---------------------------------------------------------------- on a GPU
@pytest.fixture(scope="module")
def gpu_results() -> Iterator[dict[str, str]]:
    """What the cases of this module found; their dates are written when all have run."""
    found: dict[str, str] = {}
    yield found
    known: dict[str, str] = json.loads(VERIFIED.read_text(encoding="utf-8"))
    merged = {case.id: found.get(case.id, known.get(case.id, NEVER)) for case in CASES}
    VERIFIED.write_text(json.dumps(merged, indent=1) + "\n", encoding="utf-8")


def _no_gpu() -> str | None:
    from vyre.adapters.cuda.registration import CUDA
    from vyre.domain.errors import BackendError

    try:
        CUDA.probe()
    except BackendError as error:
        return error.message
    return None


NO_GPU: Final = _no_gpu()


@pytest.mark.gpu
@pytest.mark.skipif(NO_GPU is not None, reason=f"no GPU: {NO_GPU}")
@pytest.mark.parametrize("case", _ids(ON_GPU))
def test_gpu(case: Case, gpu_results: dict[str, str]) -> None:
    from vyre.adapters.cuda.driver import RealDriver

    try:
        with Subject(RealDriver()) as subject:
            case.run(subject)
    except Exception:
        gpu_results[case.id] = NEVER
        pytest.fail(traceback.format_exc(), pytrace=False)
    gpu_results[case.id] = datetime.now(UTC).date().isoformat()


# ---------------------------------------------------------------- the cases themselves
def test_cases_are_told_apart_by_their_ids() -> None:
    assert len({case.id for case in CASES}) == len(CASES)


def test_every_case_says_when_it_held_on_a_gpu() -> None:
    known: dict[str, str] = json.loads(VERIFIED.read_text(encoding="utf-8"))
    assert list(known) == [case.id for case in CASES]
    for date in known.values():
        assert date == NEVER or datetime.fromisoformat(date)
