"""Recorded programs, filetests and the contract of backends with every pass of the optimizer before each run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from vyre.adapters import optimizing
from vyre.domain.optimize.pass_list import DEFAULT_ORDER, PASSES
from vyre.policies.optimizing.program_passes import PassInputs, ProgramPasses
from vyre.testing.backend_contract import CASES, Case, Skipped, Subject, check_case
from vyre.testing.conformance import read_cases, run_cases
from vyre.testing.execution import find_scheduled, open_backend
from vyre.testing.filetests import load_filetests, run_filetest
from vyre.testing.outcomes import Verdict

TESTS: Final = Path(__file__).parents[1]
VECTORS: Final = TESTS / "data" / "vectors"
FILES: Final = sorted((TESTS / "filetests").rglob("*.vyre"))
RECORDED: Final = [VECTORS / "oracle-programs.jsonl.xz", VECTORS / "ir-conformance.json.xz"]
ENGINES: Final = ("reference", "cpu", "cuda-machine")
EVERY_PASS: Final = tuple(str(PASSES[name]) for name in DEFAULT_ORDER)


def every_pass(inputs: PassInputs) -> ProgramPasses:
    as_written = not inputs.wanted or inputs.counts_steps or inputs.checks_races
    return ProgramPasses(() if as_written else EVERY_PASS)


@pytest.fixture(autouse=True)
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(optimizing, "choose_passes", every_pass)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("path", RECORDED, ids=lambda p: p.name.split(".")[0])
def test_recorded_programs_give_what_was_recorded(path: Path, engine: str) -> None:
    outcomes = list(run_cases(read_cases(path), open_backend(engine)))
    assert outcomes
    assert [o for o in outcomes if o.verdict is Verdict.FAILED] == []


@pytest.mark.parametrize("engine", ENGINES)
def test_filetests_pass(engine: str) -> None:
    backend = open_backend(engine)
    tests = [test for test in load_filetests(FILES) if not test.checks]  # checks read the code of what is written
    outcomes = [outcome for test in tests for outcome in run_filetest(test, backend)]
    assert len(outcomes) > 100
    assert [o for o in outcomes if o.verdict is Verdict.FAILED] == []


@pytest.fixture(scope="module")
def subject() -> Iterator[Subject]:
    scheduled = find_scheduled("reference")
    with Subject(scheduled.registration, canonical_order=scheduled.canonical_order) as found:
        yield found


@pytest.mark.parametrize("case", [pytest.param(case, id=case.id) for case in CASES])
def test_the_reference_keeps_the_contract(subject: Subject, case: Case) -> None:
    try:
        check_case(case, subject)
    except Skipped as reason:
        pytest.skip(str(reason))


def test_the_passes_were_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """The engines of these tests run optimized programs: a pass that is wrong shows."""
    asked: list[PassInputs] = []

    def noted(inputs: PassInputs) -> ProgramPasses:
        asked.append(inputs)
        return every_pass(inputs)

    monkeypatch.setattr(optimizing, "choose_passes", noted)
    for engine in ENGINES:
        list(run_cases(read_cases(RECORDED[1]), open_backend(engine)))
    assert {inputs.engine.value for inputs in asked} == {"interpreter", "native", "device"}
