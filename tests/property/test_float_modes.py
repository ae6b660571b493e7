"""The suites of numerics have the same bytes in each floating-point mode of the calling thread, on each backend."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from support.llvm import NEEDS_LLVM
from support.profiles import SOAK
from support.reference.float_mode_runs import BACKENDS, EIGHT, Campaign, differences, operators, random_programs
from support.reference.float_modes import SETTABLE

pytestmark = pytest.mark.skipif(not SETTABLE, reason="the modes of this platform's floats are not known")
RESULTS = Path(__file__).parents[2] / "benchmarks" / "results"


@pytest.mark.parametrize("mode", EIGHT)
@pytest.mark.parametrize(
    "backend", [pytest.param(name, marks=NEEDS_LLVM) if name == "cpu" else name for name in BACKENDS]
)
def test_operators_and_random_programs(backend: str, mode: str) -> None:
    """A part of both, another one for each mode; all of them and recorded programs are the long run below."""
    place, floats = EIGHT.index(mode), [case for case in operators() if " f" in case.name]
    cases = [*floats[place * 5 :: len(floats) // 2], *random_programs(1_000 + place, 1)]
    assert list(differences(backend, mode, cases)) == []


@pytest.mark.skipif(not SOAK, reason="a long run: set VYRE_SOAK=1 (make soak)")
def test_everything_on_each_backend_in_each_mode() -> None:
    programs, record = int(os.environ.get("VYRE_SOAK_PROGRAMS", "200")), RESULTS / "float-modes.json"
    campaign = Campaign.continued(record, int.from_bytes(os.urandom(3), "little"), programs)
    campaign.run(record)
    assert campaign.failures == []
