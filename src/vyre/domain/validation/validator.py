"""``validate``: checks a whole program against every rule of the language, and computes the lints of a valid one."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from vyre.domain.errors import InvalidInput, InvalidProgram
from vyre.domain.ir.limits import remember_valid
from vyre.domain.ir.program import Program, ProgramLike, program_of
from vyre.domain.shown import kind_of
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
_WITH_LINTS: Final = "validation with lints"


def validate(program: ProgramLike) -> Report:
    """Returns every diagnostic of the program, in program order, and its lints; the report is cached on the program.

    It raises no error, whatever the program; ``Report.raise_if_invalid`` does.  For a kernel in plain Python it raises
    what makes no program: ``KernelSourceError``, and ``InvalidInput`` for a generic kernel.
    """
    try:
        program = program_of(program)
    except InvalidProgram as error:
        if error.report is None:
            raise
        return error.report
    if not isinstance(program, Program):
        raise InvalidInput(f"program is {kind_of(program)}", fix="pass a Program, e.g. builder.build().")
    report = program._cache.get(_WITH_LINTS)
    if not isinstance(report, Report):
        report = check_rules(program)
        if report.ok:
            from vyre.domain.lints.checker import find_lints  # a dispatch never needs it

            lints = find_lints(program)
            report = replace(report, lints=lints) if lints else report
        program._cache[_WITH_LINTS] = report
    return report


def check_rules(program: Program) -> Report:
    """Returns the report of ``validate`` without lints, for callers that only need validity; cached on the program."""
    report = program._cache.get(_CACHED)
    if not isinstance(report, Report):
        report = program._cache[_CACHED] = _check_rules(program)
        if report.ok:
            remember_valid(program)
    return report


def known_report(program: Program) -> Report | None:
    """Returns the report of ``check_rules`` if it is cached."""
    found = program._cache.get(_CACHED)
    return found if isinstance(found, Report) else None


def order_sensitive(program: Program) -> bool:
    """Returns whether results may depend on the order in which lanes reach atomics."""
    return check_rules(program).order_sensitive


def _check_rules(program: Program) -> Report:
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
