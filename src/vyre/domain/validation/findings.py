"""A collector of the findings of all checks, in program order, each finding once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from vyre.domain.diagnostics import Diagnostic, Severity
from vyre.domain.ir.node import Node
from vyre.domain.program_report import Report
from vyre.domain.validation.rules import RULES, Rule

Path: TypeAlias = tuple[int, ...]
"""The position of a statement: for each enclosing body, the number of that body in its parent and the index in it.

The links of a chain of ``else if`` are bodies of its first ``if``, numbered as by ``branches``; a link itself, that is
its condition, has a number of its own and no index.  Paths compare in program order; the empty path is the header."""


class Findings:
    """A sink shared by all checks.  ``path`` is updated by the check that walks statements."""

    def __init__(self, rules: Mapping[str, Rule] = RULES) -> None:
        self._rules = rules
        self._diagnostics: dict[tuple[Path, str, str], Diagnostic] = {}
        self.path: list[int] = []

    def add(self, code: str, message: str, *nodes: Node, fix: str | None = None, path: Path | None = None) -> None:
        """Reports a violated rule at the first of ``nodes`` that has a source location."""
        rule = self._rules[code]
        key = (tuple(self.path) if path is None else path, code, message)
        if key not in self._diagnostics:
            loc = next((node.loc for node in nodes if node.loc is not None), None)
            self._diagnostics[key] = Diagnostic(rule.severity, code, message, fix or rule.fix, loc)

    def found(self) -> tuple[Diagnostic, ...]:
        """Returns all findings in program order."""
        return tuple(self._diagnostics[key] for key in sorted(self._diagnostics, key=lambda key: key[0]))

    def report(self, *, order_sensitive: bool) -> Report:
        """Returns all findings as a report, grouped by severity."""
        by_severity: dict[Severity, list[Diagnostic]] = {severity: [] for severity in Severity}
        for diagnostic in self.found():
            by_severity[diagnostic.severity].append(diagnostic)
        return Report(
            tuple(by_severity[Severity.ERROR]),
            tuple(by_severity[Severity.WARNING]),
            tuple(by_severity[Severity.NOTE]),
            order_sensitive,
        )
