"""``validate``: every rule of the language, checked on a whole program."""

from __future__ import annotations

from typing import Final

from vyre.domain.ir.program import Program
from vyre.domain.validation.async_copies import check_async_copies
from vyre.domain.validation.declarations import check_declarations
from vyre.domain.validation.findings import Findings
from vyre.domain.validation.grid_barriers import check_grid_barriers
from vyre.domain.validation.hazards import check_hazards
from vyre.domain.validation.report import Report
from vyre.domain.validation.statements import StatementChecker
from vyre.domain.validation.structure import check_structure
from vyre.domain.validation.uniform_flow import check_uniform_flow

_CACHED: Final = "validation"


def validate(program: Program) -> Report:
    """Every diagnostic of the program, in program order; the report is cached on the program.

    Raises nothing, whatever the program: ``Report.raise_if_invalid`` does.
    """
    report = program._cache.get(_CACHED)
    if not isinstance(report, Report):
        report = program._cache[_CACHED] = _validate(program)
    return report


def is_validated(program: Program) -> bool:
    """Whether ``validate`` would answer from what it knows."""
    return _CACHED in program._cache


def order_sensitive(program: Program) -> bool:
    """Whether results may depend on the order in which lanes reach atomics."""
    return validate(program).order_sensitive


def _validate(program: Program) -> Report:
    findings = Findings()
    if not check_structure(program, findings):
        return findings.report(order_sensitive=False)
    check_declarations(program, findings)
    statements = StatementChecker(program, findings)
    statements.run()
    check_uniform_flow(program, findings)
    check_hazards(program, findings)
    check_async_copies(program, findings)
    check_grid_barriers(program, findings)
    return findings.report(order_sensitive=statements.order_sensitive)
