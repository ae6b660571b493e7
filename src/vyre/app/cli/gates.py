"""The option ``--gate``: ready gates by their names, and functions of Python files."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Final

from vyre.adapters.terminal import complain
from vyre.app.cli.targets import python_target
from vyre.domain.diagnostics import Diagnostic, Severity
from vyre.domain.errors import InvalidConfig
from vyre.domain.gates import (
    Gate,
    MutationClass,
    asked,
    at_most_bytes,
    changes_at_most,
    no_order_dependent_results,
    no_traps,
    only_dialects,
)
from vyre.domain.ir.program import Program
from vyre.domain.printable import indented
from vyre.domain.program_report import Report

_CLASSES: Final = {each.name.lower().replace("_", "-"): each for each in MutationClass}
_FORMS: Final = (
    "no-traps, no-order-dependent-results, at-most-bytes=N, only-dialects=A,B, "
    f"changes-at-most={'|'.join(_CLASSES)}, or gates.py:name"
)


def gates_of(texts: Iterable[str]) -> tuple[Gate, ...]:
    """Returns the gates that ``--gate`` names.

    Raises ``InvalidConfig`` for anything else, and what running a Python file raises.
    """
    return tuple([_gate(text) for text in texts])


def _gate(text: str) -> Gate:
    name, equals, value = text.partition("=")
    target = None if equals else python_target(Path(text))
    if target is not None and target.name is not None:
        from vyre.app.cli.python_files import object_of

        gate = object_of(target)
        if not callable(gate):
            raise InvalidConfig(f"--gate {text}: the file has no such function", fix="define the gate there.")
        return gate
    match name:
        case "no-traps" if not equals:
            return no_traps
        case "no-order-dependent-results" if not equals:
            return no_order_dependent_results
        case "at-most-bytes" if value.isascii() and value.isdigit():
            return at_most_bytes(int(value[:40]))
        case "only-dialects" if equals:
            return only_dialects(*filter(None, value.split(",")))
        case "changes-at-most" if value in _CLASSES:
            return changes_at_most(_CLASSES[value])
    raise InvalidConfig(f"--gate {text} is no gate", fix=f"use one of {_FORMS}.")


def admit(program: Program, gates: tuple[Gate, ...]) -> None:
    """Asks gates about a valid program, and prints their notes; raises ``RefusedByGate``."""
    report = asked(program, gates)
    for gate, note in report.notes:
        complain(f"note: gate {gate}: {indented(note)}")
    report.require()


def with_gates(report: Report, program: Program, gates: tuple[Gate, ...]) -> Report:
    """Returns the report of a program with what gates say about it; they are not asked about an invalid one."""
    if not report.ok or not gates:
        return report
    answers = asked(program, gates)
    refused = answers.refusal
    errors = [] if refused is None else [_refused(refused[0], *refused[1])]
    notes = [Diagnostic(Severity.NOTE, "N-GATE", f"gate {gate}: {note}") for gate, note in answers.notes]
    return replace(report, errors=tuple(errors), notes=(*report.notes, *notes))


def _refused(gate: str, code: str, reason: str, fix: str) -> Diagnostic:
    return Diagnostic(Severity.ERROR, code, f"the gate {gate} refuses the program: {reason}", fix)
