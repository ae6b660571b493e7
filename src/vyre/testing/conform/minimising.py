"""Makes a failing case small and writes it down as a filetest, which ``python -m vyre.testing.filetests`` runs."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from vyre.domain.byte_differences import first_difference
from vyre.domain.errors import InvalidConfig, StepBudgetExceeded, VyreError
from vyre.ports.backend import Backend
from vyre.testing.conform.cases import ConformCase
from vyre.testing.conform.judging import (
    Failure,
    Judged,
    Judgement,
    Outputs,
    Result,
    element_size,
    expected_of,
    judge,
    result_on,
)
from vyre.testing.filetest_syntax import ExpectedError, filetest_text
from vyre.testing.random_programs.generator import Case
from vyre.testing.reduction import reduce_case

_ROUNDS: Final = 1000
"""The rounds of a lane after which a smaller program counts as endless, and is not tried on the backend."""


def minimised(backend: Backend, reference: Backend, failing: ConformCase, judged: Judged, seconds: float) -> str:
    """Returns the smallest case found in about ``seconds`` that fails in the same way, as a filetest with a note.

    An operation whose lanes are separate is first tried with the row of its first difference alone.
    """
    budget = failing.case.config.step_budget

    def verdict(case: Case) -> Judged:
        return _verdict(backend, reference, replace(case, config=replace(case.config, step_budget=budget)))

    def still_fails(case: Case) -> bool:
        return verdict(case).judgement is judged.judgement

    first = _one_row(backend, reference, failing)
    case = first if first is not None and still_fails(first) else failing.case
    small = reduce_case(case, still_fails, seconds)
    small = replace(small, config=replace(small.config, step_budget=budget))
    return filetest_of(small, reference, f"{failing.name}: {verdict(small).text or judged.text}")


def filetest_of(case: Case, reference: Backend, note: str) -> str:
    """Returns a filetest of what the reference says about a case."""
    try:
        return filetest_text(
            case.program, case.inputs, case.config, _expectation(expected_of(reference, case)), note=note
        )
    except InvalidConfig as error:  # directives cannot say everything that a config can
        return f"; {note}\n; {error.message}\n{case.program.to_text()}"


def _expectation(expected: Result) -> dict[str, bytes] | ExpectedError:
    if isinstance(expected, Outputs):
        return dict(expected.content)
    names = ("budget", "global_id") if expected.kind is StepBudgetExceeded else ("tag", "address", "global_id")
    return ExpectedError(expected.kind.code, attributes=dict(zip(names, expected.facts, strict=True)))


def _verdict(backend: Backend, reference: Backend, case: Case) -> Judged:
    expected = expected_of(reference, case, _ROUNDS)
    if case.config.step_budget is None and isinstance(expected, Failure) and expected.kind is StepBudgetExceeded:
        return Judged(Judgement.AGREED)  # the backend would never end
    return judge(backend, case, expected)


def _one_row(backend: Backend, reference: Backend, failing: ConformCase) -> Case | None:
    """Returns the case with the first wrong row alone; None where rows cannot be told apart, or nothing came back."""
    if failing.operation is None or not failing.operation.separate:
        return None
    try:
        actual = result_on(backend, failing.case)
    except VyreError:
        return None
    expected = expected_of(reference, failing.case)
    if not isinstance(actual, Outputs) or not isinstance(expected, Outputs):
        return None
    for name, right in expected.content.items():
        if actual.content.get(name) != right:
            element = first_difference(right, actual.content.get(name, b"")) // element_size(failing.case, name)
            return failing.with_rows((failing.rows[element],)).case
    return None
