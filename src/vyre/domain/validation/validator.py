"""``validate``: checks a whole program against every rule of the language, and computes the lints of a valid one."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from vyre.domain.analysis.uniformity import Uniformity, unmet_needs
from vyre.domain.diagnostics import Diagnostic
from vyre.domain.errors import InvalidInput
from vyre.domain.float_mode import in_default_mode
from vyre.domain.ir.expr import Call
from vyre.domain.ir.limits import remember_valid
from vyre.domain.ir.node_facts import node_facts
from vyre.domain.ir.program import Program, ProgramLike, program_of
from vyre.domain.lazy_names import FunctionAbove
from vyre.domain.printable import kind_of
from vyre.domain.program_report import InvalidProgram, Report
from vyre.domain.recursion import telling_of_depth
from vyre.domain.validation import CHECKED
from vyre.domain.validation.async_copies import check_async_copies
from vyre.domain.validation.declarations import check_declarations
from vyre.domain.validation.findings import Findings
from vyre.domain.validation.grid_barriers import check_grid_barriers
from vyre.domain.validation.hazards import check_hazards
from vyre.domain.validation.statements import StatementChecker
from vyre.domain.validation.structure import check_structure

_WITH_LINTS: Final = "validation with lints"
_deprecated_calls: Final = FunctionAbove[[Program], tuple[Diagnostic, ...]]("deprecated_calls")


@in_default_mode
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

            lints = find_lints(_plain(program))
            report = replace(report, lints=lints) if lints else report
        program._cache[_WITH_LINTS] = report
    if program.definitions and report.ok:  # what is out of use may change while the program lives
        deprecated = _deprecated_calls(program)
        return replace(report, warnings=(*report.warnings, *deprecated)) if deprecated else report
    return report


def check_rules(program: Program) -> Report:
    """Returns the report of ``validate`` without lints, for callers that only need validity; cached on the program."""
    report = program._cache.get(CHECKED)
    if not isinstance(report, Report):
        report = program._cache[CHECKED] = _check_rules(program)
        if report.ok:
            remember_valid(program)
    return report


def without_calls(program: Program) -> Program:
    """Returns the program that stands for one that calls operations: the same without calls and definitions.

    Programs without definitions are returned unchanged and unchecked.  Raises ``InvalidProgram`` for an invalid program
    with definitions.
    """
    if not program.definitions:
        return program
    check_rules(program).raise_if_invalid()
    return _plain(program)


@telling_of_depth
def _check_rules(program: Program) -> Report:
    findings = Findings()
    if not check_structure(program, findings):
        return findings.report(order_sensitive=False)
    check_declarations(program, findings)
    statements = StatementChecker(program, findings)
    statements.run()
    if _has_calls(program):
        return _check_expanded(program, findings.report(order_sensitive=statements.order_sensitive))
    check_uniform_flow(program, findings)
    check_hazards(program, findings)
    check_async_copies(program, findings)
    check_grid_barriers(program, findings)
    return findings.report(order_sensitive=statements.order_sensitive)


def _check_expanded(program: Program, report: Report) -> Report:
    """Returns the report of a program with definitions, from what its names and types tell.

    If these are right, the program without calls is checked in full.
    """
    if report.errors:
        return report
    try:
        plain = _plain(program)
    except InvalidProgram as error:
        findings = Findings()
        findings.add("V226", error.message, program, fix=error.fix)
        return findings.report(order_sensitive=report.order_sensitive)
    return check_rules(replace(program, definitions=()) if plain is program else plain)


def _has_calls(program: Program) -> bool:
    """Returns whether the program has definitions or calls."""
    return bool(program.definitions) or Call in node_facts(program).types


def _plain(program: Program) -> Program:
    """Returns a program without calls."""
    if not _has_calls(program):
        return program
    from vyre.domain.dialects.expansion import expanded  # few programs have calls

    return expanded(program)


_AFTER_END: Final = "V210"
_IN_FLOW: Final = {Uniformity.GRID: "V207", Uniformity.WORKGROUP: "V010", Uniformity.SUBGROUP: "V203"}
"""The codes of the rules about barriers of the grid and of workgroups, and about subgroup operations."""
_BETWEEN: Final = {
    Uniformity.GRID: "between lanes of the grid",
    Uniformity.WORKGROUP: "between lanes of a workgroup",
    Uniformity.SUBGROUP: "between lanes of a subgroup",
}


def check_uniform_flow(program: Program, findings: Findings) -> None:
    """Reports barriers and subgroup operations that the lanes concerned do not all reach together."""
    for need, after_end in unmet_needs(program):
        where = " after a return or trap" if after_end else "" if need.is_value else " in flow"
        message = f"{need.what}{where} that differs {_BETWEEN[need.most]}"
        findings.add(_AFTER_END if after_end else _IN_FLOW[need.most], message, *need.nodes, path=need.path)
