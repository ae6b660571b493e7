"""Writes a failing case down as a filetest, with what the oracle says about it."""

from __future__ import annotations

from support.programs import Case
from support.running import Outputs, oracle
from vyre.domain.errors import StepBudgetExceeded, TrapError
from vyre.testing.filetest_syntax import ExpectedError, filetest_text


def filetest(case: Case, note: str = "") -> str:
    """Text for ``tests/filetests``: the program, its inputs, and the outcome of the canonical schedule.

    Programs that are not order-independent run one workgroup at a time.
    """
    outcome = oracle(case)
    if isinstance(outcome, Outputs):
        return filetest_text(case.program, case.inputs, case.config, outcome.bytes, note=note)
    error = ExpectedError(outcome.kind.code, attributes=_attributes(outcome.kind, outcome.facts))
    return filetest_text(case.program, case.inputs, case.config, error, note=note)


def _attributes(kind: type[Exception], facts: tuple[object, ...]) -> dict[str, object]:
    names = {TrapError: ("tag", "address", "global_id"), StepBudgetExceeded: ("budget", "global_id")}[kind]
    return dict(zip(names, facts, strict=True))
