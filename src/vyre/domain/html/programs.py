"""Functions that return programs and reports of the validator as HTML for notebooks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vyre.domain.html.markup import Html, bold, code, folded, panel, paragraph, table

if TYPE_CHECKING:
    from vyre.domain.ir.buffers import Buffer
    from vyre.domain.ir.program import Program
    from vyre.domain.program_report import Report


def program_view(program: Program) -> Html:
    """Returns name, workgroup and buffers of a program, and its text, folded."""
    size = " x ".join(map(str, program.workgroup_size))
    rows = [
        (bold(each.name), each.element.text, _size(each), each.access.name.lower().replace("_", " "), _roles(each))
        for each in program.buffers
    ]
    try:
        written = program.to_text()
    except Exception as error:  # a malformed program has no text, and is shown all the same
        written = f"(no text: {error})"
    return panel(
        Html(f"{bold(program.name or 'unnamed')}: a program with workgroups of {size} lanes"),
        table(("buffer", "type", "elements", "access", "role"), rows) if rows else paragraph("It has no buffers."),
        folded("program text", code(written)),
    )


def _size(buffer: Buffer) -> str:
    if buffer.is_push:
        return "a number"
    return str(buffer.count) if buffer.count else f"as many as {buffer.like}" if buffer.like else "any"


def _roles(buffer: Buffer) -> str:
    roles = [role for role, holds in (("input", buffer.takes_input), ("output", buffer.is_returned)) if holds]
    return ", ".join(roles) or "scratch"


def report_view(report: Report) -> Html:
    """Returns the diagnostics of a program as a table."""
    rows = [
        (each.severity.value, each.code, each.loc or each.location or "", each.message, each.fix or "")
        for each in report.diagnostics
    ]
    title = "The program is valid" if report.ok else "The program is invalid"
    if not rows:
        return panel(f"{title}: nothing to report.")
    return panel(f"{title}.", table(("", "code", "where", "what", "fix"), rows))
